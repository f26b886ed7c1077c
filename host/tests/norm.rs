//! RMSNorm and LayerNorm against their f64 oracle, on the CPU executor and as PTX on the emulator; gradients against differences; and
//! what is refused.

use cuda_std::half::{bf16, f16};
use cuda_std::launch::Limits;
use cuda_std::testing::Counter;
use ferrowarp::device::Device;
use ferrowarp::norm::{Matrix, MatrixMut, Norm, NormBackward, NormError, Real};
use ferrowarp_cases::norm::cases;
use ferrowarp_cases::softmax::Setting;
use ferrowarp_cases::{Case, Scope, assert_right, assert_right_under_shuffled_schedules, emulated};
use rand::{RngExt as _, SeedableRng as _, rngs::StdRng};

#[test]
fn on_the_executor() {
    assert_right(&cases(&Setting::new(Scope::Executor)), &Device::cpu(), Case::assess_twice);
}

#[test]
fn under_shuffled_schedules() {
    assert_right_under_shuffled_schedules(cases);
}

#[test]
fn as_ptx() {
    emulated::assert_right_as_ptx(cases);
}

/// The loss is the sum of the output times fixed factors.
fn loss(device: &Device, inp: &[f32], weight: &[f32], factors: &[f32], is_centred: bool) -> f64 {
    let cols = weight.len();
    let rows = inp.len() / cols;
    let (inp, weight) = (device.upload(inp).unwrap(), device.upload(weight).unwrap());
    let mut out = device.alloc_zeroed::<f32>(rows * cols).unwrap();
    let (to, from) = (MatrixMut::new(&mut out, rows, cols).unwrap(), Matrix::new(&inp, rows, cols).unwrap());
    let norm = if is_centred { Norm::layer(to, from) } else { Norm::rms(to, from) };
    norm.weight(&weight).run(device).unwrap();
    out.to_vec().unwrap().iter().zip(factors).map(|(y, f)| f64::from(*y) * f64::from(*f)).sum()
}

#[test]
fn gradients_are_those_of_small_differences() {
    let device = Device::cpu();
    let (rows, cols) = (2, 5);
    let inp: Vec<f32> = (0..10).map(|i| ((i * 7 % 10) as f32 - 4.0) * 0.3).collect();
    let weight: Vec<f32> = (0..5).map(|i| 0.5 + i as f32 * 0.25).collect();
    let factors: Vec<f32> = (0..10).map(|i| ((i * 3 % 10) as f32 - 5.0) * 0.2).collect();
    for is_centred in [false, true] {
        let x = device.upload(&inp).unwrap();
        let (w, d_out) = (device.upload(&weight).unwrap(), device.upload(&factors).unwrap());
        let mut out = device.alloc_zeroed::<f32>(10).unwrap();
        let [mut mean, mut rstd] = [device.alloc_zeroed::<f32>(2).unwrap(), device.alloc_zeroed(2).unwrap()];
        let (to, from) =
            (MatrixMut::new(&mut out, rows, cols).unwrap(), Matrix::new(&x, rows, cols).unwrap());
        let norm = if is_centred { Norm::layer(to, from) } else { Norm::rms(to, from) };
        norm.weight(&w).mean(&mut mean).rstd(&mut rstd).run(&device).unwrap();
        let mut d_inp = device.alloc_zeroed::<f32>(10).unwrap();
        let mut d_weight = device.alloc_zeroed::<f32>(5).unwrap();
        let (to, d_out) =
            (MatrixMut::new(&mut d_inp, rows, cols).unwrap(), Matrix::new(&d_out, rows, cols).unwrap());
        let backward = match is_centred {
            true => NormBackward::layer(to, from, d_out, &mean, &rstd),
            false => NormBackward::rms(to, from, d_out, &rstd),
        };
        backward.weight(&w).d_weight(&mut d_weight).run(&device).unwrap();
        let step = 1e-2f32;
        let slope = |at: usize, of_weight: bool| {
            let at_distance = |by: f32| {
                let (mut inp, mut weight) = (inp.clone(), weight.clone());
                if of_weight {
                    weight[at] += by
                } else {
                    inp[at] += by
                }
                loss(&device, &inp, &weight, &factors, is_centred)
            };
            (at_distance(step) - at_distance(-step)) / (2.0 * f64::from(step))
        };
        for (i, d) in d_inp.to_vec().unwrap().into_iter().enumerate() {
            let slope = slope(i, false);
            assert!((f64::from(d) - slope).abs() < 2e-3, "centred {is_centred}, input {i}: {d}, not {slope}");
        }
        for (i, d) in d_weight.to_vec().unwrap().into_iter().enumerate() {
            let slope = slope(i, true);
            assert!(
                (f64::from(d) - slope).abs() < 2e-3,
                "centred {is_centred}, weight {i}: {d}, not {slope}"
            );
        }
    }
}

#[test]
fn without_rows_or_columns_there_is_nothing_to_do() {
    let device = Device::cpu();
    let empty = device.alloc_zeroed::<bf16>(0).unwrap();
    for (rows, cols) in [(0, 4), (3, 0)] {
        let mut out = device.alloc_zeroed::<bf16>(0).unwrap();
        let norm = Norm::layer(
            MatrixMut::new(&mut out, rows, cols).unwrap(),
            Matrix::new(&empty, rows, cols).unwrap(),
        );
        norm.run(&device).unwrap();
    }
    let (mut d_inp, rstd) = (device.alloc_zeroed::<bf16>(0).unwrap(), device.alloc_zeroed::<f32>(0).unwrap());
    let mut d_weight = device.upload(&[bf16::from_f32(1.0); 4]).unwrap();
    let matrix = Matrix::new(&empty, 0, 4).unwrap();
    let backward = NormBackward::rms(MatrixMut::new(&mut d_inp, 0, 4).unwrap(), matrix, matrix, &rstd);
    backward.d_weight(&mut d_weight).run(&device).unwrap();
    assert_eq!(d_weight.to_vec().unwrap(), [bf16::from_f32(0.0); 4]);
}

#[test]
fn what_does_not_fit_is_refused() {
    let device = Device::cpu();
    let inp = device.alloc_zeroed::<f32>(6).unwrap();
    let short = device.alloc_zeroed::<f32>(2).unwrap();
    let error_of = |prepare: &dyn Fn(Norm<'_, f32>) -> Result<(), NormError>, cols: usize| {
        let mut out = device.alloc_zeroed::<f32>(6).unwrap();
        let norm = Norm::rms(MatrixMut::new(&mut out, 2, cols).unwrap(), Matrix::new(&inp, 2, 3).unwrap());
        prepare(norm).unwrap_err().to_string()
    };
    let error = error_of(&|norm| norm.run(&device), 2);
    assert_eq!(
        error,
        "a norm of 2 x 3 failed: the output is 2 x 2; all matrices need the same rows and columns"
    );
    let error = error_of(&|norm| norm.epsilon(-1.0).run(&device), 3);
    assert_eq!(error, "a norm with an epsilon of -1 failed: epsilon must be at least 0 and finite");
    assert!(error_of(&|norm| norm.epsilon(f32::NAN).run(&device), 3).contains("epsilon of NaN"));
    let mut out = device.alloc_zeroed::<f32>(6).unwrap();
    let norm = Norm::rms(MatrixMut::new(&mut out, 2, 3).unwrap(), Matrix::new(&inp, 2, 3).unwrap());
    let error = norm.weight(&short).run(&device).unwrap_err().to_string();
    assert_eq!(error, "a norm failed: there are 2 weights; pass 3");
    let other = Device::cpu();
    let norm = Norm::rms(MatrixMut::new(&mut out, 2, 3).unwrap(), Matrix::new(&inp, 2, 3).unwrap());
    let error = norm.run(&other);
    assert!(
        error.is_ok() || error.unwrap_err().to_string().contains("the inputs belong to another `Device`")
    );
}

/// Rows that follow each other without gaps move as whole vectors, wherever they start. With a gap, or if the matrix starts
/// within a vector, each element moves on its own.
#[test]
fn gradients_of_rows_without_gaps_take_few_requests() {
    let counter = Counter::new();
    let device = emulated::counting(&counter).unwrap();
    let (rows, cols) = (64, 1001);
    let requests = |first: usize, stride: usize| {
        let ones = |len: usize| device.upload(&vec![bf16::ONE; len]).unwrap();
        let (matrix, weight) = (ones(first + rows * stride), ones(cols));
        let rstd = device.upload(&vec![1f32; rows]).unwrap();
        let mut d_inp = device.alloc_zeroed(first + rows * stride).unwrap();
        let mut d_weight = device.alloc_zeroed(cols).unwrap();
        let (from, to) = (matrix.view(first..).unwrap(), d_inp.view_mut(first..).unwrap());
        let of = Matrix::new(from, rows, cols).unwrap().with_stride(stride).unwrap();
        let to = MatrixMut::new(to, rows, cols).unwrap().with_stride(stride).unwrap();
        counter.take();
        let backward = NormBackward::rms(to, of, of, &rstd).weight(&weight).d_weight(&mut d_weight);
        backward.run(&device).unwrap();
        assert_eq!(d_weight.to_vec().unwrap(), vec![bf16::from_f32(rows as f32); cols]);
        let launches = counter.take();
        let launch = launches.iter().find(|it| it.kernels[0].starts_with("norm_backward_")).unwrap();
        launch.total.global.loads.requests + launch.total.global.stores.requests
    };
    let dense = requests(0, cols);
    for (first, stride) in [(0, cols + 2), (1, cols)] {
        let others = requests(first, stride);
        assert!(
            3 * dense < others,
            "{dense} requests, {others} for a stride of {stride} from element {first}"
        );
    }
}

/// A GPU traps at the stores that a block without a cluster sends to itself, so no case and no user may launch that.
#[test]
fn only_rows_of_two_blocks_take_clusters() {
    fn check<T: Real>(dtype: &str) {
        let limits = Limits { capability: 90, runs_cpu_only: false, ..Limits::default() };
        let cluster = format!("norm_backward_{dtype}_cluster");
        let mut rng = StdRng::seed_from_u64(23);
        let drawn = (1..=200).map(|i| rng.random_range(1..=2usize << (i % 18)));
        for cols in [1, 131, 1023, 8192, 8193, 65536, 65537].into_iter().chain(drawn) {
            let kernels = NormBackward::<T>::kernels(&limits, cols, true);
            let takes_cluster = kernels.iter().any(|meta| meta.name == cluster);
            assert_eq!(takes_cluster, (8193..=65536).contains(&cols), "{dtype}: {cols} columns");
        }
    }
    check::<f32>("f32");
    check::<f16>("f16");
    check::<bf16>("bf16");
}
