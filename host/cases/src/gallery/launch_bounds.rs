//! Launch bounds: registers against warps.

use gpu_kernels::gallery::launch_bounds::{Arguments, RUNGS};

use super::prelude::*;

/// The numbers per thread.
const NUMBERS: usize = 48;

pub(super) fn trials(scale: Scale) -> Vec<Trial> {
    let (blocks, turns): (&[usize], usize) = match scale {
        Scale::Tiny => (&[1], 2),
        Scale::Edges => (&[2], 5),
        Scale::Count => (&[1], 32),
        Scale::Laptop => (&[16], 32),
        Scale::Gpu => (&[132, 132 * 4, 132 * 8, 132 * 48], 256),
    };
    each(RUNGS, blocks, |rung, blocks| trial(rung, blocks, turns))
}

fn trial(rung: &'static Rung<Arguments>, blocks: usize, turns: usize) -> Trial {
    let threads = 256 * blocks;
    let work = Work::of_bytes(4 * threads).with_sectors(0, threads / 8).with_divergent_branches(0);
    // A block has 8 warps.
    let warps = 8 * rung.kernel.meta.min_blocks;
    let words = format!("{blocks} blocks, {turns} iterations, room for {warps} of 64 warps");
    Trial::of_rung(rung, threads, words, work, move || {
        let mut arrays = Arrays::default();
        let out = arrays.output("out", threads);
        let arguments = move |p: &Placed| Arguments { out: p.of(out), turns: turns as u32 };
        let oracle = move |_, i| {
            let mut x: Vec<u64> = (i..i + NUMBERS).map(|x| x as u64).collect();
            for k in (0..turns).flat_map(|_| 0..NUMBERS) {
                x[k] = (x[k] * 1_664_525 + x[(k + 1) % NUMBERS]) % (1 << 32);
            }
            Bound::exact((x.iter().sum::<u64>() % (1 << 32)) as f64)
        };
        // SAFETY: `out` has one element per thread.
        unsafe { arrays.launch(rung, (rung.kernel.config)(threads), arguments, oracle) }
    })
}
