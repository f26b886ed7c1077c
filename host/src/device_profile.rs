//! What the choice of an operation's kernels depends on, next to types and shape.

use cuda_std::launch::Limits;

use crate::device::Device;

/// What the choice of kernels needs to know of a device.
#[derive(Clone, Debug)]
#[doc(hidden)]
pub struct DeviceProfile {
    /// What the device allows.
    pub limits: Limits,
    /// Its multiprocessors, or cores.
    pub multiprocessors: usize,
    /// Whether it is a CPU, for which a thread computes a row alone: to wait for others takes it longer than to compute.
    pub is_cpu: bool,
}

impl From<&Device> for DeviceProfile {
    /// What runs kernels for the CPU alone is one. It has no clusters: the executor runs them on one core, with a stack for
    /// each of up to 16384 threads, and the pair of kernels spreads over all cores.
    fn from(device: &Device) -> Self {
        let mut limits = device.limits().clone();
        let is_cpu = limits.runs_cpu_only;
        if is_cpu {
            limits.max_cluster = 1;
        }
        Self { limits, multiprocessors: device.multiprocessors(), is_cpu }
    }
}
