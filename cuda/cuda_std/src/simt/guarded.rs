//! Device memory on the CPU with guards around it: an access beyond a buffer becomes a fault that names the thread.

use core::ops::Range;
use std::sync::Arc;

use super::fault::{BeyondBuffer, Fault, FaultKind};
use super::watch::{Stray, Watch, Whose};
use super::zones::Region;
use super::{Executor, Scheduler};
use crate::launch::{KernelCall, LaunchError, Launcher};

/// The value of the bytes between the end of a buffer and its zone.
const GUARD: u8 = 0xa5;

/// The memory of a buffer. Inaccessible pages lie before it and after its end, rounded up to
/// [`ALIGNMENT`](crate::testing::ALIGNMENT). The bytes up to there have a known value.
#[derive(Clone)]
pub struct GuardedMemory {
    region: Arc<Region>,
    len: usize,
}

impl GuardedMemory {
    /// Allocates `len` zero bytes; returns `None` if the system has no address space for the guards, or is not Linux.
    pub fn zeroed(len: usize) -> Option<Self> {
        let memory = Self { region: Arc::new(Region::zeroed(len)?), len };
        memory.fill_guard();
        Some(memory)
    }

    /// Returns a pointer to the first byte.
    pub fn pointer(&self) -> *mut u8 {
        self.region.pointer()
    }

    /// Returns the bytes between the end and the zone.
    fn guard(&self) -> Range<usize> {
        self.len..self.len.next_multiple_of(crate::testing::ALIGNMENT)
    }

    fn fill_guard(&self) {
        let Range { start, end } = self.guard();
        // SAFETY: the bytes are the mapping's, after the buffer; no launch runs.
        unsafe { self.pointer().add(start).write_bytes(GUARD, end - start) };
    }

    /// Returns the first byte of the guard that a kernel has changed.
    fn changed(&self) -> Option<usize> {
        let Range { start, end } = self.guard();
        // SAFETY: the bytes are the mapping's, after the buffer; no launch runs.
        let guard = unsafe { core::slice::from_raw_parts(self.pointer().add(start), end - start) };
        guard.iter().position(|&byte| byte != GUARD).map(|at| start + at)
    }

    fn beyond(&self, byte: isize, is_write: Option<bool>) -> BeyondBuffer {
        BeyondBuffer { byte, len: self.len, is_write }
    }
}

impl Executor {
    /// Runs the launch, and reports a thread that accessed memory beyond one of `buffers`.
    ///
    /// A write close to the end of a buffer is found after the launch. The launch then runs a second time, one thread
    /// after the other, to find the thread.
    ///
    /// # Safety
    /// Same as for [`Launcher::submit`].
    ///
    /// # Errors
    /// Same as for [`Launcher::submit`], and [`FaultKind::BeyondBuffer`].
    pub unsafe fn submit_guarded(
        &self,
        call: &KernelCall<'_>,
        buffers: &[GuardedMemory],
    ) -> Result<(), LaunchError> {
        if self.scheduler != Scheduler::Coroutines {
            // SAFETY: the caller's contract is the callee's.
            return unsafe { self.submit(call) };
        }
        let watch = || Arc::new(Watch::of(buffers.iter().map(|memory| Arc::clone(&memory.region)).collect()));
        // SAFETY: the caller's contract is the callee's.
        let launched = unsafe { self.clone().with_watch(watch()).submit(call) };
        if let Some(fault) = buffers.iter().find_map(|memory| stray(call, memory)) {
            return Err(Box::new(fault).into());
        }
        let Some((memory, byte)) = buffers.iter().find_map(|memory| Some((memory, memory.changed()?))) else {
            return launched;
        };
        memory.fill_guard();
        let again = watch();
        // SAFETY: a byte of the guard, which `buffers` keeps.
        unsafe { again.set_byte(memory.pointer().add(byte), GUARD) };
        let seed = self.seed().unwrap_or_default();
        // SAFETY: the caller's contract is the callee's. The result is known from the first run.
        let _ = unsafe { self.clone().with_seed(seed).with_watch(Arc::clone(&again)).submit(call) };
        buffers.iter().for_each(|memory| {
            let _ = stray(call, memory);
            memory.fill_guard();
        });
        let beyond = memory.beyond(byte as isize, Some(true));
        let kind = FaultKind::BeyondBuffer { argument: argument(call, memory), beyond };
        Err(match again.changed_by() {
            Some(whose) => Box::new(fault(whose, kind)).into(),
            None => {
                let kernel = call.meta.name;
                LaunchError::Device(format!("kernel {kernel} failed in an unknown thread: {kind}").into())
            }
        })
    }
}

/// Returns the fault of an access to a zone of the memory, and closes the zones again.
fn stray(call: &KernelCall<'_>, memory: &GuardedMemory) -> Option<Fault> {
    let Stray { whose, offset, is_write } = memory.region.stray()?;
    memory.region.close();
    let beyond = memory.beyond(offset, is_write);
    Some(fault(whose, FaultKind::BeyondBuffer { argument: argument(call, memory), beyond }))
}

fn fault(Whose { kernel, place }: Whose, kind: FaultKind) -> Fault {
    Fault { kernel, place, location: None, kind, seed: None }
}

/// Returns the parameter that is the buffer, or a part of it.
fn argument(call: &KernelCall<'_>, memory: &GuardedMemory) -> Option<&'static str> {
    let bytes = memory.pointer().addr()..memory.pointer().addr() + memory.len;
    call.buffers.iter().find(|buffer| bytes.contains(&buffer.pointer.addr())).map(|buffer| buffer.name)
}
