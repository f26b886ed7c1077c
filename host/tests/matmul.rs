//! Matrix multiplication against its f64 oracle, on the CPU executor and as PTX on the emulator: every kernel, every small size,
//! and the bias of errors.

use cuda_std::half::{bf16, f16};
use cuda_std::launch::Limits;
use cuda_std::simt::Executor;
use ferrowarp::device::Device;
use ferrowarp::matmul::{Matmul, MatmulAs, Matrix, MatrixMut, Precision};
use ferrowarp_cases::matmul::cases;
use ferrowarp_cases::reference::Number;
use ferrowarp_cases::softmax::Setting;
use ferrowarp_cases::{Case, Scope, assert_right, chosen_part, emulated};
use rand::{RngExt as _, SeedableRng as _, rngs::StdRng};

#[test]
fn on_the_executor() {
    let device = Device::cpu();
    assert_right(&cases(&Setting::new(Scope::Executor)), &device, Case::assess);
    assert_right(&cases(&Setting::new(Scope::Small)), &device, Case::assess_twice);
}

#[test]
fn as_ptx() {
    for device in emulated::newer_by_each() {
        assert_right(&cases(&Setting::new(Scope::NewEmulator)), &device, Case::assess);
    }
}

/// The executor as a GPU of compute capability 9.0, with that GPU's kernels.
fn hopper() -> Device {
    let limits = Limits { capability: 90, runs_cpu_only: false, ..Limits::default() };
    Device::with_launcher(Executor::new(), limits)
}

/// Multiplies dense batches, and returns the results. With `is_b_shared` there is one B for all.
fn product<T: Number + MatmulAs<O>, O: Number>(
    device: &Device,
    [m, n, k]: [usize; 3],
    [is_a_transposed, is_b_transposed]: [bool; 2],
    (batch, is_b_shared): (usize, bool),
    precision: Precision,
    [a, b]: [&[T]; 2],
) -> Vec<f64> {
    let (a, b) = (device.upload(a).unwrap(), device.upload(b).unwrap());
    let mut out = device.alloc_zeroed::<O>(batch * m * n).unwrap();
    let matrix = |buffer, [rows, cols]: [usize; 2], is_transposed: bool, stride: usize| {
        let buffer: &ferrowarp::device::Buffer<T> = buffer;
        let [rows, cols] = if is_transposed { [cols, rows] } else { [rows, cols] };
        let matrix = Matrix::new(buffer, rows, cols).unwrap().with_batch(batch, stride).unwrap();
        if is_transposed { matrix.transposed() } else { matrix }
    };
    let a = matrix(&a, [m, k], is_a_transposed, m * k);
    let b = matrix(&b, [k, n], is_b_transposed, if is_b_shared { 0 } else { k * n });
    let to = MatrixMut::new(&mut out, m, n).unwrap().with_batch(batch, m * n).unwrap();
    Matmul::new(to, a, b).precision(precision).run(device).unwrap();
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
fn assert_exact<T: Number + MatmulAs<T>>(
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

/// Another part of them for each part of the cases.
#[test]
fn some_small_sizes_are_exact_on_hopper() {
    let mut rng = StdRng::seed_from_u64(chosen_part().0 as u64);
    assert_small_sizes(|| rng.random_range(0..400) == 0);
}

#[test]
#[ignore = "384,000 multiplications take an hour"]
fn all_small_sizes_are_exact_on_hopper() {
    assert_small_sizes(|| true);
}

/// The mean and the root of the mean square of the relative errors of products of numbers from 1 to 2.
fn errors<T: Number + MatmulAs<O>, O: Number>(
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
