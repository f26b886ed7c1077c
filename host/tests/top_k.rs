//! The largest probabilities: hard rows, parts of matrices, and what is refused.

use std::sync::Arc;

use cuda_std::launch::Limits;
use ferrowarp::device::Device;
use ferrowarp::{Softmax, TensorView, TensorViewMut, bf16};
use ferrowarp_cases::softmax::top_k::TopK;
use ferrowarp_cases::softmax::{Rowwise as _, logits};
use ferrowarp_cases::{Case, assert_right};

/// Rows with NaN, infinity or ties, where the definition decides the result. They are wide enough to need bounds,
/// and run on one block and on clusters.
#[test]
fn hard_rows_come_out_as_defined() {
    let (cols, plain) = (1100, Softmax::new());
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
        let problem = Arc::new(TopK::dense(row, cols, 128, Softmax::new()));
        let on = Device::cpu();
        let limits = Limits { max_cluster: 2, ..on.limits().clone() };
        let cases: Vec<Case> =
            TopK::holding::<f32>(cols, &limits).map(|kernel| problem.case::<f32>(kernel, false)).collect();
        assert!(cases.len() >= 4);
        assert_right(&cases, &on, Case::assess_twice);
    }
}

/// The operation on the device's buffers: what is asked for, in parts of larger matrices, in another type.
#[test]
fn the_largest_are_written_into_parts_of_matrices() {
    let device = Device::cpu();
    let logits = device.upload(&[1.0f32, 3.0, 2.0, 9.0, 0.0, 0.0, 4.0].map(bf16::from_f32)).unwrap();
    let mut probabilities = device.upload(&[7.0f32; 6]).unwrap();
    let mut indices = device.upload(&[7u32; 5]).unwrap();
    let logits = TensorView::with_strides(&logits, [2, 3], [4, 1]).unwrap();
    let to = TensorViewMut::with_strides(&mut probabilities, [2, 2], [4, 1]).unwrap();
    let columns = TensorViewMut::with_strides(&mut indices, [2, 2], [3, 1]).unwrap();
    let top_k = ferrowarp::TopK::new(2).softmax(Softmax::new().log());
    top_k.run_into(&device, to, columns, logits).unwrap();
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
    let logits = device.tensor(&[0.0f32; 600], [2, 300]).unwrap();
    let (mut probabilities, mut indices) =
        (device.alloc_zeroed::<f32>(600).unwrap(), device.alloc_zeroed::<u32>(600).unwrap());
    let mut refused = |of_probabilities, of_indices: [usize; 2], k, softmax, words: &str| {
        let probabilities = TensorViewMut::new(&mut probabilities, of_probabilities).unwrap();
        let indices = TensorViewMut::new(&mut indices, of_indices).unwrap();
        let top_k = ferrowarp::TopK::new(k).softmax(softmax);
        let error = top_k.run_into(&device, probabilities, indices, &logits).unwrap_err().to_string();
        assert!(error.contains(words), "`{words}` is not in: {error}");
    };
    let plain = Softmax::new();
    refused([2, 0], [2, 0], 0, plain, "top-k failed: k is 0; it must be from 1 to 128");
    refused([2, 129], [2, 129], 129, plain, "top-k failed: k is 129; it must be from 1 to 128");
    refused(
        [3, 5],
        [3, 5],
        5,
        plain,
        "top-k failed: the probability tensor has the shape [3, 5]; it needs [2, 5]",
    );
    refused([2, 5], [2, 6], 5, plain, "top-k failed: the index tensor has the shape [2, 6]; it needs [2, 5]");
    refused([2, 5], [2, 5], 5, plain.scale(-1.0), "top-k failed: the scale is -1; it must be in (0, 2^127]");
    let error = ferrowarp::TopK::new(0).run(&device, &logits).unwrap_err().to_string();
    assert!(error.starts_with("top-k failed: k is 0; "), "{error}");
}
