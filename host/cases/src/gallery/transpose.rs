//! The transpose of a matrix.

use cuda_std::launch::LaunchConfig;
use gpu_kernels::gallery::Rung;
use gpu_kernels::gallery::transpose::{Arguments, RUNGS};

use super::prediction::h200;
use super::theory::{WARP, passes};
use super::{Arrays, Axis, Lesson, Measure, Prediction, Problem, Scale, Trial, Work, elements};
use crate::compare::Bound;

pub(super) const LESSON: Lesson = Lesson {
    name: "transpose",
    title: "The transpose of a matrix",
    axis: Axis { label: "elements", is_log: true },
    measure: Measure::Bytes,
    rungs: || RUNGS.iter().map(|rung| (rung.name, rung.idea)).collect(),
    trials,
    predictions,
};

/// Side of a tile.
const TILE: usize = 32;

fn predictions() -> Vec<Prediction> {
    vec![
        Prediction::time_over("direct", "padded", (4.0 + 32.0) / 8.0).from("36 sectors for 8").why(
            "A store of 4 bytes into a sector of 32 makes L2 keep the sector until the other seven stores arrive. Where it cannot, \
             memory writes the sector more than once.",
        ),
        Prediction::rate("tile", 8.0 * 32.0 / 33.0 * h200::MULTIPROCESSORS * h200::CLOCK)
            .from("33 wavefronts of shared memory for 256 bytes")
            .why("Barriers keep shared memory from being busy all the time."),
        Prediction::share_of_copy("padded", 1.0)
            .from("8 bytes per element")
            .why("A block waits at its barrier between loads and stores, and reads and writes 128 bytes at a time."),
        Prediction::time_over("swizzled", "padded", 1.0)
            .from("no conflicts in both")
            .why("An exclusive or per address is a little more work than the padding."),
    ]
}

fn trials(scale: Scale) -> Vec<Trial> {
    let shapes: &[[usize; 2]] = match scale {
        Scale::Tiny => &[[2, 33]],
        Scale::Edges => &[[1, 5], [33, 65], [64, 32], [70, 31]],
        Scale::Count => &[[128, 64]],
        Scale::Laptop => &[[128, 128], [512, 512]],
        Scale::Gpu => &[[256, 256], [1024, 1024], [2048, 2048], [4096, 4096], [8192, 8192], [16384, 16384]],
    };
    RUNGS.iter().flat_map(|rung| shapes.iter().map(move |&shape| trial(rung, shape))).collect()
}

fn trial(rung: &'static Rung<Arguments, ()>, [rows, cols]: [usize; 2]) -> Trial {
    let len = rows * cols;
    let (loaded, is_direct) = (len.div_ceil(8), rung.name == "direct");
    let mut work = Work::of_bytes(8.0 * len as f64);
    // A column's elements lie in different sectors.
    work = work.with_sectors(loaded as f64, if is_direct { len } else { loaded } as f64);
    let place = |row: usize| match rung.name {
        "padded" => row * (TILE + 1),
        "swizzled" => row * TILE + row,
        _ => row * TILE,
    };
    let of_column = passes((0..WARP).map(place)) - 1;
    work.foretold.bank_conflicts = Some(if is_direct { 0.0 } else { (len / WARP * of_column) as f64 });
    let name = (rung.name, vec![rung.kernel.meta.name]);
    Trial::new(name, len as f64, format!("{rows} x {cols}"), work, move || {
        let element = |i: usize| (i as u32).wrapping_mul(2_654_435_761);
        let mut arrays = Arrays::default();
        let inp = arrays.input("inp", elements(len, element));
        let out = arrays.output("out", len);
        let tiles = [cols, rows].map(|extent| extent.div_ceil(TILE) as u32);
        let config = LaunchConfig::new((tiles[0], tiles[1]), (TILE as u32, 8));
        Problem::new(
            arrays,
            move |on, placed| {
                let (out, inp) = (placed.of(out), placed.of(inp));
                let arguments = Arguments { out, inp, rows: rows as u32, cols: cols as u32 };
                // SAFETY: both arrays have the matrix's elements, and the grid has one block per tile.
                unsafe { (rung.kernel.launch)(on, config, arguments) }
            },
            move |_, i| Bound::exact(f64::from(element(i % rows * cols + i / rows))),
        )
    })
}
