//! The position of every kernel under a GPU's roofline: bytes and operations by formula or from the emulator's counts, and
//! the time on a GPU.

mod chart;
mod reports;
mod tables;

use std::path::{Path, PathBuf};

use anyhow::Context;
use ferrowarp_report::gallery::{Entry, KernelEntry};
use serde::{Deserialize, Serialize};

use super::page::{Limits, NOT_MEASURED};
use crate::chart::number;
use crate::report::peaks::{self, Check, Peaks};
use crate::workspace;
use tables::{nearest, ridges, summary};

/// The GPU whose datasheet is drawn if nothing was measured.
const USUAL: &str = "NVIDIA H200";

/// Lessons with entries that also time copies of the host, so that their times are not those of kernels.
const OF_HOST: [&str; 2] = ["overlap", "unified"];

/// The limits of a GPU.
#[derive(Clone, Debug, PartialEq)]
pub struct Roofs {
    /// The GPU.
    pub machine: String,
    /// Bytes per second of its memory, from its datasheet.
    pub bytes_per_second: f64,
    /// Bytes per second of the best copy.
    pub copy: Option<f64>,
    /// Operations per second on `f32`, without tensor cores.
    pub flops: f64,
    /// The same of tensor cores on bf16.
    pub tensor_flops: f64,
    /// The latency of its memory in nanoseconds.
    pub latency: f64,
    /// Bytes per second of full multiprocessors whose threads each have one load of 4 bytes in flight.
    pub one_load: f64,
}

/// The latency until the lesson `hierarchy` has measured it: an assumption.
const LATENCY: f64 = 650.0;

/// The lesson, rung and place of the latency of memory.
const CHASE: (&str, &str, f64) = ("hierarchy", "chase", 4_294_967_296.0);

/// What to merge.
#[derive(clap::Args)]
pub struct RooflineFiles {
    /// What `gallery --roofline --count` wrote
    #[arg(long, value_name = "FILE")]
    roofline_counts: Option<PathBuf>,

    /// What the bundle's step roofline wrote on a GPU
    #[arg(long, value_name = "FILE")]
    roofline: Option<PathBuf>,
}

/// The output of one program.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Run {
    machine: String,
    driver: String,
    date: String,
    commit: String,
    entries: Vec<KernelEntry>,
}

/// A kernel's position.
#[derive(Clone, Debug, PartialEq)]
pub struct Point {
    pub name: String,
    /// The index in [`FAMILIES`].
    pub family: usize,
    pub problem: String,
    pub bytes: f64,
    pub flop: f64,
    /// Whether most of its operations are on tensor cores.
    pub is_tensor: bool,
    /// `None` if it was not timed.
    pub seconds: Option<f64>,
}

/// The families: their names in charts, and parts of their files' paths.
pub const FAMILIES: [(&str, &[&str]); 12] = [
    ("gallery: matmul", &["gallery/matmul"]),
    ("gallery: other", &["gallery/", "lessons/src/copy"]),
    ("network: matmul", &["mlp/src/linear", "mlp/src/fused", "mlp/src/short", "mlp/src/resident"]),
    ("network: other", &["mlp/src"]),
    ("network: a step", &[]),
    ("softmax: ladder", &["softmax/k"]),
    ("softmax: forward", &["softmax/src/forward"]),
    ("softmax: gradient", &["softmax/src/backward"]),
    ("softmax: cross entropy", &["softmax/src/cross_entropy"]),
    ("matmul: tensor cores", &[]),
    ("attention", &[]),
    ("softmax: top k, sampling", &["softmax/"]),
];

impl Roofs {
    /// Operations per byte at which memory and arithmetic take the same time.
    pub fn ridge(&self) -> f64 {
        self.flops / self.bytes_per_second
    }

    /// The roof for the point's operations.
    pub fn peak(&self, point: &Point) -> f64 {
        if point.is_tensor { self.tensor_flops } else { self.flops }
    }

    /// The minimum time for the point's bytes and operations, relative to its time.
    pub fn share(&self, point: &Point) -> Option<f64> {
        let least = (point.bytes / self.bytes_per_second).max(point.flop / self.peak(point));
        point.seconds.map(|seconds| least / seconds)
    }
}

impl Point {
    /// Operations per byte.
    pub fn intensity(&self) -> f64 {
        if self.bytes > 0.0 { self.flop / self.bytes } else { 0.0 }
    }
}

/// The kernels with their positions.
pub struct Placed {
    roofs: Roofs,
    counts: Run,
    times: Option<Run>,
    /// The lessons' entries.
    lessons: Vec<Entry>,
    /// What other reports time.
    reported: Vec<Point>,
}

impl RooflineFiles {
    /// Merges the new files into the committed ones in the folder; `None` if there never were any.
    pub fn merged(&self, folder: &Path, lessons: &[Entry], limits: Limits) -> anyhow::Result<Option<Placed>> {
        if let Some(counts) = &self.roofline_counts {
            Run::read(counts)?.write(&folder.join("roofline-counts.json"))?;
        }
        if let Some(times) = &self.roofline {
            Run::read(times)?.write(&folder.join("roofline.json"))?;
        }
        read(folder, lessons, limits)
    }
}

/// Reads the folder's files, with the times of the lessons' entries; `None` without counts.
pub fn read(folder: &Path, lessons: &[Entry], limits: Limits) -> anyhow::Result<Option<Placed>> {
    let files = ["roofline-counts.json", "roofline.json"].map(|name| folder.join(name));
    let [counts, times] = files.map(|path| path.is_file().then(|| Run::read(&path)).transpose());
    let (Some(counts), times) = (counts?, times?) else { return Ok(None) };
    let machine = times.as_ref().map_or(USUAL, |times| &times.machine);
    let peaks = peaks::of(machine).with_context(|| {
        format!("the datasheet of {machine} is not known; add it to xtask/src/report/peaks.rs")
    })?;
    let is_chase = |entry: &&Entry| (&*entry.lesson, &*entry.name, entry.at) == CHASE;
    // A load is four bytes.
    let latency = |entry: &Entry| Some(1e3 * entry.microseconds? / (entry.bytes / 4.0));
    let latency = lessons.iter().find(is_chase).and_then(latency).unwrap_or(LATENCY);
    let roofs = Roofs::new(machine, peaks, limits.copy, latency);
    let reported = reports::points(folder, machine)?;
    Ok(Some(Placed { roofs, counts, times, lessons: lessons.to_vec(), reported }))
}

impl Roofs {
    fn new(machine: &str, peaks: Peaks, copy: Option<f64>, latency: f64) -> Self {
        let multiprocessors = 1e12 * peaks.fp32_tflops / (256.0 * 1e6 * peaks.boost_mhz);
        Self {
            machine: machine.to_owned(),
            bytes_per_second: 1e9 * peaks.gigabytes_per_second,
            copy: copy.map(|copy| 1e9 * copy),
            flops: 1e12 * peaks.fp32_tflops,
            tensor_flops: 1e12 * peaks.tensor_tflops,
            latency,
            // A multiprocessor does 256 operations per cycle, and has room for 64 warps of 128 bytes.
            one_load: multiprocessors * 64.0 * 128.0 / (latency / 1e9),
        }
    }
}

impl Run {
    fn read(path: &Path) -> anyhow::Result<Self> {
        let text = std::fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))?;
        serde_json::from_str(&text)
            .with_context(|| format!("{} was not written by `gallery --roofline`", path.display()))
    }

    /// Writes the file with one kernel per line.
    fn write(&self, path: &Path) -> anyhow::Result<()> {
        let text = serde_json::to_string(self).context("writing the roofline as JSON")?;
        let text = text.replace("{\"name\":", "\n{\"name\":") + "\n";
        workspace::write(path, &text)
    }
}

impl Placed {
    /// Checks that no kernel is above its roof.
    pub fn check(&self, check: &mut Check) {
        for point in self.points() {
            if let Some(share) = self.roofs.share(&point) {
                check.share(|| format!("{} in the roofline", point.name), share);
            }
        }
    }

    /// The counts as tables, and the times with the picture, which it draws into the folder.
    pub fn sections(&self, folder: &Path) -> anyhow::Result<(String, String)> {
        let points = self.points();
        let timed = points.iter().filter(|point| point.seconds.is_some()).count();
        let picture = match chart::draw(&points, &self.roofs).context("drawing the roofline failed")? {
            Some(svg) => {
                workspace::write(&folder.join("roofline.svg"), &svg)?;
                "![Every kernel that was timed under the roofline](roofline.svg)\n\n"
            }
            None => "",
        };
        let counts = format!(
            "{}\nWithout a time, kernels are placed by the emulator's counts: commit {}, {}.\n",
            summary(&points, &self.roofs),
            self.counts.commit,
            self.counts.date,
        );
        let Some(Run { machine, driver, date, commit, entries, .. }) = &self.times else {
            return Ok((counts, NOT_MEASURED.to_owned()));
        };
        let failed: Vec<String> = entries
            .iter()
            .filter_map(|entry| Some(format!("- {}: {}\n", entry.problem, entry.error.as_ref()?)))
            .collect();
        let Roofs { bytes_per_second, flops, copy, .. } = &self.roofs;
        let copy = copy
            .map_or_else(String::new, |copy| format!(" The best copy moves {} GB/s.", number(copy / 1e9)));
        let times = format!(
            "{picture}The roofs are those of the datasheet: {} GB/s and {} TFLOP/s, which meet at {} FLOP per byte.{copy}\n\n\
             {}\n{timed} of {} kernels are placed by their time: those of lessons, of ladders and of operations by the times of \
             their pages.\n{}\nThe others were measured on: {machine}, driver {driver}, {date}, commit {commit}.\n\n{}",
            number(bytes_per_second / 1e9),
            number(flops / 1e12),
            number(self.roofs.ridge()),
            nearest(&points, &self.roofs),
            points.len(),
            failed.concat(),
            ridges(),
        );
        Ok((counts, times))
    }

    /// Every kernel: on the timed problem, or else on the counted one.
    fn points(&self) -> Vec<Point> {
        let place = |kernel: &KernelEntry| {
            let counted = kernel.counted.unwrap_or_default();
            let point = Point {
                name: kernel.name.clone(),
                family: family(&kernel.file),
                problem: kernel.problem.clone(),
                bytes: counted.bytes,
                flop: kernel.flop.unwrap_or(counted.flop + counted.tensor_flop),
                is_tensor: counted.tensor_flop > counted.flop,
                seconds: None,
            };
            let timed = self.in_a_lesson(&point).or_else(|| self.in_the_run(kernel, &point));
            timed.unwrap_or(point)
        };
        let is_reported = |point: &Point| {
            self.reported.iter().any(|reported| reported.family == point.family && point.seconds.is_none())
        };
        let counted = self.counts.entries.iter().map(place).filter(|point| !is_reported(point));
        counted.chain(self.reported.iter().cloned()).collect()
    }

    /// The kernel on the largest problem of a lesson that launches only this kernel.
    fn in_a_lesson(&self, point: &Point) -> Option<Point> {
        let is_its = |entry: &&Entry| {
            entry.kernels.iter().all(|name| *name == point.name) && !entry.kernels.is_empty()
        };
        let entries = self.lessons.iter().filter(is_its);
        let entries =
            entries.filter(|entry| entry.microseconds.is_some() && !OF_HOST.contains(&entry.lesson.as_str()));
        let size = |entry: &Entry| entry.memory_bytes.unwrap_or(entry.bytes) + entry.flop;
        let entry = entries.max_by(|a, b| size(a).total_cmp(&size(b)))?;
        Some(Point {
            problem: format!("{}, {}", entry.name, entry.problem),
            bytes: entry.memory_bytes.unwrap_or(entry.bytes),
            flop: entry.flop,
            seconds: entry.microseconds.map(|time| time / 1e6),
            ..point.clone()
        })
    }

    /// The kernel on the problem of the run; `None` if no formula gives its bytes and operations there.
    fn in_the_run(&self, counted: &KernelEntry, point: &Point) -> Option<Point> {
        let run = self.times.as_ref()?;
        let timed = run.entries.iter().find(|entry| entry.name == counted.name)?;
        let bytes = timed.bytes?;
        // A formula's operations on the counted problem are scaled by the bytes.
        let of_byte = counted.flop.zip(counted.bytes).map(|(flop, bytes)| flop / bytes);
        let flop = timed.flop.or(of_byte.map(|each| each * bytes))?;
        let seconds = Some(timed.microseconds? / 1e6);
        Some(Point { problem: timed.problem.clone(), bytes, flop, seconds, ..point.clone() })
    }
}

/// The family of a kernel in this file.
fn family(file: &str) -> usize {
    let is_of = |(_, parts): &(&str, &[&str])| parts.iter().any(|part| file.contains(part));
    FAMILIES.iter().position(is_of).unwrap_or(FAMILIES.len() - 1)
}

/// The index of a family.
fn family_of(name: &str) -> usize {
    FAMILIES.iter().position(|(known, _)| *known == name).unwrap_or(FAMILIES.len() - 1)
}

#[cfg(test)]
mod tests;
