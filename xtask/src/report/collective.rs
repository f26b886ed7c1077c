//! `cargo xtask report collective`: writes a run of `cargo bench collective` and its peers' script into `docs/results/`.
//!
//! # The model of more GPUs
//! A ring of `n` GPUs takes `2 (n - 1)` steps of `bytes / n` each. Two GPUs give the time of a step (half of the shortest
//! all-reduce) and the bandwidth of a link (the largest). A training step takes the time of one GPU, plus the part of the
//! all-reduces that two GPUs did not overlap with it.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context as _, ensure};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::report::peaks::{self, Check};
use crate::report::softmax::tables::time;
use crate::report::{self, Files, mlp, row, stale, stem, times};
use crate::workspace;

/// The sources of the measured code.
const SOURCES: [&str; 3] =
    ["host/device/src/collective", "gpu-kernels/softmax/src/cross_entropy", "benches/src/collective"];

/// GB/s in one direction of the 18 links of an H100 or an H200.
const NVLINK: f64 = 450.0;

/// GB/s of a 400 Gbit/s network with one adapter per GPU, and microseconds of a step through it: a datasheet's and a usual
/// value. Not measured here.
const NETWORK: f64 = 50.0;
const NETWORK_STEP: f64 = 10.0;

/// GPUs per host, for predictions with several hosts.
const OF_A_HOST: u32 = 8;

/// Bytes of the `f32` gradients of 784-300-100-10.
const MNIST_BYTES: f64 = 4.0 * (785 * 300 + 301 * 100 + 101 * 10) as f64;

/// The committed file.
type Results = report::Results<Entry>;

/// One problem on a number of GPUs: a time, or why there is none.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    name: String,
    dtype: String,
    ranks: u32,
    problem: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    microseconds: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    bus_bytes_per_second: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    images_per_second: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    #[serde(flatten)]
    other: BTreeMap<String, Value>,
}

impl report::Entry for Entry {
    const RUN: &'static str = "collective";

    fn is_replaced_by(&self, later: &Self) -> bool {
        (&self.name, self.ranks, &self.problem) == (&later.name, later.ranks, &later.problem)
    }
}

/// Runs the command.
pub fn run(files: &Files) -> anyhow::Result<()> {
    let folder = workspace::root().join("docs/results");
    if let Some(results) = files.runs::<Entry>()? {
        check(&results)?;
        results.write(&folder.join(format!("{}.json", stem("collective", &results.machine))))?;
    }
    let merged = report::merged(&folder, "collective")?;
    ensure!(!merged.is_empty(), "docs/results has no collective.json; give --ours and --peers of a run");
    for path in &merged {
        let results = Results::read_and_date(path, &SOURCES)?;
        check(&results)?;
        let step = step_of_mnist(&folder)?;
        let name = format!("results/{}.md", stem("collective", &results.machine));
        workspace::write(&workspace::root().join("docs").join(&name), &page(&results, step)?)?;
        println!("written to docs/{name}");
    }
    Ok(())
}

/// Checks that no rate exceeds that of the links or of the memory, and that n GPUs do not process more than n times the
/// images of one. Divided cross entropy may exceed it, since it is another kernel.
fn check(results: &Results) -> anyhow::Result<()> {
    let mut check = Check::default();
    for entry in results.ours.iter().chain(&results.peers) {
        if let Some(rate) = entry.bus_bytes_per_second {
            let told = || format!("{} of {} bytes", entry.name, entry.problem);
            check.rate(told, rate / 1e9, NVLINK, "GB/s");
        }
    }
    for entry in results.ours.iter().filter(|entry| entry.name.starts_with("cross_entropy")) {
        let (Some(peaks), Some(time)) = (peaks::of(&results.machine), entry.microseconds) else { continue };
        let extents = entry.problem.split('x').filter_map(|extent| extent.parse::<f64>().ok());
        // Read once, and with the gradient written once.
        let matrices = if entry.name.ends_with("losses") { 1.0 } else { 2.0 };
        let bytes = matrices * 2.0 * extents.product::<f64>() / f64::from(entry.ranks);
        let told = || format!("{} on {} GPUs", entry.name, entry.ranks);
        check.rate(told, bytes / time / 1e3, peaks.gigabytes_per_second, "GB/s");
    }
    for (alone, together) in pairs(results).filter(|(alone, _)| alone.images_per_second.is_some()) {
        let told = || format!("{} on {} GPUs", together.name, together.ranks);
        check.share(told, speedup(alone, together).unwrap_or(0.0) / f64::from(together.ranks));
    }
    check.finish()
}

/// Seconds per step of our fastest rung at the usual batch, on one H200.
fn step_of_mnist(folder: &Path) -> anyhow::Result<f64> {
    let results = mlp::Results::read(&folder.join("mlp.json"))?;
    let epoch = results.fastest(mlp::USUAL).context("docs/results/mlp.json has no epoch of our rungs")?;
    let images = results.ours.first().map_or(0, |entry| entry.images);
    Ok(epoch / images.div_ceil(mlp::USUAL) as f64)
}

/// Pairs of the same problem on one GPU and on several.
fn pairs(results: &Results) -> impl Iterator<Item = (&Entry, &Entry)> {
    results.ours.iter().filter(|entry| entry.ranks == 1).flat_map(|alone| {
        let is_it = |entry: &&Entry| {
            entry.ranks > 1 && (&entry.name, &entry.problem) == (&alone.name, &alone.problem)
        };
        results.ours.iter().filter(is_it).map(move |together| (alone, together))
    })
}

/// The speedup of several GPUs: by images, if there are any, else by time.
fn speedup(alone: &Entry, together: &Entry) -> Option<f64> {
    match alone.images_per_second.zip(together.images_per_second) {
        Some((one, all)) => Some(all / one),
        None => Some(alone.microseconds? / together.microseconds?),
    }
}

/// A ring of GPUs.
#[derive(Clone, Copy, Debug)]
struct Ring {
    /// Microseconds per step.
    step: f64,
    /// GB/s of the slowest link.
    link: f64,
}

impl Ring {
    /// From the all-reduces of two GPUs.
    fn measured(results: &Results) -> Option<Self> {
        let all = || {
            let all =
                results.ours.iter().filter(|entry| entry.name.starts_with("all_reduce") && entry.ranks == 2);
            all.filter_map(|entry| Some((entry.microseconds?, entry.bus_bytes_per_second? / 1e9)))
        };
        // The shortest one is in a graph: one that is queued waits for the host.
        let least = all().map(|(took, _)| took).min_by(f64::total_cmp)?;
        let link = all().map(|(_, rate)| rate).max_by(f64::total_cmp)?;
        Some(Self { step: least / 2.0, link })
    }

    /// The same with a network between hosts.
    fn over_network(self) -> Self {
        Self { step: self.step.max(NETWORK_STEP), link: self.link.min(NETWORK) }
    }

    /// Microseconds of an all-reduce.
    fn time(self, bytes: f64, ranks: u32) -> f64 {
        let steps = 2.0 * f64::from(ranks - 1);
        steps * (self.step + bytes / f64::from(ranks) / self.link / 1e3)
    }
}

/// The page of a machine. `step` is the time of MNIST's step on one GPU, in seconds.
fn page(results: &Results, step: f64) -> anyhow::Result<String> {
    let head = |cells: &[&str]| {
        let line: Vec<String> =
            (0..cells.len()).map(|i| if i == 0 { "---" } else { "---:" }.to_owned()).collect();
        row(&cells.iter().map(|cell| (*cell).to_owned()).collect::<Vec<_>>()) + &row(&line)
    };
    let ranks = results.ours.iter().map(|entry| entry.ranks).max().unwrap_or(1);
    let mut text = format!(
        "# {ranks} GPUs of one host, {}: all figures\n\n{}.\n\nA time is by events on the slowest rank, and the median of 10 batches. The \
         bandwidth is that of the bus by nccl-tests' definition: `bytes * 2 (n - 1) / n / time`. A ratio is torch.distributed's time over \
         ours: over 1 means that ours is faster. Both use one NCCL. Written by `cargo xtask report collective`.\n\n",
        results.machine,
        results.provenance(),
    );
    if !results.changed_since.is_empty() {
        text += &format!("{}\n\n", stale::note(&results.changed_since));
    }
    text += "## All-reduce of f32\n\n";
    text += &head(&["bytes", "queued", "GB/s", "torch", "ratio", "in a graph", "GB/s", "torch", "ratio"]);
    let find = |entries: &[Entry], name: &str, problem: &str| {
        let found = entries.iter().find(|entry| entry.name == name && entry.problem == problem);
        found.and_then(|entry| Some((entry.microseconds?, entry.bus_bytes_per_second? / 1e9)))
    };
    for entry in results.ours.iter().filter(|entry| entry.name == "all_reduce") {
        let mut line = vec![entry.problem.clone()];
        for name in ["all_reduce", "all_reduce_graph"] {
            let (ours, torch) =
                (find(&results.ours, name, &entry.problem), find(&results.peers, name, &entry.problem));
            line.push(ours.map_or_else(String::new, |(took, _)| time(took)));
            line.push(ours.map_or_else(String::new, |(_, rate)| format!("{rate:.1}")));
            line.push(torch.map_or_else(String::new, |(took, _)| time(took)));
            line.push(times(ours.zip(torch).map(|((ours, _), (torch, _))| torch / ours)));
        }
        text += &row(&line);
    }
    text += "\n## One GPU and several\n\nCross entropy is the same problem, divided. The layers have the same batch on each GPU.\n\n";
    text +=
        &head(&["problem", "GPUs", "time on one", "time on all", "share of the time", "images per second"]);
    for (alone, together) in pairs(results) {
        let (Some(one), Some(all)) = (alone.microseconds, together.microseconds) else { continue };
        text += &row(&[
            format!("`{}`, {}, {}", together.name, together.dtype, together.problem),
            together.ranks.to_string(),
            time(one),
            time(all),
            format!("{:.1} %", 100.0 * all / one),
            together.images_per_second.map_or_else(String::new, |images| {
                format!("{images:.0}, {}", times(speedup(alone, together)))
            }),
        ]);
    }
    if let Some(ring) = Ring::measured(results) {
        text += &prediction(results, ring, step)?;
    }
    let failed = results.ours.iter().chain(&results.peers).filter_map(|entry| {
        Some(format!("- {} on {}: {}\n", entry.name, entry.ranks, entry.error.as_ref()?))
    });
    let failed: String = failed.collect();
    if !failed.is_empty() {
        text += &format!("\n## What failed\n\n{failed}");
    }
    Ok(text)
}

/// Predicts more GPUs by the model.
fn prediction(results: &Results, ring: Ring, step: f64) -> anyhow::Result<String> {
    let mut text = format!(
        "\n## More GPUs, by a model\n\nNot measured. A ring of n GPUs takes `2 (n - 1)` steps, each of {:.1} us and of a share `1 / n` of the \
         bytes at {:.0} GB/s, both as measured on two. Several hosts have one network adapter of 400 Gbit/s for each GPU: {NETWORK:.0} GB/s, and \
         {NETWORK_STEP:.0} us for a step. NCCL may choose better ways than a ring.\n\n",
        ring.step, ring.link
    );
    let places: [(String, u32, Ring); 4] = [
        ("2 GPUs".to_owned(), 2, ring),
        ("4 GPUs of one host".to_owned(), 4, ring),
        (format!("{OF_A_HOST} GPUs of one host"), OF_A_HOST, ring),
        (format!("4 hosts of {OF_A_HOST} GPUs"), 4 * OF_A_HOST, ring.over_network()),
    ];
    let wide = pairs(results).find(|(_, together)| together.name == "wide_mlp" && together.ranks == 2);
    text +=
        &row(&["", "all-reduce of 1 MiB", "of 1 GiB", "wide layers, efficiency", "MNIST, time of a step"]
            .map(str::to_owned));
    text += &row(&["---", "---:", "---:", "---:", "---:"].map(str::to_owned));
    for (name, ranks, ring) in places {
        let efficiency = wide.and_then(|(alone, together)| {
            let (one, two) = (alone.microseconds?, together.microseconds?);
            let bytes = wide_bytes(&together.problem)?;
            let shown = (two - one).max(0.0) / Ring::measured(results)?.time(bytes, 2);
            // The overlap of two GPUs does not grow: there is nothing more to overlap with.
            let hidden = Ring::measured(results)?.time(bytes, 2) * (1.0 - shown).max(0.0);
            Some(one / (one + (ring.time(bytes, ranks) - hidden).max(0.0)))
        });
        let mnist = step * 1e6 / f64::from(ranks) + ring.time(MNIST_BYTES, ranks);
        text += &row(&[
            name,
            time(ring.time(f64::from(1 << 20), ranks)),
            time(ring.time(f64::from(1 << 30), ranks)),
            efficiency.map_or_else(String::new, |share| format!("{:.1} %", 100.0 * share)),
            time(mnist),
        ]);
    }
    text += &format!(
        "\nWide layers: the time of one GPU over that of all, with the same batch on each. MNIST does not pay: one GPU takes {:.2} us for a step of \
         {} images ([training](mlp.md)), and the all-reduce of its gradients alone takes longer.\n",
        step * 1e6,
        mlp::USUAL
    );
    Ok(text)
}

/// Bytes of the `bf16` gradients of the layers in a problem's words, `4 layers of 8192, ..`.
fn wide_bytes(problem: &str) -> Option<f64> {
    let (layers, rest) = problem.split_once(" layers of ")?;
    let (layers, width): (f64, f64) = (layers.parse().ok()?, rest.split(',').next()?.parse().ok()?);
    Some(layers * width * width * 2.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(name: &str, ranks: u32, problem: &str, microseconds: f64) -> Entry {
        Entry {
            name: name.to_owned(),
            dtype: "f32".to_owned(),
            ranks,
            problem: problem.to_owned(),
            microseconds: Some(microseconds),
            bus_bytes_per_second: problem
                .parse::<f64>()
                .ok()
                .filter(|_| ranks > 1)
                .map(|bytes| bytes / microseconds * 1e6),
            images_per_second: None,
            error: None,
            other: BTreeMap::new(),
        }
    }

    fn results() -> Results {
        Results {
            machine: "NVIDIA H100 80GB HBM3".to_owned(),
            cpu: None,
            driver: "580".to_owned(),
            date: "2026-01-01".to_owned(),
            commit: "0123456789abcdef".to_owned(),
            l2_bytes: None,
            versions: BTreeMap::new(),
            missing: BTreeMap::new(),
            changed_since: Vec::new(),
            profiles: Vec::new(),
            ours: vec![
                entry("all_reduce", 2, "1024", 20.0),
                entry("all_reduce", 2, "1000000000", 4000.0),
                entry("wide_mlp", 1, "4 layers of 8192, 8192 images a rank", 20_000.0),
                entry("wide_mlp", 2, "4 layers of 8192, 8192 images a rank", 20_500.0),
            ],
            peers: vec![entry("all_reduce", 2, "1024", 30.0)],
        }
    }

    #[test]
    fn the_page_compares_and_predicts() {
        let text = page(&results(), 5e-6).unwrap();
        for part in [
            "# 2 GPUs of one host",
            "| 1024 | 20.0 us | 0.1 | 30.0 us | 1.50 x |",
            "| 2 | 20.0 ms | 20.5 ms | 102.5 % |",
            "each of 10.0 us",
            "at 250 GB/s",
            "| 2 GPUs | ",
            "97.6 %",
            "4 hosts of 8 GPUs",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }

    #[test]
    fn impossible_figures_are_refused() {
        check(&results()).unwrap();
        let mut fast = results();
        fast.ours.push(entry("all_reduce", 2, "2000000000", 4000.0));
        fast.ours.push(entry("cross_entropy", 2, "4096x262144", 100.0));
        // Three times the images of one GPU.
        for (ranks, images) in [(1, 1e3), (2, 3e3)] {
            fast.ours.push(Entry { images_per_second: Some(images), ..entry("wide", ranks, "a", 1.0) });
        }
        let error = check(&fast).unwrap_err().to_string();
        for part in [
            "all_reduce of 2000000000 bytes is 500 GB/s",
            "cross_entropy on 2 GPUs is 21475 GB/s",
            "wide on 2 GPUs is 150.0 % of its roof",
        ] {
            assert!(error.contains(part), "{part}: {error}");
        }
    }

    #[test]
    fn bytes_follow_from_the_words_of_a_problem() {
        assert_eq!(wide_bytes("3 layers of 64, 8 images a rank"), Some(3.0 * 64.0 * 64.0 * 2.0));
        assert_eq!(wide_bytes("1024"), None);
    }
}
