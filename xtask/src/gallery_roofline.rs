//! Where every kernel is under the roofline of a GPU: what the emulator counted of it, how long a GPU took, and what Nsight
//! Compute counted there.

use std::path::{Path, PathBuf};

use anyhow::Context;
use serde::{Deserialize, Serialize};

use crate::gallery_report::{Entry, NOT_MEASURED, Results};
use crate::gallery_report_tables::number;
use crate::gallery_roofline_tables::{nearest, summary, tables};
use crate::{gallery_ncu as profile, gallery_roofline_chart as chart, workspace};

/// What a GPU can do at most.
#[derive(Clone, Debug, PartialEq)]
pub struct Roofs {
    /// The GPU, and where the figures come from.
    pub whose: String,
    /// Bytes of its memory in a second.
    pub bytes_per_second: f64,
    /// Operations on `f32` in a second, without tensor cores.
    pub flops: f64,
    /// Of tensor cores on bf16.
    pub tensor_flops: f64,
}

/// Those of NVIDIA's datasheet of the H200 SXM, dense.
const DATASHEET: (f64, f64, f64) = (4.8e12, 67e12, 989e12);

/// What to merge.
#[derive(clap::Args)]
pub struct RooflineFiles {
    /// What `gallery --roofline --count` wrote
    #[arg(long, value_name = "FILE")]
    roofline_counts: Option<PathBuf>,

    /// What the bundle's step roofline wrote on a GPU
    #[arg(long, value_name = "FILE")]
    roofline: Option<PathBuf>,

    /// What its step roofline-counts wrote
    #[arg(long, value_name = "FILE", requires = "roofline")]
    roofline_ncu: Option<PathBuf>,
}

/// What one program wrote.
#[derive(Debug, Serialize, Deserialize)]
pub struct Run {
    machine: String,
    driver: String,
    date: String,
    commit: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    peaks: Option<Peaks>,
    entries: Vec<Kernel>,
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Peaks {
    flops: f64,
    bytes_per_second: f64,
}

/// A kernel on a problem.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Kernel {
    name: String,
    file: String,
    problem: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    bytes: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    work: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    counted: Option<Counted>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    microseconds: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    profiled: Option<Profiled>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
struct Counted {
    bytes: f64,
    requested_bytes: f64,
    flop: f64,
    tensor_flop: f64,
    functions: f64,
}

/// What Nsight Compute says of a kernel's longest launch: bytes from and to memory, operations without tensor cores.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Profiled {
    bytes: f64,
    flop: f64,
    microseconds: f64,
}

/// The metrics, and how often each counts as an operation.
const TIME: &str = "gpu__time_duration.sum";
const BYTES: [&str; 2] = ["dram__bytes_read.sum", "dram__bytes_write.sum"];
const OPERATIONS: [(&str, f64); 6] = [
    ("smsp__sass_thread_inst_executed_op_fadd_pred_on.sum", 1.0),
    ("smsp__sass_thread_inst_executed_op_fmul_pred_on.sum", 1.0),
    ("smsp__sass_thread_inst_executed_op_ffma_pred_on.sum", 2.0),
    ("smsp__sass_thread_inst_executed_op_dadd_pred_on.sum", 1.0),
    ("smsp__sass_thread_inst_executed_op_dmul_pred_on.sum", 1.0),
    ("smsp__sass_thread_inst_executed_op_dfma_pred_on.sum", 2.0),
];

/// A kernel's place.
#[derive(Clone, Debug, PartialEq)]
pub struct Point {
    pub name: String,
    /// Which of [`FAMILIES`].
    pub family: usize,
    pub problem: String,
    pub bytes: f64,
    pub flop: f64,
    /// Whether most of its operations are those of tensor cores.
    pub is_tensor: bool,
    /// Where it was timed.
    pub seconds: Option<f64>,
}

/// The families: what charts call them, and what the paths of their files hold.
pub const FAMILIES: [(&str, &[&str]); 9] = [
    ("gallery: products", &["gallery/matmul"]),
    ("gallery: others", &["gallery/"]),
    ("network: products", &["mlp/linear", "mlp/fused", "mlp/short", "mlp/resident"]),
    ("network: others", &["mlp/"]),
    ("softmax: the ladder", &["softmax/k"]),
    ("softmax: forward", &["softmax/forward", "src/copy"]),
    ("softmax: gradient", &["softmax/backward"]),
    ("softmax: cross entropy", &["softmax/cross_entropy"]),
    ("softmax: top k, sampling", &["softmax/"]),
];

impl Roofs {
    /// Operations a byte at which memory and arithmetic take as long.
    pub fn ridge(&self) -> f64 {
        self.flops / self.bytes_per_second
    }

    /// The roof for the point's operations.
    pub fn peak(&self, point: &Point) -> f64 {
        if point.is_tensor { self.tensor_flops } else { self.flops }
    }

    /// The least time of the point's bytes and operations, in parts of the time it took.
    pub fn share(&self, point: &Point) -> Option<f64> {
        let least = (point.bytes / self.bytes_per_second).max(point.flop / self.peak(point));
        point.seconds.map(|seconds| least / seconds)
    }
}

impl Point {
    /// Operations a byte.
    pub fn intensity(&self) -> f64 {
        if self.bytes > 0.0 { self.flop / self.bytes } else { 0.0 }
    }
}

/// The kernels with their places.
pub struct Placed {
    roofs: Roofs,
    counts: Run,
    times: Option<Run>,
}

/// Bytes a second of the best copy among what was measured, ours or a peer's.
pub fn best_copy(results: &Results) -> Option<f64> {
    let entries = results.ours.iter().chain(&results.peers);
    let copies = entries.filter(|entry| entry.lesson.starts_with("copy"));
    copies.filter_map(Entry::value).reduce(f64::max).map(|value| value * 1e9)
}

impl RooflineFiles {
    /// The committed files in the folder, after what was given has been merged into them; none if there never was any.
    pub fn merged(&self, folder: &Path, copied: Option<f64>) -> anyhow::Result<Option<Placed>> {
        if let Some(counts) = &self.roofline_counts {
            Run::read(counts)?.write(&folder.join("roofline-counts.json"))?;
        }
        if let Some(times) = &self.roofline {
            let mut times = Run::read(times)?;
            if let Some(ncu) = &self.roofline_ncu {
                let text =
                    std::fs::read_to_string(ncu).with_context(|| format!("reading {}", ncu.display()))?;
                times.add(&text).with_context(|| format!("reading {}", ncu.display()))?;
            }
            times.write(&folder.join("roofline.json"))?;
        }
        read(folder, copied)
    }
}

/// What is in the folder; none without counts.
pub fn read(folder: &Path, copied: Option<f64>) -> anyhow::Result<Option<Placed>> {
    let files = ["roofline-counts.json", "roofline.json"].map(|name| folder.join(name));
    let [counts, times] = files.map(|path| path.is_file().then(|| Run::read(&path)).transpose());
    let Some(counts) = counts? else { return Ok(None) };
    let times = times?;
    let (bytes_per_second, flops, tensor_flops) = DATASHEET;
    let roofs = match &times {
        Some(Run { machine, peaks: Some(peaks), .. }) => Roofs {
            whose: match copied {
                Some(_) => format!("{machine}: its best copy, its clocks, tensor cores by the datasheet"),
                None => format!("{machine}: its clocks, tensor cores by the datasheet"),
            },
            bytes_per_second: copied.unwrap_or(peaks.bytes_per_second),
            flops: peaks.flops,
            tensor_flops,
        },
        _ => Roofs {
            whose: "NVIDIA H200 SXM by its datasheet".to_owned(),
            bytes_per_second,
            flops,
            tensor_flops,
        },
    };
    Ok(Some(Placed { roofs, counts, times }))
}

impl Run {
    fn read(path: &Path) -> anyhow::Result<Self> {
        let text = std::fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))?;
        serde_json::from_str(&text)
            .with_context(|| format!("{} was not written by `gallery --roofline`", path.display()))
    }

    /// Writes the file with a kernel a line.
    fn write(&self, path: &Path) -> anyhow::Result<()> {
        let text = serde_json::to_string(self).context("writing the roofline as JSON")?;
        let text = text.replace("{\"name\":", "\n{\"name\":") + "\n";
        std::fs::write(path, text).with_context(|| format!("writing {}", path.display()))
    }

    /// Adds what Nsight Compute says, of each kernel of its longest launch.
    fn add(&mut self, text: &str) -> anyhow::Result<()> {
        let metrics: Vec<&str> =
            [TIME].into_iter().chain(BYTES).chain(OPERATIONS.map(|(name, _)| name)).collect();
        for (name, values) in profile::table(text, &metrics)? {
            let operations = OPERATIONS.iter().zip(&values[3..]).map(|((_, each), count)| each * count);
            let profiled = Profiled {
                // In nanoseconds.
                microseconds: values[0] / 1e3,
                bytes: values[1] + values[2],
                flop: operations.sum(),
            };
            let Some(entry) = self.entries.iter_mut().find(|entry| entry.name == name) else { continue };
            if entry.profiled.is_none_or(|known| known.microseconds < profiled.microseconds) {
                entry.profiled = Some(profiled);
            }
        }
        Ok(())
    }
}

impl Placed {
    /// What the emulator counted, as a table, and what was timed, with the picture, which it draws into the folder.
    pub fn sections(&self, folder: &Path) -> anyhow::Result<(String, String)> {
        let points = self.points();
        let svg = chart::draw(&points, &self.roofs).context("drawing the roofline failed")?;
        workspace::write(&folder.join("roofline.svg"), &svg)?;
        let Roofs { whose, bytes_per_second, flops, .. } = &self.roofs;
        let counts = format!(
            "![Every kernel under the roofline](roofline.svg)\n\nThe roofs are those of {whose}: {} GB/s, {} TFLOP/s, which \
             meet at {} FLOP a byte.\n\n{}\nCounted on the emulator of the PTX: commit {}, {}.\n\n{}",
            number(bytes_per_second / 1e9),
            number(flops / 1e12),
            number(self.roofs.ridge()),
            summary(&points, &self.roofs),
            self.counts.commit,
            self.counts.date,
            tables(&points, &self.roofs),
        );
        let times = match &self.times {
            Some(Run { machine, driver, date, commit, entries, .. }) => {
                let failed: Vec<String> = entries
                    .iter()
                    .filter_map(|entry| Some(format!("- {}: {}\n", entry.problem, entry.error.as_ref()?)))
                    .collect();
                let profiled = entries.iter().filter(|entry| entry.profiled.is_some()).count();
                let timed = points.iter().filter(|point| point.seconds.is_some()).count();
                format!(
                    "{}\n{timed} kernels are placed by their time, {profiled} of them by the bytes and operations that Nsight \
                     Compute counted in the same launch.\n{}\nMeasured on: {machine}, driver {driver}, {date}, commit \
                     {commit}.\n",
                    nearest(&points, &self.roofs),
                    failed.concat(),
                )
            }
            None => NOT_MEASURED.to_owned(),
        };
        Ok((counts, times))
    }

    /// Every kernel: where a GPU timed it on the problem of that, else on the one that was counted.
    fn points(&self) -> Vec<Point> {
        let timed =
            |name: &str| self.times.iter().flat_map(|run| &run.entries).find(|entry| entry.name == name);
        let place = |kernel: &Kernel| {
            let counted = kernel.counted.unwrap_or_default();
            let flop = counted.flop + counted.tensor_flop;
            let point = Point {
                name: kernel.name.clone(),
                family: family(&kernel.file),
                problem: kernel.problem.clone(),
                bytes: counted.bytes,
                flop,
                is_tensor: counted.tensor_flop > counted.flop,
                seconds: None,
            };
            timed(&kernel.name).and_then(|timed| on_gpu(&point, kernel, timed)).unwrap_or(point)
        };
        self.counts.entries.iter().map(place).collect()
    }
}

/// The point of a kernel that was counted on one problem and timed on another; none if nothing says how many bytes that moved.
fn on_gpu(point: &Point, counted: &Kernel, timed: &Kernel) -> Option<Point> {
    let grown = counted.work.zip(timed.work).map(|(counted, timed)| timed / counted);
    let Kernel { problem, profiled, microseconds, .. } = timed;
    let bytes = profiled.map(|profiled| profiled.bytes).or(timed.bytes)?;
    // Tensor cores' operations have no metric; elsewhere what was executed is what counts.
    let executed = profiled.filter(|_| !point.is_tensor).map(|profiled| profiled.flop);
    let flop = executed.or(grown.map(|grown| point.flop * grown)).unwrap_or(point.intensity() * bytes);
    let seconds = profiled.map(|profiled| profiled.microseconds).or(*microseconds)? / 1e6;
    Some(Point { problem: problem.clone(), bytes, flop, seconds: Some(seconds), ..point.clone() })
}

/// The family of a kernel in this file.
fn family(file: &str) -> usize {
    let is_of = |(_, parts): &(&str, &[&str])| parts.iter().any(|part| file.contains(part));
    FAMILIES.iter().position(is_of).unwrap_or(FAMILIES.len() - 1)
}

#[cfg(test)]
#[path = "gallery_roofline_tests.rs"]
mod tests;
