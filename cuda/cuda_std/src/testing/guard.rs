//! One run of a test, and checks for accesses beyond the buffers and changed inputs.

use core::cell::RefCell;
use core::ops::Range;
use std::sync::Arc;

use super::Memory;
use super::buffer::{Buffer, Ends, Role};
use super::device::TestDevice;
use super::error::{Access, Origin, Run, TestError};
use crate::launch::{KernelCall, LaunchError, Launcher};
use crate::simt::watch::{Stray, Watch, Whose};
use crate::simt::{Executor, Scheduler};

/// The bytes of each buffer.
pub(super) type Contents = Vec<Vec<u8>>;

/// The result of a run.
#[derive(Debug)]
pub(super) struct Done {
    pub contents: Contents,
    /// The launched kernels, each once.
    pub kernels: Vec<&'static str>,
}

/// Where a test runs. Only an error asks a device for its name.
#[derive(Clone, Copy)]
pub(super) enum Where<'a> {
    /// On the CPU, in the order of a seed if there is one.
    Cpu(Option<u64>),
    /// On this device.
    Device(&'a dyn TestDevice),
}

impl Where<'_> {
    /// Returns the run, as errors name it.
    pub fn name(self) -> Run {
        match self {
            Where::Cpu(seed) => seed.map_or(Run::Cpu, Run::Seeded),
            Where::Device(device) => Run::Device(device.name()),
        }
    }
}

/// The launches of a test on memory.
pub(super) type Launch<'a> = dyn Fn(&dyn Launcher, &Memory<'_>) -> Result<(), LaunchError> + 'a;

/// Runs `launch` on fresh copies of the buffers on the CPU, and returns their contents and the kernels.
///
/// # Errors
/// The first failure. To find the thread that wrote to an input, or close to a buffer, a second run checks the byte
/// after each thread.
pub(super) fn run_on_cpu(
    buffers: &[Buffer],
    run: Where<'_>,
    executor: &Executor,
    launch: &Launch<'_>,
) -> Result<Done, TestError> {
    let watch = Arc::new(Watch::default());
    let device = executor.clone().with_watch(Arc::clone(&watch));
    let stray = |memory: &Memory<'_>| stray_error(buffers, run, memory, &watch);
    run_and_check(buffers, run, (&device, Ends::Guarded), launch, stray, |change| {
        whose(buffers, run, executor, launch, change)
    })
}

/// As above on a device, which does not report threads.
pub(super) fn run_on(
    buffers: &[Buffer],
    run: Where<'_>,
    device: &dyn TestDevice,
    launch: &Launch<'_>,
) -> Result<Done, TestError> {
    run_and_check(buffers, run, (device, Ends::Exact), launch, |_| None, |_| None)
}

fn run_and_check(
    buffers: &[Buffer],
    run: Where<'_>,
    (device, ends): (&dyn TestDevice, Ends),
    launch: &Launch<'_>,
    stray: impl Fn(&Memory<'_>) -> Option<TestError>,
    whose: impl Fn(&Change) -> Option<Whose>,
) -> Result<Done, TestError> {
    let memory = Memory::new(buffers, run, device, ends)?;
    let noted = Noted { device, kernels: RefCell::default() };
    let launched = launch(&noted, &memory);
    if let Some(error) = stray(&memory) {
        return Err(error);
    }
    launched.map_err(|source| TestError::Launch { run: run.name(), source })?;
    let contents = memory.read(run)?;
    if let Some(change) =
        buffers.iter().enumerate().find_map(|(at, buffer)| change(at, buffer, (&contents[at], ends)))
    {
        let origin = match whose(&change) {
            Some(whose) => whose.into(),
            None => Origin { kernels: noted.kernels.into_inner(), place: None },
        };
        return Err(change.error(&buffers[change.buffer], run, Box::new(origin)));
    }
    let packed = |(buffer, bytes): (&Buffer, Vec<u8>)| {
        let packed = buffer.packed(&bytes);
        match buffer.unwritten.and_then(|first| first(&packed)) {
            Some(index) => Err(TestError::Unwritten { buffer: buffer.name.clone(), run: run.name(), index }),
            None => Ok(packed),
        }
    };
    let contents = buffers.iter().zip(contents).map(packed).collect::<Result<_, _>>()?;
    Ok(Done { contents, kernels: noted.kernels.into_inner() })
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

/// A byte that changed but must not.
struct Change {
    buffer: usize,
    /// From the start of the guard.
    at: usize,
    before: u8,
    is_input: bool,
}

/// Returns the first byte around the rows, or else of an input, that has changed.
fn change(index: usize, buffer: &Buffer, (now, ends): (&[u8], Ends)) -> Option<Change> {
    let before = buffer.guarded(ends);
    let first_in = |range: Range<usize>, is_input| {
        // Whole slices first, which is fast in a debug build too.
        let differs = now[range.clone()] != before[range.clone()];
        let at = differs.then(|| range.into_iter().find(|&at| now[at] != before[at]))??;
        Some(Change { buffer: index, at, before: before[at], is_input })
    };
    let outside = buffer.around(now.len()).find_map(|range| first_in(range, false));
    let is_input = matches!(buffer.role, Role::Input);
    outside.or_else(|| buffer.rows().filter(|_| is_input).find_map(|row| first_in(row, true)))
}

impl Change {
    fn error(&self, buffer: &Buffer, run: Where<'_>, origin: Box<Origin>) -> TestError {
        let (name, run, byte) = (buffer.name.clone(), run.name(), self.at as isize - buffer.first() as isize);
        if self.is_input {
            return TestError::InputChanged { buffer: name, run, origin, byte: byte as usize };
        }
        let len = buffer.layout.span() * buffer.element;
        if (0..len as isize).contains(&byte) {
            return TestError::BetweenRows { buffer: name, run, origin, byte: byte as usize };
        }
        TestError::OutOfBounds { buffer: name, run, origin, access: Access::Write, byte, len }
    }
}

/// Returns the thread that changes the byte when everything runs again, one thread at a time.
fn whose(
    buffers: &[Buffer],
    run: Where<'_>,
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
    let memory = Memory::new(buffers, run, &executor, Ends::Guarded).ok()?;
    let first = memory.first_bytes().nth(change.buffer)?;
    // SAFETY: a byte of the memory, which outlives the launches.
    unsafe { watch.set_byte(first.wrapping_add(change.at), change.before) };
    // The result is known from the first run.
    let _ = launch(&executor, &memory);
    watch.changed_by()
}

/// Returns the error of an access beyond the guards of a buffer.
fn stray_error(buffers: &[Buffer], run: Where<'_>, memory: &Memory<'_>, watch: &Watch) -> Option<TestError> {
    let strays = watch.regions().into_iter().filter_map(|region| Some((region.pointer(), region.stray()?)));
    let (first, Stray { whose, offset, is_write }) = strays.into_iter().next()?;
    let at = memory.first_bytes().position(|byte| byte == first)?;
    let access = match is_write {
        Some(true) => Access::Write,
        Some(false) => Access::Read,
        None => Access::Unknown,
    };
    let buffer = &buffers[at];
    Some(TestError::OutOfBounds {
        buffer: buffer.name.clone(),
        run: run.name(),
        origin: Box::new(whose.into()),
        access,
        byte: offset - buffer.first() as isize,
        len: buffer.layout.span() * buffer.element,
    })
}
