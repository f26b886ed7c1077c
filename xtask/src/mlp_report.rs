//! `cargo xtask report mlp`: one run of the training bench and its peers, into `docs/`.

use std::path::Path;

use anyhow::{Context, ensure};
use serde::{Deserialize, Serialize};

use crate::report::{self, Files, render_png};
use crate::{
    figures, measure, mlp_report_chart as chart, mlp_report_ladder as ladder, mlp_report_tables as tables,
    workspace,
};

/// The batches that are shown, as `cargo bench mlp` times them.
pub const BATCHES: [usize; 4] = [16, 64, 256, 1024];

/// The one at which the ladder is shown: that of `train-mnist`.
pub const USUAL: usize = 64;

/// The page in `docs` that has the short table.
pub const PAGE: &str = "training.md";

/// The committed file.
pub type Results = report::Results<Entry>;

/// Runs the command. Where nothing was ever merged, the documents say so.
pub fn run(files: &Files) -> anyhow::Result<()> {
    let docs = workspace::root().join("docs");
    let merged = docs.join("results/mlp.json");
    let results = match files.runs()? {
        Some(results) => {
            check(&results)?;
            results.write(&merged)?;
            Some(results)
        }
        None if merged.is_file() => Some(Results::read(&merged)?),
        None => None,
    };
    let section = write_documents(results.as_ref(), &docs)?;
    measure::update_page(PAGE, "mlp", &section)?;
    figures::update_readme()?;
    println!(
        "written to docs/results/mlp.md, docs/{}, docs/{PAGE} and the README, what is measured also to docs/mlp.svg",
        ladder::PAGE
    );
    if results.is_some() {
        render_png(&docs.join("mlp.svg"), &docs.join("mlp.png"))?;
    }
    Ok(())
}

/// Checks that all trained on the same images.
fn check(results: &Results) -> anyhow::Result<()> {
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
fn write_documents(results: Option<&Results>, docs: &Path) -> anyhow::Result<String> {
    let write = |name: &str, text: String| {
        let path = docs.join(name);
        std::fs::write(&path, text).with_context(|| format!("writing {}", path.display()))
    };
    write("results/mlp.md", tables::full(results))?;
    let page = docs.join(ladder::PAGE);
    let page = std::fs::read_to_string(&page).with_context(|| format!("reading {}", page.display()))?;
    write(ladder::PAGE, ladder::fill(&page, results)?)?;
    if let Some(results) = results {
        write("mlp.svg", chart::ladder(results)?)?;
    }
    Ok(tables::section(results))
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
    /// Whether it is of this contestant.
    pub fn is_of(&self, name: &str, precision: &str) -> bool {
        self.name == name && self.precision == precision
    }

    /// Seconds of an epoch, the median.
    pub fn epoch(&self) -> Option<f64> {
        measure::median(self.epoch_seconds.clone()).ok()
    }
}

/// The contestants of a list, by name and precision, in its order.
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
#[path = "mlp_report_tests.rs"]
mod tests;
