//! `cargo xtask report softmax`: writes one run of the softmax bench and its peers into `docs/`.

pub mod chart;
pub mod check;
pub mod ladder;
pub mod missed;
pub mod operations;
pub mod tables;
pub mod targets;

use std::path::{Path, PathBuf};

use anyhow::{Context, bail, ensure};
use serde::{Deserialize, Serialize};

use crate::measure;
use crate::report::figures;
use crate::report::{self, Files, render_png, stem};
use crate::workspace;

/// The peers, by their names in the results and in tables.
pub const PEERS: [(&str, &str); 5] = [
    ("torch eager", "PyTorch"),
    ("torch.compile", "torch.compile"),
    ("triton", "Triton"),
    ("quack", "QuACK"),
    ("flashinfer", "FlashInfer"),
];

/// The measurements of one program.
#[cfg(test)]
type Run = report::Run<Entry>;

/// The page in `docs` with the short tables.
pub const PAGE: &str = "softmax.md";

/// The committed file.
pub type Results = report::Results<Entry>;

/// The sources that determine the measured speed: kernels, and the code that chooses and launches them.
const SOURCES: [&str; 6] = [
    "gpu-kernels/ladders/src/softmax",
    "gpu-kernels/softmax/src",
    "host/src/softmax/in_registers.rs",
    "host/src/softmax/kernel_choice.rs",
    "host/src/softmax/row_kernel.rs",
    "host/src/softmax/staged.rs",
];

/// The files of a run.
#[derive(clap::Args)]
pub struct Merged {
    #[command(flatten)]
    files: Files,
    /// What the step `missed` of the bundle's run.sh wrote in that run, or later of the same commit on the same machine
    #[arg(long, value_name = "FILE")]
    profile: Option<PathBuf>,
}

/// Runs the command.
pub fn run(merged: &Merged) -> anyhow::Result<()> {
    operations::check_library()?;
    let docs = workspace::root().join("docs");
    let folder = docs.join("results");
    if let Some(mut results) = merged.files.runs::<Entry>()? {
        if let Some(path) = &merged.profile {
            results.profiles = missed::read(path)?;
        }
        keep_measured(&mut results);
        operations::check_run(&results)?;
        check::check(&results)?;
        results.write(&folder.join(format!("{}.json", stem("softmax", &results.machine))))?;
    } else if let Some(path) = &merged.profile {
        add_profile(&folder, path)?;
    }
    let merged = report::merged(&folder, "softmax")?;
    ensure!(!merged.is_empty(), "docs/results has no softmax.json; give --ours and --peers of a run");
    let all = merged.iter().map(|path| Results::read_and_date(path, &SOURCES));
    let all: Vec<Results> = all.collect::<anyhow::Result<_>>()?;
    for results in &all {
        check::check(results)?;
        let others: Vec<&Results> = all.iter().filter(|other| other.machine != results.machine).collect();
        let section = write_documents(results, &others, &docs)?;
        let stem = stem("softmax", &results.machine);
        if stem == "softmax" {
            measure::update_page(PAGE, "softmax", &section)?;
            check::check_pages(&docs)?;
        }
        println!("written to docs/{stem}*.svg and docs/results/{stem}.md");
        for chart in [stem.clone(), format!("{stem}-shapes")] {
            render_png(&docs.join(format!("{chart}.svg")), &docs.join(format!("{chart}.png")))?;
        }
    }
    figures::update_readme()?;
    println!("written to docs/{PAGE}, docs/{} and the README", ladder::PAGE);
    Ok(())
}

/// Adds a profile to the figures of its machine and commit.
fn add_profile(folder: &Path, profile: &Path) -> anyhow::Result<()> {
    let profiles = missed::read(profile)?;
    let text = std::fs::read_to_string(profile).with_context(|| format!("reading {}", profile.display()))?;
    let head = text.split("====").next().unwrap_or_default();
    for path in report::merged(folder, "softmax")? {
        let mut results = Results::read(&path)?;
        if head.contains(&results.machine) && head.contains(&format!("commit {}", results.commit)) {
            results.profiles = profiles;
            return results.write(&path);
        }
    }
    bail!(
        "{} is of a machine and commit without figures in docs/results:\n{head}\nGive --ours and --peers of that run",
        profile.display()
    )
}

/// Several files of a run may contain a peer: one may have measured what another had no time for, or did not find installed.
fn keep_measured(results: &mut Results) {
    let has_time = |entry: &&Entry| entry.microseconds.is_some();
    let measured: Vec<Entry> = results.peers.iter().filter(has_time).cloned().collect();
    let is_of = |a: &Entry, b: &Entry| {
        (&a.name, &a.op, &a.dtype, a.rows, a.cols) == (&b.name, &b.op, &b.dtype, b.rows, b.cols)
    };
    results.peers.retain(|entry| has_time(&entry) || !measured.iter().any(|other| is_of(entry, other)));
    results.missing.retain(|name, _| !measured.iter().any(|entry| entry.name == *name));
}

/// Writes charts and tables into `docs`; returns the section of `PAGE`. `others` are the figures of other GPUs.
fn write_documents(results: &Results, others: &[&Results], docs: &Path) -> anyhow::Result<String> {
    let write = |name: &str, text: String| {
        let path = docs.join(name);
        workspace::write(&path, &text)
    };
    let stem = stem("softmax", &results.machine);
    if stem == "softmax" {
        let page = docs.join(ladder::PAGE);
        let page = std::fs::read_to_string(&page).with_context(|| format!("reading {}", page.display()))?;
        write(ladder::PAGE, ladder::fill(&page, Some(results))?)?;
    }
    write(&format!("{stem}.svg"), chart::widths(results)?)?;
    write(&format!("{stem}-shapes.svg"), chart::shapes(results)?)?;
    write(&format!("results/{stem}.md"), tables::full(results))?;
    Ok(tables::section(results, others))
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

impl report::Entry for Entry {
    const RUN: &'static str = "softmax";

    /// An operation is replaced with all its peers.
    fn is_replaced_by(&self, later: &Self) -> bool {
        self.op == later.op
    }
}

impl Entry {
    /// The minimum bytes moved: the matrices of the operation, once each.
    pub fn bytes(&self) -> f64 {
        let matrices = operations::of(&self.op).map_or(2, |operation| operation.matrices) as f64;
        matrices * matrix_bytes(&self.dtype, self.rows, self.cols)
    }

    /// Whether it copies a matrix that does not stay in the cache.
    pub fn is_copy(&self) -> bool {
        self.op == "copy" || self.name == "clone"
    }

    /// Whether it copies a matrix, in the cache or not.
    fn is_any_copy(&self) -> bool {
        self.is_copy() || self.name == "clone in cache"
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

/// Bytes of a matrix.
fn matrix_bytes(dtype: &str, rows: usize, cols: usize) -> f64 {
    let size = if dtype == "f32" { 4.0 } else { 2.0 };
    // The numbers come from a file, and their product may overflow an integer.
    size * rows as f64 * cols as f64
}

/// Whether each row holds one token's logits, for a model that serves few sequences.
pub fn is_decode(rows: usize, cols: usize) -> bool {
    rows <= 64 && (32_000..=262_144).contains(&cols)
}

/// Whether it is the name of a rung.
pub fn is_rung(name: &str) -> bool {
    name.strip_prefix('k').is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
}

/// The entries of one operation and type at one shape.
pub struct Contest<'a> {
    pub op: &'a str,
    pub dtype: &'a str,
    pub rows: usize,
    pub cols: usize,
    /// The operation that users call, or the fastest rung if it was not timed.
    pub ours: Option<&'a Entry>,
    /// The fastest copy of the matrix's number of bytes.
    pub copy: Option<&'a Entry>,
    /// Our softmax at that shape and type.
    pub softmax: Option<&'a Entry>,
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

    /// Our bandwidth as a share of the copy's.
    pub fn share_of_copy(&self) -> Option<f64> {
        Some(self.ours?.gigabytes_per_second()? / self.copy?.gigabytes_per_second()?)
    }

    /// The time of `other` divided by ours.
    pub fn lead_over(&self, other: Option<&Entry>) -> Option<f64> {
        Some(other?.microseconds? / self.ours?.microseconds?)
    }
}

/// Microseconds; infinite for an entry with an error.
fn time(entry: &Entry) -> f64 {
    entry.microseconds.unwrap_or(f64::INFINITY)
}

impl Results {
    /// Every operation, type and shape that was timed, in the order of the run.
    pub fn contests(&self) -> Vec<Contest<'_>> {
        let mut contests: Vec<Contest<'_>> = Vec::new();
        let is_timed = |entry: &&Entry| entry.microseconds.is_some() && !entry.is_any_copy();
        for entry in self.ours.iter().chain(&self.peers).filter(is_timed) {
            let Entry { op, dtype, rows, cols, .. } = entry;
            let is_same = |c: &Contest<'_>| (c.op, c.dtype, c.rows, c.cols) == (op, dtype, *rows, *cols);
            if !contests.iter().any(is_same) {
                contests.push(self.contest(op, dtype, *rows, *cols));
            }
        }
        contests
    }

    /// The rate of L2 in GB/s, from a copy that stays in it.
    pub fn cache_rate(&self) -> Option<f64> {
        let copies = self.peers.iter().filter(|entry| entry.name == "clone in cache");
        copies.filter_map(Entry::gigabytes_per_second).max_by(f64::total_cmp)
    }

    /// The rate of the fastest copy of all, in GB/s: the best rate of memory.
    pub fn largest_copy_rate(&self) -> Option<f64> {
        let copies = self.ours.iter().chain(&self.peers).filter(|entry| entry.is_copy());
        copies.filter_map(Entry::gigabytes_per_second).max_by(f64::total_cmp)
    }

    /// Whether the entry is one of our own kernels.
    pub fn is_ours(&self, entry: &Entry) -> bool {
        self.ours.iter().any(|ours| std::ptr::eq(ours, entry))
    }

    /// The fastest copy of that many bytes, or half an element off: by a kernel of ours or the driver, which PyTorch calls.
    pub fn best_copy(&self, dtype: &str, rows: usize, cols: usize) -> Option<&Entry> {
        let bytes = matrix_bytes(dtype, rows, cols);
        let is_as_large = |entry: &&Entry| {
            (matrix_bytes(&entry.dtype, entry.rows, entry.cols) / bytes - 1.0).abs() < 1e-3
                && entry.microseconds.is_some()
        };
        let copies = self.ours.iter().chain(&self.peers).filter(|entry| entry.is_copy());
        copies.filter(is_as_large).max_by(|a, b| {
            f64::total_cmp(&a.gigabytes_per_second().unwrap_or(0.0), &b.gigabytes_per_second().unwrap_or(0.0))
        })
    }

    /// The peers without any time, and the reason if the run states it.
    pub fn missing(&self) -> Vec<String> {
        let is_timed = |name: &str| self.peers.iter().any(|e| e.name == name && e.microseconds.is_some());
        let absent = PEERS.iter().filter(|(name, _)| !is_timed(name));
        let named = absent.map(|&(name, shown)| {
            let mut entries = self.peers.iter().filter(|entry| entry.name == name);
            let error = entries.find_map(|entry| entry.error.as_ref());
            match self.missing.get(name).or(error) {
                Some(why) => format!("{shown} ({})", why.lines().next().unwrap_or_default()),
                None => shown.to_owned(),
            }
        });
        named.collect()
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
            copy: self.best_copy(dtype, rows, cols),
            softmax: self.ours.iter().filter(is_here).find(|entry| entry.name == "softmax"),
            peers: self.peers.iter().filter(of_op).filter(|entry| !entry.is_any_copy()).collect(),
        }
    }
}

#[cfg(test)]
mod tests;
