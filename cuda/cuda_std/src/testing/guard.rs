//! One run of a test: what kernels did beyond the buffers, and to inputs.

use core::cell::RefCell;
use std::sync::Arc;

use super::device::TestDevice;
use super::error::{Access, Origin, Run, TestError};
use super::{Buffer, Memory, Role};
use crate::launch::{KernelCall, LaunchError, Launcher};
use crate::simt::watch::{Stray, Watch, Whose};
use crate::simt::{Executor, Scheduler};

/// Bytes before every buffer that must stay: a page, so a multiple of every alignment that kernels ask for. After it come
/// 256 or more, up to the end of a page. Miri knows where memory ends, so it gets none.
pub(super) const GUARD: usize = if cfg!(miri) { 0 } else { 4096 };
/// The least number of bytes after a buffer.
const LEAST: usize = if cfg!(miri) { 0 } else { 256 };
/// What they hold.
const FILLER: u8 = 0xa5;

/// What each buffer holds, in bytes.
pub(super) type Contents = Vec<Vec<u8>>;

/// What a test does on memory.
pub(super) type Launch<'a> = dyn Fn(&dyn Launcher, &Memory<'_>) -> Result<(), LaunchError> + 'a;

/// The buffer's bytes with the guards around them.
pub(super) fn guarded(buffer: &Buffer) -> Vec<u8> {
    let len = buffer.initial.len();
    let after = if cfg!(miri) { 0 } else { (len + LEAST).next_multiple_of(GUARD) - len };
    [&[FILLER; GUARD][..], &buffer.initial, &vec![FILLER; after]].concat()
}

/// Runs `launch` on fresh copies of the buffers on the CPU, and gives what they hold then.
///
/// # Errors
/// The first thing that is wrong. A thread that wrote to an input, or close to a buffer, is found by a second run that
/// looks at the byte after each thread.
pub(super) fn run_on_cpu(
    buffers: &[Buffer],
    run: &Run,
    executor: &Executor,
    launch: &Launch<'_>,
) -> Result<Contents, TestError> {
    let watch = Arc::new(Watch::default());
    let device = executor.clone().with_watch(Arc::clone(&watch));
    let stray = |memory: &Memory<'_>| stray_error(buffers, run, memory, &watch);
    run_and_check(buffers, run, &device, launch, stray, |change| {
        whose(buffers, run, executor, launch, change)
    })
}

/// As above on a device, which does not tell threads apart.
pub(super) fn run_on(
    buffers: &[Buffer],
    run: &Run,
    device: &dyn TestDevice,
    launch: &Launch<'_>,
) -> Result<Contents, TestError> {
    run_and_check(buffers, run, device, launch, |_| None, |_| None)
}

fn run_and_check(
    buffers: &[Buffer],
    run: &Run,
    device: &dyn TestDevice,
    launch: &Launch<'_>,
    stray: impl Fn(&Memory<'_>) -> Option<TestError>,
    whose: impl Fn(&Change) -> Option<Whose>,
) -> Result<Contents, TestError> {
    let memory = Memory::new(buffers, run, device)?;
    let noted = Noted { device, kernels: RefCell::default() };
    let launched = launch(&noted, &memory);
    if let Some(error) = stray(&memory) {
        return Err(error);
    }
    launched.map_err(|source| TestError::Launch { run: run.clone(), source })?;
    let contents = memory.read(run)?;
    if let Some(change) =
        buffers.iter().enumerate().find_map(|(at, buffer)| change(at, buffer, &contents[at]))
    {
        let origin = match whose(&change) {
            Some(whose) => whose.into(),
            None => Origin { kernels: noted.kernels.into_inner(), place: None },
        };
        return Err(change.error(&buffers[change.buffer], run, Box::new(origin)));
    }
    let inner = |(buffer, bytes): (&Buffer, Vec<u8>)| bytes[GUARD..GUARD + buffer.initial.len()].to_vec();
    Ok(buffers.iter().zip(contents).map(inner).collect())
}

/// A device that remembers which kernels were launched.
struct Noted<'a> {
    device: &'a dyn TestDevice,
    kernels: RefCell<Vec<&'static str>>,
}

impl Launcher for Noted<'_> {
    unsafe fn submit(&self, call: &KernelCall<'_>) -> Result<(), LaunchError> {
        let kernel = call.meta.name;
        if !self.kernels.borrow().contains(&kernel) {
            self.kernels.borrow_mut().push(kernel);
        }
        // SAFETY: the caller's contract is the callee's.
        unsafe { self.device.submit(call) }
    }
}

/// A byte that should have stayed as it was.
struct Change {
    buffer: usize,
    /// From the first of the guard.
    at: usize,
    before: u8,
    is_input: bool,
}

/// The first byte of a guard, or else of an input, that is not what it was.
fn change(index: usize, buffer: &Buffer, now: &[u8]) -> Option<Change> {
    let before = guarded(buffer);
    let end = GUARD + buffer.initial.len();
    let first_in = |range: core::ops::Range<usize>, is_input| {
        // Whole slices first, which is fast in a debug build too.
        let differs = now[range.clone()] != before[range.clone()];
        let at = differs.then(|| range.into_iter().find(|&at| now[at] != before[at]))??;
        Some(Change { buffer: index, at, before: before[at], is_input })
    };
    let outside = first_in(0..GUARD, false).or_else(|| first_in(end..now.len(), false));
    outside.or_else(|| matches!(buffer.role, Role::Input).then(|| first_in(GUARD..end, true))?)
}

impl Change {
    fn error(&self, buffer: &Buffer, run: &Run, origin: Box<Origin>) -> TestError {
        let (name, run, len) = (buffer.name.clone(), run.clone(), buffer.initial.len());
        if self.is_input {
            return TestError::InputChanged { buffer: name, run, origin, byte: self.at - GUARD };
        }
        let byte = self.at as isize - GUARD as isize;
        TestError::OutOfBounds { buffer: name, run, origin, access: Access::Write, byte, len }
    }
}

/// The thread that changes the byte when it all runs again, in an order in which one thread runs at a time.
fn whose(
    buffers: &[Buffer],
    run: &Run,
    executor: &Executor,
    launch: &Launch<'_>,
    change: &Change,
) -> Option<Whose> {
    if cfg!(miri) {
        return None;
    }
    let watch = Arc::new(Watch::default());
    let seed = executor.seed().unwrap_or_default();
    let executor = executor.clone().with_scheduler(Scheduler::Coroutines).with_seed(seed);
    let executor = executor.with_watch(Arc::clone(&watch));
    let memory = Memory::new(buffers, run, &executor).ok()?;
    let first = memory.first_bytes().nth(change.buffer)?;
    // SAFETY: a byte of the memory, which outlives the launches.
    unsafe { watch.set_byte(first.wrapping_add(change.at), change.before) };
    // What it comes to is known from the first run.
    let _ = launch(&executor, &memory);
    watch.changed_by()
}

/// What a thread did farther from a buffer than the guards reach.
fn stray_error(buffers: &[Buffer], run: &Run, memory: &Memory<'_>, watch: &Watch) -> Option<TestError> {
    let strays = watch.regions().into_iter().filter_map(|region| Some((region.pointer(), region.stray()?)));
    let (first, Stray { whose, offset, is_write }) = strays.into_iter().next()?;
    let at = memory.first_bytes().position(|byte| byte == first)?;
    let access = match is_write {
        Some(true) => Access::Write,
        Some(false) => Access::Read,
        None => Access::Unknown,
    };
    let Buffer { name, initial, .. } = &buffers[at];
    Some(TestError::OutOfBounds {
        buffer: name.clone(),
        run: run.clone(),
        origin: Box::new(whose.into()),
        access,
        byte: offset - GUARD as isize,
        len: initial.len(),
    })
}
