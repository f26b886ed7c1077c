//! Runs a kernel on a problem: on the executor, in an order of the threads, or as PTX on the emulator.

use core::ffi::c_void;
use std::cell::RefCell;
use std::time::Duration;

use cuda_std::launch::{self, KernelCall, KernelMeta, LaunchError, Launcher, Residence, SliceArg};
use cuda_std::simt::Executor;
use cuda_std::testing::{
    DeviceMemory, Element, KernelTest, LaunchCounts, Memory, Results, TestDevice, TestError,
};
use ptx_emulator::Emulator;

use crate::problem::{Argument, Data, Problem};

/// How long a launch on the executor may take.
const TIME_LIMIT: Duration = Duration::from_secs(5);

/// Where a kernel runs.
#[derive(Clone, Copy)]
pub enum On<'a> {
    /// On the executor, in its fixed order or in that of a seed.
    Executor(Option<u64>),
    /// Its PTX on the emulator.
    Emulator(&'a Emulator),
}

/// The address of a buffer's first element in a run, for messages.
pub type Addresses = Vec<u64>;

/// Finds a buffer in the memory of a run.
type Locate = Box<dyn Fn(&Memory<'_>) -> (*mut c_void, usize)>;
/// Takes a buffer from the results.
type Take = Box<dyn Fn(&Results) -> Data>;

/// A kernel with a problem.
pub struct Run<'a> {
    pub meta: &'static KernelMeta,
    pub problem: &'a Problem,
}

impl Run<'_> {
    /// Runs it and returns all outputs; an input has no elements.
    ///
    /// # Errors
    /// The kernel broke a rule. The addresses are those of the buffers in that run.
    pub fn outputs(&self, on: On<'_>) -> Result<Vec<Data>, (TestError, Addresses)> {
        let (mut test, locate, take) = self.describe();
        let addresses = RefCell::default();
        let launch = |on: &dyn Launcher, memory: &Memory<'_>| self.launch(on, memory, &locate, &addresses);
        let results = match on {
            On::Emulator(emulator) => test.run_on(emulator, launch),
            On::Executor(seed) => {
                let executor = Executor::new().without_seed().with_time_limit(TIME_LIMIT);
                let executor = seed.iter().fold(executor, |executor, &seed| executor.with_seed(seed));
                test.executor(executor).run(launch)
            }
        };
        match results {
            Ok(results) => Ok(take.iter().map(|take| take(&results)).collect()),
            Err(error) => Err((error, addresses.into_inner())),
        }
    }

    /// Runs it on the emulator and returns its counts.
    ///
    /// # Errors
    /// The kernel broke a rule.
    pub fn counts(&self, emulator: &Emulator) -> Result<LaunchCounts, TestError> {
        let (test, locate, _) = self.describe();
        test.count(emulator, |on, memory| self.launch(on, memory, &locate, &RefCell::default()))
    }

    /// Runs it on the emulator without the element `index` of the buffer, and returns the error of the thread that writes
    /// there.
    pub fn writer(&self, emulator: &Emulator, buffer: usize, index: usize) -> Option<String> {
        let (test, locate, _) = self.describe();
        let bytes = self.problem.buffers[buffer].initial.size();
        let without =
            Without { emulator, buffer: self.problem.buffers[buffer].name, from: index * bytes, bytes };
        let launched =
            test.run_on(&without, |on, memory| self.launch(on, memory, &locate, &RefCell::default()));
        match launched {
            Err(TestError::Launch { source, .. }) => Some(source.to_string()),
            _ => None,
        }
    }

    fn describe(&self) -> (KernelTest<'static>, Vec<Locate>, Vec<Take>) {
        fn add<T: Element>(
            test: &mut KernelTest<'static>,
            (name, elements, is_output): (&str, &[T], bool),
            data: fn(Vec<T>) -> Data,
        ) -> (Locate, Take) {
            fn raw<T>(argument: &impl SliceArg<T>) -> (*mut c_void, usize) {
                let (pointer, len) = argument.as_raw_slice();
                (pointer.cast_mut().cast(), len)
            }
            if is_output {
                let output = test.output(name, elements);
                let take = move |results: &Results| data(results.of(output));
                return (Box::new(move |memory| raw(&memory.output(output))), Box::new(take));
            }
            let input = test.input(name, elements);
            (Box::new(move |memory| raw(&memory.input(input))), Box::new(move |_| data(Vec::new())))
        }
        let mut test = KernelTest::new();
        let handles = self.problem.buffers.iter().map(|buffer| {
            let (name, is_output) = (buffer.name, buffer.expected.is_some());
            match &buffer.initial {
                Data::F32(all) => add(&mut test, (name, all, is_output), Data::F32),
                Data::U32(all) => add(&mut test, (name, all, is_output), Data::U32),
                Data::Bf16(all) => add(&mut test, (name, all, is_output), Data::Bf16),
            }
        });
        let (locate, take) = handles.unzip();
        (test, locate, take)
    }

    fn launch(
        &self,
        on: &dyn Launcher,
        memory: &Memory<'_>,
        locate: &[Locate],
        addresses: &RefCell<Addresses>,
    ) -> Result<(), LaunchError> {
        let mut values: Vec<*mut c_void> = Vec::new();
        let mut lent = Vec::new();
        for argument in &self.problem.arguments {
            match *argument {
                Argument::Number(_, number) => {
                    values.push(core::ptr::without_provenance_mut(number as usize))
                }
                Argument::Buffer(at) => {
                    let buffer = &self.problem.buffers[at];
                    let (pointer, len) = locate[at](memory);
                    values.push(pointer);
                    if buffer.is_slice {
                        values.push(core::ptr::without_provenance_mut(len));
                    }
                    lent.push(launch::Buffer {
                        name: buffer.name,
                        residence: Residence::Host,
                        pointer,
                        bytes: Some(len * buffer.initial.size()),
                        is_writable: buffer.expected.is_some(),
                    });
                }
            }
        }
        *addresses.borrow_mut() = lent.iter().map(|buffer| buffer.pointer.addr() as u64).collect();
        let args: Vec<*mut c_void> = values.iter_mut().map(|value| (&raw mut *value).cast()).collect();
        let call = KernelCall { meta: self.meta, config: self.problem.config, args: &args, buffers: &lent };
        // SAFETY: one pointer per flattened parameter: `crate::signature` has compared the kernel's parameters with those of
        // the puzzle, whose problem has these arguments. A kernel that breaks its contract ends this process at worst,
        // which judges one kernel and nothing else.
        unsafe { on.submit(&call) }
    }
}

/// An emulator that lends a buffer without some of its bytes.
struct Without<'a> {
    emulator: &'a Emulator,
    buffer: &'a str,
    from: usize,
    bytes: usize,
}

impl Launcher for Without<'_> {
    unsafe fn submit(&self, call: &KernelCall<'_>) -> Result<(), LaunchError> {
        let lent = call.buffers.iter().flat_map(|&buffer| {
            if buffer.name != self.buffer {
                return vec![buffer];
            }
            let end = self.from + self.bytes;
            let rest = buffer.bytes.map(|bytes| bytes - end);
            let pointer = buffer.pointer.wrapping_byte_add(end);
            vec![
                launch::Buffer { bytes: Some(self.from), ..buffer },
                launch::Buffer { pointer, bytes: rest, ..buffer },
            ]
        });
        let lent: Vec<_> = lent.collect();
        // SAFETY: the caller's contract is the callee's; it lends less.
        unsafe { self.emulator.submit(&KernelCall { buffers: &lent, ..*call }) }
    }
}

impl TestDevice for Without<'_> {
    fn name(&self) -> String {
        self.emulator.name()
    }

    fn upload(
        &self,
        bytes: &[u8],
    ) -> Result<Box<dyn DeviceMemory>, Box<dyn core::error::Error + Send + Sync>> {
        self.emulator.upload(bytes)
    }
}
