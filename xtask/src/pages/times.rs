//! Times of builds and tests of a clean clone, and of a first start on a GPU, on `docs/results/times.md`.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, ensure};
use serde::{Deserialize, Serialize};

use crate::report::table;
use crate::workspace::{self, median, output};

/// Measure builds and tests of a clean clone, with what they download already there, and write the times; without --runs, write
/// the page again
#[derive(clap::Args)]
pub struct Measured {
    /// Runs per row; the median is reported
    #[arg(long, default_value_t = 0)]
    runs: usize,
    /// Measure only rows whose description contains TEXT
    #[arg(long, value_name = "TEXT", requires = "runs")]
    only: Option<String>,
    /// The start times on a GPU, written by the bundle's `run.sh OUT start`
    #[arg(long, value_name = "OUT/start.json")]
    start: Option<PathBuf>,
}

/// What a row starts from.
#[derive(Clone, Copy)]
enum From {
    /// A clone without a target directory.
    Clone,
    /// The same clone after the command and an edit of one file: a text in it and its replacement, with the number of the run
    /// for `{}`.
    Edit { file: &'static str, text: &'static str, new: &'static str },
    /// A new crate by the template, in a folder of its own.
    Template,
}

/// The rows: a description, the start, and the arguments of cargo.
const ROWS: [(&str, From, &str); 6] = [
    (
        "a fresh clone to a trained network",
        From::Clone,
        "run --release --bin train-mnist -- --device cpu --epochs 1",
    ),
    ("a fresh clone to the tests of the library", From::Clone, "test -p ferrowarp"),
    ("an edit of a kernel to its PTX", EDIT, "xtask build-ptx"),
    (
        "an edit of a kernel to its passed test",
        From::Edit {
            file: "gpu-kernels/norm/src/forward.rs",
            text: "",
            new: "\n/// New.\npub fn edited() -> u32 {\n    {}\n}\n",
        },
        "test -p ferrowarp --test all -- norm::on_the_executor",
    ),
    ("a fresh clone to the PTX of everything, all architectures", From::Clone, "xtask build-ptx --arch all"),
    ("a crate by `cargo xtask new` to its first run", From::Template, "run"),
];

/// An edit of a file with one kernel.
const EDIT: From = From::Edit {
    file: "gpu-kernels/ladders/src/softmax/k4_warp_shuffle.rs",
    text: "1.0 / ",
    new: "1.00{} / ",
};

/// The stored results.
#[derive(Default, Serialize, Deserialize)]
pub struct Results {
    builds: Vec<Build>,
    start: Option<Starts>,
}

/// One row.
#[derive(Serialize, Deserialize)]
struct Build {
    what: String,
    command: String,
    machine: String,
    cores: usize,
    date: String,
    commit: String,
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

impl Measured {
    /// Runs the command.
    pub fn run(&self) -> anyhow::Result<()> {
        let results = workspace::root().join("docs/results");
        let json = results.join("times.json");
        let mut all = read::<Results>(&json)?;
        if let Some(path) = &self.start {
            all.start = Some(read(path)?);
        }
        let is_wanted =
            |what: &str| self.runs > 0 && self.only.as_ref().is_none_or(|only| what.contains(only.as_str()));
        for (what, from, arguments) in ROWS.into_iter().filter(|(what, ..)| is_wanted(what)) {
            let seconds = (0..self.runs).map(|run| seconds(from, arguments, run));
            let build = Build {
                what: what.to_owned(),
                command: format!("cargo {arguments}"),
                machine: workspace::machine()?,
                cores: workspace::cores(),
                date: workspace::date()?,
                commit: workspace::commit()?,
                seconds: seconds.collect::<anyhow::Result<_>>()?,
            };
            println!("{:?} s: {what}", build.seconds);
            match all.builds.iter_mut().find(|known| known.what == what) {
                Some(known) => *known = build,
                None => all.builds.push(build),
            }
            // Rows take long, and a run may be interrupted.
            let text = serde_json::to_string_pretty(&all).context("writing the times as JSON")?;
            workspace::write(&json, &(text + "\n"))?;
        }
        let text = serde_json::to_string_pretty(&all).context("writing the times as JSON")?;
        workspace::write(&json, &(text + "\n"))?;
        workspace::write(&results.join("times.md"), &all.page()?)?;
        println!("written to docs/results/times.md");
        Ok(())
    }
}

fn read<T: serde::de::DeserializeOwned>(path: &Path) -> anyhow::Result<T> {
    let text = std::fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))?;
    serde_json::from_str(&text).with_context(|| format!("{} holds no such times", path.display()))
}

/// Runs cargo once. Returns the seconds that it took.
fn seconds(from: From, arguments: &str, run: usize) -> anyhow::Result<f64> {
    // A place where cargo finds the settings of the checkout, on the disk of other builds.
    let parent = workspace::target().join("times");
    std::fs::create_dir_all(&parent).with_context(|| format!("making {}", parent.display()))?;
    let folder = tempfile::tempdir_in(&parent).context("making a folder for a clone")?;
    let (clone, target) = (folder.path().join("code"), folder.path().join("target"));
    let mut git = Command::new("git");
    output(git.args(["clone", "--quiet", "--no-hardlinks"]).arg(workspace::root()).arg(&clone))?;
    let data = workspace::root().join("data");
    if data.is_dir() {
        output(Command::new("cp").arg("-r").arg(&data).arg(&clone))?;
    }
    let cargo = |folder: &Path, arguments: &str| -> anyhow::Result<f64> {
        let mut command = workspace::cargo();
        // Nothing is downloaded here: libNVVM and ptxas are in the tools' folder, and the crates in cargo's.
        let tools = cuda_builder::CudaBuilder::tools_dir_in(&workspace::target());
        command.args(arguments.split(' ')).current_dir(folder);
        command.env("CARGO_TARGET_DIR", &target).env("FERROWARP_TOOLS", tools);
        let start = Instant::now();
        output(&mut command)?;
        Ok(start.elapsed().as_secs_f64())
    };
    match from {
        From::Clone => cargo(&clone, arguments),
        From::Edit { file, text, new } => {
            cargo(&clone, arguments)?;
            let path = clone.join(file);
            let old = std::fs::read_to_string(&path).with_context(|| format!("reading {file}"))?;
            ensure!(old.contains(text), "{file} has no `{text}`; name another text to edit in it");
            let new = new.replace("{}", &(run + 1).to_string());
            let edited = if text.is_empty() { old + &new } else { old.replace(text, &new) };
            workspace::write(&path, &edited)?;
            cargo(&clone, arguments)
        }
        From::Template => {
            cargo(&clone, "xtask new ../a-crate")?;
            cargo(&folder.path().join("a-crate"), arguments)
        }
    }
}

impl Results {
    pub fn page(&self) -> anyhow::Result<String> {
        let mut page = "# Build and start-up times\n\nWritten by `cargo xtask report times`. The time is the whole command's, with \
                        downloads done.\n\n"
            .to_owned();
        let rows = self.builds.iter().map(|it| {
            let fastest = it.seconds.iter().copied().fold(f64::INFINITY, f64::min);
            Ok(vec![
                it.what.clone(),
                format!("`{}`", it.command),
                format!("{}, {} cores, {}, {}", it.machine, it.cores, it.date, it.commit),
                format!("{:.1} s", median(it.seconds.clone())?),
                format!("{fastest:.1} s"),
            ])
        });
        let rows: Vec<_> = rows.collect::<anyhow::Result<_>>()?;
        page += &table(&["from .. to", "command", "machine, date, commit", "median", "fastest"], 3, &rows);
        let Some(Starts { machine, driver, date, commit, rows }) = &self.start else { return Ok(page) };
        let rows = rows.iter().map(|Start { what, first, second }| {
            let (first, second) = (median(first.clone())?, median(second.clone())?);
            let seconds = [first, second, first - second].map(|seconds| format!("{seconds:.2} s"));
            Ok([&[what.clone()][..], &seconds].concat())
        });
        let rows: Vec<_> = rows.collect::<anyhow::Result<_>>()?;
        let header = [
            "`train-mnist --epochs 1` on a GPU",
            "first start, the driver's cache empty",
            "second start",
            "difference",
        ];
        Ok(format!(
            "{page}\n{}\n{machine}, driver {driver}, {date}, commit {commit}; medians.\n",
            table(&header, 1, &rows)
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_edited_is_there() {
        for (what, from, _) in ROWS {
            if let From::Edit { file, text, new } = from {
                let old = std::fs::read_to_string(workspace::root().join(file)).unwrap();
                assert!(old.contains(text) && new.contains("{}"), "{what}");
            }
        }
    }

    #[test]
    fn the_page_is_that_of_the_committed_times() {
        let folder = workspace::root().join("docs/results");
        let all: Results = read(&folder.join("times.json")).unwrap();
        let page = std::fs::read_to_string(folder.join("times.md")).unwrap();
        assert!(page == all.page().unwrap(), "run `cargo xtask report times`");
    }
}
