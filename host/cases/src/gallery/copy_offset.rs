//! Copies off a boundary, and copies with a stride.

use gpu_kernels::gallery::Rung;
use gpu_kernels::gallery::copy_offset::{Arguments, RUNGS};

use super::{Arrays, Axis, Lesson, Measure, Prediction, Problem, Scale, Trial, Work, elements};
use crate::compare::Bound;

pub(super) const LESSON: Lesson = Lesson {
    name: "copy_offset",
    title: "Copies with an offset and with a stride",
    axis: Axis { label: "distance, in elements of 4 bytes", is_log: true },
    measure: Measure::Bytes,
    rungs: || RUNGS.iter().map(|rung| (rung.name, rung.idea)).collect(),
    trials,
    predictions,
};

/// Elements per request of a warp.
const WARP: usize = 32;

fn predictions() -> Vec<Prediction> {
    vec![
        Prediction::growth("offset", 64.0, 5.0 / 4.0)
            .at(1.0)
            .from("5 sectors for 4")
            .elsewhere("1 ms less at multiples of 128 bytes", "GPUs, RTX 3090 Ti")
            .why(
                "The fifth sector is the first one of the next warp, so the second request for it hits L1 or L2. A thread with \
                 one load of 4 bytes waits for latency anyway.",
            ),
        Prediction::share_of_copy("vec4", 1.0).at(1.0).from("16 whole sectors per warp").why(
            "The first threads copy what lies before the first whole sector, so every other warp uses its sectors whole.",
        ),
        Prediction::share_of_copy("vec4x4", 1.0).at(1.0).from("16 whole sectors per load").why(
            "One load of 16 bytes per thread already fills the memory pipe. Four of them may only make the last wave of blocks longer.",
        ),
        Prediction::growth("stride", 1.0, 8.0)
            .at(8.0)
            .from("32 sectors for 4")
            .elsewhere("slower with the stride, with two plateaus", "GPUs, RTX 3090 Ti")
            .why("Every element has a sector of its own from here on."),
        Prediction::growth("stride", 8.0, 1.0).at(64.0).from("32 sectors for 32").why(
            "The prediction counts sectors only. At larger strides the same number of sectors lies in more DRAM pages and more \
             address translations, so there is no plateau up to 64.",
        ),
    ]
}

fn trials(scale: Scale) -> Vec<Trial> {
    let (len, distances): (usize, &[usize]) = match scale {
        Scale::Tiny => (3, &[1, 2]),
        // More than one block, with vectors that end within the array.
        Scale::Edges => (4400, &[1, 2, 7, 8, 33]),
        Scale::Count => (1 << 12, &[1, 2, 3, 4, 5, 6, 7, 8, 16, 32, 64]),
        Scale::Laptop => (1 << 18, &[1, 2, 4, 8, 16, 32]),
        Scale::Gpu => (1 << 24, &[1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 24, 32, 48, 64]),
    };
    RUNGS.iter().flat_map(|rung| distances.iter().map(move |&distance| trial(rung, len, distance))).collect()
}

/// The number of 32-byte sectors with the elements that a warp accesses from `first`, `step` apart.
fn sectors(first: usize, step: usize) -> usize {
    let mut sectors: Vec<usize> = (0..WARP).map(|lane| (first + lane * step) / 8).collect();
    sectors.dedup();
    sectors.len()
}

/// The number of sectors with `len` elements from `first`, each requested once: no vector spans two, and the elements before
/// the first whole vector and after the last one are requested separately.
fn whole_sectors(len: usize, first: usize) -> usize {
    let head = (first.next_multiple_of(8) - first).min(len);
    let vectors = (len - head) / 4;
    let has = |elements: usize| usize::from(elements > 0);
    has(head) + vectors.div_ceil(2) + has(len - head - 4 * vectors)
}

fn trial(rung: &'static Rung<Arguments>, len: usize, distance: usize) -> Trial {
    let is_stride = rung.name == "stride";
    let place = move |i: usize| if is_stride { i * distance } else { i + distance };
    let whole = place(len - 1) + 1;
    // Whole warps all begin at the same offset in a sector.
    let touched = match rung.name {
        "stride" => sectors(0, distance) * len.div_ceil(WARP),
        "offset" => sectors(distance, 1) * len.div_ceil(WARP),
        _ => whole_sectors(len, distance),
    };
    let work = Work::of_bytes(8.0 * len as f64).with_sectors(touched as f64, touched as f64);
    let name = (rung.name, vec![rung.kernel.meta.name]);
    Trial::new(name, distance as f64, format!("{len} elements, {distance}"), work, move || {
        let mut arrays = Arrays::default();
        let element = |i: usize| (i as u32).wrapping_mul(2_654_435_761);
        let inp = arrays.input("inp", elements(whole, element));
        let out = arrays.changed("out", elements(whole, |_| 7));
        let config = (rung.kernel.config)(len);
        Problem::new(
            arrays,
            move |on, placed| {
                let (len, distance) = (len as u32, distance as u32);
                let arguments = Arguments { out: placed.of(out), inp: placed.of(inp), len, distance };
                // SAFETY: both arrays end with the last copied element; the grid is the kernel's for `len`.
                unsafe { (rung.kernel.launch)(on, config, arguments) }
            },
            move |_, i| {
                let is_copied = if is_stride { i.is_multiple_of(distance) } else { i >= distance };
                Bound::exact(f64::from(if is_copied { element(i) } else { 7 }))
            },
        )
    })
}
