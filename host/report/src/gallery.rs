//! One rung of the gallery on one problem: what the gallery's program writes and `cargo xtask` reads.

use serde::{Deserialize, Serialize};

use crate::WarpCounts;

/// One rung on one problem: a time, or why there is none.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// The rung's name.
    pub name: String,
    /// The lesson's name.
    pub lesson: String,
    /// The rung's idea.
    #[serde(default)]
    pub idea: String,
    /// The problem's value on the lesson's axis.
    pub at: f64,
    /// The problem in words.
    pub problem: String,
    /// The kernels that ran.
    #[serde(default)]
    pub kernels: Vec<String>,
    /// Useful bytes per run.
    pub bytes: f64,
    /// Bytes that global memory must move per run, if they differ.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<f64>,
    /// Floating-point operations per run.
    #[serde(default)]
    pub flop: f64,
    /// Maximum bytes or operations per second at the device's clocks, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peak: Option<f64>,
    /// The predicted counts.
    #[serde(flatten)]
    pub predicted: Counts,
    /// The emulator's counts of one run, if there are any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counted: Option<WarpCounts>,
    /// Nsight Compute's counts of the same run on a GPU.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profiled: Option<Counts>,
    /// The time of one run, the median of the samples.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub microseconds: Option<f64>,
    /// Timed batches.
    #[serde(default)]
    pub samples: usize,
    /// What the device lacks to run it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lacking: Option<String>,
    /// When and where its blocks or warps ran, if recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeline: Option<Timeline>,
    /// The error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Commit and date of its run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub measured: Option<String>,
}

/// Counts that theory predicts, or that a profiler reports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Counts {
    /// 32-byte sectors touched by loads and by asynchronous copies from global memory, counted per request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sectors_loaded: Option<f64>,
    /// The same for stores.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sectors_stored: Option<f64>,
    /// Passes over shared memory beyond the minimum.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bank_conflicts: Option<f64>,
    /// Divergent branches.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub divergent_branches: Option<f64>,
}

/// The records of each block or warp of a launch. Columns are numbers separated by spaces; times are in nanoseconds after the
/// first start.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Timeline {
    /// The recording unit: `block` or `warp`.
    pub unit: String,
    /// Units per block.
    pub of_block: usize,
    /// The multiprocessor of each.
    pub multiprocessors: String,
    /// The position of each in the order of their starts.
    pub tickets: String,
    /// The start of each.
    pub starts: String,
    /// The end of each.
    pub ends: String,
}

/// One launch of a kernel, for its position under a roofline.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct KernelEntry {
    /// The kernel; empty if the work failed.
    pub name: String,
    /// Its source file.
    pub file: String,
    /// The problem in words.
    pub problem: String,
    /// Bytes that the problem must move, if known and if the launch does all of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<f64>,
    /// Floating-point operations of the problem, by formula, if the launch does all of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flop: Option<f64>,
    /// The emulator's counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counted: Option<KernelCounts>,
    /// Its time, from events around it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub microseconds: Option<f64>,
    /// Why it was not run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// The emulator's counts of a launch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct KernelCounts {
    /// Bytes of the distinct sectors of global memory that are read, plus those that are written.
    pub bytes: f64,
    /// Bytes of the sectors of all requests, counted each time.
    pub requested_bytes: f64,
    /// Floating-point operations on `f32` and `f64`.
    pub flop: f64,
    /// Floating-point operations of tensor cores.
    pub tensor_flop: f64,
    /// Divisions, roots, exponentials and similar functions.
    pub functions: f64,
}
