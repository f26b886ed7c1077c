//! `cargo xtask report`: writes GPU measurements of the benches and their peers into `docs/` and the README. This is the
//! common part of the reports: the files of a run, their merging, and the parts of a page.

pub mod accuracy;
pub mod collective;
pub mod contests;
pub mod figures;
pub mod matmul;
pub mod mlp;
pub mod peaks;
pub mod softmax;
pub mod stale;
pub mod timelines;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, ensure};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::gallery::report as gallery_report;
use crate::workspace;

/// Merge the figures of a run on a GPU into docs/ and the README, with charts; without files, draw again what was merged last
#[derive(clap::Subcommand)]
pub enum Report {
    /// The errors of every operation: `self-check random --json` on a GPU and a CPU, and benches/peers/accuracy.py
    Accuracy(accuracy::Merged),
    /// Attention and its peers, in turns: benches/peers/attention.py; and the rungs of its ladder
    Attention(contests::ladder::WithLadder),
    /// Sums, cumulative sums and transposes and their peers, in turns: benches/peers/axis.py
    Axis(contests::Merged),
    /// Work on several GPUs: `cargo bench collective` and benches/peers/collective.py
    Collective(Files),
    /// Write the table of figures in the README again, from the results in docs/results
    Figures,
    /// The lessons of docs/gallery and their peers: `cargo xtask gallery` and benches/peers/gallery.py
    Gallery(gallery_report::Merged),
    /// Matrix multiplication and its peers, in turns: benches/peers/matmul.py
    Matmul(matmul::Merged),
    /// Training on MNIST, rung by rung, and its peers: `cargo bench mlp` and benches/peers/mnist.py
    Mlp(Files),
    /// RMSNorm and LayerNorm and their peers, in turns: benches/peers/norm.py
    Norm(contests::Merged),
    /// The softmax ladder and its peers: `cargo bench softmax` and benches/peers/softmax.py
    Softmax(softmax::Merged),
}

impl Report {
    /// Runs the command.
    pub fn run(&self) -> anyhow::Result<()> {
        match self {
            Report::Accuracy(merged) => accuracy::run(merged),
            Report::Attention(files) => files.run(),
            Report::Axis(merged) => contests::run(&contests::AXIS, merged),
            Report::Collective(files) => collective::run(files),
            Report::Figures => figures::update_readme(),
            Report::Gallery(merged) => gallery_report::run(merged),
            Report::Matmul(merged) => matmul::run(merged),
            Report::Mlp(files) => mlp::run(files),
            Report::Norm(merged) => contests::run(&contests::NORM, merged),
            Report::Softmax(files) => softmax::run(files),
        }
    }
}

/// The files of one run, or of several of the same commit: what was timed more than once counts as in the last run.
#[derive(clap::Args)]
pub struct Files {
    /// What the bench left in criterion's folder; again for every further run
    #[arg(long, value_name = "FILE")]
    ours: Vec<PathBuf>,

    /// What the peers' script wrote in the same run, in the same order; the files beyond those runs belong to the last one
    #[arg(long, value_name = "FILE", requires = "ours")]
    peers: Vec<PathBuf>,
}

impl Files {
    #[cfg(test)]
    pub fn of(ours: Vec<PathBuf>, peers: Vec<PathBuf>) -> Self {
        Self { ours, peers }
    }

    /// Merges the runs of the given files.
    pub fn runs<E: Entry>(&self) -> anyhow::Result<Option<Results<E>>> {
        let (ours, peers) = (self.ours.len(), self.peers.len());
        ensure!(
            peers == 0 || peers >= ours,
            "--ours is given {ours} times, --peers {peers} times; give both files of each run"
        );
        let mut results: Option<Results<E>> = None;
        for (n, ours) in self.ours.iter().enumerate() {
            let end = if n + 1 == self.ours.len() { peers } else { (n + 1).min(peers) };
            let mut files = self.peers[n.min(peers)..end].iter();
            let first = files.next().map(|path| Run::read(path)).transpose()?;
            let mut run = Results::merge(Run::read(ours)?, first)?;
            for path in files {
                run.add_peers(Run::read(path)?)?;
            }
            results = Some(match results {
                Some(before) => before.with(run)?,
                None => run,
            });
        }
        Ok(results)
    }
}

/// One contestant's figures; `name` is its first field.
pub trait Entry: Serialize + DeserializeOwned {
    /// The name of the run's command, for messages.
    const RUN: &'static str;

    /// Whether an entry of a later run replaces this one.
    fn is_replaced_by(&self, later: &Self) -> bool;
}

/// The measurements of one program.
#[derive(Debug, Deserialize)]
pub struct Run<E> {
    pub machine: String,
    /// The processor of the GPU's machine.
    pub cpu: Option<String>,
    pub driver: String,
    pub date: String,
    pub commit: Option<String>,
    pub l2_bytes: Option<u64>,
    #[serde(default)]
    pub versions: BTreeMap<String, String>,
    /// Contestants that are not installed, and why.
    #[serde(default)]
    pub missing: BTreeMap<String, String>,
    pub entries: Vec<E>,
}

impl<E: Entry> Run<E> {
    pub fn read(path: &Path) -> anyhow::Result<Self> {
        let text = std::fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))?;
        serde_json::from_str(&text)
            .with_context(|| format!("{} holds no figures of a {} run", path.display(), E::RUN))
    }
}

/// One launch in Nsight Compute.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Profile {
    /// Operation, type and shape.
    pub point: String,
    /// Ours or the peer.
    pub whose: String,
    pub kernel: String,
    /// By the metric's name, in base units.
    pub metrics: BTreeMap<String, f64>,
}

/// The committed file: ours and the peers' of one run.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub struct Results<E> {
    pub machine: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu: Option<String>,
    pub driver: String,
    pub date: String,
    pub commit: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub l2_bytes: Option<u64>,
    pub versions: BTreeMap<String, String>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub missing: BTreeMap<String, String>,
    /// Sources of the measured code that have changed since `commit`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changed_since: Vec<String>,
    /// Nsight Compute's results for single launches.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub profiles: Vec<Profile>,
    pub ours: Vec<E>,
    pub peers: Vec<E>,
}

impl<E: Entry> Results<E> {
    pub fn merge(ours: Run<E>, peers: Option<Run<E>>) -> anyhow::Result<Self> {
        ensure!(!ours.entries.is_empty(), "our run timed nothing; there is nothing to report");
        let mut results = Results {
            machine: ours.machine,
            cpu: ours.cpu,
            driver: ours.driver,
            date: ours.date,
            commit: ours.commit.context("our run does not say of which commit it is")?,
            l2_bytes: ours.l2_bytes,
            versions: BTreeMap::new(),
            missing: BTreeMap::new(),
            changed_since: Vec::new(),
            profiles: Vec::new(),
            ours: ours.entries,
            peers: Vec::new(),
        };
        peers.map_or(Ok(()), |peers| results.add_peers(peers))?;
        Ok(results)
    }

    /// Adds the peers' measurements by another script of the same run.
    fn add_peers(&mut self, peers: Run<E>) -> anyhow::Result<()> {
        ensure!(
            (&self.machine, &self.driver) == (&peers.machine, &peers.driver),
            "ours ran on {} with driver {}, the peers on {} with driver {}; measure both in one run",
            self.machine,
            self.driver,
            peers.machine,
            peers.driver
        );
        self.versions.extend(peers.versions);
        self.missing.extend(peers.missing);
        self.peers.extend(peers.entries);
        Ok(())
    }

    /// Replaces figures by those of `run`, where it has them.
    pub fn with(mut self, run: Self) -> anyhow::Result<Self> {
        let of = |results: &Self| {
            format!("{}, driver {}, commit {}", results.machine, results.driver, results.commit)
        };
        ensure!(of(&self) == of(&run), "one run is of {}, another of {}", of(&self), of(&run));
        let is_kept = |entry: &E| !run.ours.iter().chain(&run.peers).any(|new| entry.is_replaced_by(new));
        self.ours.retain(is_kept);
        self.peers.retain(is_kept);
        self.ours.extend(run.ours);
        self.peers.extend(run.peers);
        self.versions.extend(run.versions);
        self.missing.extend(run.missing);
        Ok(self)
    }

    pub fn read(path: &Path) -> anyhow::Result<Self> {
        let text = std::fs::read_to_string(path).with_context(|| {
            format!("reading {}; give --ours and --peers of a run", workspace::shown(path))
        })?;
        serde_json::from_str(&text).with_context(|| format!("{} is no merged run", workspace::shown(path)))
    }

    /// Writes the file with one entry per line, so that a `diff` compares two runs.
    pub fn write(&self, path: &Path) -> anyhow::Result<()> {
        let text = serde_json::to_string(self).context("writing the results as JSON")?;
        // Quotes within a text are escaped, so this only matches the beginning of an entry.
        let text = text.replace("{\"name\":", "\n{\"name\":") + "\n";
        workspace::write(path, &text)
    }

    /// Machine, date and commit of the figures.
    pub fn provenance(&self) -> String {
        let versions: Vec<String> =
            self.versions.iter().map(|(name, version)| format!("{name} {version}")).collect();
        let Results { machine, driver, date, .. } = self;
        let commit = short_commit(&self.commit);
        let host = self.cpu.as_ref().map_or_else(String::new, |cpu| format!(", host {cpu}"));
        let versions = if versions.is_empty() { String::new() } else { format!("; {}", versions.join(", ")) };
        format!("{machine}{host}, driver {driver}, {date}, commit {commit}{versions}")
    }
}

impl<E: Entry + PartialEq> Results<E> {
    /// Reads a merged file, and stores in it which of the `sources` have changed since its commit.
    pub fn read_and_date(path: &Path, sources: &[&str]) -> anyhow::Result<Self> {
        let mut results = Self::read(path)?;
        if let Some(changed) = stale::changed(workspace::root(), &results.commit, sources)
            && changed != results.changed_since
        {
            results.changed_since = changed;
            results.write(path)?;
        }
        Ok(results)
    }
}

/// The GPU that the pages show first; other GPUs have separate files and pages.
const MAIN_GPU: &str = "H200";

/// The stem of a report's files with this machine's figures: `softmax`, or `softmax-h100`.
pub fn stem(report: &str, machine: &str) -> String {
    let words = machine.split([' ', '-']).filter(|word| *word != "NVIDIA");
    let gpu = words.filter(|word| word.chars().any(|c| c.is_ascii_digit())).take(1).collect::<String>();
    match gpu.as_str() {
        "" | MAIN_GPU => report.to_owned(),
        gpu => format!("{report}-{}", gpu.to_ascii_lowercase()),
    }
}

/// The merged files of a report in `folder`, the main GPU's first.
pub fn merged(folder: &Path, report: &str) -> anyhow::Result<Vec<PathBuf>> {
    let is_it = |path: &Path| {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let rest = name.strip_prefix(report).and_then(|rest| rest.strip_suffix(".json"));
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
    };
    let mut paths = workspace::files(folder, &is_it)?;
    paths.sort_by_key(|path| path.as_os_str().len());
    Ok(paths)
}

/// The first digits of a commit's hash, with the text after it.
pub fn short_commit(commit: &str) -> String {
    let (hash, rest) = commit.split_once(' ').map_or((commit, String::new()), |(a, b)| (a, format!(" {b}")));
    format!("{}{rest}", hash.get(..9).unwrap_or(hash))
}

/// A row of a table.
pub fn row(cells: &[String]) -> String {
    format!("| {} |\n", cells.join(" | "))
}

/// The ratio as a factor; empty for `None`.
pub fn times(ratio: Option<f64>) -> String {
    ratio.map_or_else(String::new, |ratio| format!("{ratio:.2} x"))
}

/// Renders an SVG as a PNG, with librsvg's program.
pub fn render_png(svg: &Path, png: &Path) -> anyhow::Result<()> {
    let drawn = Command::new("rsvg-convert").arg("--output").arg(png).arg(svg).status();
    let status = drawn.with_context(|| {
        format!(
            "drawing {} needs rsvg-convert; install librsvg2-bin, all else is written",
            workspace::shown(png)
        )
    })?;
    ensure!(status.success(), "rsvg-convert could not draw {} ({status})", workspace::shown(svg));
    Ok(())
}
