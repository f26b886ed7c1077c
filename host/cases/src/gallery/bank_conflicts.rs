//! Strided reads of shared memory.

use gpu_kernels::gallery::Rung;
use gpu_kernels::gallery::bank_conflicts::{Arguments, RUNGS, word};

use super::prediction::h200;
use super::theory::{WARP, passes};
use super::{Arrays, Axis, Foretold, Lesson, Measure, Prediction, Problem, Scale, Trial, Work};
use crate::compare::Bound;

pub(super) const LESSON: Lesson = Lesson {
    name: "bank_conflicts",
    title: "Banks of shared memory",
    axis: Axis { label: "stride, in words", is_log: false },
    measure: Measure::Bytes,
    rungs: || RUNGS.iter().map(|rung| (rung.name, rung.idea)).collect(),
    trials,
    predictions,
};

/// Consecutive words that a thread reads in each round.
const RUN: usize = 32;

fn predictions() -> Vec<Prediction> {
    vec![
        Prediction::rate("plain", h200::SHARED * h200::MULTIPROCESSORS * h200::CLOCK)
            .at(1.0)
            .from("128 bytes per cycle on each of 132 multiprocessors")
            .why("Addresses and the loop take the remaining cycles."),
        Prediction::growth("plain", 1.0, 32.0)
            .at(32.0)
            .from("32 wavefronts for 1")
            .elsewhere("32-way conflict, 31 replays", "learning_cuda")
            .why("Each lane wants a different word of the same bank, and the bank gives one word per cycle."),
        Prediction::time_over("padded", "plain", 1.0 / 32.0).at(32.0).from("1 wavefront for 32").why(
            "The conflicts are gone. What is left is the arithmetic of the addresses: three times the instructions of `plain`.",
        ),
        Prediction::time_over("swizzled", "plain", 1.0 / 32.0)
            .at(32.0)
            .from("1 wavefront for 32")
            .why("The conflicts are gone. The addresses cost a little more than those of `padded`."),
    ]
}

fn trials(scale: Scale) -> Vec<Trial> {
    let (blocks, rounds, strides): (usize, usize, &[usize]) = match scale {
        Scale::Tiny => (1, 1, &[32]),
        Scale::Edges => (2, 2, &[0, 1, 3, 31, 32]),
        Scale::Count => (1, 1, &[0, 1, 2, 3, 4, 5, 7, 8, 12, 15, 16, 17, 24, 31, 32]),
        Scale::Laptop => (16, 8, &[1, 2, 4, 8, 16, 32]),
        Scale::Gpu => (132 * 8, 64, &[0, 1, 2, 3, 4, 5, 6, 7, 8, 12, 15, 16, 17, 20, 24, 28, 31, 32]),
    };
    let of_rung = |rung| strides.iter().map(move |&stride| trial(rung, blocks, rounds, stride));
    RUNGS.iter().flat_map(of_rung).collect()
}

/// The passes of one warp beyond the first per request, for reading its words once.
fn conflicts(rung: &str, stride: usize) -> usize {
    let place = |w: usize| match rung {
        "padded" => w + w / 32,
        "swizzled" => w / 32 * 32 + ((w % 32) ^ (w / 32)),
        _ => w,
    };
    let of_request = |i: usize| passes((0..WARP).map(|lane| place(lane * stride + i))) - 1;
    (0..RUN).map(of_request).sum()
}

fn trial(rung: &'static Rung<Arguments>, blocks: usize, rounds: usize, stride: usize) -> Trial {
    let threads = 256 * blocks;
    let mut work = Work::of_bytes((4 * RUN * rounds * threads) as f64);
    // The reads are from shared memory; one sum per thread goes to global memory.
    work = work.with_memory_bytes(4.0 * threads as f64).with_sectors(0.0, (threads / 8) as f64);
    let foretold = work.foretold;
    let count = move || {
        let bank_conflicts = Some((threads / WARP * rounds * conflicts(rung.name, stride)) as f64);
        Foretold { bank_conflicts, ..foretold }
    };
    let name = (rung.name, vec![rung.kernel.meta.name]);
    let trial =
        Trial::new(name, stride as f64, format!("stride {stride}, {rounds} rounds"), work, move || {
            let mut arrays = Arrays::default();
            let out = arrays.output("out", threads);
            let config = (rung.kernel.config)(threads);
            Problem::new(
                arrays,
                move |on, placed| {
                    let (stride, rounds) = (stride as u32, rounds as u32);
                    // SAFETY: `out` has one element per thread, and strides are at most 32.
                    unsafe {
                        (rung.kernel.launch)(on, config, Arguments { out: placed.of(out), stride, rounds })
                    }
                },
                move |_, i| {
                    let of_round = |round| {
                        let first = (i + round) % WARP * stride;
                        (first..first + RUN).map(|w| u64::from(word(w as u32))).sum::<u64>()
                    };
                    Bound::exact(((0..rounds).map(of_round).sum::<u64>() % (1 << 32)) as f64)
                },
            )
        });
    trial.with_foretold(count)
}
