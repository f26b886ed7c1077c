//! A small array of a thread's own.

use std::sync::Arc;

use gpu_kernels::gallery::Rung;
use gpu_kernels::gallery::register_arrays::{Arguments, RUNGS};

use super::{Arrays, Axis, Lesson, Measure, Problem, Scale, Trial, Work, numbers};
use crate::compare::Bound;

pub(super) const LESSON: Lesson = Lesson {
    name: "register_arrays",
    title: "Arrays in registers",
    axis: Axis { label: "elements", is_log: true },
    measure: Measure::Bytes,
    rungs: || RUNGS.iter().map(|rung| (rung.name, rung.idea)).collect(),
    trials,
};

/// Elements of which the largest is taken.
const LAST: usize = 8;

fn trials(scale: Scale) -> Vec<Trial> {
    let shapes: &[[usize; 2]] = match scale {
        Scale::Tiny => &[[9, 2]],
        Scale::Edges => &[[1, 1], [7, 33], [8, 257], [21, 70]],
        Scale::Count => &[[32, 256]],
        Scale::Laptop => &[[64, 256], [64, 4096]],
        Scale::Gpu => &[[64, 1 << 14], [64, 1 << 16], [64, 1 << 18], [64, 1 << 20]],
    };
    RUNGS.iter().flat_map(|rung| shapes.iter().map(move |&shape| trial(rung, shape))).collect()
}

fn trial(rung: &'static Rung<Arguments>, [rows, cols]: [usize; 2]) -> Trial {
    let len = rows * cols;
    let sectors = len.div_ceil(8) as f64;
    let work = Work::of_bytes(8.0 * len as f64).with_sectors(sectors, sectors);
    let name = (rung.name, vec![rung.kernel.meta.name]);
    Trial::new(name, len as f64, format!("{rows} x {cols}"), work, move || {
        // A NaN here and there, which is no number and so not the largest.
        let nan = |(i, x): (usize, f32)| if i % 11 == 3 { f32::NAN } else { x };
        let x = Arc::new(numbers(len, 6).into_iter().enumerate().map(nan).collect::<Vec<f32>>());
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
                let last =
                    (0..LAST).filter(|back| back * cols <= i).map(|back| f64::from(x[i - back * cols]));
                Bound::exact(last.fold(f64::NEG_INFINITY, f64::max))
            },
        )
    })
}
