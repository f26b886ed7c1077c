//! Tests of kernels: run one on the CPU, under many schedules, and on a GPU if there is one, and compare.
//!
//! A test names its inputs and outputs, sets its expectations, and launches. The launch runs several times, each time
//! on fresh copies: on the CPU executor in its fixed order, again under each seed of [`KernelTest::seeds`], and on the
//! device of [`KernelTest::also_on`]. Every run must give the expected results within a [`Tolerance`]. A device must
//! also agree with the CPU within twice the tolerance, since either side may be off.
//!
//! Every buffer has guards around it. Guards, inputs and the gaps between the rows of a [`Layout`] must not change. A
//! write there is an error that names the kernel and, on the CPU, block and thread, for which everything runs once
//! more. On Linux the guards are followed by 256 MiB of address space on either side, where a read is an error too.
//! Miri gets no guards: it reports such an access itself.
//!
//! ```
//! use cuda_std::launch::LaunchConfig;
//! use cuda_std::testing::{KernelTest, TestError};
//! use cuda_std::{kernel, shared_array, thread};
//!
//! /// Reverses each block's 64 elements.
//! ///
//! /// # Safety
//! /// Launched with blocks of 64 threads; `out` and `inp` have one element per thread.
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
//! A launch on the CPU may take ten minutes, or up to the [executor](KernelTest::executor)'s [time
//! limit](Executor::with_time_limit). So the test of a kernel that does not end fails.
//!
//! # On a GPU
//!
//! [`KernelTest::also_on`] takes any [`TestDevice`]: a [`Launcher`] with memory. `ferrowarp::device::Device` is one;
//! other hosts implement two short traits. A test without a GPU passes `None` and runs only on the CPU.
//!
//! # Without one
//!
//! [`KernelTest::count`] runs the kernel's PTX on an emulator, and counts the sectors that its requests touch,
//! conflicting accesses and divergent branches: see [`counts`].

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
use guard::{Contents, Done, Where};

/// How long a launch on the CPU may take, if neither the executor nor the environment sets a limit.
const TIME_LIMIT: Duration = Duration::from_mins(10);

/// A test of a kernel, or of several that are launched one after the other.
#[derive(Default)]
pub struct KernelTest<'a> {
    buffers: Vec<Buffer>,
    executor: Option<Executor>,
    seeds: Vec<u64>,
    may_depend_on_order: bool,
    device: Option<&'a dyn TestDevice>,
    /// Found while the test was described; the first run reports it.
    mistake: Option<Mistake>,
}

/// What is wrong with the description of a buffer.
#[derive(Clone, Copy)]
enum Mistake {
    /// It has a different number of elements.
    Length(usize, usize),
    /// Its elements do not fit this layout.
    Layout(usize, Layout),
}

impl<'a> KernelTest<'a> {
    /// Creates a test without buffers, on the CPU in the executor's fixed order.
    ///
    /// With `FERROWARP_SEED` in the environment, the order is that of the seed. Use it to replay a failure.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a buffer that kernels read and must not change. The name is for reports.
    pub fn input<T: Element>(&mut self, name: &str, elements: &[T]) -> Input<T> {
        self.input_at(name, elements, Layout::dense(1, elements.len()))
    }

    /// Same as [`Self::input`], for a matrix with this layout in the device's memory. `elements` are row after row.
    pub fn input_at<T: Element>(&mut self, name: &str, elements: &[T], layout: Layout) -> Input<T> {
        let buffer = self.add(name, elements, layout, Role::Input);
        Input { buffer, elements: PhantomData }
    }

    /// Adds a buffer that kernels write, with its initial content. Its [`Tolerance`] is that of its type.
    pub fn output<T: Element>(&mut self, name: &str, initial: &[T]) -> Output<T> {
        self.output_at(name, initial, Layout::dense(1, initial.len()))
    }

    /// Same as [`Self::output`], for a matrix with this layout in the device's memory. `initial` is row after row.
    pub fn output_at<T: Element>(&mut self, name: &str, initial: &[T], layout: Layout) -> Output<T> {
        let compared = Compared {
            tolerance: Tolerance::of::<T>(),
            expected: None,
            difference: tolerance::difference_of_bytes::<T>,
        };
        let buffer = self.add(name, initial, layout, Role::Output(Box::new(compared)));
        Output { buffer, elements: PhantomData }
    }

    /// Adds a matrix that kernels must write completely. Each float is initially a NaN that no arithmetic produces; it
    /// is an error if one remains. Miri finds reads of unwritten elements.
    ///
    /// ```
    /// use cuda_std::launch::LaunchConfig;
    /// use cuda_std::simt::Executor;
    /// use cuda_std::testing::{KernelTest, Layout};
    /// use cuda_std::{kernel, thread};
    ///
    /// /// Writes the doubled rows of `inp` to `out`. Both are `[rows, cols]` with `stride` elements from a row to the next.
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

    /// Adds a buffer that kernels write and that is not compared, such as a workspace.
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

    /// Sets the expected content of the output. Without it, only the runs are compared with each other.
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

    /// Sets the output's tolerance, instead of the default for its type.
    pub fn tolerance<T: Element>(&mut self, output: Output<T>, tolerance: Tolerance) -> &mut Self {
        if let Role::Output(compared) = &mut self.buffers[output.buffer].role {
            compared.tolerance = tolerance;
        }
        self
    }

    /// Runs under each of these [seeds](Executor::with_seed) of the schedule too. Their results must equal those of the
    /// fixed order bit for bit, unless they [may depend on it](Self::may_depend_on_order).
    pub fn seeds(&mut self, seeds: impl IntoIterator<Item = u64>) -> &mut Self {
        self.seeds.extend(seeds);
        self
    }

    /// Compares results under seeds only within the tolerance: for kernels that add floats atomically.
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

    /// Runs `launch` everywhere and compares. It launches on the given launcher, with arguments from [`Memory`].
    ///
    /// # Errors
    /// The first failure of the first failed run: see [`TestError`].
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
        // Under Miri threads are OS threads, which no seed orders.
        let seeds = if replayed.is_some() || cfg!(miri) { &[] } else { &self.seeds[..] };
        for &seed in seeds {
            let (run, executor) = (Where::Cpu(Some(seed)), executor.clone().with_seed(seed));
            let done = guard::run_on_cpu(&self.buffers, run, &executor, &launch)?;
            self.compare(run, &done, None)?;
            if !self.may_depend_on_order {
                self.compare_bits(run, &done, &first)?;
            }
        }
        if let Some(device) = self.device {
            let run = Where::Device(device);
            let done = guard::run_on(&self.buffers, run, device, &launch)?;
            self.compare(run, &done, Some(&first))?;
        }
        Ok(Results { contents: first.contents })
    }

    /// Runs `launch` only on this device, and compares with the expected results: for kernels that have been tested on
    /// the CPU, for a device that is the CPU, or for an emulator.
    ///
    /// On a device the memory of an input ends with its last element, so that a tool such as compute-sanitizer reports
    /// threads that read further.
    ///
    /// # Errors
    /// The first failure: see [`TestError`].
    pub fn run_on(
        &self,
        device: &dyn TestDevice,
        launch: impl Fn(&dyn Launcher, &Memory<'_>) -> Result<(), LaunchError>,
    ) -> Result<Results, TestError> {
        self.check()?;
        let run = Where::Device(device);
        let done = guard::run_on(&self.buffers, run, device, &launch)?;
        self.compare(run, &done, None)?;
        Ok(Results { contents: done.contents })
    }

    /// Checks that the buffers are described without a mistake.
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

    /// Compares with the expectations, and with the results of the CPU if given.
    fn compare(&self, run: Where<'_>, done: &Done, cpu: Option<&Done>) -> Result<(), TestError> {
        for (at, buffer, compared) in self.outputs() {
            let got = &done.contents[at];
            let mismatch = |difference, against| mismatch(buffer, (run, done), against, difference);
            if let Some(expected) = &compared.expected
                && let Some(found) = (compared.difference)(got, expected, &compared.tolerance)
            {
                return Err(mismatch(found, Against::Expectation));
            }
            if let Some(cpu) = cpu
                && let Some(found) =
                    (compared.difference)(got, &cpu.contents[at], &compared.tolerance.twice())
            {
                return Err(mismatch(found, Against::FirstRun));
            }
        }
        Ok(())
    }

    /// Compares with the first run, bit for bit.
    fn compare_bits(&self, run: Where<'_>, done: &Done, first: &Done) -> Result<(), TestError> {
        let (got, before) = (&done.contents, &first.contents);
        if let Some((at, buffer, compared)) = self.outputs().find(|&(at, ..)| got[at] != before[at]) {
            let found = (compared.difference)(&got[at], &before[at], &Tolerance::EXACT);
            // Without one, they differ in the sign of a zero or in the bits of a NaN, which compare as equal numbers.
            let found = found.unwrap_or_else(|| tolerance::in_bits(buffer.element, &got[at], &before[at]));
            return Err(mismatch(buffer, (run, done), Against::FirstRun, found));
        }
        Ok(())
    }
}

fn mismatch(
    buffer: &Buffer,
    (run, done): (Where<'_>, &Done),
    against: Against,
    found: Difference,
) -> TestError {
    let origin = Box::new(Origin { kernels: done.kernels.clone(), place: None });
    let (buffer, run, difference) = (buffer.name.clone(), run.name(), Box::new(found));
    TestError::Mismatch { buffer, run, origin, against, difference }
}

/// The content of the buffers after the first run, which is on the CPU unless it is [on a device](KernelTest::run_on) only.
#[derive(Debug)]
pub struct Results {
    contents: Contents,
}

impl Results {
    /// Returns the elements of an output, for a test that checks them itself.
    pub fn of<T: Element>(&self, output: Output<T>) -> Vec<T> {
        element::from_bytes(&self.contents[output.buffer])
    }
}
