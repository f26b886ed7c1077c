//! Branches and loops where the lanes of a warp diverge.

use std::collections::BTreeSet;

use gpu_kernels::gallery::divergence::{Arguments, RUNGS};

use super::prelude::*;

pub(super) fn trials(scale: Scale) -> Vec<Trial> {
    // Blocks have one warp per way, except where every thread costs time.
    let block = if scale == Scale::Tiny { 64 } else { 1024 };
    let (blocks, turns, ways): (usize, usize, &[usize]) = match scale {
        Scale::Tiny => (1, 2, &[2]),
        Scale::Edges => (1, 5, &[1, 2, 7, 32]),
        Scale::Count => (1, 64, &[1, 2, 4, 8, 16, 32]),
        Scale::Laptop => (16, 256, &[1, 2, 4, 8, 16, 32]),
        Scale::Gpu => (132 * 2, 8192, &[1, 2, 4, 8, 16, 32]),
    };
    each(RUNGS, ways, |rung, ways| trial(rung, [blocks, block], turns, ways))
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
    let work = Work::of_bytes(4 * threads).with_sectors(0, threads / 8);
    let work = work.with_divergent_branches(threads / WARP * divergent(rung.name, ways, turns));
    Trial::of_rung(rung, ways, format!("{ways} branches, {turns} iterations"), work, move || {
        let mut arrays = Arrays::default();
        let out = arrays.output("out", threads);
        let arguments =
            move |p: &Placed| Arguments { out: p.of(out), ways: ways as u32, turns: turns as u32 };
        let oracle = move |_, i| {
            let number = if rung.name.ends_with("lane") { i % WARP } else { i % block / WARP };
            let way = number % ways;
            let added = if rung.name.starts_with("trips") { 1 } else { 2 * way as u64 + 1 };
            let turn = |x: u64, _| (x * 1_664_525 + added) % (1 << 32);
            Bound::exact((0..trips(rung.name, way, ways, turns)).fold(i as u64, turn) as f64)
        };
        // SAFETY: `out` has one element per thread.
        unsafe { arrays.launch(rung, LaunchConfig::new(blocks as u32, block as u32), arguments, oracle) }
    })
}
