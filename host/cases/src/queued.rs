//! Operations are queued: none waits for the device's work, on any stream, in a recording or not.

use std::time::Instant;

use anyhow::{Context as _, Result, ensure};
use cuda_std::half::bf16;
use ferrowarp::attention::{Attention, Causal};
use ferrowarp::device::{Buffer, Device, DeviceError, Event, Stream};
use ferrowarp::{
    Cast, CrossEntropy, CumulativeSum, ElementAs, Fill, Matmul, Norm, Reduce, Reduction, Sample, Softmax,
    TensorView, TensorViewMut, TopK, Transpose,
};

/// An operation on the stream: from `f32` or `bf16` numbers, the first bytes of its result.
type Run = fn(&Stream, &Inputs) -> Result<Buffer<f32>, DeviceError>;

/// Numbers that all operations read.
pub struct Inputs {
    singles: Buffer<f32>,
    halves: Buffer<bf16>,
    classes: Buffer<i64>,
}

const LEN: usize = 1 << 18;

/// All operations that need memory of their own, and one of each kind that does not.
const OPERATIONS: &[(&str, Run)] = &[
    ("softmax of one wide row", |stream, inputs| {
        let first = Softmax::new().log().run(stream, &inputs.singles)?;
        Ok(Softmax::new().run(stream, &first)?.into_buffer())
    }),
    ("gradient of a softmax", |stream, inputs| {
        let y = TensorView::new(&inputs.singles, [64, 1000])?;
        Ok(Softmax::new().backward(stream, y, y)?.into_buffer())
    }),
    ("cross entropy", |stream, inputs| {
        let logits = TensorView::new(&inputs.singles, [64, 1000])?;
        Ok(CrossEntropy::new().run(stream, logits, &inputs.classes)?.into_buffer())
    }),
    ("top-k and a sample", |stream, inputs| {
        let logits = TensorView::new(&inputs.singles, [64, 1000])?;
        let (probabilities, _) = TopK::new(10).run(stream, logits)?;
        let _tokens = Sample::new().seed(7).draw(3).top_k(20).run(stream, logits)?;
        Ok(probabilities.into_buffer())
    }),
    ("f32 matmul", |stream, inputs| of_matmul(stream, &inputs.singles, [200, 72, 136])),
    ("f32 matmul of few rows", |stream, inputs| of_matmul(stream, &inputs.singles, [3, 40, 4096])),
    ("bf16 matmul of few tiles", |stream, inputs| of_matmul(stream, &inputs.halves, [64, 64, 2048])),
    ("bf16 matmul of rows that are not aligned", |stream, inputs| {
        of_matmul(stream, &inputs.halves, [201, 203, 205])
    }),
    ("attention of one query", |stream, inputs| {
        let q = TensorView::new(&inputs.halves, [1, 1, 1, 64])?;
        let k = TensorView::new(&inputs.halves, [1, 4096, 1, 64])?;
        singles(stream, Attention::new().run(stream, q, k, k)?.buffer())
    }),
    ("gradients of attention", |stream, inputs| {
        let x = TensorView::new(&inputs.halves, [1, 96, 2, 64])?;
        let attention = Attention::new().causal(Causal::TopLeft);
        let (out, log_sum_exp) = attention.forward(stream, x, x, x)?;
        let gradients = attention.backward(stream, x, x, x, x, (&out, &log_sum_exp))?;
        singles(stream, gradients.k.buffer())
    }),
    ("RMSNorm and its gradients", |stream, inputs| {
        let x = TensorView::new(&inputs.singles, [300, 520])?;
        let norm = Norm::rms().weight(inputs.singles.view(..520)?);
        let (out, saved) = norm.forward(stream, x)?;
        let gradients = norm.backward(stream, &out, x, &saved)?;
        Ok(gradients.weight.expect("the norm has a weight").into_buffer())
    }),
    ("sum of a wide row", |stream, inputs| {
        Ok(Reduce::rows(Reduction::Sum).run(stream, &inputs.singles)?.into_buffer())
    }),
    ("maxima of columns", |stream, inputs| {
        let x = TensorView::new(&inputs.singles, [20_000, 7])?;
        Ok(Reduce::columns(Reduction::Max).run(stream, x)?.into_buffer())
    }),
    ("cumulative sum of a wide row", |stream, inputs| {
        Ok(CumulativeSum::new().run(stream, &inputs.singles)?.into_buffer())
    }),
    ("a fill", |stream, _| Ok(Fill::new(0.5).run(stream, [LEN])?.into_buffer())),
    ("transpose", |stream, inputs| {
        Ok(Transpose::new().run(stream, TensorView::new(&inputs.singles, [300, 77])?)?.into_buffer())
    }),
];

fn of_matmul<T: ElementAs<f32>>(
    stream: &Stream,
    inp: &Buffer<T>,
    [m, n, k]: [usize; 3],
) -> Result<Buffer<f32>, DeviceError> {
    let mut out = stream.device().alloc_zeroed::<f32>(m * n)?;
    let (a, b) = (TensorView::new(inp, [m, k])?, TensorView::new(inp, [k, n])?);
    Matmul::new().run_into(stream, TensorViewMut::new(&mut out, [m, n])?, a, b)?;
    Ok(out)
}

fn singles(stream: &Stream, inp: &Buffer<bf16>) -> Result<Buffer<f32>, DeviceError> {
    Ok(Cast::new().run(stream, inp)?.into_buffer())
}

impl Inputs {
    fn new(device: &Device) -> Result<Self, DeviceError> {
        let number = |i: usize| ((i * 7919) % 1013) as f32 / 300.0 - 1.6;
        let numbers: Vec<f32> = (0..LEN).map(number).collect();
        let halves: Vec<bf16> = numbers.iter().map(|&x| bf16::from_f32(x)).collect();
        let classes: Vec<i64> = (0..64).map(|row| row * 13 % 1000).collect();
        Ok(Self {
            singles: device.upload(&numbers)?,
            halves: device.upload(&halves)?,
            classes: device.upload(&classes)?,
        })
    }
}

/// Work that keeps a GPU's stream busy for a second or so, and an event after it. On a CPU it has ended.
fn keep_busy(stream: &Stream) -> Result<Event, DeviceError> {
    let device = stream.device();
    let (side, count) = if device.is_cuda() { (8192, 600) } else { (8, 1) };
    let (a, mut out) = (device.alloc_zeroed::<bf16>(side * side)?, device.alloc_zeroed::<bf16>(side * side)?);
    for _ in 0..count {
        let matrix = TensorView::new(&a, [side, side])?;
        Matmul::new().run_into(stream, TensorViewMut::new(&mut out, [side, side])?, matrix, matrix)?;
    }
    stream.record()
}

/// The host's time to queue a small operation: one that only launches, and one that returns its result in new memory.
fn cost(device: &Device, inputs: &Inputs) -> Result<String> {
    // Soiling takes a millisecond a launch.
    let is_fast = device.is_cuda() && device.unwritten_memory()?.is_empty();
    let (stream, count) = (device.stream()?, if is_fast { 10_000 } else { 10 });
    let inp = TensorView::new(&inputs.singles, [32, 100])?;
    let mut out = device.alloc_zeroed::<f32>(3200)?;
    let microseconds = |start: Instant| start.elapsed().as_secs_f64() * 1e6 / f64::from(count);
    let start = Instant::now();
    for _ in 0..count {
        Softmax::new().run_into(&stream, TensorViewMut::new(&mut out, [32, 100])?, inp)?;
    }
    let into = microseconds(start);
    stream.synchronize()?;
    let start = Instant::now();
    for _ in 0..count {
        let _new = Softmax::new().run(&stream, inp)?;
    }
    let new = microseconds(start);
    stream.synchronize()?;
    Ok(format!(": {into:.1} us to queue a softmax, {new:.1} us with new memory for its result"))
}

/// Queues every operation on a stream that is busy, drops what they used, and compares the results with those of an idle stream.
/// Returns the host's times.
///
/// # Errors
/// An operation waited for the stream's work or another stream's, its result is wrong, or the device failed.
pub fn check(device: &Device) -> Result<String> {
    let inputs = Inputs::new(device)?;
    let (stream, other) = (device.stream()?, device.stream()?);
    let mut expected = Vec::new();
    for (name, run) in OPERATIONS {
        let out = run(&stream, &inputs).with_context(|| format!("{name} on an idle stream"))?;
        expected.push(out.to_vec()?);
    }
    for busy_one in [&stream, &device.default_stream(), &other] {
        // With the second one, memory is allocated in the order of a busy stream; with the third, another stream is busy.
        let busy = keep_busy(busy_one)?;
        let mut outs = Vec::new();
        for (name, run) in OPERATIONS {
            outs.push(run(&stream, &inputs).with_context(|| format!("{name} beside {busy_one:?}"))?);
            ensure!(!device.is_cuda() || !busy.is_complete()?, "{name} waited for the work of {busy_one:?}");
        }
        let end = stream.record()?;
        if busy_one.number() == other.number() {
            end.synchronize()?;
            ensure!(!device.is_cuda() || !busy.is_complete()?, "the work waited for that of {busy_one:?}");
        }
        for (((name, _), out), expected) in OPERATIONS.iter().zip(outs).zip(&expected) {
            let same = out.to_vec()?.iter().zip(expected).all(|(got, want)| got.to_bits() == want.to_bits());
            ensure!(same, "{name} beside {busy_one:?} has another result");
        }
    }
    cost(device, &inputs)
}
