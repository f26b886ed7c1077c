//! Random shapes, places, strides and options, with what the operation chooses.

use ferrowarp::softmax::{KernelChoice, Options};
use proptest::prelude::*;

use crate::cases::{Case, assert_right, complaint, executor, for_each_pair, gpu, nearest, run_in_place};
use ferrowarp_cases::reference::Number;
use ferrowarp_cases::rows::logits;

fn options() -> impl Strategy<Value = Options> {
    let scale = prop_oneof![Just(1.0f32), 1e-3f32..1e3];
    (scale, any::<bool>(), any::<bool>()).prop_map(|(scale, is_log, zeroes_masked)| {
        let options = Options::new().scale(scale);
        let options = if is_log { options.log() } else { options };
        if zeroes_masked { options.zero_masked() } else { options }
    })
}

fn cases() -> impl Strategy<Value = Case> {
    // Small widths more often, since their kernels are many.
    let cols = prop_oneof![1usize..40, 1usize..600, 1usize..6000, 30_000usize..70_000];
    let pair = |most: usize| [0..most, 0..most];
    (1usize..9, cols, pair(8), pair(20), options()).prop_map(|(rows, cols, offsets, gaps, options)| {
        let rows = if cols > 6000 { 1 } else { rows };
        Case { rows, cols, offsets, gaps, options }
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_matrix_comes_out_right(case in cases()) {
        let on = executor();
        for_each_pair!(|forward| {
            let logits: Vec<I> = logits(case.rows, case.cols).into_iter().map(nearest).collect();
            let choice = KernelChoice::<I, O>::new(&gpu(), case.rows, case.cols).unwrap();
            assert_right(&on, &choice, &case, &logits);
        });
        in_place::<f32>(&case);
        in_place::<cuda_std::f16>(&case);
        in_place::<cuda_std::bf16>(&case);
    }
}

fn in_place<T: Number>(case: &Case) {
    let logits: Vec<T> = logits(case.rows, case.cols).into_iter().map(nearest).collect();
    let choice = KernelChoice::new(&gpu(), case.rows, case.cols).unwrap();
    let got = run_in_place(&executor(), &choice, case, &logits).unwrap();
    assert_eq!(complaint(&got, case, &logits), None, "in place: {case}");
}
