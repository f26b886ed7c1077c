//! A stencil of 3 x 3 pixels.

use std::collections::BTreeSet;

use gpu_kernels::gallery::stencil::{Arguments, RUNGS, Tile};

use super::prelude::*;

pub(super) fn trials(scale: Scale) -> Vec<Trial> {
    let shapes: &[[usize; 2]] = match scale {
        Scale::Tiny => &[[3, 5]],
        Scale::Edges => &[[1, 1], [2, 33], [65, 31], [70, 95]],
        Scale::Count => &[[64, 480]],
        Scale::Laptop => &[[512, 480]],
        Scale::Gpu => &[[1024, 960], [4096, 3840], [16_384, 15_360]],
    };
    each(RUNGS, shapes, trial)
}

/// Larger images are not counted.
const COUNTED: usize = 1 << 16;

/// Sectors that a rung loads. Rows and columns count from the one before the image.
fn loaded(rung: &str, [of_rows, of_cols]: [usize; 2], [rows, cols]: [usize; 2]) -> usize {
    let request = |pixels: &dyn Fn(usize) -> (usize, usize)| {
        let inside = (0..WARP)
            .map(pixels)
            .filter(|&(row, col)| (1..=rows).contains(&row) && (1..=cols).contains(&col));
        inside.map(|(row, col)| ((row - 1) * cols + col - 1) / 8).collect::<BTreeSet<_>>().len()
    };
    let of_warp = |row0: usize, col0: usize, warp: usize| -> usize {
        let rows_of = |count: usize, places: usize| {
            let first = row0 + warp * of_rows / 8;
            let loads = (0..count).flat_map(|r| (0..places).map(move |c| (r, c)));
            loads.map(|(r, c)| request(&|lane| (first + r, col0 + lane + c))).sum()
        };
        match rung {
            "naive" => rows_of(3, 3),
            "registers" => rows_of(10, 3),
            "shuffle" => rows_of(10, 1),
            // The tile is 10 rows of 34 pixels, and each thread loads one or two of them.
            _ => [0, 256]
                .map(|more| {
                    let place = |lane| more + warp * WARP + lane;
                    // Rows past the tile are not loaded.
                    let pixel = |i: usize| if i < 340 { (row0 + i / 34, col0 + i % 34) } else { (0, 0) };
                    request(&|lane| pixel(place(lane)))
                })
                .iter()
                .sum(),
        }
    };
    let blocks =
        (0..rows).step_by(of_rows).flat_map(|row| (0..cols).step_by(of_cols).map(move |col| (row, col)));
    blocks.flat_map(|(row, col)| (0..8).map(move |warp| of_warp(row, col, warp))).sum()
}

fn trial(rung: &'static Rung<Arguments, Tile>, [rows, cols]: [usize; 2]) -> Trial {
    let len = rows * cols;
    let Tile(tile) = rung.kernel.facts;
    // Eight additions and nine multiplications, some of which share a factor.
    let mut work = Work::of_bytes(8 * len).with_flop(17 * len).with_conflicts(0);
    let is_whole = rows.is_multiple_of(64) && cols.is_multiple_of(480);
    if is_whole && len <= COUNTED {
        // A warp of 30 columns begins anywhere in a sector.
        let of_row = |col: usize| (col + tile[1] as usize - 1) / 8 - col / 8 + 1;
        let stored = rows * (0..cols).step_by(tile[1] as usize).map(of_row).sum::<usize>();
        work = work.with_sectors(loaded(rung.name, tile.map(|extent| extent as usize), [rows, cols]), stored);
    }
    Trial::of_rung(rung, len, format!("{rows} x {cols} pixels"), work, move || {
        let x = Arc::new(numbers_as(len, 4, |x| (64.0 * x).trunc()));
        let mut arrays = Arrays::default();
        let inp = arrays.input("inp", Arc::clone(&x));
        let out = arrays.output("out", len);
        let arguments = move |p: &Placed| Arguments {
            out: p.of(out),
            inp: p.of(inp),
            rows: rows as u32,
            cols: cols as u32,
        };
        let oracle = move |_, i: usize| {
            let weight = |distance: usize| if distance == 1 { 0.5 } else { 0.25 };
            let near = |at: usize, end: usize| (0..3).filter(move |d| (1..=end).contains(&(at + d)));
            let (row, col) = (i / cols, i % cols);
            let of_row = |r: usize| -> f64 {
                let pixel = |c: usize| f64::from(x[(row + r - 1) * cols + col + c - 1]);
                near(col, cols).map(|c| weight(r) * weight(c) * pixel(c)).sum()
            };
            Bound::exact(near(row, rows).map(of_row).sum())
        };
        // SAFETY: both arrays have the image's pixels, and the grid is the kernel's.
        unsafe { arrays.launch(rung, rung.kernel.config(rows, cols), arguments, oracle) }
    })
}
