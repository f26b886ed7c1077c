//! A softmax in memory of our own: rows at any distance from a boundary, apart from each other, and guarded.

use std::fmt;
use std::sync::{Mutex, PoisonError};

use cuda_std::launch::{Launcher, Limits, RawBuffer};
use cuda_std::simt::Executor;
use ferrowarp::softmax::{DeviceProfile, KernelChoice, Options, SoftmaxAs};
use ferrowarp_cases::reference::{Number, softmax_complaint};
use gpu_kernels::softmax::forward::ForwardLaunch;

use ferrowarp_cases::rows::RELATIVE;

/// Bytes of elements that nobody has written, or may.
const FILLER: u8 = 0xa5;

/// Shape, places and options of a softmax.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    pub rows: usize,
    pub cols: usize,
    /// Elements from a 16-byte boundary to the first of output and input.
    pub offsets: [usize; 2],
    /// Elements between rows of output and input.
    pub gaps: [usize; 2],
    pub options: Options,
}

impl Case {
    pub fn new(rows: usize, cols: usize) -> Self {
        Self { rows, cols, offsets: [0; 2], gaps: [0; 2], options: Options::new() }
    }

    pub fn at(self, out: usize, inp: usize) -> Self {
        Self { offsets: [out, inp], ..self }
    }

    pub fn apart(self, out: usize, inp: usize) -> Self {
        Self { gaps: [out, inp], ..self }
    }

    pub fn with(self, options: Options) -> Self {
        Self { options, ..self }
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}x{} at {:?} apart {:?} {:?}",
            self.rows, self.cols, self.offsets, self.gaps, self.options
        )
    }
}

/// The type's nearest number; of a finite one that it cannot hold, its largest.
pub fn nearest<T: Number>(x: f32) -> T {
    T::nearest(if x.is_finite() { x.clamp(-T::LARGEST, T::LARGEST) } else { x })
}

/// Elements that `matrix` spreads out, between guards.
struct Guarded<T> {
    elements: Vec<T>,
    start: usize,
    stride: usize,
}

impl<T: Number> Guarded<T> {
    fn new(packed: &[T], [rows, cols]: [usize; 2], offset: usize, gap: usize) -> Self {
        let mut filler = T::zeroed();
        bytemuck::bytes_of_mut(&mut filler).fill(FILLER);
        let stride = cols + gap;
        // Guards of 8 elements at least, and of up to a vector more to come to a boundary.
        let mut elements = vec![filler; rows * stride + offset + 40];
        let start = elements[8..].as_ptr().align_offset(16) + 8 + offset;
        for (row, values) in packed.chunks(cols.max(1)).enumerate() {
            elements[start + row * stride..][..cols].copy_from_slice(values);
        }
        Self { elements, start, stride }
    }

    /// From the first element to the end of the last row.
    fn raw(&mut self, [rows, cols]: [usize; 2]) -> RawBuffer<T> {
        let len = if rows == 0 { 0 } else { (rows - 1) * self.stride + cols };
        RawBuffer::written(&mut self.elements[self.start..][..len])
    }

    /// The rows, if nothing else was touched.
    fn finish(&self, [rows, cols]: [usize; 2]) -> Result<Vec<T>, String> {
        let mut packed = Vec::with_capacity(rows * cols);
        for (i, element) in self.elements.iter().enumerate() {
            let place = i.checked_sub(self.start).map(|i| (i / self.stride.max(1), i % self.stride.max(1)));
            if place.is_some_and(|(row, col)| row < rows && col < cols) {
                packed.push(*element);
            } else if bytemuck::bytes_of(element).iter().any(|&byte| byte != FILLER) {
                return Err(format!(
                    "element {} outside of the rows was written",
                    i as isize - self.start as isize
                ));
            }
        }
        Ok(packed)
    }
}

/// Runs `choice` and gives the packed rows.
pub fn run<I: Number + SoftmaxAs<O>, O: Number>(
    on: &dyn Launcher,
    choice: &KernelChoice<I, O>,
    case: &Case,
    logits: &[I],
) -> Result<Vec<O>, String> {
    let shape = [case.rows, case.cols];
    let mut unwritten = O::zeroed();
    bytemuck::bytes_of_mut(&mut unwritten).fill(FILLER);
    let unwritten = vec![unwritten; logits.len()];
    let mut out = Guarded::new(&unwritten, shape, case.offsets[0], case.gaps[0]);
    let mut inp = Guarded::new(logits, shape, case.offsets[1], case.gaps[1]);
    let mut workspace = vec![u64::MAX; choice.workspace_bytes().div_ceil(8)];
    let strides = [out.stride, inp.stride];
    let pairs = RawBuffer::written(&mut workspace).cast();
    let args = ForwardLaunch { pairs, ..ForwardLaunch::new(out.raw(shape), inp.raw(shape), strides) };
    let _lock =
        (cluster_threads(choice) > 0).then(|| CLUSTERS.lock().unwrap_or_else(PoisonError::into_inner));
    // SAFETY: the matrices have the case's shape, in memory of their own; the workspace is as large as asked for.
    unsafe { choice.launch(on, args, &case.options) }.map_err(|e| e.to_string())?;
    let kept = inp.finish(shape)?;
    assert!(
        bytemuck::cast_slice::<I, u8>(&kept) == bytemuck::cast_slice::<I, u8>(logits),
        "the input was written"
    );
    out.finish(shape)
}

/// As [`run`], with the output in the input's place.
pub fn run_in_place<T: Number>(
    on: &dyn Launcher,
    choice: &KernelChoice<T>,
    case: &Case,
    logits: &[T],
) -> Result<Vec<T>, String> {
    let shape = [case.rows, case.cols];
    let mut matrix = Guarded::new(logits, shape, case.offsets[1], case.gaps[1]);
    let mut workspace = vec![u64::MAX; choice.workspace_bytes().div_ceil(8)];
    let (elements, stride) = (matrix.raw(shape), matrix.stride);
    let pairs = RawBuffer::written(&mut workspace).cast();
    let args = ForwardLaunch { pairs, ..ForwardLaunch::new(elements, elements, [stride; 2]) };
    let _lock =
        (cluster_threads(choice) > 0).then(|| CLUSTERS.lock().unwrap_or_else(PoisonError::into_inner));
    // SAFETY: as in `run`; output and input are one matrix.
    unsafe { choice.launch(on, args, &case.options) }.map_err(|e| e.to_string())?;
    matrix.finish(shape)
}

/// What is wrong with the packed rows of a result, if anything.
pub fn complaint<I: Number, O: Number>(got: &[O], case: &Case, logits: &[I]) -> Option<String> {
    let logits: Vec<f32> = logits.iter().map(|x| x.value()).collect();
    softmax_complaint(got, &logits, case.cols.max(1), &case.options, RELATIVE)
}

/// Runs the case with a choice, twice, and wants it right and the same bits.
#[track_caller]
pub fn assert_right<I: Number + SoftmaxAs<O>, O: Number>(
    on: &dyn Launcher,
    choice: &KernelChoice<I, O>,
    case: &Case,
    logits: &[I],
) {
    let what = || format!("{:?} {:?} {case}", names(choice), choice.config());
    let got: Vec<O> = run(on, choice, case, logits).unwrap_or_else(|error| panic!("{}: {error}", what()));
    if let Some(complaint) = complaint(&got, case, logits) {
        panic!("{}: {complaint}", what());
    }
    let again: Vec<O> = run(on, choice, case, logits).unwrap();
    assert!(
        bytemuck::cast_slice::<O, u8>(&got) == bytemuck::cast_slice::<O, u8>(&again),
        "{}: other bits",
        what()
    );
}

/// A device like an H200, for choices; on the executor and the emulator all of them run.
pub fn gpu() -> DeviceProfile {
    DeviceProfile {
        limits: Limits { capability: 90, ..Limits::default() },
        multiprocessors: 132,
        is_cpu: false,
    }
}

/// All choices for a shape on [`gpu`], without clusters whose threads' stacks exceed a process's mappings.
pub fn every<I: SoftmaxAs<O>, O: Number>(
    rows: usize,
    cols: usize,
) -> impl Iterator<Item = KernelChoice<I, O>> {
    let choices = KernelChoice::every(&gpu(), rows, cols).unwrap();
    choices.into_iter().filter(|choice| cluster_threads(choice) <= 8192)
}

/// Threads of a cluster; 0 where there is none.
pub fn cluster_threads<I: SoftmaxAs<O>, O: Number>(choice: &KernelChoice<I, O>) -> u32 {
    choice.config().filter(|config| config.cluster > 1).map_or(0, |config| config.cluster * config.block.x)
}

/// The names of a choice's kernels.
pub fn names<I: SoftmaxAs<O>, O: Number>(choice: &KernelChoice<I, O>) -> Vec<&'static str> {
    choice.kernels().map(|meta| meta.name).collect()
}

/// One OS thread, so that tests side by side have not too many stacks.
pub fn executor() -> Executor {
    Executor::new().with_workers(1)
}

/// Held by whoever runs a cluster, for the same reason.
static CLUSTERS: Mutex<()> = Mutex::new(());

/// Runs `$body` for each pair of types `I` and `O`, with its kernels in `$forward`.
macro_rules! for_each_pair {
    (|$forward:ident| $body:block) => {{
        use cuda_std::half::{bf16, f16};
        for_each_pair!(@ $forward $body f32 f32);
        for_each_pair!(@ $forward $body f16 f16);
        for_each_pair!(@ $forward $body bf16 bf16);
        for_each_pair!(@ $forward $body f16 f32);
        for_each_pair!(@ $forward $body bf16 f32);
        for_each_pair!(@ $forward $body f32 f16);
        for_each_pair!(@ $forward $body f32 bf16);
    }};
    (@ $forward:ident $body:block $inp:ident $out:ident) => {{
        type I = $inp;
        type O = $out;
        #[allow(unused_variables, reason = "not every body asks for them")]
        let $forward = <I as gpu_kernels::softmax::operation::ForwardTo<O>>::FORWARD;
        $body
    }};
}
pub(crate) use for_each_pair;
