//! Random shapes, places, strides and options, with what the operation chooses.

use std::sync::Arc;

use cuda_std::testing::Layout;
use cuda_std::{bf16, f16};
use ferrowarp::Softmax;
use ferrowarp::softmax::KernelChoice;
use ferrowarp_cases::softmax::forward::Forward;
use ferrowarp_cases::softmax::logits::logits;
use ferrowarp_cases::{Case, Scope, Setting, Share, assert_right, for_each_pair};
use proptest::prelude::*;

use super::executor;

fn options() -> impl Strategy<Value = Softmax> {
    let scale = prop_oneof![Just(1.0f32), 1e-3f32..1e3];
    (scale, any::<bool>(), any::<bool>()).prop_map(|(scale, is_log, zeroes_masked)| {
        let options = Softmax::new().scale(scale);
        let options = if is_log { options.log() } else { options };
        if zeroes_masked { options.zero_masked() } else { options }
    })
}

fn problems() -> impl Strategy<Value = Forward> {
    // Small widths more often, since their kernels are many.
    let cols = prop_oneof![1usize..40, 1usize..600, 1usize..6000, 30_000usize..70_000];
    let place = || (0usize..8, 0usize..20);
    (1usize..9, cols, [place(), place()], options()).prop_map(|(rows, cols, places, options)| {
        let rows = if cols > 6000 { 1 } else { rows };
        let layouts =
            places.map(|(offset, gap)| Layout::dense(rows, cols).with_stride(cols + gap).with_offset(offset));
        Forward { layouts, options, logits: logits(rows, cols) }
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: Share::of_tests().count(64), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_matrix_comes_out_right(problem in problems()) {
        let (Layout { rows, cols, .. }, profile) = (problem.layouts[0], Setting::new(Scope::Executor).profile);
        let (problem, mut cases) = (Arc::new(problem), Vec::new());
        for_each_pair!(|_kernels| {
            cases.push(problem.clone().case::<I, O>(KernelChoice::new(&profile, rows, cols).unwrap()));
        });
        cases.push(problem.clone().case_in_place::<f32>(KernelChoice::new(&profile, rows, cols).unwrap()));
        cases.push(problem.clone().case_in_place::<f16>(KernelChoice::new(&profile, rows, cols).unwrap()));
        cases.push(problem.case_in_place::<bf16>(KernelChoice::new(&profile, rows, cols).unwrap()));
        assert_right(&cases, &executor(), Case::assess_twice);
    }
}
