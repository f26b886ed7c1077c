//! Three sigmoids, stored for the backward pass or recomputed.

use cuda_std::launch::Instance;
use gpu_kernels::gallery::recompute::{Arguments, RUNGS};
use gpu_kernels::gallery::{Grid, Sequence};

use super::prelude::*;

/// Tolerance of a result in roundings: three exponentials, and the operations in between.
const ROUNDINGS: f64 = 32.0;

pub(super) fn trials(scale: Scale) -> Vec<Trial> {
    let lens: &[usize] = match scale {
        Scale::Tiny => &[6],
        Scale::Edges => &[1, 5, 1024, 1027],
        Scale::Count => &[1 << 12],
        Scale::Laptop => &[1 << 18],
        Scale::Gpu => &[1 << 24],
    };
    each(RUNGS, lens, trial)
}

fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

fn trial(rung: &'static Sequence<&'static Instance<Arguments, Grid>>, len: usize) -> Trial {
    let sectors = len.div_ceil(8);
    let [loads, stores] = if rung.name == "stored" { [4, 4] } else { [3, 2] };
    // The minimum for both: x, the gradients behind and before, and the result.
    let work = Work::of_bytes(16 * len).with_sectors(loads * sectors, stores * sectors);
    let kernels = rung.steps.iter().map(|kernel| kernel.meta.name).collect();
    Trial::new((rung.name, rung.idea, kernels), len, format!("{len} elements"), work, move || {
        let x = Arc::new(numbers_as(len, 4, |x| 4.0 * x));
        let gradient = Arc::new(numbers(len, 5));
        let mut arrays = Arrays::default();
        let (inp, behind) = (arrays.input("x", Arc::clone(&x)), arrays.input("d_out", Arc::clone(&gradient)));
        let (out, before) = (arrays.output("out", len), arrays.output("d_x", len));
        let [s1, s2] = ["s1", "s2"].map(|name| arrays.scratch(name, vec![0.0; len]));
        let launch = move |on: &dyn Launcher, p: &Placed| {
            let (out, s1, s2) = (p.of(out), p.of(s1), p.of(s2));
            let (x, d_out, d_x) = (p.of(inp), p.of(behind), p.of(before));
            let arguments = Arguments { out, s1, s2, x, d_out, d_x, len: len as u32 };
            rung.steps.iter().try_for_each(|kernel| {
                // SAFETY: the six arrays have `len` elements, and the grid is the kernel's for that many.
                unsafe { (kernel.launch)(on, (kernel.config)(len), arguments) }
            })
        };
        Problem::new(arrays, launch, move |name, i| {
            let s1 = sigmoid(x[i].into());
            let (s2, gradient) = (sigmoid(s1), f64::from(gradient[i]));
            let s3 = sigmoid(s2);
            // A difference from 1 is as exact as its operand, and s1 may be close to 1.
            let (value, magnitude) = match name {
                "out" => (s3, s3),
                _ => (
                    gradient * s3 * (1.0 - s3) * s2 * (1.0 - s2) * s1 * (1.0 - s1),
                    gradient.abs() * s3 * s2 * s1,
                ),
            };
            Sum { value, magnitude }.within(ROUNDINGS)
        })
    })
}
