//! A lesson's file next to its page, `docs/gallery/LESSON.toml`, and the lesson with its measurements.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, bail};
use ferrowarp_report::gallery::Entry;
use serde::Deserialize;

use super::formula;
use crate::report::peaks;

/// What the file says.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Page {
    /// The difference between the problems of a rung, with its unit.
    pub axis: String,
    /// Whether charts show it on a logarithmic axis.
    #[serde(default)]
    pub log: bool,
    #[serde(default)]
    pub measure: Measure,
    /// The title of the picture: a sentence with formulas of the rungs' times.
    #[serde(default)]
    pub finding: String,
    /// The label of the measure in pictures.
    pub label: Option<String>,
    /// Panels per row.
    pub columns: Option<usize>,
    /// Whether all bars have one scale.
    #[serde(default)]
    pub one_scale: bool,
    /// Limits of the rates: names and formulas.
    #[serde(default)]
    pub roofs: BTreeMap<String, String>,
    /// Names for formulas.
    #[serde(default, rename = "let")]
    pub names: BTreeMap<String, String>,
    /// The predicted microseconds of every entry, of its `bytes` and `bank_conflicts`.
    pub each: Option<String>,
    /// Pairs of rungs: the page says from which problem on the second is faster.
    #[serde(default)]
    pub crossover: Vec<[String; 2]>,
    #[serde(default, rename = "panel")]
    pub panels: Vec<Panel>,
    #[serde(default, rename = "prediction")]
    pub predictions: Vec<Prediction>,
}

/// The measure of the rungs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Measure {
    /// Useful bytes per second.
    #[default]
    Bytes,
    /// Floating-point operations per second.
    Flops,
    /// Microseconds per launch.
    Time,
    /// Nanoseconds per load of 4 bytes, if one follows the other.
    Latency,
}

/// A panel of the picture; without settings, lines of all rungs.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Panel {
    pub caption: String,
    /// The rungs.
    pub only: Vec<String>,
    /// All rungs except this one.
    pub other_than: Option<String>,
    /// A part of the rungs' names.
    pub has: String,
    /// The end of the problems' words.
    pub problem: String,
    /// The problems' values on the axis.
    pub at: Vec<f64>,
    /// Each rung's largest problem only.
    pub largest: bool,
    /// Bars of this quantity in place of lines.
    pub bars: Option<Bars>,
    /// The name of a bar, with `{rung}` and `{at}`.
    pub bar: Option<String>,
    /// The label of the axis, if it is not the lesson's.
    pub x: Option<String>,
    /// Pixels.
    pub size: Option<(u32, u32)>,
    pub guide: Option<Guide>,
}

/// The quantity of bars.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Bars {
    Measure,
    Time,
}

/// A line of predictions for all problems.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Guide {
    pub name: String,
    /// A formula of `at`.
    pub value: String,
    /// Its places: those of this rung, or these.
    pub rung: Option<String>,
    #[serde(default)]
    pub at: Vec<f64>,
}

/// A prediction of one quantity, from before anything ran.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Prediction {
    pub rung: String,
    /// The problem's value on the axis; `None` for the largest.
    pub at: Option<f64>,
    /// The rung that `ratio` and `speed` compare with, with `@` and another problem if it is not the same one.
    pub over: Option<String>,
    /// The time over that of the other rung: a formula, as the next three.
    pub ratio: Option<String>,
    /// The rate over that of the other rung, each on its largest problem.
    pub speed: Option<String>,
    /// GB/s, or GFLOP/s in a lesson that measures operations.
    pub rate: Option<String>,
    /// Microseconds.
    pub time: Option<String>,
    /// Nanoseconds per load.
    pub latency: Option<String>,
    #[serde(default)]
    pub kind: Kind,
    /// How the value follows from the problem.
    pub from: String,
    /// The figure in another text for the same experiment, and its source: title and GPU.
    #[serde(default)]
    pub elsewhere: String,
    /// Why measurement and prediction differ, or why they agree. Empty before the measurement.
    #[serde(default)]
    pub why: String,
}

/// What a row of the table states.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// What theory expects.
    #[default]
    Prediction,
    /// What cannot be exceeded.
    Bound,
    /// What is quoted or known from another lesson, and not derived here.
    Reference,
}

impl Page {
    /// Reads the file of a lesson in `docs/gallery`.
    ///
    /// # Errors
    /// There is none, or it says something unknown.
    pub fn read(pages: &Path, lesson: &str) -> anyhow::Result<Self> {
        let path = pages.join(format!("{lesson}.toml"));
        let text = std::fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
        toml::from_str(&text).with_context(|| format!("reading {}", path.display()))
    }
}

/// The machine's limits.
#[derive(Clone, Copy, Debug, Default)]
pub struct Limits {
    /// The rate of the best copy, in GB/s.
    pub copy: Option<f64>,
    /// The datasheet's limits.
    pub peaks: Option<peaks::Peaks>,
}

/// Replaces figures that only a GPU gives.
pub const NOT_MEASURED: &str = "Not measured on a GPU yet.\n";

/// A lesson with its measurements.
#[derive(Debug, Default)]
pub struct Lesson {
    pub name: String,
    pub page: Page,
    /// Ours, and then the peers'.
    pub entries: Vec<Entry>,
    pub limits: Limits,
    /// The machine, and the source of the figures.
    pub whence: String,
}

impl Lesson {
    /// The entry of a rung on the problem at `at`, or the largest for `None`.
    pub fn find(&self, rung: &str, at: Option<f64>) -> Option<&Entry> {
        let of_rung = self.entries.iter().filter(|entry| entry.name == rung);
        match at {
            Some(at) => of_rung.into_iter().find(|entry| entry.at == at),
            None => of_rung.max_by(|a, b| a.at.total_cmp(&b.at)),
        }
    }

    pub fn is_measured(&self) -> bool {
        self.entries.iter().any(|entry| entry.microseconds.is_some())
    }

    /// The measure of an entry that took `microseconds`, in the unit of [`Self::unit`].
    pub fn value_of(&self, entry: &Entry, microseconds: f64) -> f64 {
        match self.page.measure {
            Measure::Bytes => entry.bytes / microseconds / 1e3,
            Measure::Flops => entry.flop / microseconds / 1e3,
            Measure::Time => microseconds,
            Measure::Latency => 1e3 * microseconds / (entry.bytes / 4.0),
        }
    }

    /// The entry's measure, if it was timed.
    pub fn value(&self, entry: &Entry) -> Option<f64> {
        Some(self.value_of(entry, entry.microseconds?))
    }

    /// The rate as a percentage of the peak at the device's clocks.
    pub fn percent_of_peak(&self, entry: &Entry) -> Option<f64> {
        let peak = entry.peak.filter(|_| matches!(self.page.measure, Measure::Bytes | Measure::Flops))?;
        Some(100.0 * 1e9 * self.value(entry)? / peak)
    }

    /// The unit of the lesson's measure.
    pub fn unit(&self) -> &'static str {
        match self.page.measure {
            Measure::Bytes => "GB/s",
            Measure::Flops => "GFLOP/s",
            Measure::Time => "us",
            Measure::Latency => "ns",
        }
    }

    /// The value of a formula. Names are `copy` and `memory` in GB/s, `peak` in GFLOP/s, `clock` in MHz, those of the page's
    /// `let`, those that `own` knows, and the rungs: each is its time in microseconds, and with `.rate` its measure.
    ///
    /// # Errors
    /// It is malformed, or a name is unknown or was not measured.
    pub fn formula(&self, formula: &str, own: &dyn Fn(&str) -> Option<f64>) -> anyhow::Result<f64> {
        formula::value(formula, &|name, at| self.name(name, at, own))
    }

    fn name(&self, name: &str, at: Option<f64>, own: &dyn Fn(&str) -> Option<f64>) -> anyhow::Result<f64> {
        if let Some(value) = own(name) {
            return Ok(value);
        }
        if let Some(formula) = self.page.names.get(name) {
            return self.formula(formula, own);
        }
        let Limits { copy, peaks } = self.limits;
        let known = match name {
            "copy" => copy,
            "memory" => peaks.map(|peaks| peaks.gigabytes_per_second),
            "peak" => peaks.map(|peaks| 1e3 * peaks.fp32_tflops),
            "clock" => peaks.map(|peaks| peaks.boost_mhz),
            _ => match name.strip_suffix(".rate") {
                Some(rung) => self.find(rung, at).and_then(|entry| self.value(entry)),
                None => self.find(name, at).and_then(|entry| entry.microseconds),
            },
        };
        match known {
            Some(value) => Ok(value),
            None => bail!("the value of `{name}` is not known"),
        }
    }

    /// The finding with its figures; `None` if a rung in it was not measured.
    ///
    /// # Errors
    /// The sentence is malformed.
    pub fn finding(&self) -> anyhow::Result<String> {
        formula::sentence(&self.page.finding, &|name, at| self.name(name, at, &|_| None))
    }
}

/// Whether the entry involves a GPU.
pub fn is_of_gpu(entry: &Entry) -> bool {
    let is_of_cores = entry.name.split(['_', ' ']).any(|word| word == "core" || word == "cores");
    entry.lesson != "csv" && !is_of_cores
}

/// Whether the entry is from another library.
pub fn is_peer(entry: &Entry) -> bool {
    ["torch", "cuBLAS"].iter().any(|library| entry.name.starts_with(library))
}
