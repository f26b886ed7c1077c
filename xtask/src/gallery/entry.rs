//! One rung of the gallery on one problem, as written by the gallery's program.

use ferrowarp_report::WarpCounts;
use serde::{Deserialize, Serialize};

use crate::gallery::timeline;
use crate::report;

/// One rung on one problem: a time, or why there is none.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    pub name: String,
    pub lesson: String,
    #[serde(default)]
    pub title: String,
    #[serde(default)]
    pub idea: String,
    #[serde(default)]
    pub axis: String,
    #[serde(default)]
    pub is_log: bool,
    pub measure: String,
    pub at: f64,
    pub problem: String,
    #[serde(default)]
    pub kernels: Vec<String>,
    pub bytes: f64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<f64>,
    #[serde(default)]
    pub flop: f64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peak: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sectors_loaded: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sectors_stored: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bank_conflicts: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub divergent_branches: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blocks: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resident_blocks: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counted: Option<WarpCounts>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profiled: Option<Profiled>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub microseconds: Option<f64>,
    #[serde(default)]
    pub samples: usize,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lacking: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeline: Option<timeline::Columns>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Commit and date of its run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub measured: Option<String>,
}

/// Nsight Compute's counts of the same run on a GPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Profiled {
    pub sectors_loaded: f64,
    pub sectors_stored: f64,
    pub bank_conflicts: f64,
    pub divergent_branches: f64,
}

impl report::Entry for Entry {
    const RUN: &'static str = "gallery";

    fn is_replaced_by(&self, later: &Self) -> bool {
        (&self.lesson, &self.name) == (&later.lesson, &later.name) && self.problem == later.problem
    }
}

impl Entry {
    /// The rung's measure, in the unit of [`Self::unit`].
    pub fn value(&self) -> Option<f64> {
        self.value_of(self.microseconds?)
    }

    /// The rung's measure if it took `microseconds`.
    pub fn value_of(&self, microseconds: f64) -> Option<f64> {
        Some(match self.measure.as_str() {
            "bytes" => self.bytes / microseconds / 1e3,
            "flops" => self.flop / microseconds / 1e3,
            _ => microseconds,
        })
    }

    /// The rate as a percentage of the peak at the device's clocks.
    pub fn percent_of_peak(&self) -> Option<f64> {
        let peak = self.peak.filter(|_| self.measure != "time")?;
        Some(100.0 * 1e9 * self.value()? / peak)
    }

    /// Whether it involves a GPU.
    pub fn is_of_gpu(&self) -> bool {
        let is_of_cores = self.name.split(['_', ' ']).any(|word| word == "core" || word == "cores");
        self.lesson != "csv" && !is_of_cores
    }

    /// Whether it is from another library.
    pub fn is_peer(&self) -> bool {
        ["torch", "cuBLAS"].iter().any(|library| self.name.starts_with(library))
    }

    /// The unit of [`Self::value`].
    pub fn unit(&self) -> &'static str {
        match self.measure.as_str() {
            "bytes" => "GB/s",
            "flops" => "GFLOP/s",
            _ => "us",
        }
    }

    /// Creates one for tests, of a lesson of copies.
    #[cfg(test)]
    pub fn of_test(name: &str, at: f64, microseconds: Option<f64>) -> Self {
        Self {
            name: name.to_owned(),
            lesson: "copies".to_owned(),
            title: "Copies".to_owned(),
            idea: "copies".to_owned(),
            axis: "bytes".to_owned(),
            measure: "bytes".to_owned(),
            at,
            problem: format!("{at} bytes"),
            bytes: 1e6,
            microseconds,
            samples: 1,
            ..Self::default()
        }
    }
}

/// The lessons of the entries, in order.
pub fn lessons(entries: &[Entry]) -> Vec<String> {
    let mut lessons: Vec<String> = Vec::new();
    for entry in entries {
        if !lessons.contains(&entry.lesson) {
            lessons.push(entry.lesson.clone());
        }
    }
    lessons
}

/// The entry of a rung on the problem at `at`, or the largest for `None`.
pub fn find<'a>(entries: &[&'a Entry], rung: &str, at: Option<f64>) -> Option<&'a Entry> {
    let of_rung = entries.iter().copied().filter(|entry| entry.name == rung);
    match at {
        Some(at) => of_rung.into_iter().find(|entry| entry.at == at),
        None => of_rung.max_by(|a, b| a.at.total_cmp(&b.at)),
    }
}
