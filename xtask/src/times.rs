//! `cargo xtask times`: measures builds and a first start on a GPU, into `docs/results/times.json` and a page.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, ensure};
use serde::{Deserialize, Serialize};

use crate::measure::{self, commit, date, machine, output};
use crate::workspace;

/// The edited file, which has one kernel.
const EDITED: &str = "gpu-kernels/ladders/src/softmax/k4_warp_shuffle.rs";
/// The edited text: a number, different for each run.
const NUMBER: &str = "1.0 / ";

/// Measure builds of a clean checkout, from an empty target directory and after an edit, and write the times
#[derive(clap::Args)]
pub struct Times {
    /// Runs per build; the median is reported
    #[arg(long, default_value_t = 3)]
    runs: usize,
    /// Do not measure builds; only read the start times on a GPU, written by the bundle's `run.sh OUT start`
    #[arg(long, value_name = "OUT/start.json")]
    start: Option<PathBuf>,
}

/// The stored results.
#[derive(Default, Serialize, Deserialize)]
struct Results {
    builds: Option<Builds>,
    start: Option<Starts>,
}

#[derive(Serialize, Deserialize)]
struct Builds {
    machine: String,
    cores: usize,
    date: String,
    commit: String,
    runs: usize,
    rows: Vec<Build>,
}

/// One kind of build.
#[derive(Serialize, Deserialize)]
struct Build {
    what: String,
    command: String,
    /// Of the whole command, one figure per run.
    seconds: Vec<f64>,
}

/// The output of `run.sh`: seconds from the start of train-mnist to the end of one epoch.
#[derive(Serialize, Deserialize)]
struct Starts {
    machine: String,
    driver: String,
    date: String,
    commit: String,
    rows: Vec<Start>,
}

#[derive(Serialize, Deserialize)]
struct Start {
    what: String,
    /// With an empty driver cache.
    first: Vec<f64>,
    /// The same again.
    second: Vec<f64>,
}

impl Times {
    /// Runs the command.
    pub fn run(&self) -> anyhow::Result<()> {
        let results = workspace::root().join("docs/results");
        let json = results.join("times.json");
        let mut all: Results = match std::fs::read_to_string(&json) {
            Ok(text) => serde_json::from_str(&text).with_context(|| format!("reading {}", json.display()))?,
            Err(_) => Results::default(),
        };
        match &self.start {
            Some(path) => {
                let text = std::fs::read_to_string(path);
                let text = text.with_context(|| format!("reading {}", path.display()))?;
                let starts = serde_json::from_str(&text);
                all.start = Some(starts.with_context(|| format!("{} is not from run.sh", path.display()))?);
            }
            None => all.builds = Some(self.builds()?),
        }
        let text = serde_json::to_string_pretty(&all).context("writing the times as JSON")?;
        workspace::write(&json, &(text + "\n"))?;
        let page = results.join("times.md");
        workspace::write(&page, &all.page()?)?;
        println!("written to {} and {}", workspace::shown(&json), workspace::shown(&page));
        Ok(())
    }

    fn builds(&self) -> anyhow::Result<Builds> {
        ensure!(self.runs > 0, "nothing to measure; give at least one run");
        // A place where cargo finds the settings of the checkout, on the disk of other builds.
        let folder = workspace::target().join("times");
        std::fs::create_dir_all(&folder).with_context(|| format!("making {}", folder.display()))?;
        let mut rows: Vec<Build> = Vec::new();
        let mut note = |what: &str, arguments: &[&str], seconds: f64| {
            println!("{seconds:6.1} s: {what}");
            match rows.iter_mut().find(|row| row.what == what) {
                Some(row) => row.seconds.push(seconds),
                None => rows.push(Build {
                    what: what.to_owned(),
                    command: format!("cargo xtask {}", arguments.join(" ")),
                    seconds: vec![seconds],
                }),
            }
        };
        for run in 1..=self.runs {
            let checkout = Checkout::new(&folder)?;
            let (all, one) = (["build-ptx", "--arch", "all"], ["build-ptx"]);
            note("one architecture, from an empty target directory", &one, checkout.build(&one)?);
            note("the same again, nothing edited", &one, checkout.build(&one)?);
            checkout.edit(2 * run)?;
            note("one architecture, after one kernel was edited", &one, checkout.build(&one)?);
            note("all four architectures, after one was built", &all, checkout.build(&all)?);
            checkout.edit(2 * run + 1)?;
            note("all four architectures, after one kernel was edited", &all, checkout.build(&all)?);
        }
        Ok(Builds {
            machine: machine()?,
            cores: std::thread::available_parallelism().map_or(1, Into::into),
            date: date()?,
            commit: commit()?,
            runs: self.runs,
            rows,
        })
    }
}

/// A checkout of the last commit with a target directory of its own, removed at the end.
struct Checkout {
    folder: tempfile::TempDir,
}

impl Checkout {
    fn new(folder: &Path) -> anyhow::Result<Checkout> {
        let folder =
            tempfile::tempdir_in(folder).with_context(|| format!("a folder in {}", folder.display()))?;
        let mut clone = Command::new("git");
        clone
            .args(["clone", "--quiet", "--no-hardlinks"])
            .arg(workspace::root())
            .arg(folder.path().join("code"));
        output(&mut clone)?;
        Ok(Checkout { folder })
    }

    /// Runs `cargo xtask` with these arguments. Returns its time in seconds.
    fn build(&self, arguments: &[&str]) -> anyhow::Result<f64> {
        let mut command = workspace::cargo();
        // Nothing is downloaded here: libNVVM and ptxas are in the tools' folder, and the crates in cargo's.
        let tools = cuda_builder::CudaBuilder::tools_dir_in(&workspace::target());
        command.arg("xtask").args(arguments).current_dir(self.folder.path().join("code"));
        command.env("CARGO_TARGET_DIR", self.folder.path().join("target")).env("FERROWARP_TOOLS", tools);
        let start = Instant::now();
        output(&mut command)?;
        Ok(start.elapsed().as_secs_f64())
    }

    /// Edits one kernel, so that its PTX differs for each `number`.
    fn edit(&self, number: usize) -> anyhow::Result<()> {
        let committed = std::fs::read_to_string(workspace::root().join(EDITED))
            .with_context(|| format!("reading {EDITED}"))?;
        ensure!(committed.contains(NUMBER), "{EDITED} has no `{NUMBER}`; name another number to edit in it");
        let edited = committed.replace(NUMBER, &format!("1.{number:03} / "));
        workspace::write(&self.folder.path().join("code").join(EDITED), &edited)
    }
}

impl Results {
    fn page(&self) -> anyhow::Result<String> {
        let mut page = "# Build and start-up times\n\nWritten by `cargo xtask times`.\n".to_owned();
        match &self.builds {
            Some(Builds { machine, cores, date, commit, runs, rows }) => {
                page += "\n| build | command | median | fastest |\n| --- | --- | ---: | ---: |\n";
                for Build { what, command, seconds } in rows {
                    let (median, fastest) = figures(seconds)?;
                    writeln!(page, "| {what} | `{command}` | {median:.1} s | {fastest:.1} s |")?;
                }
                writeln!(
                    page,
                    "\n{machine}, {cores} cores, {date}, commit {commit}; {runs} runs, downloads done. The time is the \
                     whole command's: the first one compiles `xtask` too, and every one checks the PTX and has ptxas assemble it."
                )?;
            }
            None => page += "\nBuilds: not measured.\n",
        }
        match &self.start {
            Some(Starts { machine, driver, date, commit, rows }) => {
                page += "\n| `train-mnist --epochs 1` on a GPU | first start, the driver's cache empty | second start | \
                         difference |\n| --- | ---: | ---: | ---: |\n";
                for Start { what, first, second } in rows {
                    let (first, second) = (figures(first)?.0, figures(second)?.0);
                    writeln!(page, "| {what} | {first:.2} s | {second:.2} s | {:.2} s |", first - second)?;
                }
                writeln!(page, "\n{machine}, driver {driver}, {date}, commit {commit}; medians.")?;
            }
            None => page += "\nStarts on a GPU: not measured.\n",
        }
        Ok(page)
    }
}

/// The median and the minimum.
fn figures(seconds: &[f64]) -> anyhow::Result<(f64, f64)> {
    let least = seconds.iter().copied().min_by(f64::total_cmp).context("a row has no figures")?;
    Ok((measure::median(seconds.to_vec())?, least))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_tells_medians_and_what_was_not_measured() {
        let start = r#"{"machine": "A GPU", "driver": "1.2", "date": "2026-01-31", "commit": "abc", "rows": [
            {"what": "PTX alone", "first": [9.0, 8.0, 7.5], "second": [0.5, 0.75, 1.0]}]}"#;
        let all = Results { builds: None, start: Some(serde_json::from_str(start).unwrap()) };
        let page = all.page().unwrap();
        assert!(page.contains("Builds: not measured."), "{page}");
        assert!(page.contains("| PTX alone | 8.00 s | 0.75 s | 7.25 s |"), "{page}");
        assert!(page.contains("A GPU, driver 1.2, 2026-01-31, commit abc"), "{page}");
    }

    #[test]
    fn the_kernel_that_is_edited_has_the_number() {
        let text = std::fs::read_to_string(workspace::root().join(EDITED)).unwrap();
        assert!(text.contains(NUMBER));
    }
}
