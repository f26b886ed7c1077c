//! `cargo xtask report matmul`: writes runs of benches/peers/matmul.py into `docs/`.

mod chart;
pub mod tables;

use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};
use serde::{Deserialize, Serialize};

use crate::measure;
use crate::report::figures;
use crate::report::peaks::{self, Check};
use crate::report::{self, Run, render_png, stem};
use crate::workspace;

/// The types, in the order of the tables.
pub const DTYPES: [&str; 4] = ["bf16", "f16", "tf32", "f32"];

/// The peers by their names in the files and on the pages.
pub const PEERS: [(&str, &str); 4] =
    [("cublaslt", "cuBLASLt"), ("torch", "PyTorch"), ("triton", "Triton"), ("compile", "torch.compile")];

/// The page in `docs` about the ladder.
pub const LADDER: &str = "matmul-ladder.md";

/// The sources of the measured code.
const SOURCES: [&str; 3] = ["gpu-kernels/ladders/src/matmul", "gpu-kernels/matmul/src", "host/src/matmul"];

/// The committed file.
pub type Results = report::Results<Entry>;

/// The files to merge.
#[derive(clap::Args)]
pub struct Merged {
    /// What benches/peers/matmul.py wrote; again for every further run of the same commit and machine. Peers are compared with
    /// ours of their run; of ours, the last run is shown
    #[arg(long, value_name = "FILE")]
    runs: Vec<PathBuf>,
}

/// Runs the command.
pub fn run(merged: &Merged) -> anyhow::Result<()> {
    let docs = workspace::root().join("docs");
    let folder = docs.join("results");
    let mut results: Option<Results> = None;
    for (number, path) in merged.runs.iter().enumerate() {
        let run = split(Run::read(path)?, number)?;
        results = Some(match results {
            Some(before) => before.with(run)?,
            None => run,
        });
    }
    if let Some(results) = &results {
        check(results)?;
        results.write(&folder.join(format!("{}.json", stem("matmul", &results.machine))))?;
    }
    let merged = report::merged(&folder, "matmul")?;
    ensure!(!merged.is_empty(), "docs/results has no figures of matmul; give --runs");
    let all = merged.iter().map(|path| Results::read_and_date(path, &SOURCES));
    let all: Vec<Results> = all.collect::<anyhow::Result<_>>()?;
    for results in &all {
        check(results)?;
        let stem = stem("matmul", &results.machine);
        let write = |name: &str, text: String| {
            let path = docs.join(name);
            workspace::write(&path, &text)
        };
        write(&format!("results/{stem}.md"), tables::full(results))?;
        write(&format!("{stem}.svg"), chart::squares(results)?)?;
        render_png(&docs.join(format!("{stem}.svg")), &docs.join(format!("{stem}.png")))?;
        println!("written to docs/{stem}.svg and docs/results/{stem}.md");
    }
    fill_ladder(&docs, &all)?;
    figures::update_readme()
}

/// Writes the measured steps to the page of the ladder.
fn fill_ladder(docs: &Path, all: &[Results]) -> anyhow::Result<()> {
    let path = docs.join(LADDER);
    let mut page = std::fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
    for (name, section) in tables::ladder(all) {
        page = measure::with_section(LADDER, &page, &name, &section)?;
    }
    workspace::write(&path, &page)
}

/// Splits a file into ours and the peers'.
fn split(run: Run<Entry>, number: usize) -> anyhow::Result<Results> {
    let Run { machine, cpu, driver, date, commit, l2_bytes, versions, missing, mut entries } = run;
    for entry in &mut entries {
        entry.run = number;
    }
    let (ours, peers): (Vec<Entry>, Vec<Entry>) = entries.into_iter().partition(Entry::is_ours);
    ensure!(!ours.is_empty(), "a run has no figures of ours; start the script with --ours");
    let commit = commit.context("a run does not name its commit; set FERROWARP_COMMIT")?;
    Ok(Results {
        machine,
        cpu,
        driver,
        date,
        commit,
        l2_bytes,
        versions,
        missing,
        changed_since: Vec::new(),
        profiles: Vec::new(),
        ours,
        peers,
    })
}

/// Checks that no rate exceeds the GPU's peak.
fn check(results: &Results) -> anyhow::Result<()> {
    let mut check = Check::default();
    let Some(peaks) = peaks::of(&results.machine) else { return Ok(()) };
    for entry in results.ours.iter().chain(&results.peers) {
        let told = || format!("{}, {} {}", entry.name, entry.dtype, entry.shape());
        let peak = match (entry.dtype.as_str(), entry.is_ours()) {
            ("f32", false) => peaks.fp32_tflops,
            // Three TF32 multiplications.
            ("f32", true) => peaks.tensor_tflops / 6.0,
            ("tf32", _) => peaks.tensor_tflops / 2.0,
            _ => peaks.tensor_tflops,
        };
        if let Some(rate) = entry.tflops().filter(|_| entry.name != COPY) {
            check.rate(told, rate, peak, "TFLOP/s");
        }
        // Less data than a cache holds may partly come from there.
        if let Some(rate) = entry.gigabytes_per_second().filter(|_| entry.bytes() > 64e6) {
            check.rate(told, rate, peaks.gigabytes_per_second, "GB/s");
        }
    }
    check.finish()
}

/// The contestant that only copies B.
pub const COPY: &str = "copy";

/// One contestant at one shape: a time, or why there is none.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    pub name: String,
    pub dtype: String,
    pub m: usize,
    pub n: usize,
    pub k: usize,
    /// The index of the run's file: only entries of the same one are compared.
    #[serde(default)]
    pub run: usize,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kernels: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub microseconds: Option<f64>,
    #[serde(default)]
    pub samples: usize,
    #[serde(default)]
    pub sets: usize,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub relative_error: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clock_and_power: Option<[f64; 2]>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

impl report::Entry for Entry {
    const RUN: &'static str = "matmul";

    /// Each is compared with entries of its own run.
    fn is_replaced_by(&self, _: &Self) -> bool {
        false
    }
}

impl Entry {
    /// Whether it is the operation or a rung.
    pub fn is_ours(&self) -> bool {
        self.name == "matmul" || self.is_rung()
    }

    pub fn is_rung(&self) -> bool {
        self.name.starts_with("r0")
    }

    pub fn extents(&self) -> [usize; 3] {
        [self.m, self.n, self.k]
    }

    pub fn is_at(&self, dtype: &str, extents: [usize; 3]) -> bool {
        self.dtype == dtype && self.extents() == extents
    }

    pub fn shape(&self) -> String {
        format!("{}x{}x{}", self.m, self.n, self.k)
    }

    /// Multiply-adds, two operations each.
    pub fn tflops(&self) -> Option<f64> {
        Some(2.0 * (self.m * self.n) as f64 * self.k as f64 / self.microseconds? / 1e6)
    }

    /// Every matrix once; for a copy, B twice.
    pub fn bytes(&self) -> f64 {
        let of_element = if matches!(self.dtype.as_str(), "bf16" | "f16") { 2.0 } else { 4.0 };
        let [m, n, k] = self.extents().map(|extent| extent as f64);
        of_element * if self.name == COPY { 2.0 * n * k } else { m * k + n * k + m * n }
    }

    pub fn gigabytes_per_second(&self) -> Option<f64> {
        Some(self.bytes() / self.microseconds? / 1e3)
    }
}

/// The operation at a shape, and all that ran there.
pub struct Contest<'a> {
    /// From the last run.
    pub ours: &'a Entry,
    all: Vec<&'a Entry>,
}

impl<'a> Contest<'a> {
    /// A contestant's entry from the last run that timed it.
    pub fn of(&self, name: &str) -> Option<&'a Entry> {
        let of_name = self.all.iter().filter(|entry| entry.name == name).copied();
        of_name.max_by_key(|entry| (entry.microseconds.is_some(), entry.run))
    }

    /// The time of a contestant divided by another's, in the last run that timed both.
    pub fn ratio(&self, name: &str, other: &str) -> Option<f64> {
        let ratio = |entry: &&Entry| {
            let beside = self.all.iter().find(|beside| beside.name == other && beside.run == entry.run)?;
            Some((entry.run, entry.microseconds? / beside.microseconds?))
        };
        let ratios = self.all.iter().filter(|entry| entry.name == name).filter_map(ratio);
        ratios.max_by_key(|(run, _)| *run).map(|(_, ratio)| ratio)
    }

    /// The time of a peer divided by ours.
    pub fn lead(&self, name: &str) -> Option<f64> {
        self.ratio(name, "matmul")
    }

    /// The same for the fastest peer, with its name on the pages.
    pub fn least_lead(&self) -> Option<(f64, &'static str)> {
        let leads = PEERS.iter().filter_map(|(name, shown)| Some((self.lead(name)?, *shown)));
        leads.min_by(|a, b| a.0.total_cmp(&b.0))
    }

    /// Our bandwidth divided by the copy's.
    pub fn share_of_copy(&self) -> Option<f64> {
        let copy = self.of(COPY)?;
        Some(self.ours.bytes() / copy.bytes() * self.lead(COPY)?)
    }
}

impl Results {
    /// The contests of a type, in the order of the run.
    pub fn contests(&self, dtype: &str) -> Vec<Contest<'_>> {
        let mut contests: Vec<Contest<'_>> = Vec::new();
        for ours in self.ours.iter().filter(|entry| entry.name == "matmul" && entry.dtype == dtype) {
            if let Some(known) = contests.iter_mut().find(|contest| contest.ours.extents() == ours.extents())
            {
                known.ours = ours;
                continue;
            }
            let here = self.ours.iter().chain(&self.peers).filter(|entry| entry.is_at(dtype, ours.extents()));
            contests.push(Contest { ours, all: here.collect() });
        }
        contests
    }
}

#[cfg(test)]
mod tests;
