//! Some lanes of a warp cooperate after the others have left.

use std::sync::Arc;

use gpu_kernels::gallery::Rung;
use gpu_kernels::gallery::warp_masks::{Arguments, RUNGS};

use super::theory::WARP;
use super::{Arrays, Axis, Lesson, Measure, Prediction, Problem, Scale, Trial, Work, elements, numbers_as};
use crate::compare::Bound;

pub(super) const LESSON: Lesson = Lesson {
    name: "warp_masks",
    title: "Parts of a warp",
    axis: Axis { label: "elements that are not 0, of 8", is_log: false },
    measure: Measure::Bytes,
    rungs: || RUNGS.iter().map(|rung| (rung.name, rung.idea)).collect(),
    trials,
    predictions,
};

fn predictions() -> Vec<Prediction> {
    vec![
        Prediction::time_over("sync", "shuffle", 1.0)
            .at(4.0)
            .from("the same bytes")
            .why("Both wait for memory. Shared memory and the barrier of a warp cost next to nothing."),
        Prediction::growth("shuffle", 8.0, 4.0 / 8.0)
            .at(0.0)
            .from("4 bytes per element for 8: nothing is stored")
            .why(
                "A thread waits for one load of 4 bytes, so time follows latency and not bytes. Without stores it is shorter, but \
                 not by half.",
            ),
    ]
}

fn trials(scale: Scale) -> Vec<Trial> {
    let (len, parts): (usize, &[u32]) = match scale {
        Scale::Tiny => (40, &[4]),
        Scale::Edges => (1001, &[0, 1, 4, 8]),
        Scale::Count => (1 << 12, &[1, 4, 8]),
        Scale::Laptop => (1 << 16, &[1, 4, 8]),
        Scale::Gpu => (1 << 26, &[0, 1, 2, 4, 6, 8]),
    };
    RUNGS.iter().flat_map(|rung| parts.iter().map(move |&part| trial(rung, len, part))).collect()
}

fn trial(rung: &'static Rung<Arguments>, len: usize, part: u32) -> Trial {
    // All elements are read; stores touch the sectors of 8 that have a nonzero element.
    let stored = 1.0 - (1.0 - f64::from(part) / 8.0).powi(8);
    let mut work = Work::of_bytes((4.0 + 4.0 * stored) * len as f64);
    work.foretold.sectors_loaded = Some(len.div_ceil(8) as f64);
    work.foretold.bank_conflicts = Some(0.0);
    let name = (rung.name, vec![rung.kernel.meta.name]);
    Trial::new(name, f64::from(part), format!("{len} elements, {part} of 8 not 0"), work, move || {
        let element = |x: f32| {
            let bits = x.to_bits();
            if bits % 8 < part { bits | 1 } else { 0 }
        };
        let x = Arc::new(numbers_as(len, 7, element));
        let mut arrays = Arrays::default();
        let inp = arrays.input("inp", Arc::clone(&x));
        let out = arrays.changed("out", elements(len, |_| 7_u32));
        let config = (rung.kernel.config)(len);
        Problem::new(
            arrays,
            move |on, placed| {
                let (out, inp) = (placed.of(out), placed.of(inp));
                // SAFETY: both arrays have `len` elements, and the grid is the kernel's for that many.
                unsafe { (rung.kernel.launch)(on, config, Arguments { out, inp, len: len as u32 }) }
            },
            move |_, i| {
                let of_warp = &x[i - i % WARP..i];
                let before = of_warp.iter().rev().find(|&&x| x != 0).unwrap_or(&x[i]);
                Bound::exact(f64::from(if x[i] == 0 { 7 } else { x[i].wrapping_sub(*before) }))
            },
        )
    })
}
