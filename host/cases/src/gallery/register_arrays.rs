//! Arrays that are private to a thread.

use std::sync::Arc;

use gpu_kernels::gallery::Rung;
use gpu_kernels::gallery::register_arrays::{Arguments, RUNGS};

use super::{Arrays, Axis, Lesson, Measure, Prediction, Problem, Scale, Trial, Work, numbers};
use crate::reference::Sum;

pub(super) const LESSON: Lesson = Lesson {
    name: "register_arrays",
    title: "Arrays in registers",
    axis: Axis { label: "elements", is_log: true },
    measure: Measure::Bytes,
    rungs: || RUNGS.iter().map(|rung| (rung.name, rung.idea)).collect(),
    trials,
    predictions,
};

/// Rows from an element to the one that it is compared with.
const LAST: usize = 32;

fn predictions() -> Vec<Prediction> {
    vec![
        Prediction::time_over("run_time", "unrolled", (8.0 + 8.0) / 8.0)
            .from("16 bytes for 8, if no local memory stays in a cache")
            .why("L1 and L2 keep a part of the local memory."),
        Prediction::time_over("shifted", "unrolled", 22_920.0 / 10_112.0)
            .from("instructions of warps, as counted")
            .why(
                "Instructions are not the limit: all threads wait for memory, so 31 moves per element cost nothing. A smaller loop \
                 also fits the instruction cache better.",
            ),
        Prediction::share_of_copy("unrolled", 1.0)
            .from("8 bytes per element")
            .why("A thread has one load of 4 bytes in flight, because it stores an element before it loads the next."),
    ]
}

fn trials(scale: Scale) -> Vec<Trial> {
    let shapes: &[[usize; 2]] = match scale {
        Scale::Tiny => &[[33, 2]],
        Scale::Edges => &[[1, 1], [31, 33], [32, 257], [70, 45]],
        Scale::Count => &[[64, 256]],
        Scale::Laptop => &[[128, 256], [128, 2048]],
        Scale::Gpu => &[[128, 1 << 14], [128, 1 << 16], [128, 1 << 18], [128, 1 << 19]],
    };
    RUNGS.iter().flat_map(|rung| shapes.iter().map(move |&shape| trial(rung, shape))).collect()
}

fn trial(rung: &'static Rung<Arguments>, [rows, cols]: [usize; 2]) -> Trial {
    let len = rows * cols;
    let sectors = len.div_ceil(8) as f64;
    let work = Work::of_bytes(8.0 * len as f64).with_flop(len as f64).with_sectors(sectors, sectors);
    let name = (rung.name, vec![rung.kernel.meta.name]);
    Trial::new(name, len as f64, format!("{rows} x {cols}"), work, move || {
        let x = Arc::new(numbers(len, 6));
        let mut arrays = Arrays::default();
        let inp = arrays.input("inp", Arc::clone(&x));
        let out = arrays.output("out", len);
        let config = (rung.kernel.config)(cols);
        Problem::new(
            arrays,
            move |on, placed| {
                let (out, inp) = (placed.of(out), placed.of(inp));
                let arguments = Arguments { out, inp, rows: rows as u32, cols: cols as u32 };
                // SAFETY: both arrays have the matrix's elements, and the grid is the kernel's for its columns.
                unsafe { (rung.kernel.launch)(on, config, arguments) }
            },
            move |_, i| {
                let above = i.checked_sub(LAST * cols).map_or(0.0, |above| f64::from(x[above]));
                let value = f64::from(x[i]) - above;
                Sum { value, magnitude: value.abs() }.within(1.0)
            },
        )
    })
}
