//! The mapping of a block's threads to warps.

use gpu_kernels::gallery::warps::{Arguments, RUNGS};

use super::prelude::*;

pub(super) fn trials(scale: Scale) -> Vec<Trial> {
    let cube = [8, 8, 8];
    let shapes: &[([usize; 3], usize)] = match scale {
        Scale::Tiny => &[([4, 4, 2], 1)],
        Scale::Edges => &[(cube, 1), ([5, 32, 1], 2), ([64, 1, 2], 1), ([2, 3, 16], 1)],
        Scale::Count => &[(cube, 1)],
        Scale::Laptop => &[(cube, 1), (cube, 8)],
        Scale::Gpu => &[(cube, 1), (cube, 32), (cube, 256)],
    };
    each(RUNGS, shapes, trial)
}

fn trial(rung: &'static Rung<Arguments, ()>, ([x, y, z], blocks): ([usize; 3], usize)) -> Trial {
    let threads = x * y * z;
    let len = blocks * threads * 32 * 3;
    // A store of a warp goes to the parts of 32 threads, 384 bytes apart.
    let work = Work::of_bytes(4 * len).with_sectors(0, len).with_divergent_branches(0);
    let words = format!("blocks of {x} x {y} x {z}, {blocks} of them");
    Trial::of_rung(rung, blocks * threads, words, work, move || {
        let mut arrays = Arrays::default();
        let out = arrays.output("out", len);
        let config = LaunchConfig::new(blocks as u32, (x as u32, y as u32, z as u32));
        let oracle = move |_, i| {
            let (thread, lane, axis) = (i / 96 % threads, i / 3 % 32, i % 3);
            let n = thread - thread % 32 + lane;
            Bound::exact([n % x, n / x % y, n / (x * y)][axis] as f64)
        };
        // SAFETY: there are 96 elements for each thread of the grid.
        unsafe { arrays.launch(rung, config, move |p| Arguments { out: p.of(out) }, oracle) }
    })
}
