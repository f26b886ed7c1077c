//! The dot product of two arrays.

use std::sync::Arc;

use gpu_kernels::gallery::Rung;
use gpu_kernels::gallery::dot::{Arguments, RUNGS};

use super::prediction::h200;
use super::theory::WARP;
use super::{Arrays, Axis, Lesson, Measure, Prediction, Problem, Scale, Trial, Work, numbers_as, sum};
use crate::compare::Bound;

pub(super) const LESSON: Lesson = Lesson {
    name: "dot",
    title: "A dot product",
    axis: Axis { label: "terms", is_log: true },
    measure: Measure::Bytes,
    rungs: || RUNGS.iter().map(|rung| (rung.name, rung.idea)).collect(),
    trials,
    predictions,
};

fn predictions() -> Vec<Prediction> {
    vec![
        Prediction::time_over("chunks", "coalesced", 32.0 / 4.0)
            .from("32 sectors per load for 4")
            .elsewhere("3 x", "Initial CUDA Performance Lessons, GPU not named")
            .why(
                "L1 keeps the sectors until the next seven loads use their other words, so memory moves little more. What is left \
                 is the lookup of 32 sectors per request.",
            ),
        Prediction::rate("coalesced", h200::MEMORY)
            .from("8 bytes per term at 4.8 TB/s")
            .why("No memory reaches its datasheet. Two arrays that are only read come close."),
        Prediction::time_over("shuffle", "coalesced", 1.0)
            .from("the same loads")
            .why("The sum of a block happens once per resident block, so it does not show in long arrays."),
    ]
}

fn trials(scale: Scale) -> Vec<Trial> {
    // Few blocks for small arrays, so that each thread has several terms to add.
    let (lens, most): (&[usize], u32) = match scale {
        Scale::Tiny => (&[260], 2),
        Scale::Edges => (&[1, 33, 255, 769, 4099], 3),
        Scale::Count => (&[1 << 14], 2),
        Scale::Laptop => (&[1 << 12, 1 << 16, 1 << 20], u32::MAX),
        Scale::Gpu => (&[1 << 14, 1 << 18, 1 << 20, 1 << 22, 1 << 24, 1 << 26], u32::MAX),
    };
    let of_rung = |rung| lens.iter().flat_map(move |&len| trials_of(rung, len, most, scale));
    RUNGS.iter().flat_map(of_rung).collect()
}

/// With integers, whose sum is exact; in tests also with others.
fn trials_of(rung: &'static Rung<Arguments>, len: usize, most: u32, scale: Scale) -> Vec<Trial> {
    let is_whole = [true, false];
    let is_whole = if scale == Scale::Edges { &is_whole[..] } else { &is_whole[..1] };
    is_whole.iter().map(|&is_whole| trial(rung, len, most, is_whole)).collect()
}

fn trial(rung: &'static Rung<Arguments>, len: usize, most: u32, is_whole: bool) -> Trial {
    let blocks = len.div_ceil(256).min(most as usize);
    // A load of a warp touches 4 sectors if lanes are neighbours, and 32 if they are a run of at least 8 elements apart. The
    // last block loads the blocks' sums.
    let run = len.div_ceil(256 * blocks);
    let of_load = if rung.name == "chunks" { run.min(8) * 4 } else { 4 };
    let loaded = 2 * len.div_ceil(WARP) * of_load + blocks.div_ceil(8);
    let mut work = Work::of_bytes(8.0 * len as f64).with_flop(2.0 * len as f64);
    // The sums, their total, and the counter that returns to 0.
    work = work.with_sectors(loaded as f64, blocks as f64 + 2.0);
    work.foretold.bank_conflicts = Some(0.0);
    let name = (rung.name, vec![rung.kernel.meta.name]);
    let what = if is_whole { "whole numbers" } else { "numbers" };
    Trial::new(name, len as f64, format!("{len} terms, {what}"), work, move || {
        let factors = |seed| {
            let whole = |x: f32| if is_whole { (3.5 * x).trunc() } else { x };
            Arc::new(numbers_as(len, seed, whole))
        };
        let (x, y) = (factors(4), factors(5));
        let mut arrays = Arrays::default();
        let (a, b) = (arrays.input("a", Arc::clone(&x)), arrays.input("b", Arc::clone(&y)));
        let out = arrays.output("out", 1);
        let partials = arrays.scratch("partials", vec![0.0f32; len.div_ceil(256)]);
        let arrived = arrays.scratch("arrived", vec![0u32]);
        Problem::new(
            arrays,
            move |on, placed| {
                let config = placed.resident(rung.kernel.meta, (rung.kernel.config)(len), most)?;
                let arguments = Arguments {
                    out: placed.of(out),
                    a: placed.of(a),
                    b: placed.of(b),
                    partials: placed.of(partials),
                    arrived: placed.of(arrived),
                    len: len as u32,
                };
                // SAFETY: the arrays have `len` elements, and there are partial sums for at least this many blocks.
                unsafe { (rung.kernel.launch)(on, config, arguments) }
            },
            move |_, _| {
                let sum = sum(len, |i| f64::from(x[i]) * f64::from(y[i]));
                if is_whole { Bound::exact(sum.value) } else { sum.within(64.0) }
            },
        )
    })
}
