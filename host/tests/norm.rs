//! RMSNorm and LayerNorm: gradients against differences, and what is refused.

use cuda_std::half::{bf16, f16};
use cuda_std::launch::Limits;
use cuda_std::testing::Counter;
use ferrowarp::device::Device;
use ferrowarp::norm::{Backward, GradientOutputs, Norm, Statistics};
use ferrowarp::{Element, Tensor, TensorView, TensorViewMut};
use ferrowarp_cases::emulated;
use rand::{RngExt as _, SeedableRng as _, rngs::StdRng};

/// The loss is the sum of the output times fixed factors.
fn loss(device: &Device, inp: &[f32], weight: &[f32], factors: &[f32], is_centred: bool) -> f64 {
    let cols = weight.len();
    let rows = inp.len() / cols;
    let (inp, weight) = (device.tensor(inp, [rows, cols]).unwrap(), device.upload(weight).unwrap());
    let norm = if is_centred { Norm::layer() } else { Norm::rms() };
    let out = norm.weight(&weight).run(device, &inp).unwrap();
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
        let x = device.tensor(&inp, [rows, cols]).unwrap();
        let d_out = device.tensor(&factors, [rows, cols]).unwrap();
        let w = device.upload(&weight).unwrap();
        let norm = if is_centred { Norm::layer() } else { Norm::rms() }.weight(&w);
        let (_, saved) = norm.forward(&device, &x).unwrap();
        let gradients = norm.backward(&device, &d_out, &x, &saved).unwrap();
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
        for (i, d) in gradients.input.to_vec().unwrap().into_iter().enumerate() {
            let slope = slope(i, false);
            assert!((f64::from(d) - slope).abs() < 2e-3, "centred {is_centred}, input {i}: {d}, not {slope}");
        }
        for (i, d) in gradients.weight.unwrap().to_vec().unwrap().into_iter().enumerate() {
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
    for shape in [[0, 4], [3, 0]] {
        let empty = Tensor::<bf16>::zeros(&device, shape).unwrap();
        assert_eq!(Norm::layer().run(&device, &empty).unwrap().shape().to_vec(), shape);
    }
    let (empty, weight) = (Tensor::zeros(&device, [0, 4]).unwrap(), device.upload(&[bf16::ONE; 4]).unwrap());
    let norm = Norm::rms().weight(&weight);
    let (_, saved) = norm.forward(&device, &empty).unwrap();
    let gradients = norm.backward(&device, &empty, &empty, &saved).unwrap();
    assert_eq!(gradients.weight.unwrap().to_vec().unwrap(), [bf16::from_f32(0.0); 4]);
}

#[test]
fn what_does_not_fit_is_refused() {
    let device = Device::cpu();
    let inp = Tensor::<f32>::zeros(&device, [2, 3]).unwrap();
    let short = device.alloc_zeroed::<f32>(2).unwrap();
    let error = |norm: Norm<'_, f32>| norm.run(&device, &inp).unwrap_err().to_string();
    let mut out = Tensor::zeros(&device, [2, 2]).unwrap();
    let shapes = Norm::rms().run_into(&device, &mut out, &inp).unwrap_err();
    assert_eq!(shapes.to_string(), "RMSNorm failed: the output has the shape [2, 2]; it needs [2, 3]");
    assert_eq!(
        error(Norm::rms().epsilon(-1.0)),
        "RMSNorm failed: epsilon is -1; it must be at least 0 and finite"
    );
    assert!(error(Norm::layer().epsilon(f32::NAN)).contains("epsilon is NaN"));
    assert_eq!(
        error(Norm::rms().weight(&short)),
        "RMSNorm failed: the weight has the shape [2]; it needs [3]"
    );
    let d_out = TensorView::with_strides(inp.buffer(), [2, 3], [1, 1]).unwrap();
    let statistics = Statistics::rms(&short);
    let mut d_inp = Tensor::zeros(&device, [2, 3]).unwrap();
    let overlap = Norm::rms().backward_into(&device, &mut d_inp, d_out, &inp, statistics).unwrap_err();
    assert!(
        overlap.to_string().contains("gradient of the output has the shape [2, 3] and strides of [1, 1]"),
        "{overlap}"
    );
    let means = Norm::layer().backward_into(&device, &mut d_inp, &inp, &inp, statistics).unwrap_err();
    assert!(means.to_string().contains("the number of means is 0"), "{means}");
    let (_, saved) = Norm::rms().forward(&device, &inp).unwrap();
    let lost = Norm::rms().residual(&inp).backward(&device, &inp, &inp, &saved).unwrap_err().to_string();
    assert!(lost.contains("the norm has a residual, and the saved forward pass had none"), "{lost}");
    let other = Norm::rms().run(&Device::cpu(), &inp);
    assert!(
        other.is_ok() || other.unwrap_err().to_string().contains("the input belongs to another `Device`")
    );
}

/// Rows that follow each other without gaps move as whole vectors, wherever they start. With a gap, or if the matrix starts
/// within a vector, each vector comes from two.
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
        let of = TensorView::with_strides(from, [rows, cols], [stride, 1]).unwrap();
        let to = TensorViewMut::with_strides(to, [rows, cols], [stride, 1]).unwrap();
        counter.take();
        let outputs = GradientOutputs::new(to).weight(&mut d_weight);
        let norm = Norm::rms().weight(&weight);
        let stored = [first == 0 && stride == cols, true, false];
        let mut choices = Backward::choices(device.limits(), [rows, cols], stored);
        let by = choices.find(|by| matches!(by, Backward::Rows(_)));
        norm.run_backward_by(&device, outputs, of, of, Statistics::rms(&rstd), by).unwrap();
        assert_eq!(d_weight.to_vec().unwrap(), vec![bf16::from_f32(rows as f32); cols]);
        let launches = counter.take();
        let launch = launches.iter().find(|it| it.kernels[0].starts_with("norm_backward_")).unwrap();
        launch.total.global.loads.requests + launch.total.global.stores.requests
    };
    let dense = requests(0, cols);
    for (first, stride) in [(0, cols + 2), (1, cols)] {
        let others = requests(first, stride);
        assert!(dense < others, "{dense} requests, {others} for a stride of {stride} from element {first}");
    }
}

/// A row that shares its last vector with the next one reads that vector whole. The emulator faults if it ends after the matrix.
#[test]
fn rows_shorter_than_a_vector_are_read_within_the_matrix() {
    fn check<T: Element>(device: &Device) {
        let rows = 10;
        let rstd = device.upload(&vec![1f32; rows]).unwrap();
        for cols in 1..16 / size_of::<T>() {
            let x = Tensor::<T>::zeros(device, [rows, cols]).unwrap();
            let mut d_inp = Tensor::zeros(device, [rows, cols]).unwrap();
            Norm::rms().backward_into(device, &mut d_inp, &x, &x, Statistics::rms(&rstd)).unwrap();
        }
    }
    let device = emulated::newer_by_each().swap_remove(0);
    check::<f32>(&device);
    check::<f16>(&device);
    check::<bf16>(&device);
}

/// A GPU traps at the stores that a block without a cluster sends to itself, so no case and no user may launch that.
#[test]
fn only_rows_of_two_blocks_take_clusters() {
    fn check<T: Element>(dtype: &str) {
        let limits = Limits { capability: 90, runs_cpu_only: false, ..Limits::default() };
        let cluster = format!("norm_backward_{dtype}_cluster");
        let mut rng = StdRng::seed_from_u64(23);
        let drawn = (1..=200).map(|i| rng.random_range(1..=2usize << (i % 18)));
        for cols in [1, 131, 1023, 8192, 8193, 131_072, 131_073].into_iter().chain(drawn) {
            let mut kernels = Backward::<T>::choices(&limits, [9, cols], [true; 3]);
            let takes_cluster = kernels.any(|by| by.meta().name == cluster);
            assert_eq!(takes_cluster, (8193..=131_072).contains(&cols), "{dtype}: {cols} columns");
        }
    }
    check::<f32>("f32");
    check::<f16>("f16");
    check::<bf16>("bf16");
}
