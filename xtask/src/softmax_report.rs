//! `cargo xtask report softmax`: one run of the softmax bench and its peers, into `docs/` and the README.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, ensure};
use serde::{Deserialize, Serialize};

use crate::{
    measure, softmax_report_chart as chart, softmax_report_ladder as ladder, softmax_report_tables as tables,
    workspace,
};

/// Merge the figures of a run on a GPU into docs/ and the README, with charts
#[derive(clap::Subcommand)]
pub enum Report {
    /// The softmax ladder and its peers; without files, draw again what was merged last
    Softmax(SoftmaxReport),
}

/// The files of one run, or of several of the same commit: of each operation, ours and the peers', those of the last run
/// count that timed it.
#[derive(clap::Args)]
pub struct SoftmaxReport {
    /// What `cargo bench softmax` left: softmax.json in criterion's folder; again for every further run
    #[arg(long, value_name = "FILE")]
    ours: Vec<PathBuf>,

    /// What benches/peers/softmax.py wrote in the same run, in the same order
    #[arg(long, value_name = "FILE", requires = "ours")]
    peers: Vec<PathBuf>,
}

impl Report {
    /// Runs the command.
    pub fn run(&self) -> anyhow::Result<()> {
        let Report::Softmax(command) = self;
        command.run()
    }
}

impl SoftmaxReport {
    fn run(&self) -> anyhow::Result<()> {
        let docs = workspace::root().join("docs");
        let merged = docs.join("results/softmax.json");
        let results = match self.runs()? {
            Some(results) => {
                results.write(&merged)?;
                results
            }
            None => Results::read(&merged)?,
        };
        let section = write_documents(&results, &docs)?;
        measure::update_readme("softmax", &section)?;
        println!(
            "written to {}, docs/softmax*.svg, docs/results/softmax.md, docs/softmax-ladder.md and the README",
            workspace::shown(&merged)
        );
        for chart in ["softmax", "softmax-shapes"] {
            render_png(&docs.join(format!("{chart}.svg")), &docs.join(format!("{chart}.png")))?;
        }
        Ok(())
    }
}

impl SoftmaxReport {
    /// The runs whose files were given, as one.
    fn runs(&self) -> anyhow::Result<Option<Results>> {
        let (ours, peers) = (self.ours.len(), self.peers.len());
        ensure!(
            peers == 0 || peers == ours,
            "--ours is given {ours} times, --peers {peers} times; give both of each run"
        );
        let mut results: Option<Results> = None;
        for (n, ours) in self.ours.iter().enumerate() {
            let peers = self.peers.get(n).map(|path| Run::read(path)).transpose()?;
            let run = Results::merge(Run::read(ours)?, peers)?;
            results = Some(match results {
                Some(before) => before.with(run)?,
                None => run,
            });
        }
        Ok(results)
    }
}

/// Writes charts and tables into `docs`; the README's section.
fn write_documents(results: &Results, docs: &Path) -> anyhow::Result<String> {
    let write = |name: &str, text: String| {
        let path = docs.join(name);
        std::fs::write(&path, text).with_context(|| format!("writing {}", path.display()))
    };
    let page = docs.join(ladder::PAGE);
    let page = std::fs::read_to_string(&page).with_context(|| format!("reading {}", page.display()))?;
    write(ladder::PAGE, ladder::fill(&page, Some(results))?)?;
    write("softmax.svg", chart::widths(results)?)?;
    write("softmax-shapes.svg", chart::shapes(results)?)?;
    write("results/softmax.md", tables::full(results))?;
    Ok(tables::readme(results))
}

/// Draws an SVG as a PNG, with librsvg's program.
fn render_png(svg: &Path, png: &Path) -> anyhow::Result<()> {
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

/// What one program measured.
#[derive(Debug, Deserialize)]
pub struct Run {
    pub machine: String,
    pub driver: String,
    pub date: String,
    pub commit: Option<String>,
    pub l2_bytes: Option<u64>,
    #[serde(default)]
    pub versions: BTreeMap<String, String>,
    pub entries: Vec<Entry>,
}

impl Run {
    fn read(path: &Path) -> anyhow::Result<Run> {
        let text = std::fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))?;
        serde_json::from_str(&text)
            .with_context(|| format!("{} holds no figures of a softmax run", path.display()))
    }
}

/// One contestant at one shape: a time, or why there is none.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    pub name: String,
    pub op: String,
    pub dtype: String,
    pub rows: usize,
    pub cols: usize,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub microseconds: Option<f64>,
    #[serde(default)]
    pub samples: usize,
    #[serde(default)]
    pub launches_per_sample: usize,
    #[serde(default)]
    pub sets: usize,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

impl Entry {
    /// Bytes that must be moved at least: the matrices of the operation, once each.
    pub fn bytes(&self) -> f64 {
        let matrices = if self.op == "backward" { 3.0 } else { 2.0 };
        let size = if self.dtype == "f32" { 4.0 } else { 2.0 };
        // The numbers come from a file, and their product need not be one of an integer.
        matrices * size * self.rows as f64 * self.cols as f64
    }

    /// Bytes per nanosecond.
    pub fn gigabytes_per_second(&self) -> Option<f64> {
        self.microseconds.map(|time| self.bytes() / time / 1e3)
    }

    /// Whether it is a rung of the ladder: k1, k2 and so on.
    pub fn is_rung(&self) -> bool {
        is_rung(&self.name)
    }

    /// The shape as in the bench's ids.
    pub fn shape(&self) -> String {
        format!("{}x{}", self.rows, self.cols)
    }
}

/// Whether it is the name of a rung.
pub fn is_rung(name: &str) -> bool {
    name.strip_prefix('k').is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
}

/// The committed file: ours and the peers' of one run.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub struct Results {
    pub machine: String,
    pub driver: String,
    pub date: String,
    pub commit: String,
    pub l2_bytes: Option<u64>,
    pub versions: BTreeMap<String, String>,
    pub ours: Vec<Entry>,
    pub peers: Vec<Entry>,
}

/// What is timed of one operation and type at one shape.
pub struct Contest<'a> {
    pub op: &'a str,
    pub dtype: &'a str,
    pub rows: usize,
    pub cols: usize,
    /// The operation that users call, or where it was not timed the fastest rung.
    pub ours: Option<&'a Entry>,
    /// The copy of the matrix.
    pub clone: Option<&'a Entry>,
    /// All others that have a time.
    pub peers: Vec<&'a Entry>,
}

impl Contest<'_> {
    /// The fastest peer.
    pub fn best_peer(&self) -> Option<&Entry> {
        self.peers.iter().copied().min_by(|a, b| f64::total_cmp(&time(a), &time(b)))
    }

    /// The peer of that name.
    pub fn peer(&self, name: &str) -> Option<&Entry> {
        self.peers.iter().copied().find(|peer| peer.name == name)
    }

    /// How many times as long `other` takes as ours.
    pub fn lead_over(&self, other: Option<&Entry>) -> Option<f64> {
        Some(other?.microseconds? / self.ours?.microseconds?)
    }
}

/// Microseconds, of which an entry with an error has infinitely many.
fn time(entry: &Entry) -> f64 {
    entry.microseconds.unwrap_or(f64::INFINITY)
}

impl Results {
    fn merge(ours: Run, peers: Option<Run>) -> anyhow::Result<Results> {
        ensure!(!ours.entries.is_empty(), "our run timed nothing; there is nothing to report");
        if let Some(peers) = &peers {
            ensure!(
                (&ours.machine, &ours.driver) == (&peers.machine, &peers.driver),
                "ours ran on {} with driver {}, the peers on {} with driver {}; measure both in one run",
                ours.machine,
                ours.driver,
                peers.machine,
                peers.driver
            );
        }
        let (versions, peers) = peers.map_or_else(Default::default, |run| (run.versions, run.entries));
        Ok(Results {
            machine: ours.machine,
            driver: ours.driver,
            date: ours.date,
            commit: ours.commit.context("our run does not say of which commit it is")?,
            l2_bytes: ours.l2_bytes,
            versions,
            ours: ours.entries,
            peers,
        })
    }

    /// These figures, but those of `run` for every operation that was timed in it.
    fn with(mut self, run: Results) -> anyhow::Result<Results> {
        let of = |results: &Results| {
            format!("{}, driver {}, commit {}", results.machine, results.driver, results.commit)
        };
        ensure!(of(&self) == of(&run), "one run is of {}, another of {}", of(&self), of(&run));
        let is_kept = |entry: &Entry| run.ours.iter().all(|new| new.op != entry.op);
        self.ours.retain(is_kept);
        self.peers.retain(is_kept);
        self.ours.extend(run.ours);
        self.peers.extend(run.peers);
        Ok(self)
    }

    fn read(path: &Path) -> anyhow::Result<Results> {
        let text = std::fs::read_to_string(path).with_context(|| {
            format!("reading {}; give --ours and --peers of a run", workspace::shown(path))
        })?;
        serde_json::from_str(&text).with_context(|| format!("{} is no merged run", workspace::shown(path)))
    }

    /// Writes the file with an entry a line, so that a `diff` compares two runs.
    fn write(&self, path: &Path) -> anyhow::Result<()> {
        let text = serde_json::to_string(self).context("writing the results as JSON")?;
        // Quotes within a text are escaped, so this is the beginning of an entry and nothing else.
        let text = text.replace("{\"name\":", "\n{\"name\":") + "\n";
        std::fs::write(path, text).with_context(|| format!("writing {}", path.display()))
    }

    /// Every operation, type and shape that somebody was timed at, in the order of the run.
    pub fn contests(&self) -> Vec<Contest<'_>> {
        let mut contests: Vec<Contest<'_>> = Vec::new();
        let is_timed = |entry: &&Entry| entry.microseconds.is_some() && !entry.name.starts_with("clone");
        for entry in self.ours.iter().chain(&self.peers).filter(is_timed) {
            let Entry { op, dtype, rows, cols, .. } = entry;
            let is_same = |c: &Contest<'_>| (c.op, c.dtype, c.rows, c.cols) == (op, dtype, *rows, *cols);
            if !contests.iter().any(is_same) {
                contests.push(self.contest(op, dtype, *rows, *cols));
            }
        }
        contests
    }

    /// The rate of the level-2 cache, as a copy that stays in it tells it, in GB/s.
    pub fn cache_rate(&self) -> Option<f64> {
        let copies = self.peers.iter().filter(|entry| entry.name == "clone in cache");
        copies.filter_map(Entry::gigabytes_per_second).max_by(f64::total_cmp)
    }

    fn contest<'a>(&'a self, op: &'a str, dtype: &'a str, rows: usize, cols: usize) -> Contest<'a> {
        let is_here = |entry: &&Entry| {
            (entry.dtype.as_str(), entry.rows, entry.cols) == (dtype, rows, cols)
                && entry.microseconds.is_some()
        };
        let of_op = |entry: &&Entry| is_here(entry) && entry.op == op;
        let rungs = self.ours.iter().filter(of_op).filter(|entry| entry.is_rung());
        let operation = self.ours.iter().filter(of_op).find(|entry| !entry.is_rung());
        Contest {
            op,
            dtype,
            rows,
            cols,
            ours: operation.or_else(|| rungs.min_by(|a, b| f64::total_cmp(&time(a), &time(b)))),
            clone: self.peers.iter().filter(is_here).find(|entry| entry.name == "clone"),
            peers: self.peers.iter().filter(of_op).filter(|entry| !entry.name.starts_with("clone")).collect(),
        }
    }
}

#[cfg(test)]
#[path = "softmax_report_tests.rs"]
mod tests;
