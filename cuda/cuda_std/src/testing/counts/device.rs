//! Who counts, and where the counts are kept.

use core::cell::RefCell;
use core::error::Error;
use std::sync::{Arc, Mutex, PoisonError};

use super::LaunchCounts;
use crate::launch::{KernelCall, LaunchError, Launcher};
use crate::testing::{DeviceMemory, KernelTest, Memory, TestDevice, TestError};

/// A device that can tell what warps did in a launch, as the PTX emulator can.
pub trait CountingDevice: TestDevice {
    /// As [`Launcher::submit`], to the end of the launch, and what it did.
    ///
    /// # Errors
    /// Same as for [`Launcher::submit`].
    ///
    /// # Safety
    /// Same as for [`Launcher::submit`].
    unsafe fn submit_counted(&self, call: &KernelCall<'_>) -> Result<LaunchCounts, LaunchError>;
}

/// Where a launcher leaves what its launches did. Clones are the same one: a test keeps one of an emulator that it gives away.
#[derive(Clone, Debug, Default)]
pub struct Counter {
    launches: Arc<Mutex<Vec<LaunchCounts>>>,
}

impl Counter {
    /// One that has nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a launch.
    pub fn add(&self, launch: LaunchCounts) {
        self.launches.lock().unwrap_or_else(PoisonError::into_inner).push(launch);
    }

    /// The launches since the last time, in order. Their `sum()` is what they did together.
    pub fn take(&self) -> Vec<LaunchCounts> {
        core::mem::take(&mut *self.launches.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl KernelTest<'_> {
    /// As [`Self::run_on`], and what the launches did together: how many sectors and lines requests touch, which accesses
    /// of shared memory conflict, which branches diverge.
    ///
    /// # Errors
    /// Same as for [`Self::run_on`].
    pub fn count(
        &self,
        device: &dyn CountingDevice,
        launch: impl Fn(&dyn Launcher, &Memory<'_>) -> Result<(), LaunchError>,
    ) -> Result<LaunchCounts, TestError> {
        let counted = Counted { device, counts: RefCell::default() };
        self.run_on(&counted, launch)?;
        Ok(counted.counts.into_inner())
    }
}

/// A device whose launches are counted.
struct Counted<'a> {
    device: &'a dyn CountingDevice,
    counts: RefCell<LaunchCounts>,
}

impl Launcher for Counted<'_> {
    unsafe fn submit(&self, call: &KernelCall<'_>) -> Result<(), LaunchError> {
        // SAFETY: the caller's contract is the callee's.
        let counts = unsafe { self.device.submit_counted(call) }?;
        *self.counts.borrow_mut() += counts;
        Ok(())
    }
}

impl TestDevice for Counted<'_> {
    fn name(&self) -> String {
        self.device.name()
    }

    fn upload(&self, bytes: &[u8]) -> Result<Box<dyn DeviceMemory>, Box<dyn Error + Send + Sync>> {
        self.device.upload(bytes)
    }
}
