//! Vector addition.

use gpu_kernels::gallery::vector_add::{Arguments, RUNGS};

use super::prelude::*;

pub(super) fn trials(scale: Scale) -> Vec<Trial> {
    let lens: &[usize] = match scale {
        Scale::Tiny => &[6],
        Scale::Edges => &[1, 3, 4, 33, 1023, 1024, 1025],
        Scale::Count => &[1 << 14],
        Scale::Laptop => &[1 << 10, 1 << 14, 1 << 18, 1 << 22],
        Scale::Gpu => &[1 << 10, 1 << 14, 1 << 18, 1 << 20, 1 << 22, 1 << 24, 1 << 26],
    };
    each(RUNGS, lens, trial)
}

fn trial(rung: &'static Rung<Arguments>, len: usize) -> Trial {
    let sectors = len.div_ceil(8);
    let work = Work::of_bytes(12 * len).with_flop(len).with_sectors(2 * sectors, sectors);
    Trial::of_rung(rung, len, format!("{len} elements"), work, move || {
        let (x, y) = (Arc::new(numbers(len, 1)), Arc::new(numbers(len, 2)));
        let mut arrays = Arrays::default();
        let (a, b) = (arrays.input("a", Arc::clone(&x)), arrays.input("b", Arc::clone(&y)));
        let out = arrays.output("out", len);
        let arguments =
            move |p: &Placed| Arguments { out: p.of(out), a: p.of(a), b: p.of(b), len: len as u32 };
        let oracle = move |_, i: usize| rounded(f64::from(x[i]) + f64::from(y[i]));
        // SAFETY: the three have `len` elements, and the grid is the kernel's for that many.
        unsafe { arrays.launch(rung, (rung.kernel.config)(len), arguments, oracle) }
    })
}
