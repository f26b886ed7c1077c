//! The softmax that users call, its gradient, cross entropy, the largest probabilities and draws from them, and the rungs of
//! the ladder: every kernel, in every type.
//!
//! Each kind has a table of problems, in [`forward`], [`backward`], [`cross_entropy`], [`sharded`], [`top_k`], [`sample`]
//! and [`ladder`]. A row states the [`Scope`]s in which it runs, and gives a case for each kernel that supports it.

pub mod backward;
pub mod calls;
pub mod cross_entropy;
pub mod forward;
pub mod ladder;
pub mod logits;
mod rowwise;
pub mod sample;
pub mod sharded;
pub mod top_k;

use cuda_std::launch::Limits;
use cuda_std::testing::Layout;
use ferrowarp::device::Device;
use ferrowarp::softmax::DeviceProfile;

use crate::{Case, Scope};
use logits::logits;

pub use rowwise::Rowwise;

/// The setting of a run: the device that kernels are chosen for, and the size of the problems.
#[derive(Clone, Debug)]
pub struct Setting {
    /// The rows of the tables to run.
    pub scope: Scope,
    /// The device that kernels are chosen for.
    pub profile: DeviceProfile,
    /// Maximum rows of one launch of a softmax. A tool may report false errors for clusters of later rows.
    pub most_rows: usize,
}

impl Setting {
    /// For the CPU: kernels for a GPU like an H200, which all run there, or for a small one if there are many runs. The
    /// executor also has the CPU-only kernels; the emulators do not.
    pub fn new(scope: Scope) -> Self {
        let multiprocessors = if matches!(scope, Scope::Tiny | Scope::Small) { 2 } else { 132 };
        let capability = if scope == Scope::OldEmulator { 75 } else { 90 };
        let runs_cpu_only = !matches!(scope, Scope::OldEmulator | Scope::NewEmulator);
        let limits = Limits { capability, runs_cpu_only, ..Limits::default() };
        Self {
            scope,
            profile: DeviceProfile { limits, multiprocessors, is_cpu: false },
            most_rows: usize::MAX,
        }
    }

    /// Whether matrix multiplication and attention only run the serial kernels and the smallest tiles. A larger tile takes
    /// Miri minutes, whatever the problem's size.
    pub(crate) fn is_serial(&self) -> bool {
        self.scope == Scope::Tiny
    }

    /// For this device.
    pub fn device(device: &Device) -> Self {
        Self { scope: Scope::Device, profile: DeviceProfile::from(device), most_rows: usize::MAX }
    }
}

/// Every case of the setting except those of the ladder.
pub fn cases(setting: &Setting) -> Vec<Case> {
    let mut cases = forward::cases(setting, |_| true);
    cases.extend(backward::cases(setting));
    cases.extend(cross_entropy::cases(setting));
    cases.extend(sharded::cases(setting));
    cases.extend(top_k::cases(setting));
    cases.extend(sample::cases(setting));
    cases
}

/// Numbers of some rows, followed by rows that are hard for a softmax.
fn with_hard_rows(rows: usize, cols: usize, is_hard: bool) -> Vec<f32> {
    let mut numbers = logits(rows, cols);
    let hard = if is_hard { logits::edge_rows(cols) } else { Vec::new() };
    numbers.extend(hard.into_iter().flat_map(|(_, row)| row));
    numbers
}

/// Rows that are misaligned by 4 or 2 bytes, with elements in between.
fn apart(rows: usize, cols: usize) -> Layout {
    Layout::dense(rows, cols).with_stride(cols + 3).with_offset(1)
}

/// A matrix layout, in words.
fn told(layouts: &[Layout]) -> String {
    let Layout { rows, cols, .. } = layouts[0];
    let places: Vec<_> = layouts.iter().map(|l| format!("{}+{}", l.offset, l.stride)).collect();
    format!("{rows}x{cols} at {}", places.join(", "))
}
