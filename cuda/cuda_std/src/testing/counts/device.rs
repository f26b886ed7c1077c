//! Devices that count, and where the counts are kept.

use core::cell::RefCell;
use core::error::Error;
use std::sync::{Arc, Mutex, PoisonError};

use super::LaunchCounts;
use crate::launch::{KernelCall, LaunchError, Launcher};
use crate::testing::{DeviceMemory, KernelTest, Memory, TestDevice, TestError};

/// A device that can count what warps did in a launch, such as the PTX emulator.
pub trait CountingDevice: TestDevice {
    /// Same as [`Launcher::submit`], but waits for the end of the launch and returns its counts.
    ///
    /// # Errors
    /// Same as for [`Launcher::submit`].
    ///
    /// # Safety
    /// Same as for [`Launcher::submit`].
    unsafe fn submit_counted(&self, call: &KernelCall<'_>) -> Result<LaunchCounts, LaunchError>;
}

/// Collects the counts of a launcher's launches. Clones share them, so a test can keep one and give its emulator away.
#[derive(Clone, Debug, Default)]
pub struct Counter {
    launches: Arc<Mutex<Vec<LaunchCounts>>>,
}

impl Counter {
    /// Creates an empty counter.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a launch.
    pub fn add(&self, launch: LaunchCounts) {
        self.launches.lock().unwrap_or_else(PoisonError::into_inner).push(launch);
    }

    /// Returns the launches since the last call, in order. Their `sum()` is the total.
    pub fn take(&self) -> Vec<LaunchCounts> {
        core::mem::take(&mut *self.launches.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl KernelTest<'_> {
    /// Same as [`Self::run_on`], but returns the total counts of the launches: how many sectors and lines requests
    /// touch, which accesses of shared memory conflict, which branches diverge.
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
