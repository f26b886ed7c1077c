//! The operation's kernels as PTX, on the emulator.

use ferrowarp::softmax::{KernelChoice, Options, SoftmaxAs};

use crate::cases::{Case, complaint, every, for_each_pair, names, nearest, run};
use ferrowarp_cases::emulated::{self, Emulators};
use ferrowarp_cases::reference::Number;
use ferrowarp_cases::rows::{edge_rows, logits};

/// These shapes and the edge rows, in all pairs of types and all choices whose clusters have at most this many blocks.
fn assert_all_right(on: &Emulators, shapes: &[[usize; 2]], most_blocks: u32) {
    for_each_pair!(|forward| {
        let can_run = |choice: &KernelChoice<I, O>| can_run(on, choice, most_blocks);
        for (i, &[rows, cols]) in shapes.iter().enumerate() {
            let logits: Vec<I> = logits(rows, cols).into_iter().map(nearest).collect();
            for (j, choice) in every::<I, O>(rows, cols).filter(can_run).enumerate() {
                let case = Case::new(rows, cols).at(i % 4, j % 3).apart(i % 2, 3 * (j % 2));
                let other = Options::new().log().scale(0.5).zero_masked();
                let case = if (i + j) % 2 == 0 { case } else { case.with(other) };
                let got: Vec<O> = run(on, &choice, &case, &logits).unwrap();
                assert_right(&choice, complaint(&got, &case, &logits), &case);
            }
        }
        let edges = edge_rows(133);
        let logits: Vec<I> = edges.iter().flat_map(|(_, row)| row).map(|&x| nearest(x)).collect();
        // Enough warps to see how they merge.
        let choices =
            every::<I, O>(edges.len(), 133).filter(|choice| choice.config().unwrap().block.x <= 128);
        for choice in choices.filter(can_run) {
            let case = Case::new(edges.len(), 133).at(1, 1);
            let got: Vec<O> = run(on, &choice, &case, &logits).unwrap();
            assert_right(&choice, complaint(&got, &case, &logits), &case);
        }
    });
}

fn can_run<I: Number + SoftmaxAs<O>, O: Number>(
    on: &Emulators,
    choice: &KernelChoice<I, O>,
    most_blocks: u32,
) -> bool {
    let is_there = choice.kernels().all(|meta| meta.min_arch <= on.limits().capability);
    is_there && choice.config().unwrap().cluster <= most_blocks
}

#[track_caller]
fn assert_right<I: Number + SoftmaxAs<O>, O: Number>(
    choice: &KernelChoice<I, O>,
    got: Option<String>,
    case: &Case,
) {
    assert_eq!(got, None, "{:?} {:?} {case}", names(choice), choice.config());
}

#[test]
fn kernels_agree_with_the_oracle_as_ptx() {
    let shapes = [[9, 1], [5, 33], [1, 519]];
    emulated::by_each().iter().for_each(|on| assert_all_right(on, &shapes, 1));
}

#[test]
fn kernels_agree_in_another_order_for_a_newer_architecture() {
    emulated::newer_by_each().iter().for_each(|on| assert_all_right(on, &[[3, 33], [1, 1031]], 2));
}
