//! The dot product of two arrays.

use gpu_kernels::gallery::dot::{Arguments, RUNGS};

use super::prelude::*;

pub(super) fn trials(scale: Scale) -> Vec<Trial> {
    // Few blocks for small arrays, so that each thread has several terms to add.
    let (lens, most): (&[usize], u32) = match scale {
        Scale::Tiny => (&[260], 2),
        Scale::Edges => (&[1, 33, 255, 769, 4099], 3),
        Scale::Count => (&[1 << 14], 2),
        Scale::Laptop => (&[1 << 12, 1 << 16, 1 << 20], u32::MAX),
        Scale::Gpu => (&[1 << 14, 1 << 18, 1 << 20, 1 << 22, 1 << 24, 1 << 26], u32::MAX),
    };
    let mut trials = each(RUNGS, lens, |rung, len| trial(rung, len, most, true));
    // Integers, whose sum is exact; in tests also others.
    if scale == Scale::Edges {
        trials.extend(each(RUNGS, lens, |rung, len| trial(rung, len, most, false)));
    }
    trials
}

fn trial(rung: &'static Rung<Arguments>, len: usize, most: u32, is_whole: bool) -> Trial {
    let blocks = len.div_ceil(256).min(most as usize);
    // A load of a warp touches 4 sectors if lanes are neighbours, and 32 if they are a run of at least 8 elements apart. The
    // last block loads the blocks' sums.
    let run = len.div_ceil(256 * blocks);
    let of_load = if rung.name == "chunks" { run.min(8) * 4 } else { 4 };
    let loaded = 2 * len.div_ceil(WARP) * of_load + blocks.div_ceil(8);
    // The sums, their total, and the counter that returns to 0.
    let work = Work::of_bytes(8 * len).with_flop(2 * len).with_sectors(loaded, blocks + 2).with_conflicts(0);
    let what = if is_whole { "whole numbers" } else { "numbers" };
    Trial::of_rung(rung, len, format!("{len} terms, {what}"), work, move || {
        let whole = |x: f32| if is_whole { (3.5 * x).trunc() } else { x };
        let [x, y] = [4, 5].map(|seed| Arc::new(numbers_as(len, seed, whole)));
        let mut arrays = Arrays::default();
        let (a, b) = (arrays.input("a", Arc::clone(&x)), arrays.input("b", Arc::clone(&y)));
        let out = arrays.output("out", 1);
        let partials = arrays.scratch("partials", vec![0.0f32; len.div_ceil(256)]);
        let arrived = arrays.scratch("arrived", vec![0u32]);
        let launch = move |on: &dyn Launcher, p: &Placed| {
            let config = p.resident(rung.kernel.meta, (rung.kernel.config)(len), most)?;
            let (out, a, b) = (p.of(out), p.of(a), p.of(b));
            let (partials, arrived, len) = (p.of(partials), p.of(arrived), len as u32);
            // SAFETY: the arrays have `len` elements, and there are partial sums for at least this many blocks.
            unsafe { (rung.kernel.launch)(on, config, Arguments { out, a, b, partials, arrived, len }) }
        };
        Problem::new(arrays, launch, move |_, _| {
            let sum = sum(len, |i| f64::from(x[i]) * f64::from(y[i]));
            if is_whole { Bound::exact(sum.value) } else { sum.within(64.0) }
        })
    })
}
