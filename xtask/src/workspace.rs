//! Locations of files, writing them, and the machine, date and commit of a measurement.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail, ensure};
use ferrowarp_report::output_file;

pub use xtask_ptx::workspace::*;

/// Writes the file `path` atomically.
pub fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    output_file::write(path, text.as_bytes()).with_context(|| format!("could not write {}", path.display()))
}

/// Builds `train-mnist`. Returns its path.
pub fn build_trainer() -> anyhow::Result<PathBuf> {
    let mut command = cargo();
    command.args(["build", "--release", "--bin", "train-mnist"]).current_dir(root());
    output(&mut command)?;
    Ok(target().join("release/train-mnist"))
}

/// The processor's name.
pub fn machine() -> anyhow::Result<String> {
    let info = std::fs::read_to_string("/proc/cpuinfo").context("reading what processor this is")?;
    let model = info.lines().find_map(|line| line.strip_prefix("model name")?.split_once(':'));
    Ok(model.map_or("an unknown processor", |(_, name)| name.trim()).to_owned())
}

/// The number of cores.
pub fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, Into::into)
}

/// The current date, as in 2026-01-31.
pub fn date() -> anyhow::Result<String> {
    Ok(output(Command::new("date").args(["-u", "+%Y-%m-%d"]))?.trim().to_owned())
}

/// The commit, with a mark if the sources differ from it.
pub fn commit() -> anyhow::Result<String> {
    let git = |arguments: &[&str]| output(Command::new("git").args(arguments).current_dir(root()));
    let hash = git(&["rev-parse", "--short", "HEAD"])?.trim().to_owned();
    let sources = git(&["status", "--porcelain", "--", ".", ":!README.md", ":!docs"])?;
    Ok(if sources.is_empty() { hash } else { format!("{hash} with uncommitted changes") })
}

/// The median, or the mean of the two middle values.
pub fn median(mut values: Vec<f64>) -> anyhow::Result<f64> {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => bail!("no figure to take the median of"),
        n if n.is_multiple_of(2) => Ok((values[middle - 1] + values[middle]) / 2.0),
        _ => Ok(values[middle]),
    }
}

/// Runs a command and returns its output.
pub fn output(command: &mut Command) -> anyhow::Result<String> {
    let shown = format!("{command:?}");
    let output = command.output().with_context(|| format!("starting {shown}"))?;
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    ensure!(
        output.status.success(),
        "{shown} failed ({}):\n{printed}{}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(printed)
}

/// The gallery's program, without arguments.
pub fn gallery() -> Command {
    let mut command = cargo();
    command.args(["run", "--quiet", "--package", "ferrowarp-benches", "--bin", "gallery", "--"]);
    command
}
