//! Launch bounds: registers against warps.

use gpu_kernels::gallery::Rung;
use gpu_kernels::gallery::launch_bounds::{Arguments, RUNGS};

use super::prediction::h200;
use super::{Arrays, Axis, Lesson, Measure, Prediction, Problem, Scale, Trial, Work};
use crate::compare::Bound;

pub(super) const LESSON: Lesson = Lesson {
    name: "launch_bounds",
    title: "Launch bounds",
    axis: Axis { label: "threads", is_log: true },
    measure: Measure::Time,
    rungs: || RUNGS.iter().map(|rung| (rung.name, rung.idea)).collect(),
    trials,
    predictions,
};

/// The numbers per thread.
const NUMBERS: usize = 48;

fn predictions() -> Vec<Prediction> {
    vec![
        Prediction::time_over("blocks_2", "blocks_4", 1.0)
            .from("the same machine code")
            .why("The kernel needs fewer registers than either bound allows."),
        Prediction::cycles("blocks_4", 1_622_016.0 * 48.0 * 256.0 / (64.0 * h200::MULTIPROCESSORS))
            .from("one integer multiply-add per number and iteration, 64 per cycle on each multiprocessor")
            .why("Nothing is spilled, and 48 independent numbers keep the multipliers busy with half of the warps."),
        Prediction::time_over("blocks_6", "blocks_4", 16.0 * 2.0 * 4.0 / (48.0 * 2.0))
            .from("16 numbers stored and loaded again per iteration, a request per cycle, 4 warps")
            .why("Local memory of all threads does not fit into L1, so the spills go on to L2."),
        Prediction::time_over("blocks_8", "blocks_4", 24.0 * 2.0 * 4.0 / (48.0 * 2.0))
            .from("24 numbers stored and loaded again per iteration, a request per cycle, 4 warps")
            .why("Full occupancy needs even more local memory, and even less of it fits into L1."),
    ]
}

fn trials(scale: Scale) -> Vec<Trial> {
    let (blocks, turns): (&[usize], usize) = match scale {
        Scale::Tiny => (&[1], 2),
        Scale::Edges => (&[2], 5),
        Scale::Count => (&[1], 32),
        Scale::Laptop => (&[16], 32),
        Scale::Gpu => (&[132, 132 * 4, 132 * 8, 132 * 48], 256),
    };
    RUNGS.iter().flat_map(|rung| blocks.iter().map(move |&blocks| trial(rung, blocks, turns))).collect()
}

fn trial(rung: &'static Rung<Arguments>, blocks: usize, turns: usize) -> Trial {
    let threads = 256 * blocks;
    let mut work = Work::of_bytes(4.0 * threads as f64).with_sectors(0.0, (threads / 8) as f64);
    work.foretold.divergent_branches = Some(0.0);
    let name = (rung.name, vec![rung.kernel.meta.name]);
    // A block has 8 warps.
    let warps = 8 * rung.kernel.meta.min_blocks;
    let words = format!("{blocks} blocks, {turns} iterations, room for {warps} of 64 warps");
    Trial::new(name, threads as f64, words, work, move || {
        let mut arrays = Arrays::default();
        let out = arrays.output("out", threads);
        let config = (rung.kernel.config)(threads);
        Problem::new(
            arrays,
            move |on, placed| {
                let arguments = Arguments { out: placed.of(out), turns: turns as u32 };
                // SAFETY: `out` has one element per thread.
                unsafe { (rung.kernel.launch)(on, config, arguments) }
            },
            move |_, i| {
                let mut x: Vec<u64> = (i..i + NUMBERS).map(|x| x as u64).collect();
                for _ in 0..turns {
                    for k in 0..NUMBERS {
                        x[k] = (x[k] * 1_664_525 + x[(k + 1) % NUMBERS]) % (1 << 32);
                    }
                }
                Bound::exact((x.iter().sum::<u64>() % (1 << 32)) as f64)
            },
        )
    })
}
