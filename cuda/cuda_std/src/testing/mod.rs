//! Tests of kernels: run one on the CPU, under many schedules, and on a GPU where there is one, and compare.
//!
//! A test names its inputs and outputs, says what it expects, and launches. The launch runs several times, each time on
//! fresh copies: on the CPU executor in its fixed order, again under each seed of [`KernelTest::seeds`], and on the
//! device of [`KernelTest::also_on`]. Every run must give what is expected within a [`Tolerance`]; a device must also
//! give what the CPU gave, within twice the tolerance, since either side may be off.
//!
//! Around every buffer lie guards that must stay, and so must the inputs. A write there is an error that names the kernel
//! and, on the CPU, block and thread, for which everything runs once more. On Linux the guards are followed by 256 MiB
//! of address space on either side, where a read is an error too. Miri gets no guards: it reports such an access itself.
//!
//! ```
//! use cuda_std::launch::LaunchConfig;
//! use cuda_std::testing::{KernelTest, TestError};
//! use cuda_std::{kernel, shared_array, thread};
//!
//! /// Reverses each block's 64 elements.
//! ///
//! /// # Safety
//! /// Blocks of 64 threads, and as many elements in `out` and `inp` as threads.
//! #[kernel]
//! pub unsafe fn reverse(out: *mut f32, inp: &[f32]) {
//!     let tile = shared_array![f32; 64];
//!     let (i, tid) = (thread::index_1d() as usize, thread::thread_idx_x() as usize);
//!     // SAFETY: each thread writes its own elements, and reads another's after the barrier.
//!     unsafe {
//!         *tile.add(tid) = inp[i];
//!         thread::sync_threads();
//!         *out.add(i) = *tile.add(63 - tid);
//!     }
//! }
//!
//! # fn main() -> Result<(), TestError> {
//! let numbers: Vec<f32> = (0..128).map(|i| i as f32).collect();
//! let reversed: Vec<f32> = numbers.chunks(64).flat_map(|block| block.iter().rev()).copied().collect();
//!
//! let mut test = KernelTest::new();
//! let inp = test.input("inp", &numbers);
//! let out = test.output("out", &[0.0f32; 128]);
//! test.expect(out, &reversed).seeds(0..20);
//! test.run(|on, memory| {
//!     // SAFETY: two blocks of 64 threads for 128 elements.
//!     unsafe { reverse::launch(on, LaunchConfig::new(2, 64), memory.output(out), memory.input(inp)) }
//! })?;
//! # Ok(())
//! # }
//! ```
//!
//! A kernel without the barrier works in the fixed order for some lengths, and fails under the first seeds.
//!
//! A launch on the CPU may take ten minutes, or what the [executor](KernelTest::executor)'s
//! [time limit](Executor::with_time_limit) says: the test of a kernel that does not end fails.
//!
//! # On a GPU
//!
//! [`KernelTest::also_on`] takes any [`TestDevice`]: a [`Launcher`] with memory. `ferrowarp::device::Device` is one;
//! other hosts implement two short traits. A test that has no GPU passes `None` and runs on the CPU alone.

mod device;
mod element;
mod error;
mod guard;
mod memory;
mod tolerance;

use core::marker::PhantomData;
use core::time::Duration;

pub use device::{ALIGNMENT, DeviceMemory, TestDevice};
pub use element::Element;
pub use error::{Access, Against, Origin, Run, TestError};
pub use memory::{InputArg, Memory, OutputArg};
pub use tolerance::{Difference, Tolerance, Wrong, difference};

use crate::launch::{LaunchError, Launcher};
use crate::simt::Executor;
use guard::Contents;

/// An input of a test, of elements `T`.
#[derive(Debug)]
pub struct Input<T> {
    buffer: usize,
    elements: PhantomData<T>,
}

/// An output of a test, of elements `T`.
#[derive(Debug)]
pub struct Output<T> {
    buffer: usize,
    elements: PhantomData<T>,
}

// By hand, since a handle can be copied whatever its elements are.
impl<T> Clone for Input<T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T> Copy for Input<T> {}
impl<T> Clone for Output<T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T> Copy for Output<T> {}

/// What a buffer is for.
enum Role {
    /// It must stay as it is.
    Input,
    /// It is compared.
    Output(Box<Compared>),
    /// Nobody looks at it.
    Scratch,
}

/// How an output is compared.
struct Compared {
    tolerance: Tolerance,
    /// The elements' bytes.
    expected: Option<Vec<u8>>,
    difference: fn(&[u8], &[u8], &Tolerance) -> Option<Difference>,
}

/// A buffer of a test.
struct Buffer {
    name: String,
    /// The elements' bytes before the launch.
    initial: Vec<u8>,
    element: usize,
    role: Role,
}

/// How long a launch on the CPU may take, if neither the executor nor the environment says.
const TIME_LIMIT: Duration = Duration::from_mins(10);

/// A test of a kernel, or of several that are launched one after the other.
#[derive(Default)]
pub struct KernelTest<'a> {
    buffers: Vec<Buffer>,
    executor: Executor,
    seeds: Vec<u64>,
    may_depend_on_order: bool,
    device: Option<&'a dyn TestDevice>,
    /// Found while the test was described; the first run says so.
    mistake: Option<(usize, usize)>,
}

impl<'a> KernelTest<'a> {
    /// A test without buffers, on the CPU in the executor's fixed order.
    ///
    /// With `FERROWARP_SEED` in the environment the order is that of the seed: the way to replay a failure.
    pub fn new() -> Self {
        Self::default()
    }

    /// A buffer that kernels read and must not change. The name is for reports.
    pub fn input<T: Element>(&mut self, name: &str, elements: &[T]) -> Input<T> {
        let buffer = self.add(name, elements, Role::Input);
        Input { buffer, elements: PhantomData }
    }

    /// A buffer that kernels write, with what it holds before. Its [`Tolerance`] is that of its type.
    pub fn output<T: Element>(&mut self, name: &str, initial: &[T]) -> Output<T> {
        let compared = Compared {
            tolerance: Tolerance::of::<T>(),
            expected: None,
            difference: tolerance::difference_of_bytes::<T>,
        };
        let buffer = self.add(name, initial, Role::Output(Box::new(compared)));
        Output { buffer, elements: PhantomData }
    }

    /// A buffer that kernels write and nobody compares, such as a workspace.
    pub fn scratch<T: Element>(&mut self, name: &str, initial: &[T]) -> Output<T> {
        let buffer = self.add(name, initial, Role::Scratch);
        Output { buffer, elements: PhantomData }
    }

    fn add<T: Element>(&mut self, name: &str, elements: &[T], role: Role) -> usize {
        let (name, initial) = (name.to_owned(), element::to_bytes(elements));
        self.buffers.push(Buffer { name, initial, element: size_of::<T>(), role });
        self.buffers.len() - 1
    }

    /// What the output should hold in the end. Without it only the runs are compared with each other.
    pub fn expect<T: Element>(&mut self, output: Output<T>, expected: &[T]) -> &mut Self {
        let buffer = &mut self.buffers[output.buffer];
        if size_of_val(expected) != buffer.initial.len() {
            self.mistake = self.mistake.or(Some((output.buffer, expected.len())));
        }
        if let Role::Output(compared) = &mut buffer.role {
            compared.expected = Some(element::to_bytes(expected));
        }
        self
    }

    /// How far the output's elements may be off, instead of the default for their type.
    pub fn tolerance<T: Element>(&mut self, output: Output<T>, tolerance: Tolerance) -> &mut Self {
        if let Role::Output(compared) = &mut self.buffers[output.buffer].role {
            compared.tolerance = tolerance;
        }
        self
    }

    /// Runs under each of these [seeds](Executor::with_seed) of the schedule too. Their results must be those of the
    /// fixed order bit for bit, unless they [may depend on it](Self::may_depend_on_order).
    pub fn seeds(&mut self, seeds: impl IntoIterator<Item = u64>) -> &mut Self {
        self.seeds.extend(seeds);
        self
    }

    /// Results under seeds are compared within the tolerance only: for kernels that add floats atomically.
    pub fn may_depend_on_order(&mut self) -> &mut Self {
        self.may_depend_on_order = true;
        self
    }

    /// Runs on this device too, if there is one.
    pub fn also_on(&mut self, device: Option<&'a dyn TestDevice>) -> &mut Self {
        self.device = device;
        self
    }

    /// Runs on the CPU with this executor, for other limits or fewer cores.
    pub fn executor(&mut self, executor: Executor) -> &mut Self {
        self.executor = executor;
        self
    }

    /// Runs `launch` everywhere and compares; it launches on what it is given, with arguments from [`Memory`].
    ///
    /// # Errors
    /// The first thing that is wrong, of the first run that has it: see [`TestError`].
    pub fn run(
        &self,
        launch: impl Fn(&dyn Launcher, &Memory<'_>) -> Result<(), LaunchError>,
    ) -> Result<Results, TestError> {
        if let Some((buffer, expected)) = self.mistake {
            let Buffer { name, initial, element, .. } = &self.buffers[buffer];
            return Err(TestError::Length { buffer: name.clone(), len: initial.len() / element, expected });
        }
        let executor = self.executor.clone().or_time_limit(TIME_LIMIT);
        let replayed = executor.seed();
        let run = replayed.map_or(Run::Cpu, Run::Seeded);
        let first = guard::run_on_cpu(&self.buffers, &run, &executor, &launch)?;
        self.compare(&run, &first, None)?;
        // Under Miri threads are those of the operating system, which no seed orders.
        let seeds = if replayed.is_some() || cfg!(miri) { &[] } else { &self.seeds[..] };
        for &seed in seeds {
            let (run, executor) = (Run::Seeded(seed), executor.clone().with_seed(seed));
            let contents = guard::run_on_cpu(&self.buffers, &run, &executor, &launch)?;
            self.compare(&run, &contents, None)?;
            if !self.may_depend_on_order {
                self.compare_bits(&run, &contents, &first)?;
            }
        }
        if let Some(device) = self.device {
            let run = Run::Device(device.name());
            let contents = guard::run_on(&self.buffers, &run, device, &launch)?;
            self.compare(&run, &contents, Some(&first))?;
        }
        Ok(Results { contents: first })
    }

    fn outputs(&self) -> impl Iterator<Item = (usize, &Buffer, &Compared)> {
        self.buffers.iter().enumerate().filter_map(|(at, buffer)| match &buffer.role {
            Role::Output(compared) => Some((at, buffer, &**compared)),
            Role::Input | Role::Scratch => None,
        })
    }

    /// With the expectations, and with the results of the CPU where given.
    fn compare(&self, run: &Run, got: &Contents, cpu: Option<&Contents>) -> Result<(), TestError> {
        for (at, buffer, compared) in self.outputs() {
            let mismatch = |difference, against| mismatch(buffer, run, against, difference);
            if let Some(expected) = &compared.expected
                && let Some(found) = (compared.difference)(&got[at], expected, &compared.tolerance)
            {
                return Err(mismatch(found, Against::Expectation));
            }
            if let Some(cpu) = cpu
                && let Some(found) = (compared.difference)(&got[at], &cpu[at], &compared.tolerance.twice())
            {
                return Err(mismatch(found, Against::FirstRun));
            }
        }
        Ok(())
    }

    /// With the first run, bit for bit.
    fn compare_bits(&self, run: &Run, got: &Contents, first: &Contents) -> Result<(), TestError> {
        if let Some((at, buffer, compared)) = self.outputs().find(|&(at, ..)| got[at] != first[at]) {
            let found = (compared.difference)(&got[at], &first[at], &Tolerance::EXACT);
            // Without one they differ in the sign of a zero or in the bits of a NaN, which no comparison of numbers says.
            let found = found.unwrap_or_else(|| tolerance::in_bits(buffer.element, &got[at], &first[at]));
            return Err(mismatch(buffer, run, Against::FirstRun, found));
        }
        Ok(())
    }
}

fn mismatch(buffer: &Buffer, run: &Run, against: Against, difference: Difference) -> TestError {
    let (buffer, run) = (buffer.name.clone(), run.clone());
    TestError::Mismatch { buffer, run, against, difference: Box::new(difference) }
}

/// What the buffers held after the first run, on the CPU.
#[derive(Debug)]
pub struct Results {
    contents: Contents,
}

impl Results {
    /// The elements of an output, for a test that looks at them itself.
    pub fn of<T: Element>(&self, output: Output<T>) -> Vec<T> {
        element::from_bytes(&self.contents[output.buffer])
    }
}
