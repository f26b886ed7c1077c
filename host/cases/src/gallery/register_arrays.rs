//! Arrays that are private to a thread.

use gpu_kernels::gallery::register_arrays::{Arguments, RUNGS};

use super::prelude::*;

/// Rows from an element to the one that it is compared with.
const LAST: usize = 32;

pub(super) fn trials(scale: Scale) -> Vec<Trial> {
    let shapes: &[[usize; 2]] = match scale {
        Scale::Tiny => &[[33, 2]],
        Scale::Edges => &[[1, 1], [31, 33], [32, 257], [70, 45]],
        Scale::Count => &[[64, 256]],
        Scale::Laptop => &[[128, 256], [128, 2048]],
        Scale::Gpu => &[[128, 1 << 14], [128, 1 << 16], [128, 1 << 18], [128, 1 << 19]],
    };
    each(RUNGS, shapes, trial)
}

fn trial(rung: &'static Rung<Arguments>, [rows, cols]: [usize; 2]) -> Trial {
    let len = rows * cols;
    let work = Work::of_bytes(8 * len).with_flop(len).with_sectors(len.div_ceil(8), len.div_ceil(8));
    Trial::of_rung(rung, len, format!("{rows} x {cols}"), work, move || {
        let x = Arc::new(numbers(len, 6));
        let mut arrays = Arrays::default();
        let (inp, out) = (arrays.input("inp", Arc::clone(&x)), arrays.output("out", len));
        let arguments = move |p: &Placed| Arguments {
            out: p.of(out),
            inp: p.of(inp),
            rows: rows as u32,
            cols: cols as u32,
        };
        let oracle = move |_, i: usize| {
            let above = i.checked_sub(LAST * cols).map_or(0.0, |above| f64::from(x[above]));
            rounded(f64::from(x[i]) - above)
        };
        // SAFETY: both arrays have the matrix's elements, and the grid is the kernel's for its columns.
        unsafe { arrays.launch(rung, (rung.kernel.config)(cols), arguments, oracle) }
    })
}
