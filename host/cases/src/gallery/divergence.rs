//! Branches and loops where the lanes of a warp diverge.

use std::collections::BTreeSet;

use cuda_std::launch::LaunchConfig;
use gpu_kernels::gallery::Rung;
use gpu_kernels::gallery::divergence::{Arguments, RUNGS};

use super::theory::WARP;
use super::{Arrays, Axis, Lesson, Measure, Prediction, Problem, Scale, Trial, Work};
use crate::compare::Bound;

pub(super) const LESSON: Lesson = Lesson {
    name: "divergence",
    title: "Divergence",
    axis: Axis { label: "branches", is_log: true },
    measure: Measure::Time,
    rungs: || RUNGS.iter().map(|rung| (rung.name, rung.idea)).collect(),
    trials,
    predictions,
};

fn predictions() -> Vec<Prediction> {
    vec![
        Prediction::growth("branch_by_lane", 1.0, 32.0)
            .at(32.0)
            .from("32 branches, one after the other")
            .why("Each warp executes all branches, with one lane active in each."),
        Prediction::growth("branch_by_warp", 1.0, 1.0)
            .at(32.0)
            .from("one branch per warp")
            .why("No warp diverges. The comparisons of the chain are lost in the loop."),
        Prediction::growth("trips_by_lane", 1.0, 64.0 / 33.0)
            .at(32.0)
            .from("the longest of 32 loops for their average")
            .why("A warp runs until its last lane is done."),
        Prediction::growth("trips_by_warp", 1.0, 1.0).at(32.0).from("the average of all loops").why(
            "Warps with short loops end early, and no new block takes their place until the whole block has ended. A scheduler that \
             got more of the long loops finishes later.",
        ),
        Prediction::growth("trips_by_warp", 1.0, 1.0).at(4.0).from("the average of all loops").why(
            "With four branches every fourth warp has the longest loop, and the four schedulers take warps by their number. One \
             scheduler may get all the long loops that way. That does not explain why two branches cost nothing.",
        ),
    ]
}

fn trials(scale: Scale) -> Vec<Trial> {
    // Blocks have one warp per way, except where every thread costs time.
    let block = if scale == Scale::Tiny { 64 } else { 1024 };
    let (blocks, turns, ways): (usize, usize, &[usize]) = match scale {
        Scale::Tiny => (1, 2, &[2]),
        Scale::Edges => (1, 5, &[1, 2, 7, 32]),
        Scale::Count => (1, 64, &[1, 2, 4, 8, 16, 32]),
        Scale::Laptop => (16, 256, &[1, 2, 4, 8, 16, 32]),
        Scale::Gpu => (132 * 2, 8192, &[1, 2, 4, 8, 16, 32]),
    };
    RUNGS
        .iter()
        .flat_map(|rung| ways.iter().map(move |&ways| trial(rung, [blocks, block], turns, ways)))
        .collect()
}

/// The iterations of a thread that takes this way.
fn trips(rung: &str, way: usize, ways: usize, turns: usize) -> usize {
    if rung.starts_with("trips") { 2 * turns * (way + 1) / (ways + 1) } else { turns }
}

/// The number of divergent branches of a warp. If lanes take different ways, the branch for each way is taken by some lanes
/// and not by others. If lanes run a loop for different numbers of iterations, the branch at the end of an iteration
/// diverges whenever that iteration is the last one for some lanes.
fn divergent(rung: &str, ways: usize, turns: usize) -> usize {
    match rung {
        "branch_by_lane" if ways > 1 => ways,
        "trips_by_lane" => {
            (0..ways).map(|way| trips(rung, way, ways, turns)).collect::<BTreeSet<_>>().len() - 1
        }
        _ => 0,
    }
}

fn trial(
    rung: &'static Rung<Arguments, ()>,
    [blocks, block]: [usize; 2],
    turns: usize,
    ways: usize,
) -> Trial {
    let threads = block * blocks;
    let mut work = Work::of_bytes(4.0 * threads as f64).with_sectors(0.0, (threads / 8) as f64);
    let of_warp = divergent(rung.name, ways, turns);
    work.foretold.divergent_branches = Some((threads / WARP * of_warp) as f64);
    let name = (rung.name, vec![rung.kernel.meta.name]);
    Trial::new(name, ways as f64, format!("{ways} branches, {turns} iterations"), work, move || {
        let mut arrays = Arrays::default();
        let out = arrays.output("out", threads);
        let config = LaunchConfig::new(blocks as u32, block as u32);
        Problem::new(
            arrays,
            move |on, placed| {
                let arguments = Arguments { out: placed.of(out), ways: ways as u32, turns: turns as u32 };
                // SAFETY: `out` has one element per thread.
                unsafe { (rung.kernel.launch)(on, config, arguments) }
            },
            move |_, i| {
                let number = if rung.name.ends_with("lane") { i % WARP } else { i % block / WARP };
                let way = number % ways;
                let added = if rung.name.starts_with("trips") { 1 } else { 2 * way as u64 + 1 };
                let turn = |x: u64, _| (x * 1_664_525 + added) % (1 << 32);
                let x = (0..trips(rung.name, way, ways, turns)).fold(i as u64, turn);
                Bound::exact(x as f64)
            },
        )
    })
}
