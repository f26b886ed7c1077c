//! Extents and strides with no memory after them, up to more than an address space: every operation refuses them or ignores
//! them, on a CPU and with the kernels of a GPU.

use std::error::Error;

use cuda_std::half::bf16;
use cuda_std::launch::Limits;
use cuda_std::simt::Executor;
use ferrowarp::attention::{self, Attention, GradientOutputs as AttentionGradients, Outputs as To};
use ferrowarp::device::{Buffer, Device};
use ferrowarp::matmul;
use ferrowarp::norm::{GradientOutputs, Norm, Outputs, Statistics};
use ferrowarp::softmax::{KernelChoice, cross_entropy};
use ferrowarp::{
    CrossEntropy, CumulativeSum, DeviceProfile, Matmul, Reduce, Reduction, Sample, Softmax, Tensor,
    TensorView, TensorViewMut, TopK, Transpose,
};

const EXTENTS: [usize; 7] = [1 << 31, 1 << 32, 1 << 61, 1 << 62, (1 << 62) + 4, usize::MAX - 1, usize::MAX];

/// The most columns that softmax and its relatives can count, and the most rows or columns of the others.
const WIDE: usize = u32::MAX as usize;
const NARROW: usize = i32::MAX as usize;

/// A CPU, and an executor that has the kernels of a GPU.
fn devices() -> [Device; 2] {
    let limits = Limits { capability: 90, runs_cpu_only: false, ..Limits::default() };
    [Device::cpu(), Device::cpu_with(Executor::new().with_limits(limits))]
}

/// Runs an operation on `[rows, cols]` numbers with this stride, and returns its results.
type Run = fn(&Device, [usize; 2], usize, &[f32]) -> Result<Vec<f32>, Box<dyn Error>>;

fn view(
    buffer: &Buffer<f32>,
    shape: [usize; 2],
    stride: usize,
) -> Result<TensorView<'_, f32>, ferrowarp::Error> {
    TensorView::with_strides(buffer, shape, [stride, 1])
}

fn view_mut(
    buffer: &mut Buffer<f32>,
    shape: [usize; 2],
    stride: usize,
) -> Result<TensorViewMut<'_, f32>, ferrowarp::Error> {
    TensorViewMut::with_strides(buffer, shape, [stride, 1])
}

/// The operations on matrices, and the most columns that each can count.
const OPERATIONS: [(&str, usize, Run); 15] = [
    ("Softmax::run", WIDE, |device, shape, stride, numbers| {
        Ok(Softmax::new().run(device, view(&device.upload(numbers)?, shape, stride)?)?.to_vec()?)
    }),
    ("Softmax::run_into", WIDE, |device, shape, stride, numbers| {
        let (inp, mut out) = (device.upload(numbers)?, device.upload(numbers)?);
        let to = view_mut(&mut out, shape, stride)?;
        Softmax::new().run_into(device, to, view(&inp, shape, stride)?)?;
        Ok(out.to_vec()?)
    }),
    ("Softmax::run_in_place", WIDE, |device, shape, stride, numbers| {
        let mut out = device.upload(numbers)?;
        Softmax::new().run_in_place(device, view_mut(&mut out, shape, stride)?)?;
        Ok(out.to_vec()?)
    }),
    ("Softmax::backward", WIDE, |device, shape, stride, numbers| {
        let (inp, mut out) = (device.upload(numbers)?, device.upload(numbers)?);
        let inp = view(&inp, shape, stride)?;
        Softmax::new().backward_into(device, view_mut(&mut out, shape, stride)?, inp, inp)?;
        Ok([out.to_vec()?, Softmax::new().backward(device, inp, inp)?.to_vec()?].concat())
    }),
    ("Softmax::backward_in_place", WIDE, |device, shape, stride, numbers| {
        let (inp, mut out) = (device.upload(numbers)?, device.upload(numbers)?);
        let to = view_mut(&mut out, shape, stride)?;
        Softmax::new().backward_in_place(device, to, view(&inp, shape, stride)?)?;
        Ok(out.to_vec()?)
    }),
    ("CrossEntropy", WIDE, |device, shape, stride, numbers| {
        let (inp, mut gradient) = (device.upload(numbers)?, device.upload(numbers)?);
        let (inp, rows) = (view(&inp, shape, stride)?, numbers.len().min(1));
        let (targets, mut loss) = (device.upload(&[1i64; 1][..rows])?, device.alloc_zeroed::<f32>(rows)?);
        let outputs = cross_entropy::Outputs::new(&mut loss);
        let outputs = outputs.gradient(view_mut(&mut gradient, shape, stride)?);
        CrossEntropy::new().run_into(device, outputs, inp, &targets)?;
        let logits = view_mut(&mut gradient, shape, stride)?;
        CrossEntropy::new().run_in_place(device, &mut loss, logits, &targets)?;
        let (losses, gradients) = CrossEntropy::new().forward(device, inp, &targets)?;
        let others = CrossEntropy::new().run(device, inp, &targets)?;
        let [losses, gradients, others] = [losses, gradients, others].map(|tensor| tensor.to_vec());
        Ok([loss.to_vec()?, gradient.to_vec()?, losses?, gradients?, others?].concat())
    }),
    ("Sample", WIDE, |device, shape, stride, numbers| {
        let inp = device.upload(numbers)?;
        let inp = view(&inp, shape, stride)?;
        let mut tokens = device.alloc_zeroed::<u32>(numbers.len().min(1))?;
        Sample::new().top_k(2).top_p(0.5).run_into(device, &mut tokens, inp)?;
        Sample::new().run_into(device, &mut tokens, inp)?;
        let tokens = [tokens.to_vec()?, Sample::new().run(device, inp)?.to_vec()?].concat();
        Ok(tokens.into_iter().map(|token| token as f32).collect())
    }),
    ("TopK", WIDE, |device, shape, stride, numbers| {
        let (inp, rows) = (device.upload(numbers)?, numbers.len().min(1));
        let inp = view(&inp, shape, stride)?;
        let mut probabilities = device.alloc_zeroed::<f32>(2 * rows)?;
        let mut indices = device.alloc_zeroed::<u32>(2 * rows)?;
        let (selected, strides) = ([shape[0], 2], [stride.max(2), 1]);
        let to = TensorViewMut::with_strides(&mut probabilities, selected, strides)?;
        let columns = TensorViewMut::with_strides(&mut indices, selected, strides)?;
        TopK::new(2).run_into(device, to, columns, inp)?;
        Ok([probabilities.to_vec()?, TopK::new(2).run(device, inp)?.0.to_vec()?].concat())
    }),
    ("Reduce::rows", NARROW, |device, shape, stride, numbers| {
        let (inp, mut out) = (device.upload(numbers)?, device.alloc_zeroed::<f32>(numbers.len().min(1))?);
        Reduce::rows(Reduction::Sum).run_into(device, &mut out, view(&inp, shape, stride)?)?;
        Ok(out.to_vec()?)
    }),
    ("Reduce::columns", NARROW, |device, shape, stride, numbers| {
        let (inp, mut out) = (device.upload(numbers)?, device.upload(numbers)?);
        Reduce::columns(Reduction::Max).run_into(device, &mut out, view(&inp, shape, stride)?)?;
        Ok(out.to_vec()?)
    }),
    ("CumulativeSum", NARROW, |device, shape, stride, numbers| {
        let (inp, mut out) = (device.upload(numbers)?, device.upload(numbers)?);
        CumulativeSum::new().run_into(
            device,
            view_mut(&mut out, shape, stride)?,
            view(&inp, shape, stride)?,
        )?;
        Ok(out.to_vec()?)
    }),
    ("Transpose", NARROW, |device, [rows, cols], stride, numbers| {
        let (inp, mut out) = (device.upload(numbers)?, device.upload(numbers)?);
        let to = view_mut(&mut out, [cols, rows], rows)?;
        Transpose::new().run_into(device, to, view(&inp, [rows, cols], stride)?)?;
        let mut back = device.upload(numbers)?;
        let to = view_mut(&mut back, [rows, cols], stride)?;
        Transpose::new().run_into(device, to, view(&out, [cols, rows], rows)?)?;
        Ok([out.to_vec()?, back.to_vec()?].concat())
    }),
    ("Norm::rms", NARROW, |device, shape, stride, numbers| {
        let [inp, mut out, mut sum] =
            [device.upload(numbers)?, device.upload(numbers)?, device.upload(numbers)?];
        let inp = view(&inp, shape, stride)?;
        let outputs =
            Outputs::new(view_mut(&mut out, shape, stride)?).sum(view_mut(&mut sum, shape, stride)?);
        Norm::rms().residual(inp).run_into(device, outputs, inp)?;
        Ok([out.to_vec()?, sum.to_vec()?].concat())
    }),
    ("Norm::layer", NARROW, |device, shape, stride, numbers| {
        let (inp, mut out) = (device.upload(numbers)?, device.upload(numbers)?);
        Norm::layer().run_into(device, view_mut(&mut out, shape, stride)?, view(&inp, shape, stride)?)?;
        Ok(out.to_vec()?)
    }),
    ("NormBackward", NARROW, |device, shape, stride, numbers| {
        let (inp, mut out) = (device.upload(numbers)?, device.upload(numbers)?);
        let (inp, rstd) = (view(&inp, shape, stride)?, device.upload(&numbers[..numbers.len().min(1)])?);
        let mut d_weight = device.upload(numbers)?;
        let outputs = GradientOutputs::new(view_mut(&mut out, shape, stride)?).weight(&mut d_weight);
        Norm::rms().sum_gradient(inp).backward_into(device, outputs, inp, inp, Statistics::rms(&rstd))?;
        Ok([out.to_vec()?, d_weight.to_vec()?].concat())
    }),
];

const NUMBERS: [f32; 4] = [3.0, 1.0, 4.0, 1.0];

#[test]
fn matrices_of_any_extents_and_strides_are_done_or_refused() {
    for device in devices() {
        for (name, most, run) in OPERATIONS {
            let dense = run(&device, [1, 4], 4, &NUMBERS).unwrap();
            for extent in EXTENTS {
                // A single row has a stride that nothing uses.
                let results = run(&device, [1, 4], extent, &NUMBERS);
                assert_eq!(results.unwrap(), dense, "{name} with a stride of {extent}");
                let results = run(&device, [0, extent], extent, &[]);
                assert_eq!(results.is_ok(), extent <= most, "{name} of 0 x {extent}: {results:?}");
                // Some have a result for each row or column.
                let _done_or_refused = [[0, 4], [extent, 0]].map(|shape| run(&device, shape, shape[1], &[]));
            }
        }
    }
}

/// A result without a kernel that writes it is 0, not what the memory held before.
#[test]
fn results_of_rows_without_columns_are_zeros() {
    for device in devices() {
        let inp = Tensor::<f32>::zeros(&device, [3, 0]).unwrap();
        let targets = device.upload(&[1i64; 3]).unwrap();
        let losses = CrossEntropy::new().run(&device, &inp, &targets).unwrap();
        let (others, gradient) = CrossEntropy::new().forward(&device, &inp, &targets).unwrap();
        let tokens = Sample::new().run(&device, &inp).unwrap();
        let (probabilities, indices) = TopK::new(2).run(&device, &inp).unwrap();
        let (out, saved) = Norm::layer().forward(&device, &inp).unwrap();
        assert_eq!([gradient.shape(), out.shape()], [inp.shape(); 2]);
        let sums = Reduce::rows(Reduction::Sum).run(&device, &inp).unwrap();
        for result in [losses, others, probabilities, saved.mean.unwrap(), saved.rstd, sums] {
            assert!(result.to_vec().unwrap().iter().all(|value| value.to_bits() == 0));
        }
        assert!([tokens, indices].iter().all(|it| it.to_vec().unwrap().iter().all(|token| *token == 0)));
    }
}

#[test]
fn kernels_are_chosen_for_any_extents() {
    let gpu = DeviceProfile { limits: devices()[1].limits().clone(), multiprocessors: 132, is_cpu: false };
    for profile in [gpu, DeviceProfile::from(&Device::cpu())] {
        for rows in EXTENTS.into_iter().chain([0, 1]) {
            for cols in EXTENTS.into_iter().chain([0, 1, 1 << 17, WIDE]) {
                let choice = KernelChoice::<f32>::new(&profile, rows, cols);
                assert_eq!(choice.is_ok(), cols <= WIDE, "{rows} x {cols}");
                assert_eq!(KernelChoice::<f32>::every(&profile, rows, cols).is_ok(), cols <= WIDE);
                let _sizes = choice.map(|choice| (choice.config(), choice.workspace_bytes()));
            }
        }
        let extents = [0, 1, 1 << 31, u32::MAX];
        for i in 0..extents.len().pow(4) {
            let [m, n, k, batch] =
                [0, 1, 2, 3].map(|place| extents[i / extents.len().pow(place) % extents.len()]);
            let problem = matmul::Problem { batch, ..matmul::Problem::new(m, n, k) };
            matmul::KernelChoice::<f32>::new(&profile, &problem).unwrap();
            matmul::KernelChoice::<bf16>::new(&profile, &problem).unwrap();
            let problem = attention::Problem {
                queries: m,
                heads: n,
                key_heads: n,
                ..attention::Problem::new(batch, k, 64)
            };
            attention::KernelChoice::<bf16>::new(&profile, &problem).unwrap();
        }
    }
}

/// Multiplies `[m, k]` and `[k, n]`, with this distance between rows if there is one row or nothing in them.
fn multiply(
    device: &Device,
    [m, n, k]: [usize; 3],
    distance: usize,
    is_transposed: bool,
) -> Result<Vec<f32>, ferrowarp::Error> {
    let len = |rows: usize, cols: usize| rows.checked_mul(cols).filter(|&len| len <= 64).unwrap_or(0);
    let inp = device.upload(&[1.0f32; 64])?;
    let mut out = device.alloc_zeroed::<f32>(len(m, n))?;
    let pitch = |rows: usize, cols: usize| if rows <= 1 || cols == 0 { distance.max(cols) } else { cols };
    let operand = |rows: usize, cols: usize| {
        let [rows, cols] = if is_transposed { [cols, rows] } else { [rows, cols] };
        let matrix = TensorView::with_strides(&inp, [1, rows, cols], [distance, pitch(rows, cols), 1])?;
        Ok::<_, ferrowarp::Error>(if is_transposed { matrix.t() } else { matrix })
    };
    let (a, b) = (operand(m, k)?, operand(k, n)?);
    let to = TensorViewMut::with_strides(&mut out, [1, m, n], [distance, pitch(m, n), 1])?;
    Matmul::new().run_into(device, to, a, b)?;
    out.to_vec().map_err(Into::into)
}

#[test]
fn multiplications_of_any_extents_and_strides_are_done_or_refused() {
    for device in devices() {
        for is_transposed in [false, true] {
            for extent in EXTENTS {
                for [m, n, k] in [[1, 1, 1], [1, 8, 1], [1, 4, 16], [4, 1, 1], [4, 2, 0]] {
                    let out = multiply(&device, [m, n, k], extent, is_transposed);
                    assert_eq!(out.unwrap(), vec![k as f32; m * n], "{m} x {n} x {k}, {extent}");
                }
                for shape in [[extent, 0, 1], [0, extent, 1], [0, 1, extent], [extent, 0, 0], [0, 0, extent]]
                {
                    let out = multiply(&device, shape, extent, is_transposed);
                    let error = out.unwrap_err().to_string();
                    assert!(error.contains(&extent.to_string()), "{shape:?}: {error}");
                }
            }
        }
    }
}

/// Runs attention and its gradients on `shape`, with these strides.
fn attend(
    device: &Device,
    shape: [usize; 4],
    strides: [usize; 3],
    len: usize,
) -> Result<Vec<f32>, Box<dyn Error>> {
    let inp = device.upload(&vec![bf16::from_f32(1.0); len])?;
    let [a, b, c] = strides;
    let strides = [a, b, c, 1];
    let inp = TensorView::with_strides(&inp, shape, strides)?;
    let mut buffers = [(); 4].map(|()| device.alloc_zeroed::<bf16>(len).unwrap());
    let mut log_sum_exp = device.alloc_zeroed::<f32>(len / 64)?;
    let [out, dq, dk, dv] =
        buffers.each_mut().map(|buffer| TensorViewMut::with_strides(buffer, shape, strides));
    let (gradients, of_logs) = (AttentionGradients::new(dq?, dk?, dv?), [shape[0], shape[2], shape[1]]);
    let to = To::new(out?).log_sum_exp(TensorViewMut::new(&mut log_sum_exp, of_logs)?);
    Attention::new().run_into(device, to, inp, inp, inp)?;
    let results = (inp, TensorView::new(&log_sum_exp, of_logs)?);
    Attention::new().backward_into(device, gradients, inp, inp, inp, inp, results)?;
    let mut results = log_sum_exp.to_vec()?;
    for buffer in &buffers {
        results.extend(buffer.to_vec()?.into_iter().map(bf16::to_f32));
    }
    Ok(results)
}

#[test]
fn attention_of_any_extents_and_strides_is_done_or_refused() {
    for device in devices() {
        let dense = attend(&device, [1, 1, 1, 64], [64; 3], 64).unwrap();
        for extent in EXTENTS {
            let out = attend(&device, [1, 1, 1, 64], [extent; 3], 64);
            assert_eq!(out.unwrap(), dense, "strides of {extent}");
            for strides in [[extent; 3], [1; 3], [1, extent, 1], [0; 3]] {
                for (large, none) in [(0, 1), (1, 0), (1, 2), (2, 0), (2, 3), (3, 0), (3, 1)] {
                    let mut shape = [1, 3, 1, 64];
                    (shape[large], shape[none]) = (extent, 0);
                    let error = attend(&device, shape, strides, 0).unwrap_err().to_string();
                    assert!(!error.contains("overlap"), "{shape:?}: {error}");
                }
            }
        }
    }
}
