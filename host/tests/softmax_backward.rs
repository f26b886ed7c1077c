//! Backward of softmax and log-softmax: wide rows at any alignment, and rows whose answer is a matter of definition.

use std::sync::Arc;

use cuda_std::launch::Limits;
use cuda_std::testing::Layout;
use ferrowarp::device::Device;
use ferrowarp_cases::softmax::Rowwise as _;
use ferrowarp_cases::softmax::backward::Backward;
use ferrowarp_cases::{Case, assert_right, emulated};
use gpu_kernels::softmax::operation::Spread;

/// Rows in shared memory, in several pieces: each of what is read aligned as what is written, or not, or both not.
#[test]
fn wide_rows_off_a_boundary_agree_with_the_oracle() {
    let cols = 5003;
    let newer = emulated::newer_by_each();
    for offsets in [[0, 0, 0], [1, 0, 1], [3, 3, 0], [1, 2, 0]] {
        let place = |i: usize| Layout::dense(2, cols).with_stride(cols + 5).with_offset(offsets[i]);
        let problem = Arc::new(Backward::random([place(0), place(1), place(2)], 7));
        let is_staged = |kernel: &Spread<_>| kernel.variant.staged.is_some();
        for on in newer.iter().chain([&Device::cpu()]) {
            let limits = Limits { max_cluster: 2, ..on.limits().clone() };
            let kernels = Backward::holding::<f32>(cols, &limits).filter(is_staged);
            let cases: Vec<_> = kernels.map(|kernel| problem.case::<f32>(kernel, false)).collect();
            assert_eq!(cases.len(), 2);
            assert_right(&cases, on, Case::assess);
        }
    }
}

#[test]
fn rows_of_definitions() {
    let [nan, inf] = [f64::NAN, f64::INFINITY];
    let devices: Vec<Device> = [Device::cpu()].into_iter().chain(emulated::by_each()).collect();
    let row = |dy: &[f64], y: &[f64], is_log| {
        let narrow = |numbers: &[f64]| numbers.iter().map(|&x| x as f32).collect();
        let layouts = [Layout::dense(1, dy.len()); 3];
        let problem = Backward { layouts, dy: narrow(dy), y: narrow(y), scale: 1.0, is_log };
        let problem = Arc::new(problem);
        let cases = |on: &Device| -> Vec<Case> {
            let kernels = Backward::holding::<f32>(dy.len(), on.limits());
            kernels.map(|kernel| problem.case::<f32>(kernel, false)).collect()
        };
        devices.iter().for_each(|on| assert_right(&cases(on), on, Case::assess));
        cases(&devices[0])[0].run(&devices[0]).unwrap()[0].1.clone()
    };
    assert_eq!(row(&[3.0], &[1.0], false), [0.0]);
    assert_eq!(row(&[3.0], &[0.0], true), [0.0]);
    // A masked place gets no gradient through a softmax, and its own through a logarithm.
    assert_eq!(row(&[1.0, 5.0, 3.0], &[0.5, 0.0, 0.5], false), [-0.5, 0.0, 0.5]);
    assert_eq!(row(&[0.0, 2.0, 0.0], &[-inf, 0.0, -inf], true), [0.0, 0.0, 0.0]);
    assert!(row(&[0.0, 1.0, 2.0], &[nan; 3], false).iter().all(|x| x.is_nan()));
    assert!(row(&[0.0, 1.0, 2.0], &[nan; 3], true).iter().all(|x| x.is_nan()));
    assert!(row(&[nan, 1.0, 2.0], &[0.2, 0.3, 0.5], false).iter().all(|x| x.is_nan()));
    assert!(row(&[inf, 1.0, 2.0], &[0.2, 0.3, 0.5], false).iter().skip(1).all(|&x| x == -inf));
}
