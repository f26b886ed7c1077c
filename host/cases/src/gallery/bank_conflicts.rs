//! Strided reads of shared memory.

use gpu_kernels::gallery::bank_conflicts::{Arguments, RUNGS};

use super::prelude::*;

/// Consecutive words that a thread reads in each round.
const RUN: usize = 32;

pub(super) fn trials(scale: Scale) -> Vec<Trial> {
    let (blocks, rounds, strides): (usize, usize, &[usize]) = match scale {
        Scale::Tiny => (1, 1, &[32]),
        Scale::Edges => (2, 2, &[0, 1, 3, 31, 32]),
        Scale::Count => (1, 1, &[0, 1, 2, 3, 4, 5, 7, 8, 12, 15, 16, 17, 24, 31, 32]),
        Scale::Laptop => (16, 8, &[1, 2, 4, 8, 16, 32]),
        Scale::Gpu => (132 * 8, 64, &[0, 1, 2, 3, 4, 5, 6, 7, 8, 12, 15, 16, 17, 20, 24, 28, 31, 32]),
    };
    each(RUNGS, strides, |rung, stride| trial(rung, blocks, rounds, stride))
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
    // The reads are from shared memory; one sum per thread goes to global memory.
    let work = Work::of_bytes(4 * RUN * rounds * threads).with_memory_bytes(4 * threads);
    let work = work.with_sectors(0, threads / 8);
    let trial = Trial::of_rung(rung, stride, format!("stride {stride}, {rounds} rounds"), work, move || {
        let mut arrays = Arrays::default();
        let out = arrays.output("out", threads);
        let arguments =
            move |p: &Placed| Arguments { out: p.of(out), stride: stride as u32, rounds: rounds as u32 };
        let oracle = move |_, i| {
            let of_round = |round| {
                let first = (i + round) % WARP * stride;
                (first..first + RUN).map(|w| u64::from(word(w))).sum::<u64>()
            };
            Bound::exact(((0..rounds).map(of_round).sum::<u64>() % (1 << 32)) as f64)
        };
        // SAFETY: `out` has one element per thread, and strides are at most 32.
        unsafe { arrays.launch(rung, (rung.kernel.config)(threads), arguments, oracle) }
    });
    trial.with_conflicts(move || threads / WARP * rounds * conflicts(rung.name, stride))
}
