//! Vector addition.

use std::sync::Arc;

use gpu_kernels::gallery::Rung;
use gpu_kernels::gallery::vector_add::{Arguments, RUNGS};

use super::{Arrays, Axis, Lesson, Measure, Prediction, Problem, Scale, Trial, Work, numbers};
use crate::reference::Sum;

pub(super) const LESSON: Lesson = Lesson {
    name: "vector_add",
    title: "Vector addition",
    axis: Axis { label: "elements", is_log: true },
    measure: Measure::Bytes,
    rungs: || RUNGS.iter().map(|rung| (rung.name, rung.idea)).collect(),
    trials,
    predictions,
};

fn predictions() -> Vec<Prediction> {
    vec![
        Prediction::share_of_copy("scalar", 1.0).from("12 bytes per addition at the rate of a copy").why(
            "A thread waits for two loads of 4 bytes. That keeps too few bytes in flight to fill the memory pipe.",
        ),
        Prediction::share_of_copy("vec4", 1.0)
            .from("12 bytes per addition at the rate of a copy")
            .why("Loads of 16 bytes keep four times as many bytes in flight, so memory is busy all the time."),
    ]
}

fn trials(scale: Scale) -> Vec<Trial> {
    let lens: &[usize] = match scale {
        Scale::Tiny => &[6],
        Scale::Edges => &[1, 3, 4, 33, 1023, 1024, 1025],
        Scale::Count => &[1 << 14],
        Scale::Laptop => &[1 << 10, 1 << 14, 1 << 18, 1 << 22],
        Scale::Gpu => &[1 << 10, 1 << 14, 1 << 18, 1 << 20, 1 << 22, 1 << 24, 1 << 26],
    };
    RUNGS.iter().flat_map(|rung| lens.iter().map(move |&len| trial(rung, len))).collect()
}

fn trial(rung: &'static Rung<Arguments>, len: usize) -> Trial {
    let sectors = len.div_ceil(8) as f64;
    let work = Work::of_bytes(12.0 * len as f64).with_flop(len as f64).with_sectors(2.0 * sectors, sectors);
    let name = (rung.name, vec![rung.kernel.meta.name]);
    Trial::new(name, len as f64, format!("{len} elements"), work, move || {
        let (x, y) = (Arc::new(numbers(len, 1)), Arc::new(numbers(len, 2)));
        let mut arrays = Arrays::default();
        let (a, b) = (arrays.input("a", Arc::clone(&x)), arrays.input("b", Arc::clone(&y)));
        let out = arrays.output("out", len);
        let config = (rung.kernel.config)(len);
        Problem::new(
            arrays,
            move |on, placed| {
                let (out, a, b) = (placed.of(out), placed.of(a), placed.of(b));
                // SAFETY: the three have `len` elements, and the grid is the kernel's for that many.
                unsafe { (rung.kernel.launch)(on, config, Arguments { out, a, b, len: len as u32 }) }
            },
            move |_, i| {
                let (a, b) = (f64::from(x[i]), f64::from(y[i]));
                Sum { value: a + b, magnitude: (a + b).abs() }.within(1.0)
            },
        )
    })
}
