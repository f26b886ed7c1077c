//! The kernels and operations that other reports time: the ladders, attention, and steps of the network.

use std::path::Path;

use anyhow::Context;
use serde::Deserialize;

use super::{Point, family_of};

/// The layers of the network, and the bytes of a weight and of an input.
const LAYERS: [f64; 4] = [784.0, 300.0, 100.0, 10.0];
const WORD: f64 = 4.0;

#[derive(Deserialize)]
struct Report {
    machine: String,
    ours: Vec<Timed>,
}

/// An entry of any of the reports.
#[derive(Clone, Deserialize)]
#[serde(default)]
#[derive(Default)]
struct Timed {
    name: String,
    op: String,
    dtype: String,
    microseconds: Option<f64>,
    step_microseconds: Option<f64>,
    backward: bool,
    causal: bool,
    rows: f64,
    cols: f64,
    m: f64,
    n: f64,
    k: f64,
    batch: f64,
    heads: f64,
    key_heads: f64,
    queries: f64,
    length: f64,
    head_size: f64,
    window: Option<f64>,
}

/// The family of an entry, its problem, bytes and operations, and whether those are on tensor cores.
type Work = (&'static str, String, f64, f64, bool);

type WorkOf = fn(&Timed) -> Option<Work>;

/// The points of the reports in the folder that are of this machine.
///
/// # Errors
/// A report cannot be read.
pub fn points(folder: &Path, machine: &str) -> anyhow::Result<Vec<Point>> {
    let mut points = Vec::new();
    let reports: [(&str, WorkOf); 4] =
        [("softmax", softmax), ("matmul", matmul), ("attention", attention), ("mlp", step)];
    for (report, work) in reports {
        let path = folder.join(format!("{report}.json"));
        if !path.is_file() {
            continue;
        }
        let text = std::fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
        let report: Report =
            serde_json::from_str(&text).with_context(|| format!("reading {}", path.display()))?;
        let ours = report.ours.iter().filter(|_| report.machine == machine);
        points.extend(ours.filter_map(|timed| {
            let seconds = timed.microseconds.or(timed.step_microseconds)? / 1e6;
            let (family, problem, bytes, flop, is_tensor) = work(timed)?;
            let (name, family) = (timed.name.clone(), family_of(family));
            Some(Point { name, family, problem, bytes, flop, is_tensor, seconds: Some(seconds) })
        }));
    }
    // A ladder's rung, such as k1 or r01, stands here with its largest problem; other entries with each.
    let is_largest = |point: &Point| {
        let of_rung =
            points.iter().filter(|other| (other.family, &other.name) == (point.family, &point.name));
        !point.name.as_bytes().get(1).is_some_and(u8::is_ascii_digit)
            || of_rung.map(|other| other.bytes).all(|bytes| bytes <= point.bytes)
    };
    Ok(points.iter().filter(|point| is_largest(point)).cloned().collect())
}

/// Five operations per element, which is read and written.
fn softmax(timed: &Timed) -> Option<Work> {
    let len = timed.rows * timed.cols;
    let is_rung = timed.op == "softmax" && timed.name.starts_with('k');
    let work = || ("softmax: ladder", format!("{}x{}", timed.rows, timed.cols), 8.0 * len, 5.0 * len, false);
    is_rung.then(work)
}

fn matmul(Timed { dtype, m, n, k, .. }: &Timed) -> Option<Work> {
    let bytes = 2.0 * (m * k + n * k + m * n);
    let work = || ("matmul: tensor cores", format!("{m}x{n}x{k}"), bytes, 2.0 * m * n * k, true);
    (dtype == "bf16").then(work)
}

/// Two products per head. A causal mask leaves half of them. Sliding windows and gradients have no point.
fn attention(timed: &Timed) -> Option<Work> {
    let Timed { batch, heads, key_heads, queries, length, head_size, causal, .. } = timed;
    let part = if *causal { 0.5 } else { 1.0 };
    let flop = 4.0 * batch * heads * queries * length * head_size * part;
    let bytes = 2.0 * 2.0 * batch * head_size * (heads * queries + key_heads * length);
    let problem = format!("{batch}x{heads}x{queries}x{length}x{head_size}");
    (!timed.backward && timed.window.is_none()).then_some(("attention", problem, bytes, flop, true))
}

/// A step reads and writes the weights and reads the samples. Each weight costs a multiply-add in the forward pass and two in
/// the backward pass; the first layer needs no gradient of its input.
fn step(Timed { batch, .. }: &Timed) -> Option<Work> {
    let weights = LAYERS.windows(2).map(|pair| (pair[0] + 1.0) * pair[1]).sum::<f64>();
    let flop = 2.0 * batch * (3.0 * weights - (LAYERS[0] + 1.0) * LAYERS[1]);
    let bytes = 2.0 * WORD * weights + WORD * batch * LAYERS[0];
    Some(("network: a step", format!("batch {batch}"), bytes, flop, false))
}
