//! Launch bounds: registers against warps.

use gpu_kernels::gallery::Rung;
use gpu_kernels::gallery::launch_bounds::{Arguments, RUNGS};

use super::{Arrays, Axis, Lesson, Measure, Problem, Scale, Trial, Work};
use crate::compare::Bound;

pub(super) const LESSON: Lesson = Lesson {
    name: "launch_bounds",
    title: "Launch bounds",
    axis: Axis { label: "threads", is_log: true },
    measure: Measure::Time,
    rungs: || RUNGS.iter().map(|rung| (rung.name, rung.idea)).collect(),
    trials,
};

/// The numbers of a thread.
const NUMBERS: usize = 48;

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
    let words = format!("{blocks} blocks, {turns} turns, room for {warps} of 64 warps");
    Trial::new(name, threads as f64, words, work, move || {
        let mut arrays = Arrays::default();
        let out = arrays.output("out", threads);
        let config = (rung.kernel.config)(threads);
        Problem::new(
            arrays,
            move |on, placed| {
                let arguments = Arguments { out: placed.of(out), turns: turns as u32 };
                // SAFETY: `out` has an element for each thread.
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
