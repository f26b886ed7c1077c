//! `cargo xtask report mlp`: writes one run of the training bench and its peers into `docs/`.

mod chart;
pub mod ladder;
pub mod tables;

use std::path::Path;

use anyhow::{Context, ensure};
use serde::{Deserialize, Serialize};

use crate::measure;
use crate::report::figures;
use crate::report::peaks::{self, Check};
use crate::report::timelines;
use crate::report::{self, Files, render_png, stem};
use crate::workspace;

/// The shown batches, the same as in `cargo bench mlp`.
pub const BATCHES: [usize; 4] = [16, 64, 256, 1024];

/// The batch of the ladder, the same as in `train-mnist`.
pub const USUAL: usize = 64;

/// Operations of 784-300-100-10 forward and backward, two per multiply-add: every weight takes part in the forward pass and
/// in its own gradient, and all except the first layer's in the gradient at their input.
const FLOPS_PER_IMAGE: f64 = 2.0 * (3.0 * (784.0 * 300.0 + 300.0 * 100.0 + 100.0 * 10.0) - 784.0 * 300.0);

/// The page in `docs` with the short table.
pub const PAGE: &str = "training.md";

/// The committed file.
pub type Results = report::Results<Entry>;

/// The sources of the measured code.
const SOURCES: [&str; 2] = ["gpu-kernels/mlp/src", "host/mnist/src/model"];

/// Whether the rung `graph` runs instead of the one of this name, so that its figures are not its own: `resident` supports
/// batches of at most 64.
pub fn runs_graph(name: &str, batch: usize) -> bool {
    name == "resident" && batch > 64
}

/// Runs the command.
pub fn run(files: &Files) -> anyhow::Result<()> {
    let docs = workspace::root().join("docs");
    let folder = docs.join("results");
    if let Some(mut results) = files.runs::<Entry>()? {
        results.ours.retain(|entry| !runs_graph(&entry.name, entry.batch));
        check(&results)?;
        results.write(&folder.join(format!("{}.json", stem("mlp", &results.machine))))?;
    }
    let merged = report::merged(&folder, "mlp")?;
    ensure!(!merged.is_empty(), "docs/results has no mlp.json; give --ours and --peers of a run");
    let all = merged.iter().map(|path| Results::read_and_date(path, &SOURCES));
    let all: Vec<Results> = all.collect::<anyhow::Result<_>>()?;
    for results in &all {
        check(results)?;
        let others: Vec<&Results> = all.iter().filter(|other| other.machine != results.machine).collect();
        let section = write_documents(Some(results), &others, &docs)?;
        let stem = stem("mlp", &results.machine);
        if stem == "mlp" {
            measure::update_page(PAGE, "mlp", &section)?;
        }
        println!("written to docs/{stem}.svg and docs/results/{stem}.md");
        render_png(&docs.join(format!("{stem}.svg")), &docs.join(format!("{stem}.png")))?;
    }
    timelines::update_page(&timelines::traced::Timelines::read()?)?;
    figures::update_readme()?;
    println!("written to docs/{PAGE}, docs/{} and the README", ladder::PAGE);
    Ok(())
}

/// Checks that all trained on the same images, and that no rate exceeds the GPU's peak.
fn check(results: &Results) -> anyhow::Result<()> {
    let mut check = Check::default();
    let peaks = peaks::of(&results.machine);
    for entry in results.ours.iter().chain(&results.peers) {
        let (Some(seconds), Some(peaks)) = (entry.epoch(), peaks) else { continue };
        let tflops = FLOPS_PER_IMAGE * entry.images as f64 / seconds / 1e12;
        let peak = if entry.precision == "f32" { peaks.fp32_tflops } else { peaks.tensor_tflops };
        let told = || format!("{}, {}, batches of {}", entry.name, entry.precision, entry.batch);
        check.rate(told, tflops, peak, "TFLOP/s");
    }
    check.finish()?;
    let mut ran = results.ours.iter().chain(&results.peers).filter(|entry| entry.error.is_none());
    let of = |entry: &Entry| format!("{} images, {}", entry.images, entry.data);
    if let Some(first) = ran.next()
        && let Some(other) = ran.find(|entry| of(entry) != of(first))
    {
        let (a, b) = (of(first), of(other));
        ensure!(
            a == b,
            "{} trained on {a}, {} on {b}; measure both on the same data",
            first.name,
            other.name
        );
    }
    Ok(())
}

/// Writes chart, table and the steps of the ladder into `docs`; returns the section of `PAGE`.
fn write_documents(results: Option<&Results>, others: &[&Results], docs: &Path) -> anyhow::Result<String> {
    let write = |name: &str, text: String| {
        let path = docs.join(name);
        workspace::write(&path, &text)
    };
    let stem = results.map_or_else(|| "mlp".to_owned(), |results| stem("mlp", &results.machine));
    write(&format!("results/{stem}.md"), tables::full(results))?;
    if stem == "mlp" {
        let page = docs.join(ladder::PAGE);
        let page = std::fs::read_to_string(&page).with_context(|| format!("reading {}", page.display()))?;
        write(ladder::PAGE, ladder::fill(&page, results)?)?;
    }
    if let Some(results) = results {
        write(&format!("{stem}.svg"), chart::ladder(results)?)?;
    }
    Ok(tables::section(results, others))
}

/// One contestant at one batch size: times, or why there are none.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    pub name: String,
    pub precision: String,
    pub batch: usize,
    pub data: String,
    pub images: usize,
    #[serde(default)]
    pub epoch_seconds: Vec<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step_microseconds: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accuracy: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

impl report::Entry for Entry {
    const RUN: &'static str = "training";

    fn is_replaced_by(&self, later: &Self) -> bool {
        self.is_of(&later.name, &later.precision) && self.batch == later.batch
    }
}

impl Entry {
    /// Whether it belongs to this contestant.
    pub fn is_of(&self, name: &str, precision: &str) -> bool {
        self.name == name && self.precision == precision
    }

    /// The median seconds of an epoch.
    pub fn epoch(&self) -> Option<f64> {
        measure::median(self.epoch_seconds.clone()).ok()
    }
}

/// The contestants in a list, by name and precision, in order.
pub fn contestants(entries: &[Entry]) -> Vec<(&str, &str)> {
    let mut found = Vec::new();
    for entry in entries {
        if !found.contains(&(entry.name.as_str(), entry.precision.as_str())) {
            found.push((entry.name.as_str(), entry.precision.as_str()));
        }
    }
    found
}

impl Results {
    /// The entry of a contestant, ours or a peer, at a batch size.
    pub fn entry(&self, (name, precision): (&str, &str), batch: usize) -> Option<&Entry> {
        let mut all = self.ours.iter().chain(&self.peers);
        all.find(|entry| entry.is_of(name, precision) && entry.batch == batch)
    }

    /// Seconds of an epoch of our fastest rung at a batch size.
    pub fn fastest(&self, batch: usize) -> Option<f64> {
        let here = self.ours.iter().filter(|entry| entry.batch == batch);
        here.filter_map(Entry::epoch).min_by(f64::total_cmp)
    }
}

#[cfg(test)]
mod tests;
