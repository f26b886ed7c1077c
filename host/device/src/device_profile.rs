//! The device properties that the choice of an operation's kernels depends on.

use cuda_std::launch::Limits;

/// The properties of a device that the choice of kernels depends on.
#[derive(Clone, Debug)]
#[doc(hidden)]
pub struct DeviceProfile {
    /// The device's launch limits.
    pub limits: Limits,
    /// The number of multiprocessors or cores.
    pub multiprocessors: usize,
    /// Whether it is a CPU. There, one thread computes a row, because waiting for other threads takes longer than computing.
    pub is_cpu: bool,
}

impl DeviceProfile {
    /// The same device with all kernels that it could run, if its modules may lack some. For a problem that its modules have no
    /// kernel for, the launch of a kernel chosen for this device reports which modules were loaded.
    pub fn with_absent_kernels(&self) -> Option<Self> {
        self.limits.kernels.as_ref()?;
        Some(Self { limits: Limits { kernels: None, ..self.limits.clone() }, ..*self })
    }
}
