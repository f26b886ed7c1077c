//! Converts a picture from colour to grey.

use std::sync::Arc;

use gpu_kernels::gallery::Rung;
use gpu_kernels::gallery::grey::{Arguments, RUNGS};

use super::prediction::h200;
use super::{Arrays, Axis, Lesson, Measure, Prediction, Problem, Scale, Trial, Work, numbers_as};
use crate::compare::Bound;

pub(super) const LESSON: Lesson = Lesson {
    name: "grey",
    title: "From colour to grey",
    axis: Axis { label: "pixels", is_log: true },
    measure: Measure::Bytes,
    rungs: || RUNGS.iter().map(|rung| (rung.name, rung.idea)).collect(),
    trials,
    predictions,
};

fn predictions() -> Vec<Prediction> {
    vec![
        Prediction::time_over("f64", "bytes", 1.0)
            .from("both wait for memory; f64 runs at half of the rate of f32")
            .elsewhere("f64 at 1/64 of the rate", "Notes on lecture 4 of CUDA MODE, RTX 3090")
            .why("Conversions to and from f64 cost a little more time than memory hides."),
        Prediction::share_of_copy("bytes", 1.0).from("4 bytes per pixel").why(
            "A load of one byte per thread is 32 bytes per request of a warp. Requests, not bytes, are the limit.",
        ),
        Prediction::microseconds("vectors", 4.0 * 4_194_304.0 / h200::MEMORY * 1e6)
            .at(4_194_304.0)
            .from("4 bytes per pixel at 4.8 TB/s")
            .elsewhere("27 us where bytes alone take 18 us", "Notes on lecture 4 of CUDA MODE, RTX 3090")
            .why("The kernel is so short that starting it and filling the memory pipe take as long as the bytes."),
        Prediction::share_of_copy("vectors", 1.0)
            .from("4 bytes per pixel")
            .why("With 16 times as many pixels the start no longer matters."),
    ]
}

fn trials(scale: Scale) -> Vec<Trial> {
    let lens: &[usize] = match scale {
        Scale::Tiny => &[18],
        Scale::Edges => &[1, 15, 17, 1000],
        Scale::Count => &[1 << 13],
        Scale::Laptop => &[1 << 18],
        // 2048x2048, and one whose time exceeds a launch's overhead.
        Scale::Gpu => &[1 << 22, 1 << 26],
    };
    RUNGS.iter().flat_map(|rung| lens.iter().map(move |&len| trial(rung, len))).collect()
}

fn trial(rung: &'static Rung<Arguments>, len: usize) -> Trial {
    // A warp's three byte loads each touch the same three sectors; 16-byte loads one sector per lane. Output pixels are
    // bytes.
    let loads = len as f64 * if rung.name == "vectors" { 3.0 / 16.0 } else { 9.0 / 32.0 };
    let work =
        Work::of_bytes(4.0 * len as f64).with_flop(5.0 * len as f64).with_sectors(loads, len as f64 / 32.0);
    Trial::new(
        (rung.name, vec![rung.kernel.meta.name]),
        len as f64,
        format!("{len} pixels"),
        work,
        move || {
            let pixels = Arc::new(numbers_as(3 * len, 6, |x| (x * 127.9 + 128.0) as u8));
            let mut arrays = Arrays::default();
            let (inp, out) =
                (arrays.input("inp", Arc::clone(&pixels)), arrays.changed("out", vec![0u8; len]));
            Problem::new(
                arrays,
                move |on, placed| {
                    let arguments = Arguments { out: placed.of(out), inp: placed.of(inp), len: len as u32 };
                    // SAFETY: there are three bytes and one byte per pixel, and the grid is the kernel's.
                    unsafe { (rung.kernel.launch)(on, (rung.kernel.config)(len), arguments) }
                },
                move |_, i| {
                    let sum = [21, 72, 7]
                        .iter()
                        .zip(&pixels[3 * i..])
                        .map(|(weight, &byte)| weight * u32::from(byte));
                    // In hundredths the sum is exact. A value at an integer may be rounded to just below it.
                    let sum: u32 = sum.sum();
                    let value = f64::from(sum / 100);
                    if sum.is_multiple_of(100) { Bound::near(value - 0.5, 0.5) } else { Bound::exact(value) }
                },
            )
        },
    )
}
