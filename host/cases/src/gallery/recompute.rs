//! Three sigmoids, stored for the backward pass or recomputed.

use std::sync::Arc;

use cuda_std::launch::Instance;
use gpu_kernels::gallery::recompute::{Arguments, RUNGS};
use gpu_kernels::gallery::{Grid, Sequence};

use super::{Arrays, Axis, Lesson, Measure, Prediction, Problem, Scale, Trial, Work, numbers, numbers_as};
use crate::reference::Sum;

pub(super) const LESSON: Lesson = Lesson {
    name: "recompute",
    title: "Recomputation",
    axis: Axis { label: "elements", is_log: true },
    measure: Measure::Bytes,
    rungs: || RUNGS.iter().map(|rung| (rung.name, rung.idea)).collect(),
    trials,
    predictions,
};

/// Tolerance of a result in roundings: three exponentials, and the operations in between.
const ROUNDINGS: f64 = 32.0;

fn predictions() -> Vec<Prediction> {
    vec![
        Prediction::share_of_copy("stored", 16.0 / 32.0)
            .from("16 of 32 bytes are useful")
            .why("Two kernels run one after the other, and each has to start and to drain."),
        Prediction::time_over("recomputed", "stored", 20.0 / 32.0)
            .from("20 bytes for 32")
            .elsewhere("5/8 of the accesses, not measured", "CS336, lecture 5")
            .why(
                "Six exponentials and six reciprocals per element take the special function units about half of the time that \
                 memory takes, and the two do not overlap perfectly.",
            ),
    ]
}

fn trials(scale: Scale) -> Vec<Trial> {
    let lens: &[usize] = match scale {
        Scale::Tiny => &[6],
        Scale::Edges => &[1, 5, 1024, 1027],
        Scale::Count => &[1 << 12],
        Scale::Laptop => &[1 << 18],
        Scale::Gpu => &[1 << 24],
    };
    RUNGS.iter().flat_map(|rung| lens.iter().map(move |&len| trial(rung, len))).collect()
}

fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

fn trial(rung: &'static Sequence<&'static Instance<Arguments, Grid>>, len: usize) -> Trial {
    let sectors = len.div_ceil(8) as f64;
    let [loads, stores] = if rung.name == "stored" { [4.0, 4.0] } else { [3.0, 2.0] };
    // The minimum for both: x, the gradients behind and before, and the result.
    let work = Work::of_bytes(16.0 * len as f64).with_sectors(loads * sectors, stores * sectors);
    let kernels = rung.steps.iter().map(|kernel| kernel.meta.name).collect();
    Trial::new((rung.name, kernels), len as f64, format!("{len} elements"), work, move || {
        let x = Arc::new(numbers_as(len, 4, |x| 4.0 * x));
        let gradient = Arc::new(numbers(len, 5));
        let mut arrays = Arrays::default();
        let (inp, behind) = (arrays.input("x", Arc::clone(&x)), arrays.input("d_out", Arc::clone(&gradient)));
        let (out, before) = (arrays.output("out", len), arrays.output("d_x", len));
        let [s1, s2] = ["s1", "s2"].map(|name| arrays.scratch(name, vec![0.0; len]));
        Problem::new(
            arrays,
            move |on, placed| {
                let arguments = Arguments {
                    out: placed.of(out),
                    s1: placed.of(s1),
                    s2: placed.of(s2),
                    x: placed.of(inp),
                    d_out: placed.of(behind),
                    d_x: placed.of(before),
                    len: len as u32,
                };
                rung.steps.iter().try_for_each(|kernel| {
                    // SAFETY: the six arrays have `len` elements, and the grid is the kernel's for that many.
                    unsafe { (kernel.launch)(on, (kernel.config)(len), arguments) }
                })
            },
            move |name, i| {
                let s1 = sigmoid(x[i].into());
                let s2 = sigmoid(s1);
                let s3 = sigmoid(s2);
                let value = match name {
                    "out" => s3,
                    _ => f64::from(gradient[i]) * s3 * (1.0 - s3) * s2 * (1.0 - s2) * s1 * (1.0 - s1),
                };
                // A difference from 1 is as exact as its operand, and s1 may be close to 1.
                let magnitude = if name == "out" { s3 } else { f64::from(gradient[i]).abs() * s3 * s2 * s1 };
                Sum { value, magnitude }.within(ROUNDINGS)
            },
        )
    })
}
