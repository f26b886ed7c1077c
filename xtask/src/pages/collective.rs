//! `cargo xtask report collective`: writes a run of `cargo bench collective` and its peers' script into `docs/results/`.
//!
//! # The model of more GPUs
//! A ring of `n` GPUs takes `2 (n - 1)` steps of `bytes / n` each. Two GPUs give the time of a step (half of the shortest
//! all-reduce) and the bandwidth of a link (the largest). A training step takes the time of one GPU, plus the part of the
//! all-reduces that two GPUs did not overlap with it.

use anyhow::Context as _;

use crate::pages::rows::TURNS;
use crate::pages::training;
use crate::report::peaks::{self, Check};
use crate::report::{Files, Results, Subject, Timed, merged, or_empty, percent, stale, table, time, times};

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

pub const COLLECTIVE: Subject = Subject {
    name: "collective",
    check,
    sources: &[
        "host/device/src/collective",
        "gpu-kernels/softmax/src/cross_entropy",
        "benches/src/collective",
    ],
    page: Some(|results| Ok(page(results, step_of_mnist()?))),
    ..TURNS
};

/// Runs the command.
pub fn run(files: &Files) -> anyhow::Result<()> {
    COLLECTIVE.run(files.runs()?)
}

fn ranks(entry: &Timed) -> u32 {
    entry.number("ranks") as u32
}

/// GB/s of the bus.
fn bus(entry: &Timed) -> Option<f64> {
    Some(entry.figure("bus_bytes_per_second")? / 1e9)
}

/// Checks that no rate exceeds that of the links or of the memory, and that n GPUs do not process more than n times the
/// images of one. Divided cross entropy may exceed it, since it is another kernel.
fn check(results: &Results, check: &mut Check) {
    for entry in results.all() {
        let problem = entry.text("problem");
        if let Some(rate) = bus(entry) {
            check.rate(|| format!("{} of {problem} bytes", entry.name), rate, NVLINK, "GB/s");
        }
        let (Some(peaks), Some(took)) = (peaks::of(&results.machine), entry.microseconds) else { continue };
        if entry.name.starts_with("cross_entropy") {
            let elements: f64 = problem.split('x').filter_map(|extent| extent.parse::<f64>().ok()).product();
            // Read once, and with the gradient written once.
            let matrices = if entry.name.ends_with("losses") { 1.0 } else { 2.0 };
            let rate = matrices * 2.0 * elements / f64::from(ranks(entry)) / took / 1e3;
            let what = || format!("{} on {} GPUs", entry.name, ranks(entry));
            check.rate(what, rate, peaks.gigabytes_per_second, "GB/s");
        }
    }
    for (alone, together) in pairs(results).filter(|(alone, _)| alone.figure(IMAGES).is_some()) {
        let what = || format!("{} on {} GPUs", together.name, ranks(together));
        check.share(what, speedup(alone, together).unwrap_or(0.0) / f64::from(ranks(together)));
    }
}

const IMAGES: &str = "images_per_second";

/// Seconds per step of our fastest rung at the usual batch, on the main GPU.
fn step_of_mnist() -> anyhow::Result<f64> {
    let results: Results = Results::read(&merged("mlp")?[0])?;
    let fastest = training::fastest(&results.ours, training::USUAL, "");
    let (epoch, _) = fastest.context("docs/results/mlp.json has no epoch of our rungs")?;
    let images = results.ours.first().map_or(0, |entry| entry.number("images") as usize);
    Ok(epoch / images.div_ceil(training::USUAL) as f64)
}

/// Pairs of the same problem on one GPU and on several.
fn pairs(results: &Results) -> impl Iterator<Item = (&Timed, &Timed)> {
    results.ours.iter().filter(|entry| ranks(entry) == 1).flat_map(|alone| {
        let is_it = |entry: &&Timed| {
            ranks(entry) > 1 && entry.name == alone.name && entry.text("problem") == alone.text("problem")
        };
        results.ours.iter().filter(is_it).map(move |together| (alone, together))
    })
}

/// The speedup of several GPUs: by images, if there are any, else by time.
fn speedup(alone: &Timed, together: &Timed) -> Option<f64> {
    match alone.figure(IMAGES).zip(together.figure(IMAGES)) {
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
        let of_two = |it: &&Timed| it.name.starts_with("all_reduce") && ranks(it) == 2;
        let all = || results.ours.iter().filter(of_two);
        // The shortest one is in a graph: one that is queued waits for the host.
        let least = all().filter_map(|entry| entry.microseconds).min_by(f64::total_cmp)?;
        Some(Self { step: least / 2.0, link: all().filter_map(bus).max_by(f64::total_cmp)? })
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
pub fn page(results: &Results, step: f64) -> String {
    let note = stale::note(&results.changed_since);
    let mut text = format!(
        "# {} GPUs of one host, {}: all figures\n\n{}.\n\nA time is by events on the slowest rank, and the median of 10 batches. The \
         bandwidth is that of the bus by nccl-tests' definition: `bytes * 2 (n - 1) / n / time`. A ratio is torch.distributed's time over \
         ours: over 1 means that ours is faster. Both use one NCCL. Written by `cargo xtask report collective`.\n\n{note}{}",
        results.ours.iter().map(ranks).max().unwrap_or(1),
        results.machine,
        results.provenance(),
        if note.is_empty() { "" } else { "\n\n" },
    );
    let rows = results.ours.iter().filter(|entry| entry.name == "all_reduce").map(|entry| {
        let mut line = vec![entry.text("problem")];
        for name in ["all_reduce", "all_reduce_graph"] {
            let [ours, torch] = [&results.ours, &results.peers].map(|entries| {
                entries.iter().find(|it| it.name == name && it.text("problem") == entry.text("problem"))
            });
            let took = |it: Option<&Timed>| it.and_then(|it| it.microseconds);
            line.push(or_empty(took(ours), time));
            line.push(or_empty(ours.and_then(bus), |rate| format!("{rate:.1}")));
            line.push(or_empty(took(torch), time));
            line.push(times(took(ours).zip(took(torch)).map(|(ours, torch)| torch / ours)));
        }
        line
    });
    let header = ["bytes", "queued", "GB/s", "torch", "ratio", "in a graph", "GB/s", "torch", "ratio"];
    text += &format!("## All-reduce of f32\n\n{}", table(&header, 1, &rows.collect::<Vec<_>>()));
    let rows = pairs(results).filter_map(|(alone, together)| {
        let (one, all) = (alone.microseconds?, together.microseconds?);
        let images = together.figure(IMAGES);
        Some(vec![
            format!("`{}`, {}, {}", together.name, together.text("dtype"), together.text("problem")),
            ranks(together).to_string(),
            time(one),
            time(all),
            percent(Some(all / one)),
            or_empty(images, |images| format!("{images:.0}, {}", times(speedup(alone, together)))),
        ])
    });
    let header = ["problem", "GPUs", "time on one", "time on all", "share of the time", "images per second"];
    text += "\n## One GPU and several\n\nCross entropy is the same problem, divided. The layers have the same batch on each GPU.\n\n";
    text += &table(&header, 1, &rows.collect::<Vec<_>>());
    if let Some(ring) = Ring::measured(results) {
        text += &prediction(results, ring, step);
    }
    let failures = results.failures(|it| [format!(" on {}", ranks(it)), String::new()]);
    if results.all().any(|entry| entry.error.is_some()) { text + &failures } else { text }
}

/// Predicts more GPUs by the model.
fn prediction(results: &Results, ring: Ring, step: f64) -> String {
    let places: [(String, u32, Ring); 4] = [
        ("2 GPUs".to_owned(), 2, ring),
        ("4 GPUs of one host".to_owned(), 4, ring),
        (format!("{OF_A_HOST} GPUs of one host"), OF_A_HOST, ring),
        (format!("4 hosts of {OF_A_HOST} GPUs"), 4 * OF_A_HOST, ring.over_network()),
    ];
    let wide = pairs(results).find(|(_, together)| together.name == "wide_mlp" && ranks(together) == 2);
    let rows = places.map(|(name, ranks, there)| {
        let efficiency = wide.and_then(|(alone, together)| {
            let (one, two) = (alone.microseconds?, together.microseconds?);
            let bytes = wide_bytes(&together.text("problem"))?;
            let shown = (two - one).max(0.0) / ring.time(bytes, 2);
            // The overlap of two GPUs does not grow: there is nothing more to overlap with.
            let hidden = ring.time(bytes, 2) * (1.0 - shown).max(0.0);
            Some(one / (one + (there.time(bytes, ranks) - hidden).max(0.0)))
        });
        vec![
            name,
            time(there.time(f64::from(1 << 20), ranks)),
            time(there.time(f64::from(1 << 30), ranks)),
            percent(efficiency),
            time(step * 1e6 / f64::from(ranks) + there.time(MNIST_BYTES, ranks)),
        ]
    });
    let header = ["", "all-reduce of 1 MiB", "of 1 GiB", "wide layers, efficiency", "MNIST, time of a step"];
    format!(
        "\n## More GPUs, by a model\n\nNot measured. A ring of n GPUs takes `2 (n - 1)` steps, each of {:.1} us and of a share `1 / n` of the \
         bytes at {:.0} GB/s, both as measured on two. Several hosts have one network adapter of 400 Gbit/s for each GPU: {NETWORK:.0} GB/s, and \
         {NETWORK_STEP:.0} us for a step. NCCL may choose better ways than a ring.\n\n{}\nWide layers: the time of one GPU over that of all, with \
         the same batch on each. MNIST does not pay: one GPU takes {:.2} us for a step of {} images ([training](mlp.md)), and the all-reduce of \
         its gradients alone takes longer.\n",
        ring.step,
        ring.link,
        table(&header, 1, &rows),
        step * 1e6,
        training::USUAL
    )
}

/// Bytes of the `bf16` gradients of the layers in a problem's words, `4 layers of 8192, ..`.
fn wide_bytes(problem: &str) -> Option<f64> {
    let (layers, rest) = problem.split_once(" layers of ")?;
    let (layers, width): (f64, f64) = (layers.parse().ok()?, rest.split(',').next()?.parse().ok()?);
    Some(layers * width * width * 2.0)
}
