//! Sums of short rows.

use gpu_kernels::gallery::groups::{Arguments, RUNGS};

use super::prelude::*;

pub(super) fn trials(scale: Scale) -> Vec<Trial> {
    let (len, cols): (usize, &[usize]) = match scale {
        Scale::Tiny => (60, &[5]),
        Scale::Edges => (2100, &[1, 5, 16, 33]),
        Scale::Count => (1 << 12, &[4, 16, 64]),
        Scale::Laptop => (1 << 16, &[4, 16, 64]),
        Scale::Gpu => (1 << 27, &[4, 8, 16, 32, 64, 128, 256]),
    };
    each(RUNGS, cols, |rung, cols| trial(rung, len / cols, cols))
}

fn trial(rung: &'static Rung<Arguments>, rows: usize, cols: usize) -> Trial {
    let len = rows * cols;
    let mut work = Work::of_bytes(4 * (len + rows)).with_flop(len);
    let width: usize = rung.name.rsplit('_').next().and_then(|width| width.parse().ok()).unwrap_or(WARP);
    // The lanes of a request that have an element, and the sectors of their rows.
    let sectors = |first: usize| {
        let lane = |lane: usize| (lane / width, first + lane % width);
        let words = (0..WARP).map(lane).filter(|&(_, col)| col < cols).map(|(row, col)| row * cols + col);
        words.map(|word| word / 8).collect::<std::collections::BTreeSet<_>>().len()
    };
    let of_warp = WARP / width;
    if cols.is_multiple_of(4) && rows.is_multiple_of(WARP) && (of_warp * cols).is_multiple_of(8) {
        let requests = (0..cols).step_by(width).map(sectors).sum::<usize>();
        work = work.with_sectors(rows / of_warp * requests, rows / of_warp * of_warp.div_ceil(8));
    }
    Trial::of_rung(rung, cols, format!("{rows} x {cols}"), work, move || {
        let x = Arc::new(numbers_as(len, 6, |x| (64.0 * x).trunc()));
        let mut arrays = Arrays::default();
        let (inp, out) = (arrays.input("inp", Arc::clone(&x)), arrays.output("out", rows));
        let arguments = move |p: &Placed| Arguments {
            out: p.of(out),
            inp: p.of(inp),
            rows: rows as u32,
            cols: cols as u32,
        };
        let oracle = move |_, row| Bound::exact(x[row * cols..][..cols].iter().map(|&x| f64::from(x)).sum());
        // SAFETY: the arrays have the matrix and its rows, and the grid is the kernel's.
        unsafe { arrays.launch(rung, (rung.kernel.config)(rows), arguments, oracle) }
    })
}
