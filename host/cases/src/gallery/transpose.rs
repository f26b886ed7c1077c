//! The transpose of a matrix.

use gpu_kernels::gallery::transpose::{Arguments, RUNGS};

use super::prelude::*;

/// Side of a tile.
const TILE: usize = 32;

pub(super) fn trials(scale: Scale) -> Vec<Trial> {
    let shapes: &[[usize; 2]] = match scale {
        Scale::Tiny => &[[2, 33]],
        Scale::Edges => &[[1, 5], [33, 65], [64, 32], [70, 31]],
        Scale::Count => &[[128, 64]],
        Scale::Laptop => &[[128, 128], [512, 512]],
        Scale::Gpu => &[[256, 256], [1024, 1024], [2048, 2048], [4096, 4096], [8192, 8192], [16384, 16384]],
    };
    each(RUNGS, shapes, trial)
}

fn trial(rung: &'static Rung<Arguments, ()>, [rows, cols]: [usize; 2]) -> Trial {
    let len = rows * cols;
    let place = |row: usize| match rung.name {
        "padded" => row * (TILE + 1),
        "swizzled" => row * TILE + row,
        _ => row * TILE,
    };
    let conflicts = len / WARP * (passes((0..WARP).map(place)) - 1);
    // A column's elements lie in different sectors.
    let (stored, conflicts) = if rung.name == "direct" { (len, 0) } else { (len.div_ceil(8), conflicts) };
    let work = Work::of_bytes(8 * len).with_sectors(len.div_ceil(8), stored).with_conflicts(conflicts);
    Trial::of_rung(rung, len, format!("{rows} x {cols}"), work, move || {
        let mut arrays = Arrays::default();
        let (inp, out) = (arrays.input("inp", elements(len, word)), arrays.output("out", len));
        let tiles = [cols, rows].map(|extent| extent.div_ceil(TILE) as u32);
        let config = LaunchConfig::new((tiles[0], tiles[1]), (TILE as u32, 8));
        let arguments = move |p: &Placed| Arguments {
            out: p.of(out),
            inp: p.of(inp),
            rows: rows as u32,
            cols: cols as u32,
        };
        let oracle = move |_, i: usize| Bound::exact(f64::from(word(i % rows * cols + i / rows)));
        // SAFETY: both arrays have the matrix's elements, and the grid has one block per tile.
        unsafe { arrays.launch(rung, config, arguments, oracle) }
    })
}
