//! `cargo xtask report softmax`: one run of the softmax bench and its peers, into `docs/`.

use std::path::Path;

use anyhow::Context;
use serde::{Deserialize, Serialize};

use crate::report::{self, Files, render_png};
use crate::{
    figures, measure, softmax_report_chart as chart, softmax_report_ladder as ladder,
    softmax_report_tables as tables, workspace,
};

/// The operations, in the order of the tables.
pub const OPS: [&str; 4] = ["softmax", "log_softmax", "backward", "cross_entropy"];

/// Operations of a decoding step, which have no targets, and tables only where they were timed.
pub const OPS_OF_DECODING: [&str; 3] = ["top_k", "sample", "sample_top_p"];

/// The peers, as they are named in the results and in tables.
pub const PEERS: [(&str, &str); 4] = [
    ("torch eager", "PyTorch"),
    ("torch.compile", "torch.compile"),
    ("triton", "Triton"),
    ("quack", "QuACK"),
];

/// What one program measured.
#[cfg(test)]
type Run = report::Run<Entry>;

/// The page in `docs` that has the short tables.
pub const PAGE: &str = "softmax.md";

/// The committed file.
pub type Results = report::Results<Entry>;

/// Runs the command.
pub fn run(files: &Files) -> anyhow::Result<()> {
    let docs = workspace::root().join("docs");
    let merged = docs.join("results/softmax.json");
    let results = match files.runs()? {
        Some(results) => {
            results.write(&merged)?;
            results
        }
        None => Results::read(&merged)?,
    };
    let section = write_documents(&results, &docs)?;
    measure::update_page(PAGE, "softmax", &section)?;
    figures::update_readme()?;
    println!(
        "written to {}, docs/softmax*.svg, docs/results/softmax.md, docs/softmax-ladder.md, docs/{PAGE} and the README",
        workspace::shown(&merged)
    );
    for chart in ["softmax", "softmax-shapes"] {
        render_png(&docs.join(format!("{chart}.svg")), &docs.join(format!("{chart}.png")))?;
    }
    Ok(())
}

/// Writes charts and tables into `docs`; returns the section of `PAGE`.
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
    Ok(tables::section(results))
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

    /// An operation is timed with its peers, all of it or nothing.
    fn is_replaced_by(&self, later: &Self) -> bool {
        self.op == later.op
    }
}

impl Entry {
    /// Bytes that must be moved at least: the matrices of the operation, once each.
    pub fn bytes(&self) -> f64 {
        let matrices = match self.op.as_str() {
            "backward" => 3.0,
            op if OPS_OF_DECODING.contains(&op) => 1.0,
            _ => 2.0,
        };
        matrices * matrix_bytes(&self.dtype, self.rows, self.cols)
    }

    /// Whether it copies a matrix, which does not stay in the cache.
    pub fn is_copy(&self) -> bool {
        self.op == "copy" || self.name == "clone"
    }

    /// Whether it copies a matrix, wherever that lies.
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
    // The numbers come from a file, and their product need not be one of an integer.
    size * rows as f64 * cols as f64
}

/// Whether the rows are logits of one token each, of a model that serves few sequences.
pub fn is_decode(rows: usize, cols: usize) -> bool {
    rows <= 64 && (32_000..=262_144).contains(&cols)
}

/// Whether it is the name of a rung.
pub fn is_rung(name: &str) -> bool {
    name.strip_prefix('k').is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
}

/// What is timed of one operation and type at one shape.
pub struct Contest<'a> {
    pub op: &'a str,
    pub dtype: &'a str,
    pub rows: usize,
    pub cols: usize,
    /// The operation that users call, or where it was not timed the fastest rung.
    pub ours: Option<&'a Entry>,
    /// The fastest copy of as many bytes as the matrix has.
    pub copy: Option<&'a Entry>,
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

    /// The share of the copy's bandwidth that ours has.
    pub fn share_of_copy(&self) -> Option<f64> {
        Some(self.ours?.gigabytes_per_second()? / self.copy?.gigabytes_per_second()?)
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
    /// Every operation, type and shape that somebody was timed at, in the order of the run.
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

    /// The rate of L2, which a copy that stays in it shows, in GB/s.
    pub fn cache_rate(&self) -> Option<f64> {
        let copies = self.peers.iter().filter(|entry| entry.name == "clone in cache");
        copies.filter_map(Entry::gigabytes_per_second).max_by(f64::total_cmp)
    }

    /// The rate of the fastest copy of all, in GB/s: what memory gives at best.
    pub fn largest_copy_rate(&self) -> Option<f64> {
        let copies = self.ours.iter().chain(&self.peers).filter(|entry| entry.is_copy());
        copies.filter_map(Entry::gigabytes_per_second).max_by(f64::total_cmp)
    }

    /// Whether the entry is one of our own kernels.
    pub fn is_ours(&self, entry: &Entry) -> bool {
        self.ours.iter().any(|ours| std::ptr::eq(ours, entry))
    }

    /// The fastest copy of a matrix of so many bytes, whoever made it: a kernel of ours, or the driver, which PyTorch has
    /// copy. A matrix of an odd number of 16-bit elements has half an element more or less in one of 32 bits.
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

    /// The peers that were timed at nothing, and why if the run says so.
    pub fn missing(&self) -> Vec<String> {
        let is_timed = |name: &str| self.peers.iter().any(|e| e.name == name && e.microseconds.is_some());
        let absent = PEERS.iter().filter(|(name, _)| !is_timed(name));
        let told = absent.map(|&(name, shown)| match self.missing.get(name) {
            Some(why) => format!("{shown} ({why})"),
            None => shown.to_owned(),
        });
        told.collect()
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
            peers: self.peers.iter().filter(of_op).filter(|entry| !entry.is_any_copy()).collect(),
        }
    }
}

#[cfg(test)]
#[path = "softmax_report_tests.rs"]
mod tests;
