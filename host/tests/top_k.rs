//! The largest probabilities, of every type and width, against the f64 oracle: on the CPU executor, and as PTX on the emulator.

use std::sync::Arc;

use cuda_std::launch::Limits;
use cuda_std::testing::Layout;
use ferrowarp::bf16;
use ferrowarp::device::Device;
use ferrowarp::softmax::{Matrix, MatrixMut, Options, SoftmaxError, softmax_top_k};
use ferrowarp_cases::softmax::top_k::{self, TopK};
use ferrowarp_cases::softmax::{Rowwise as _, Setting, logits};
use ferrowarp_cases::{Case, Scope, assert_right, emulated};
use proptest::prelude::{Strategy, any, proptest};
use proptest::test_runner::Config;

#[test]
fn every_kernel_agrees_with_the_oracle_on_the_executor() {
    assert_right(&top_k::cases(&Setting::new(Scope::Executor)), &Device::cpu(), Case::assess_twice);
}

#[test]
fn every_kernel_agrees_with_the_oracle_as_ptx() {
    emulated::assert_right_as_ptx(top_k::cases);
}

/// Any alignment and distance of rows, of all three matrices.
fn layouts() -> impl Strategy<Value = [Layout; 3]> {
    let place = || (0usize..9, 0usize..9);
    (1usize..20, 1usize..1500, [place(), place(), place()]).prop_map(|(rows, cols, places)| {
        places.map(|(gap, offset)| Layout::dense(rows, cols).with_stride(cols + gap).with_offset(offset))
    })
}

proptest! {
    #![proptest_config(Config { cases: 30, failure_persistence: None, ..Config::default() })]

    #[test]
    fn any_layout_agrees_with_the_oracle(layouts in layouts(), seed in any::<u64>()) {
        let (problem, on) = (Arc::new(TopK::random(layouts, seed)), Device::cpu());
        assert_right(&problem.cases_of_each_type(on.limits()), &on, Case::assess);
    }
}

/// Rows with NaN, infinity or ties, where the definition decides the result. They are wide enough to need bounds,
/// and run on one block and on clusters.
#[test]
fn hard_rows_come_out_as_defined() {
    let (cols, plain) = (1100, Options::new());
    let rows: Vec<f32> = logits::edge_rows(cols).into_iter().flat_map(|(_, row)| row).collect();
    for (k, options) in
        [(128, plain), (3, plain.log()), (50, plain.zero_masked()), (1, plain.zero_masked().log())]
    {
        let problem = Arc::new(TopK::dense(rows.clone(), cols, k, options));
        let on = Device::cpu();
        let limits = Limits { max_cluster: 4, ..on.limits().clone() };
        let kernels = TopK::holding::<f32>(cols, &limits);
        let cases: Vec<Case> = kernels.map(|kernel| problem.case::<f32>(kernel, false)).collect();
        assert_right(&cases, &on, Case::assess);
    }
}

/// A block has room for 1024 or 512 candidates for the largest elements. In these rows far more elements reach the first
/// bound, all at columns of a few threads.
#[test]
fn rows_that_are_large_where_few_threads_look_come_out_right() {
    let cols = 40_000;
    for (block, vector) in [(512, 4), (256, 4)] {
        let row: Vec<f32> = (0..cols)
            .map(|col| {
                let thread = col / vector % block;
                if thread < 130 { 1000.0 + (col * 31 % 997) as f32 } else { (col * 17 % 991) as f32 }
            })
            .collect();
        let problem = Arc::new(TopK::dense(row, cols, 128, Options::new()));
        let on = Device::cpu();
        let limits = Limits { max_cluster: 2, ..on.limits().clone() };
        let cases: Vec<Case> =
            TopK::holding::<f32>(cols, &limits).map(|kernel| problem.case::<f32>(kernel, false)).collect();
        assert!(cases.len() >= 4);
        assert_right(&cases, &on, Case::assess_twice);
    }
}

/// The function on the device's buffers: what is asked for, in parts of larger matrices, in another type.
#[test]
fn the_largest_are_written_into_parts_of_matrices() {
    let device = Device::cpu();
    let logits = device.upload(&[1.0f32, 3.0, 2.0, 9.0, 0.0, 0.0, 4.0].map(bf16::from_f32)).unwrap();
    let mut probabilities = device.upload(&[7.0f32; 6]).unwrap();
    let mut indices = device.upload(&[7u32; 5]).unwrap();
    softmax_top_k(
        &device,
        &mut MatrixMut::new(&mut probabilities, 2, 2).unwrap().with_stride(4).unwrap(),
        &mut MatrixMut::new(&mut indices, 2, 2).unwrap().with_stride(3).unwrap(),
        &Matrix::new(&logits, 2, 3).unwrap().with_stride(4).unwrap(),
        &Options::new().log(),
    )
    .unwrap();
    assert_eq!(indices.to_vec().unwrap(), [1, 2, 7, 2, 0]);
    let first = -(1.0 + (-1f32).exp() + (-2f32).exp()).ln();
    let second = -(1.0 + 2.0 * (-4f32).exp()).ln();
    let got = probabilities.to_vec().unwrap();
    for (got, want) in got.iter().zip([first, first - 1.0, 7.0, 7.0, second, second - 4.0]) {
        assert!((got - want).abs() < 1e-6, "{got}, not {want}");
    }
}

#[test]
fn what_does_not_fit_is_refused_in_words() {
    let device = Device::cpu();
    let logits = device.alloc_zeroed::<f32>(600).unwrap();
    let (mut probabilities, mut indices) =
        (device.alloc_zeroed::<f32>(600).unwrap(), device.alloc_zeroed::<u32>(600).unwrap());
    let mut refused = |[rows, k]: [usize; 2], of_indices: [usize; 2], options: Options, words: &str| {
        let result: Result<(), SoftmaxError> = softmax_top_k(
            &device,
            &mut MatrixMut::new(&mut probabilities, rows, k).unwrap(),
            &mut MatrixMut::new(&mut indices, of_indices[0], of_indices[1]).unwrap(),
            &Matrix::new(&logits, 2, 300).unwrap(),
            &options,
        );
        let error = result.unwrap_err().to_string();
        assert!(error.contains(words), "`{words}` is not in: {error}");
    };
    let plain = Options::new();
    refused([2, 0], [2, 0], plain, "top-k with k = 0 failed: k must be from 1 to 128");
    refused([2, 129], [2, 129], plain, "top-k with k = 129 failed: k must be from 1 to 128");
    refused([3, 5], [3, 5], plain, "the probabilities is 3 x 5");
    refused([2, 5], [2, 6], plain, "the indices is 2 x 6");
    refused([2, 5], [2, 5], plain.scale(-1.0), "softmax with a scale of -1 failed");
}
