//! Launch bounds: registers against warps.

use gpu_kernels::gallery::launch_bounds::{Arguments, HALF, NUMBERS, RUNGS};

use super::prelude::*;

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
    let is_split = rung.name == "split";
    let (launches, loads) = if is_split { (2, 2 * threads / 8) } else { (1, 0) };
    let work = Work::of_bytes(4 * threads).with_sectors(loads, launches * threads / 8);
    let work = work.with_divergent_branches(0);
    // A block has 8 warps.
    let warps = 8 * rung.kernel.meta.min_blocks;
    let words = format!("{blocks} blocks, {turns} iterations, room for {warps} of 64 warps");
    Trial::of_rung(rung, threads, words, work, move || {
        let mut arrays = Arrays::default();
        let out =
            if is_split { arrays.changed("out", vec![0; threads]) } else { arrays.output("out", threads) };
        let launch = move |on: &dyn Launcher, p: &Placed| {
            (0..launches).try_for_each(|half| {
                let arguments =
                    Arguments { out: p.of(out), turns: turns as u32, first: (half * HALF) as u32 };
                // SAFETY: `out` has one element per thread.
                unsafe { (rung.kernel.launch)(on, (rung.kernel.config)(threads), arguments) }
            })
        };
        let oracle = move |_, i| {
            let count = NUMBERS / launches;
            let ring = |first: usize| {
                let mut x: Vec<u64> = (first..first + count).map(|x| x as u64).collect();
                for k in (0..turns).flat_map(|_| 0..count) {
                    x[k] = (x[k] * 1_664_525 + x[(k + 1) % count]) % (1 << 32);
                }
                x.iter().sum::<u64>()
            };
            let sum: u64 = (0..launches).map(|half| ring(i + half * HALF)).sum();
            Bound::exact((sum % (1 << 32)) as f64)
        };
        Problem::new(arrays, launch, oracle)
    })
}
