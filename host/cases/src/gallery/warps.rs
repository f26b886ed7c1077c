//! The mapping of a block's threads to warps.

use cuda_std::launch::LaunchConfig;
use gpu_kernels::gallery::Rung;
use gpu_kernels::gallery::warps::{Arguments, RUNGS};

use super::prediction::h200;
use super::{Arrays, Axis, Lesson, Measure, Prediction, Problem, Scale, Trial, Work};
use crate::compare::Bound;

pub(super) const LESSON: Lesson = Lesson {
    name: "warps",
    title: "The threads of a warp",
    axis: Axis { label: "threads", is_log: true },
    measure: Measure::Time,
    rungs: || RUNGS.iter().map(|rung| (rung.name, rung.idea)).collect(),
    trials,
    predictions,
};

fn predictions() -> Vec<Prediction> {
    vec![
        Prediction::cycles("shuffle", 131_072.0 * 96.0 / h200::MULTIPROCESSORS)
            .from("96 sectors per thread, one sector per cycle on each multiprocessor")
            .why("Each store of a warp writes 4 bytes to each of 32 sectors. L2 takes such partial writes more slowly."),
        Prediction::time_over("formula", "shuffle", 1.0)
            .from("the same stores")
            .why("Stores are the limit, so neither the shuffles nor the arithmetic shows."),
    ]
}

fn trials(scale: Scale) -> Vec<Trial> {
    let cube = [8, 8, 8];
    let shapes: &[([usize; 3], usize)] = match scale {
        Scale::Tiny => &[([4, 4, 2], 1)],
        Scale::Edges => &[(cube, 1), ([5, 32, 1], 2), ([64, 1, 2], 1), ([2, 3, 16], 1)],
        Scale::Count => &[(cube, 1)],
        Scale::Laptop => &[(cube, 1), (cube, 8)],
        Scale::Gpu => &[(cube, 1), (cube, 32), (cube, 256)],
    };
    RUNGS
        .iter()
        .flat_map(|rung| shapes.iter().map(move |&(shape, blocks)| trial(rung, shape, blocks)))
        .collect()
}

fn trial(rung: &'static Rung<Arguments, ()>, [x, y, z]: [usize; 3], blocks: usize) -> Trial {
    let threads = x * y * z;
    let len = blocks * threads * 32 * 3;
    // A store of a warp goes to the parts of 32 threads, 384 bytes apart.
    let mut work = Work::of_bytes(4.0 * len as f64).with_sectors(0.0, len as f64);
    work.foretold.divergent_branches = Some(0.0);
    let name = (rung.name, vec![rung.kernel.meta.name]);
    let words = format!("blocks of {x} x {y} x {z}, {blocks} of them");
    Trial::new(name, (blocks * threads) as f64, words, work, move || {
        let mut arrays = Arrays::default();
        let out = arrays.output("out", len);
        let config = LaunchConfig::new(blocks as u32, (x as u32, y as u32, z as u32));
        Problem::new(
            arrays,
            // SAFETY: there are 96 elements for each thread of the grid.
            move |on, placed| unsafe { (rung.kernel.launch)(on, config, Arguments { out: placed.of(out) }) },
            move |_, i| {
                let (thread, lane, axis) = (i / 96 % threads, i / 3 % 32, i % 3);
                let n = thread - thread % 32 + lane;
                Bound::exact([n % x, n / x % y, n / (x * y)][axis] as f64)
            },
        )
    })
}
