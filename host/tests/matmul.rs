//! Matrix multiplication: every small size, the bias of errors, and what is refused.

use cuda_std::half::{bf16, f16};
use cuda_std::launch::Limits;
use cuda_std::simt::Executor;
use ferrowarp::device::Device;
use ferrowarp::matmul::{Matmul, Precision};
use ferrowarp::{ElementAs, Error, Kind, Tensor, TensorView, TensorViewMut};
use ferrowarp_cases::Share;
use ferrowarp_cases::reference::Number;
use rand::{RngExt as _, SeedableRng as _, rngs::StdRng};

/// The executor as a GPU of compute capability 9.0, with that GPU's kernels.
fn hopper() -> Device {
    let limits = Limits { capability: 90, runs_cpu_only: false, ..Limits::default() };
    Device::with_launcher(Executor::new(), limits)
}

/// Multiplies dense batches, and returns the results. With `is_b_shared` there is one B for all.
fn product<T: Number + ElementAs<O>, O: Number>(
    device: &Device,
    [m, n, k]: [usize; 3],
    [is_a_transposed, is_b_transposed]: [bool; 2],
    (batch, is_b_shared): (usize, bool),
    precision: Precision,
    [a, b]: [&[T]; 2],
) -> Vec<f64> {
    let of_a = [batch, if is_a_transposed { k } else { m }, if is_a_transposed { m } else { k }];
    let [rows, cols] = if is_b_transposed { [n, k] } else { [k, n] };
    let a = device.tensor(a, of_a).unwrap();
    let b = device.upload(b).unwrap();
    let b = match is_b_shared {
        true => TensorView::new(&b, [rows, cols]).unwrap(),
        false => TensorView::new(&b, [batch, rows, cols]).unwrap(),
    };
    let (a, b) = (if is_a_transposed { a.t() } else { a.view() }, if is_b_transposed { b.t() } else { b });
    let mut out = Tensor::<O>::zeros(device, [batch, m, n]).unwrap();
    Matmul::new().precision(precision).run_into(device, &mut out, a, b).unwrap();
    out.to_vec().unwrap().into_iter().map(|x| x.value().into()).collect()
}

/// The expected results of [`product`].
fn oracle(
    [m, n, k]: [usize; 3],
    [is_a_transposed, is_b_transposed]: [bool; 2],
    (batch, is_b_shared): (usize, bool),
    a: impl Fn(usize) -> f64,
    b: impl Fn(usize) -> f64,
) -> Vec<f64> {
    let result = |i: usize| {
        let (matrix, row, col) = (i / (m * n), i / n % m, i % n);
        let at_a = |l: usize| matrix * m * k + if is_a_transposed { l * m + row } else { row * k + l };
        let of_b = if is_b_shared { 0 } else { matrix * k * n };
        let at_b = |l: usize| of_b + if is_b_transposed { col * k + l } else { l * n + col };
        (0..k).map(|l| a(at_a(l)) * b(at_b(l))).sum()
    };
    (0..batch * m * n).map(result).collect()
}

/// Small integers, whose products and sums are exact in every type and precision.
fn assert_exact<T: Number + ElementAs<T>>(
    device: &Device,
    shape @ [m, n, k]: [usize; 3],
    layout: [bool; 2],
    batches @ (batch, _): (usize, bool),
    precision: Precision,
) {
    let (of_a, of_b) = (|i: usize| (i * 7 % 5) as f64 - 2.0, |i: usize| (i * 11 % 7) as f64 - 3.0);
    let a: Vec<T> = (0..batch * m * k).map(|i| T::nearest(of_a(i) as f32)).collect();
    let b: Vec<T> = (0..batch * k * n).map(|i| T::nearest(of_b(i) as f32)).collect();
    let got = product::<T, T>(device, shape, layout, batches, precision, [&a, &b]);
    let expected = oracle(shape, layout, batches, of_a, of_b);
    let name = T::NAME;
    assert!(got == expected, "{name} {shape:?}, transposed {layout:?}, batch {batches:?}, {precision:?}");
}

/// Small integers as a tensor.
fn integers(device: &Device, shape: impl Into<ferrowarp::Shape>) -> Tensor<f32> {
    let shape = shape.into();
    let numbers: Vec<f32> = (0..shape.elements()).map(|i| (i * 7 % 5) as f32 - 2.0).collect();
    device.tensor(&numbers, shape).unwrap()
}

/// The text of an error, and its operand.
fn refused<T>(result: Result<T, Error>) -> (String, Option<&'static str>) {
    let error = result.map(|_| ()).unwrap_err();
    assert_eq!(error.operation(), Some("matmul"));
    (error.to_string(), error.operand())
}

#[test]
fn operands_that_do_not_fit_are_refused() {
    let device = Device::cpu();
    let of = |rows: usize, cols: usize| integers(&device, [rows, cols]);
    let (a, b, vector) = (of(2, 3), of(3, 4), integers(&device, [4]));
    let run = Matmul::new();
    let (text, operand) = refused(run.run(&device, &a, &a));
    assert_eq!(operand, Some("second operand"));
    assert!(text.ends_with("has the shape [2, 3]; it needs [3, 3]"), "{text}");
    assert_eq!(refused(run.run(&device, &vector, &b)).1, Some("first operand"));
    let (text, _) = refused(run.run(&device, &a, &vector));
    assert!(text.contains("has the shape [4]") && text.contains("two axes"), "{text}");
    assert_eq!(refused(run.bias(&a).run(&device, &a, &b)).1, Some("bias"));
    let (text, _) = refused(run.residual(&a).run(&device, &a, &b));
    assert!(text.contains("the residual has the shape [2, 3]; it needs [2, 4]"), "{text}");
    let elsewhere = integers(&Device::cpu(), [3, 4]);
    let (text, operand) = refused(run.run(&device, &a, &elsewhere));
    assert!(operand == Some("second operand") && text.contains("another `Device`"), "{text}");
    let (text, _) = refused(run.accumulate().run(&device, &a, &b));
    assert!(text.contains("accumulate") && text.contains("`run_into`"), "{text}");

    let into = |mut out: TensorViewMut<'_, f32>, a: TensorView<'_, f32>| {
        refused(Matmul::new().run_into(&device, out.reborrow(), a, &b))
    };
    let (text, operand) = into(of(4, 2).view_mut().t(), a.view());
    assert!(operand == Some("output") && text.contains("rows without gaps"), "{text}");
    assert_eq!(into(of(2, 3).view_mut(), a.view()).1, Some("output"));
    // Rows that overlap, gaps in both directions, another number of matrices, and matrices at unequal distances.
    let many = integers(&device, [64]);
    let strided = |strides| TensorView::with_strides(many.buffer(), [2, 3], strides).unwrap();
    for strides in [[2, 1], [0, 1], [1, 1], [6, 2]] {
        let (text, operand) = into(of(2, 4).view_mut(), strided(strides));
        assert!(operand == Some("first operand") && text.contains("gaps that do not overlap"), "{text}");
    }
    let batch = TensorView::new(many.buffer(), [3, 2, 3]).unwrap();
    let (text, _) = into(integers(&device, [2, 2, 4]).view_mut(), batch);
    assert!(text.contains("first operand has the shape [3, 2, 3]; it needs [2, 2, 3]"), "{text}");
    let batch = TensorView::with_strides(many.buffer(), [2, 2, 2, 3], [18, 6, 3, 1]).unwrap();
    let (text, _) = into(integers(&device, [2, 2, 2, 4]).view_mut(), batch);
    assert!(text.contains("matrices at equal distances"), "{text}");
}

#[test]
fn a_gpu_without_tensor_cores_has_no_kernel() {
    let limits = Limits { capability: 75, runs_cpu_only: false, ..Limits::default() };
    let device = Device::with_launcher(Executor::new(), limits);
    let a = integers(&device, [2, 2]);
    let error = Matmul::new().run(&device, &a, &a).unwrap_err();
    assert!(matches!(error.kind(), Kind::Unsupported { .. }));
    assert!(
        error.to_string().starts_with("matmul failed: there is no kernel for a GPU of compute capa"),
        "{error}"
    );
}

#[test]
fn one_operand_serves_a_whole_batch() {
    let device = hopper();
    let (one, many, square) =
        (integers(&device, [3, 4]), integers(&device, [2, 5, 4, 3]), integers(&device, [4, 4]));
    let product = |a: TensorView<'_, f32>, b: TensorView<'_, f32>| {
        let out = Matmul::new().run(&device, a, b).unwrap();
        (out.shape().to_vec(), out.to_vec().unwrap())
    };
    let (shape, all) = product(one.view(), many.view());
    assert_eq!(shape, [2, 5, 3, 3]);
    assert_eq!(product(one.view().broadcast([2, 5, 3, 4]).unwrap(), many.view()), (shape, all.clone()));
    for (i, part) in all.chunks(9).enumerate() {
        let matrix = many.view().slice(0, i / 5..=i / 5).unwrap().slice(1, i % 5..=i % 5).unwrap();
        assert_eq!(product(one.view(), matrix.reshape([4, 3]).unwrap()).1, part);
    }
    // One result for each matrix of a batch, from two operands without one.
    let mut out = Tensor::<f32>::zeros(&device, [3, 4, 4]).unwrap();
    Matmul::new().residual(&square).run_into(&device, &mut out, one.t(), &one).unwrap();
    let expected = Matmul::new().residual(&square).run(&device, one.t(), &one).unwrap().to_vec().unwrap();
    assert_eq!(out.to_vec().unwrap(), [expected.clone(), expected.clone(), expected].concat());
}

/// Checks the sizes, as m, n and k, that `is_wanted` chooses, in every layout, type and batch.
fn assert_small_sizes(mut is_wanted: impl FnMut() -> bool) {
    let device = hopper();
    let layouts = [[false, false], [false, true], [true, false], [true, true]];
    for i in 0..20 * 20 * 20 {
        let shape = [i % 20 + 1, i / 20 % 20 + 1, i / 400 + 1];
        for layout in layouts {
            for batches in [(1, false), (2, false), (3, true)] {
                let all: [&dyn Fn(); 4] = [
                    &|| assert_exact::<f32>(&device, shape, layout, batches, Precision::F32),
                    &|| assert_exact::<f32>(&device, shape, layout, batches, Precision::Tf32),
                    &|| assert_exact::<f16>(&device, shape, layout, batches, Precision::F32),
                    &|| assert_exact::<bf16>(&device, shape, layout, batches, Precision::F32),
                ];
                all.into_iter().filter(|_| is_wanted()).for_each(|check| check());
            }
        }
    }
}

/// Others for each part of the cases.
#[test]
fn some_small_sizes_are_exact_on_hopper() {
    let share = Share::of_tests();
    let seed = if let Share::Part { part, .. } = share { part } else { 0 };
    let mut rng = StdRng::seed_from_u64(seed as u64);
    let one_of = 384_000 / share.count(960);
    assert_small_sizes(|| rng.random_range(0..one_of) == 0);
}

#[test]
#[ignore = "384,000 multiplications take an hour"]
fn all_small_sizes_are_exact_on_hopper() {
    assert_small_sizes(|| true);
}

/// The mean and the root of the mean square of the relative errors of products of numbers from 1 to 2.
fn errors<T: Number + ElementAs<O>, O: Number>(
    device: &Device,
    shape @ [m, n, k]: [usize; 3],
    layout: [bool; 2],
    precision: Precision,
) -> [f64; 2] {
    let mut rng = StdRng::seed_from_u64((m + n + k) as u64);
    let mut numbers =
        |len: usize| -> Vec<T> { (0..len).map(|_| T::nearest(rng.random_range(1.0f32..2.0))).collect() };
    let (a, b) = (numbers(m * k), numbers(k * n));
    let got = product::<T, O>(device, shape, layout, (1, false), precision, [&a, &b]);
    let expected = oracle(shape, layout, (1, false), |i| a[i].value().into(), |i| b[i].value().into());
    let relative: Vec<f64> = got.iter().zip(&expected).map(|(got, expected)| got / expected - 1.0).collect();
    let mean = |of: &dyn Fn(f64) -> f64| relative.iter().map(|&x| of(x)).sum::<f64>() / relative.len() as f64;
    [mean(&|x| x), mean(&|x| x * x).sqrt()]
}

/// Truncated operands would make all results too small by more than half a unit.
#[test]
fn errors_of_reduced_precisions_have_no_bias() {
    let device = hopper();
    for shape in [[48, 96, 64], [130, 72, 64]] {
        for layout in [[false, false], [false, true], [true, false], [true, true]] {
            let check = |name: &str, unit: f64, [bias, size]: [f64; 2]| {
                assert!(
                    bias.abs() < unit / 16.0 && size < unit,
                    "{name} {shape:?}, transposed {layout:?}: bias {bias:e}, error {size:e}, unit {unit:e}"
                );
            };
            let half_unit = |bits: i32| 2f64.powi(-bits);
            let precision = Precision::F32;
            let tf32 = errors::<f32, f32>(&device, shape, layout, Precision::Tf32);
            check("tf32", half_unit(11), tf32);
            check("f32", half_unit(20), errors::<f32, f32>(&device, shape, layout, precision));
            check("bf16", half_unit(8), errors::<bf16, bf16>(&device, shape, layout, precision));
            check("f16", half_unit(11), errors::<f16, f16>(&device, shape, layout, precision));
            check("bf16 to f32", half_unit(20), errors::<bf16, f32>(&device, shape, layout, precision));
        }
    }
}

/// A chain of a million additions would be off by a hundredth.
#[test]
fn long_sums_are_exact_to_a_few_roundings() {
    let relative = |device: &Device, k: usize, x: f32| {
        let a = vec![x; k];
        let shape = [1, 1, k];
        let got = product::<f32, f32>(device, shape, [false, true], (1, false), Precision::F32, [&a, &a]);
        (got[0] / (k as f64 * f64::from(x) * f64::from(x)) - 1.0).abs()
    };
    for k in [1000, 16_384, 1 << 20] {
        let error = relative(&Device::cpu(), k, 0.1);
        assert!(error < 4e-6, "{k} terms on a CPU: {error:e}");
    }
    let error = relative(&hopper(), 16_384, 0.1);
    assert!(error < 4e-6, "few rows: {error:e}");
}
