//! The kernels of operations along an axis.

use axis_kernels::Blocks;
use cuda_std::launch::Limits;

/// The kinds of kernels that a device can run, the default first.
#[doc(hidden)]
pub fn choices(limits: &Limits) -> &'static [Blocks] {
    if limits.runs_cpu_only { &[Blocks::Serial, Blocks::Wide] } else { &[Blocks::Wide] }
}
