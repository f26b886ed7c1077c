//! Elementwise functions, fused and not fused.

use std::sync::Arc;

use gpu_kernels::gallery::Sequence;
use gpu_kernels::gallery::fusion::{Arguments, RUNGS, Step};

use super::{Arrays, Axis, Lesson, Measure, Prediction, Problem, Scale, Trial, Work, numbers_as};
use crate::reference::Sum;

pub(super) const LESSON: Lesson = Lesson {
    name: "fusion",
    title: "Fusion",
    axis: Axis { label: "function", is_log: false },
    measure: Measure::Bytes,
    rungs: || RUNGS.iter().map(|rung| (rung.name, rung.idea)).collect(),
    trials,
    predictions,
};

/// Tolerance of a result in roundings: those of the functions, and of the operations around them.
const ROUNDINGS: f64 = 16.0;

fn predictions() -> Vec<Prediction> {
    vec![
        Prediction::time_over("sin_cos_parts", "sin_cos_fused", 44.0 / 8.0)
            .from("44 bytes for 8")
            .why("Memory is the limit of all six kernels."),
        Prediction::share_of_copy("sin_cos_fused", 1.0)
            .from("8 bytes per element")
            .why("The sine and the cosine fit into the time that memory takes."),
        Prediction::time_over("gelu_parts", "gelu_fused", 84.0 / 8.0)
            .from("84 bytes for 8")
            .why("Memory is the limit of all ten kernels."),
        Prediction::share_of_copy("gelu_fused", 1.0)
            .from("8 bytes per element")
            .why("One tanh per element fits into the time that memory takes."),
    ]
}

fn trials(scale: Scale) -> Vec<Trial> {
    let lens: &[usize] = match scale {
        Scale::Tiny => &[6],
        Scale::Edges => &[1, 5, 1024, 1027],
        Scale::Count => &[1 << 12],
        Scale::Laptop => &[1 << 18],
        Scale::Gpu => &[1 << 25],
    };
    RUNGS.iter().flat_map(|rung| lens.iter().map(move |&len| trial(rung, len))).collect()
}

fn trial(rung: &'static Sequence<Step>, len: usize) -> Trial {
    let sectors = len.div_ceil(8) as f64;
    // A kernel with the same array as both inputs loads it twice.
    let loads: usize = rung.steps.iter().map(|step| 1 + usize::from(takes_two(step))).sum();
    let work = Work::of_bytes(8.0 * len as f64)
        .with_sectors(loads as f64 * sectors, rung.steps.len() as f64 * sectors);
    let mut kernels: Vec<&str> = rung.steps.iter().map(|step| step.kernel.meta.name).collect();
    kernels.dedup();
    let is_gelu = rung.name.starts_with("gelu");
    // Each function has its own ladder.
    let function = f64::from(u8::from(is_gelu));
    Trial::new((rung.name, kernels), function, format!("{len} elements"), work, move || {
        let x = Arc::new(numbers_as(len, 3, |x| 4.0 * x));
        let mut arrays = Arrays::default();
        let places = [
            arrays.input("x", Arc::clone(&x)),
            arrays.output("out", len),
            arrays.scratch("between", vec![0.0; len]),
            arrays.scratch("between, too", vec![0.0; len]),
        ];
        Problem::new(
            arrays,
            move |on, placed| {
                for step in rung.steps {
                    let [out, a, b] = step.arrays.map(|place| placed.of(places[place]));
                    let arguments = Arguments { out, a, b, factor: step.factor, len: len as u32 };
                    // SAFETY: the arrays have `len` elements, and the grid is the kernel's for that many; a result replaces
                    // an input only where the kernel allows it.
                    unsafe { (step.kernel.launch)(on, (step.kernel.config)(len), arguments) }?;
                }
                Ok(())
            },
            move |_, i| {
                let x = f64::from(x[i]);
                if is_gelu {
                    let inner = (2.0 / std::f64::consts::PI).sqrt() * (x + 0.044_715 * x * x * x);
                    // Near -1, adding to the tanh loses precision.
                    Sum { value: 0.5 * x * (1.0 + inner.tanh()), magnitude: x.abs() }.within(ROUNDINGS)
                } else {
                    Sum { value: 1.0, magnitude: 1.0 }.within(ROUNDINGS)
                }
            },
        )
    })
}

/// Whether the kernel reads two arrays.
fn takes_two(step: &Step) -> bool {
    ["_add", "_mul"].iter().any(|name| step.kernel.meta.name.ends_with(name))
}
