//! Random shapes, places, strides and options, with what the operation chooses.

use std::sync::Arc;

use cuda_std::testing::Layout;
use ferrowarp::softmax::{Choice, Options};
use ferrowarp_cases::softmax::forward::{Forward, OfPair, of_each_pair};
use ferrowarp_cases::softmax::logits::logits;
use ferrowarp_cases::softmax::{Real, Setting};
use ferrowarp_cases::{Case, Scope, assert_right};
use gpu_kernels::softmax::operation::Forward as Kernels;
use proptest::prelude::*;

use crate::executor;

fn options() -> impl Strategy<Value = Options> {
    let scale = prop_oneof![Just(1.0f32), 1e-3f32..1e3];
    (scale, any::<bool>(), any::<bool>()).prop_map(|(scale, is_log, zeroes_masked)| {
        let options = Options::new().scale(scale);
        let options = if is_log { options.log() } else { options };
        if zeroes_masked { options.zero_masked() } else { options }
    })
}

fn problems() -> impl Strategy<Value = Problem> {
    // Small widths more often, since their kernels are many.
    let cols = prop_oneof![1usize..40, 1usize..600, 1usize..6000, 30_000usize..70_000];
    let place = || (0usize..8, 0usize..20);
    (1usize..9, cols, [place(), place()], options()).prop_map(|(rows, cols, places, options)| {
        let rows = if cols > 6000 { 1 } else { rows };
        let layouts =
            places.map(|(offset, gap)| Layout::dense(rows, cols).with_stride(cols + gap).with_offset(offset));
        Problem(Arc::new(Forward { layouts, options, logits: logits(rows, cols) }))
    })
}

#[derive(Debug)]
struct Problem(Arc<Forward>);

impl OfPair for Problem {
    fn of<I: Real, O: Real>(&self, kernels: &'static Kernels) -> Vec<Case> {
        let Layout { rows, cols, .. } = self.0.layouts[0];
        let target = Setting::new(Scope::Executor).target;
        let choice = Choice::new(kernels, &target, rows, cols).unwrap();
        let in_place = (kernels.from == kernels.to).then(|| self.0.clone().case_in_place::<I>(choice));
        [self.0.clone().case::<I, O>(choice)].into_iter().chain(in_place).collect()
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_matrix_comes_out_right(problem in problems()) {
        assert_right(&of_each_pair(&problem), &executor(), Case::assess_twice);
    }
}
