//! How many warps hide a latency.

use gpu_kernels::gallery::hiding::{Arguments, PLACES, RUNGS, TABLE};

use super::prelude::*;

pub(super) fn trials(scale: Scale) -> Vec<Trial> {
    let (blocks, turns, warps): (usize, usize, &[usize]) = match scale {
        Scale::Tiny => (1, 3, &[1]),
        Scale::Edges => (2, 40, &[1, 3, 33]),
        Scale::Count => (1, 64, &[1, 4, 32]),
        Scale::Laptop => (16, 256, &[1, 4, 16, 64]),
        Scale::Gpu => (132, 4096, &[1, 2, 4, 8, 12, 16, 24, 32, 48, 64]),
    };
    each(RUNGS, warps, |rung, warps| trial(rung, blocks, turns, warps))
}

/// `warps` warps on each of some multiprocessors. Two blocks share a multiprocessor if one would be too large.
fn trial(rung: &'static Rung<Arguments, ()>, multiprocessors: usize, turns: usize, warps: usize) -> Trial {
    let of_block = if warps > 32 { warps.div_ceil(2) } else { warps };
    let blocks = multiprocessors * warps.div_ceil(of_block);
    let threads = WARP * of_block * blocks;
    let loaded = if rung.name == "cached" { turns * threads / WARP } else { 0 };
    let work = Work::of_bytes(4 * threads).with_sectors(loaded, threads / 8);
    let words = format!("{warps} warps per multiprocessor, {turns} steps");
    Trial::of_rung(rung, warps, words, work.with_conflicts(0).with_divergent_branches(0), move || {
        // A generator with the full period: each place leads to another one, far away.
        let next = |i: usize| (i * 1_664_525 + 1_013_904_223) % TABLE;
        let mut arrays = Arrays::default();
        let inp = arrays.input("inp", elements(TABLE, |i| next(i) as u32));
        let out = arrays.output("out", threads);
        let arguments = move |p: &Placed| Arguments { out: p.of(out), inp: p.of(inp), turns: turns as u32 };
        let oracle = move |_, i: usize| {
            let end = match rung.name {
                "multiply" => (0..turns).fold(i, |x, _| (x * 1_664_525 + 1) % (1 << 32)),
                "shared" => (i % WARP + WARP * turns) % PLACES,
                _ => (0..turns).fold(i - i % WARP, |x, _| next(x)),
            };
            Bound::exact(end as f64)
        };
        let config = LaunchConfig::new(blocks as u32, (WARP * of_block) as u32);
        // SAFETY: `out` has one element per thread, and the places of `inp` lead to places.
        unsafe { arrays.launch(rung, config, arguments, oracle) }
    })
}
