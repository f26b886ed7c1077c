//! Tests of kernels: run one on the CPU, under many schedules, and on a GPU where there is one, and compare.
//!
//! A test names its inputs and outputs, says what it expects, and launches. The launch runs several times, each time on
//! fresh copies: on the CPU executor in its fixed order, again under each seed of [`KernelTest::seeds`], and on the
//! device of [`KernelTest::also_on`]. Every run must give what is expected within a [`Tolerance`]; a device must also
//! give what the CPU gave, within twice the tolerance, since either side may be off.
//!
//! Around every buffer lie guards that must stay, and so must the inputs, and what lies between the rows of a matrix whose
//! [`Layout`] sets them apart. A write there is an error that names the kernel
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
//!
//! # Without one
//!
//! [`KernelTest::count`] runs the kernel's PTX on an emulator, and says how many sectors its requests touch, which accesses
//! conflict and which branches diverge: see [`counts`].

mod buffer;
pub mod counts;
mod device;
mod element;
mod error;
mod guard;
mod handles;
mod layout;
mod memory;
mod tolerance;

use core::marker::PhantomData;
use core::time::Duration;

pub use counts::{Counter, CountingDevice, Counts, LaunchCounts};
pub use device::{ALIGNMENT, DeviceMemory, TestDevice};
pub use element::Element;
pub use error::{Access, Against, Origin, Run, TestError};
pub use handles::{Input, Output};
pub use layout::Layout;
pub use memory::{InputArg, Memory, OutputArg};
pub use tolerance::{Difference, Tolerance, Wrong, difference};

use crate::launch::{LaunchError, Launcher};
use crate::simt::Executor;
use buffer::{Buffer, Compared, NAN, Role};
use guard::{Contents, Where};

/// How long a launch on the CPU may take, if neither the executor nor the environment says.
const TIME_LIMIT: Duration = Duration::from_mins(10);

/// A test of a kernel, or of several that are launched one after the other.
#[derive(Default)]
pub struct KernelTest<'a> {
    buffers: Vec<Buffer>,
    executor: Option<Executor>,
    seeds: Vec<u64>,
    may_depend_on_order: bool,
    device: Option<&'a dyn TestDevice>,
    /// Found while the test was described; the first run says so.
    mistake: Option<Mistake>,
}

/// What is wrong with the description of a buffer.
#[derive(Clone, Copy)]
enum Mistake {
    /// It has not that many elements.
    Length(usize, usize),
    /// Its elements do not lie so.
    Layout(usize, Layout),
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
        self.input_at(name, elements, Layout::dense(1, elements.len()))
    }

    /// As [`Self::input`], a matrix whose elements, given row after row, lie so in the device's memory.
    pub fn input_at<T: Element>(&mut self, name: &str, elements: &[T], layout: Layout) -> Input<T> {
        let buffer = self.add(name, elements, layout, Role::Input);
        Input { buffer, elements: PhantomData }
    }

    /// A buffer that kernels write, with what it holds before. Its [`Tolerance`] is that of its type.
    pub fn output<T: Element>(&mut self, name: &str, initial: &[T]) -> Output<T> {
        self.output_at(name, initial, Layout::dense(1, initial.len()))
    }

    /// As [`Self::output`], a matrix whose elements, given row after row, lie so in the device's memory.
    pub fn output_at<T: Element>(&mut self, name: &str, initial: &[T], layout: Layout) -> Output<T> {
        let compared = Compared {
            tolerance: Tolerance::of::<T>(),
            expected: None,
            difference: tolerance::difference_of_bytes::<T>,
        };
        let buffer = self.add(name, initial, layout, Role::Output(Box::new(compared)));
        Output { buffer, elements: PhantomData }
    }

    /// A matrix that kernels must write completely. Before, each float is a NaN that no arithmetic produces; one that is
    /// left is an error. Miri finds who reads an element before.
    ///
    /// ```
    /// use cuda_std::launch::LaunchConfig;
    /// use cuda_std::simt::Executor;
    /// use cuda_std::testing::{KernelTest, Layout};
    /// use cuda_std::{kernel, thread};
    ///
    /// /// Doubles the rows of `inp`, `[rows, cols]` with `stride` elements from a row to the next, into those of `out`.
    /// ///
    /// /// # Safety
    /// /// `out` and `inp` have such rows; the grid has a thread for each element.
    /// #[kernel]
    /// pub unsafe fn double_rows(out: *mut f32, inp: *const f32, rows: u32, cols: u32, stride: u32) {
    ///     let i = thread::index_1d();
    ///     if i < rows * cols {
    ///         let at = (i / cols * stride + i % cols) as usize;
    ///         // SAFETY: an element of a row.
    ///         unsafe { *out.add(at) = *inp.add(at) * 2.0 };
    ///     }
    /// }
    ///
    /// let test_with = |columns_written: u32| {
    ///     let layout = Layout::dense(2, 3).with_stride(5).with_offset(1);
    ///     let mut test = KernelTest::new();
    ///     let inp = test.input_at("inp", &[1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0], layout);
    ///     let out = test.unwritten::<f32>("out", layout);
    ///     test.expect(out, &[2.0, 4.0, 6.0, 8.0, 10.0, 12.0]);
    ///     test.run_on(&Executor::new(), |on, memory| {
    ///         let (out, inp) = (memory.output(out), memory.input(inp));
    ///         // SAFETY: two rows of three columns, and room for a fourth in the first.
    ///         unsafe { double_rows::launch(on, LaunchConfig::new(1, 32), out, inp, 2, columns_written, 5) }
    ///     })
    /// };
    /// assert!(test_with(3).is_ok());
    /// let error = test_with(2).unwrap_err().to_string();
    /// assert!(error.contains("nothing wrote element 2 of `out`"), "{error}");
    /// let error = test_with(4).unwrap_err().to_string();
    /// assert!(error.contains("kernel double_rows wrote to byte 12 of `out`, between its rows"), "{error}");
    /// ```
    pub fn unwritten<T: Element>(&mut self, name: &str, layout: Layout) -> Output<T> {
        let bytes = if layout.is_possible(size_of::<T>()) { layout.len() * size_of::<T>() } else { 0 };
        let output = self.output_at(name, &element::from_bytes::<T>(&vec![NAN; bytes]), layout);
        self.buffers[output.buffer].unwritten = Some(element::first_unwritten::<T>);
        output
    }

    /// A buffer that kernels write and that is not compared, such as a workspace.
    pub fn scratch<T: Element>(&mut self, name: &str, initial: &[T]) -> Output<T> {
        let buffer = self.add(name, initial, Layout::dense(1, initial.len()), Role::Scratch);
        Output { buffer, elements: PhantomData }
    }

    fn add<T: Element>(&mut self, name: &str, elements: &[T], layout: Layout, role: Role) -> usize {
        let at = self.buffers.len();
        let is_right = layout.is_possible(size_of::<T>()) && layout.len() == elements.len();
        if !is_right {
            self.mistake = self.mistake.or(Some(Mistake::Layout(at, layout)));
        }
        let layout = if is_right { layout } else { Layout::dense(1, elements.len()) };
        self.buffers.push(Buffer::new(name, elements, layout, role));
        at
    }

    /// What the output should hold in the end. Without it only the runs are compared with each other.
    pub fn expect<T: Element>(&mut self, output: Output<T>, expected: &[T]) -> &mut Self {
        let buffer = &mut self.buffers[output.buffer];
        if size_of_val(expected) != buffer.initial.len() {
            self.mistake = self.mistake.or(Some(Mistake::Length(output.buffer, expected.len())));
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
        self.executor = Some(executor);
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
        self.check()?;
        let executor = self.executor.clone().unwrap_or_default().or_time_limit(TIME_LIMIT);
        let replayed = executor.seed();
        let run = Where::Cpu(replayed);
        let first = guard::run_on_cpu(&self.buffers, run, &executor, &launch)?;
        self.compare(run, &first, None)?;
        // Under Miri threads are those of the operating system, which no seed orders.
        let seeds = if replayed.is_some() || cfg!(miri) { &[] } else { &self.seeds[..] };
        for &seed in seeds {
            let (run, executor) = (Where::Cpu(Some(seed)), executor.clone().with_seed(seed));
            let contents = guard::run_on_cpu(&self.buffers, run, &executor, &launch)?;
            self.compare(run, &contents, None)?;
            if !self.may_depend_on_order {
                self.compare_bits(run, &contents, &first)?;
            }
        }
        if let Some(device) = self.device {
            let run = Where::Device(device);
            let contents = guard::run_on(&self.buffers, run, device, &launch)?;
            self.compare(run, &contents, Some(&first))?;
        }
        Ok(Results { contents: first })
    }

    /// Runs `launch` on this device alone, and compares with what is expected: for kernels that have been tested on the
    /// CPU, for a device that is the CPU, or for an emulator.
    ///
    /// On a device the memory of an input ends with its last element, so that a tool such as compute-sanitizer reports who
    /// reads further.
    ///
    /// # Errors
    /// The first thing that is wrong: see [`TestError`].
    pub fn run_on(
        &self,
        device: &dyn TestDevice,
        launch: impl Fn(&dyn Launcher, &Memory<'_>) -> Result<(), LaunchError>,
    ) -> Result<Results, TestError> {
        self.check()?;
        let run = Where::Device(device);
        let contents = guard::run_on(&self.buffers, run, device, &launch)?;
        self.compare(run, &contents, None)?;
        Ok(Results { contents })
    }

    /// Whether the buffers are described without a mistake.
    fn check(&self) -> Result<(), TestError> {
        let told = |buffer: usize| {
            let Buffer { name, initial, element, .. } = &self.buffers[buffer];
            (name.clone(), initial.len() / element)
        };
        match self.mistake {
            None => Ok(()),
            Some(Mistake::Length(buffer, expected)) => {
                let (buffer, len) = told(buffer);
                Err(TestError::Length { buffer, len, expected })
            }
            Some(Mistake::Layout(buffer, layout)) => {
                let (buffer, len) = told(buffer);
                Err(TestError::Layout { buffer, len, layout })
            }
        }
    }

    fn outputs(&self) -> impl Iterator<Item = (usize, &Buffer, &Compared)> {
        self.buffers.iter().enumerate().filter_map(|(at, buffer)| match &buffer.role {
            Role::Output(compared) => Some((at, buffer, &**compared)),
            Role::Input | Role::Scratch => None,
        })
    }

    /// With the expectations, and with the results of the CPU where given.
    fn compare(&self, run: Where<'_>, got: &Contents, cpu: Option<&Contents>) -> Result<(), TestError> {
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
    fn compare_bits(&self, run: Where<'_>, got: &Contents, first: &Contents) -> Result<(), TestError> {
        if let Some((at, buffer, compared)) = self.outputs().find(|&(at, ..)| got[at] != first[at]) {
            let found = (compared.difference)(&got[at], &first[at], &Tolerance::EXACT);
            // Without one they differ in the sign of a zero or in the bits of a NaN, which no comparison of numbers says.
            let found = found.unwrap_or_else(|| tolerance::in_bits(buffer.element, &got[at], &first[at]));
            return Err(mismatch(buffer, run, Against::FirstRun, found));
        }
        Ok(())
    }
}

fn mismatch(buffer: &Buffer, run: Where<'_>, against: Against, difference: Difference) -> TestError {
    let (buffer, run) = (buffer.name.clone(), run.name());
    TestError::Mismatch { buffer, run, against, difference: Box::new(difference) }
}

/// What the buffers held after the first run, which is on the CPU unless it is [on a device](KernelTest::run_on) alone.
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
