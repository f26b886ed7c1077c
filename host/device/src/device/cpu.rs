//! The CPU as a device: host memory, and kernels on the SIMT executor or on the caller's launcher.

use std::alloc::Layout;
use std::collections::BTreeMap;
use std::ptr::NonNull;
use std::sync::{Mutex, MutexGuard, PoisonError};

use cuda_std::launch::{KernelCall, LaunchError, Launcher, Limits};
use cuda_std::simt::{Executor, GuardedMemory};

/// Alignment of every allocation in bytes, as on a GPU, so that a kernel's memory requests touch the same sectors.
pub(super) const ALIGNMENT: usize = 256;

/// The CPU.
pub(super) struct CpuDevice {
    launcher: Box<dyn Launcher + Send + Sync>,
    /// In a debug build, the executor that detects accesses beyond buffers.
    guarding: Option<Box<Executor>>,
    /// The launch limits.
    pub limits: Limits,
    /// The number of cores that run kernels.
    pub workers: usize,
    /// The allocations with guards, by first address. The others are the allocator's.
    guarded: Mutex<BTreeMap<usize, GuardedMemory>>,
}

impl CpuDevice {
    pub fn new(launcher: Box<dyn Launcher + Send + Sync>, limits: Limits, workers: usize) -> Self {
        Self { launcher, guarding: None, limits, workers, guarded: Mutex::default() }
    }

    /// Makes a device from an executor. In a debug build, an access past the end of a buffer is an error that names the thread.
    pub fn of_executor(executor: Executor) -> Self {
        let (limits, workers) = (executor.limits().clone(), executor.workers());
        let guarding = (cfg!(debug_assertions) && cfg!(not(miri))).then(|| Box::new(executor.clone()));
        Self { guarding, ..Self::new(Box::new(executor), limits, workers) }
    }

    /// # Safety
    /// Same as for [`Launcher::submit`].
    pub unsafe fn submit(&self, call: &KernelCall<'_>) -> Result<(), LaunchError> {
        let Some(executor) = &self.guarding else {
            // SAFETY: the caller's contract is the callee's.
            return unsafe { self.launcher.submit(call) };
        };
        let buffers: Vec<GuardedMemory> = self.guarded().values().cloned().collect();
        // SAFETY: as above.
        unsafe { executor.submit_guarded(call, &buffers) }
    }

    /// The processor's name from the operating system; its architecture if there is none.
    pub fn name(&self) -> String {
        // Under Miri's isolation, opening a file ends the program.
        let cpuinfo = if cfg!(miri) { None } else { std::fs::read_to_string("/proc/cpuinfo").ok() };
        cpuinfo
            .and_then(|text| model_name(&text))
            .unwrap_or_else(|| format!("{} CPU", std::env::consts::ARCH))
    }

    /// Allocates `bytes` zero bytes; returns `None` if out of memory.
    pub fn alloc_zeroed(&self, bytes: usize) -> Option<NonNull<u8>> {
        let Some(guarded) = self.guarding.as_ref().and_then(|_| GuardedMemory::zeroed(bytes)) else {
            return alloc_zeroed(bytes);
        };
        let memory = NonNull::new(guarded.pointer())?;
        self.guarded().insert(memory.addr().get(), guarded);
        Some(memory)
    }

    /// # Safety
    /// `memory` came from [`Self::alloc_zeroed`] with the same `bytes`, and is not used afterwards.
    pub unsafe fn free(&self, memory: NonNull<u8>, bytes: usize) {
        if self.guarded().remove(&memory.addr().get()).is_some() {
            return;
        }
        // SAFETY: the caller's contract is the callee's; the memory has no guards, so it came from the allocator.
        unsafe { free(memory, bytes) };
    }

    fn guarded(&self) -> MutexGuard<'_, BTreeMap<usize, GuardedMemory>> {
        self.guarded.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Allocates `bytes` zero bytes; returns `None` if out of memory.
pub(super) fn alloc_zeroed(bytes: usize) -> Option<NonNull<u8>> {
    let layout = Layout::from_size_align(bytes, ALIGNMENT).ok()?;
    if layout.size() == 0 {
        return None;
    }
    // SAFETY: the layout's size is not zero.
    NonNull::new(unsafe { std::alloc::alloc_zeroed(layout) })
}

/// # Safety
/// `memory` came from [`alloc_zeroed`] with the same `bytes`, and is not used afterwards.
pub(super) unsafe fn free(memory: NonNull<u8>, bytes: usize) {
    // SAFETY: the layout is the allocation's, and it was valid at the allocation.
    unsafe { std::alloc::dealloc(memory.as_ptr(), Layout::from_size_align_unchecked(bytes, ALIGNMENT)) };
}

fn model_name(cpuinfo: &str) -> Option<String> {
    let line = cpuinfo.lines().find(|line| line.starts_with("model name"))?;
    let (_, name) = line.split_once(':')?;
    Some(name.trim().to_owned()).filter(|name| !name.is_empty())
}

#[cfg(test)]
mod tests {
    use super::model_name;

    #[test]
    fn the_model_name_is_found() {
        let text = "processor\t: 0\nmodel name\t: A Processor @ 2.0GHz\nmodel name\t: another\n";
        assert_eq!(model_name(text).as_deref(), Some("A Processor @ 2.0GHz"));
        assert_eq!(model_name("processor: 0"), None);
    }
}
