//! The matrix product.

use std::sync::Arc;

use cuda_std::launch::LaunchConfig;
use gpu_kernels::gallery::matmul::{Arguments, Kernel, RUNGS, Rung};

use super::{Arrays, Axis, Lesson, Measure, Problem, Scale, Trial, Work, numbers};
use crate::reference::Sum;

pub(super) const LESSON: Lesson = Lesson {
    name: "matmul",
    title: "Matrix product",
    axis: Axis { label: "m = n = k", is_log: true },
    measure: Measure::Flops,
    rungs: || RUNGS.iter().map(|rung| (rung.name, rung.idea)).collect(),
    trials,
};

/// Roundings of the sum of the terms' absolute values that a sum may be off by. Of terms whose signs differ the sum on the
/// way is about the square root of their number, and so are the roundings that do not cancel: about one of the absolute sum.
const ROUNDINGS: f64 = 8.0;

/// `[m, n, k]`. Tiles, quads and buffers end in their midst; one row, one column, one term; rows of A and B that begin on 16 bytes,
/// those of one of them, or none. The last ones have more tiles than one both down and across.
const EDGES: [[usize; 3]; 8] = [
    [1, 1, 1],
    [3, 5, 2],
    [33, 36, 17],
    [70, 65, 40],
    [40, 132, 31],
    [130, 30, 9],
    [129, 260, 8],
    [260, 131, 7],
];

/// Of those whose operands are damaged: rows of B on 16 bytes, and not.
const DAMAGED: [[usize; 3]; 2] = [[35, 36, 33], [35, 33, 33]];

/// The least product at which a rung does all it does.
const TINY: [usize; 3] = [2, 4, 9];

/// Sizes by which a GPU shows what alignment and the last, half empty wave of tiles cost: from 256 to 3072 the tiles go through
/// several waves, 2944 is the first with more than four tiles of 128 x 128 for each of 132 multiprocessors; around 4096 sizes
/// divide by 1, 2, 4, 8, 16 and 32.
const SWEEP: [usize; 37] = [
    256, 384, 511, 512, 640, 768, 896, 1000, 1023, 1024, 1152, 1280, 1408, 1536, 1664, 1792, 1920, 2047,
    2048, 2176, 2304, 2688, 2816, 2944, 3072, 4064, 4080, 4088, 4092, 4094, 4095, 4096, 4097, 4100, 4104,
    6144, 8192,
];

/// Those at which a rung whose tiles are always of 128 x 128 shows the same undisguised.
const STEPS: [usize; 19] = [
    768, 1024, 1280, 1408, 1536, 1792, 2047, 2048, 2176, 2560, 2688, 2816, 2944, 3072, 4088, 4092, 4095,
    4097, 4104,
];

/// That rung.
const ONE_TILE: &str = "tall";

fn trials(scale: Scale) -> Vec<Trial> {
    match scale {
        // Every kernel, whether its rung would choose it or not.
        Scale::Tiny => of_each_kernel(&[TINY], Operands::Finite),
        Scale::Edges => {
            let mut trials = of_each_kernel(&EDGES, Operands::Finite);
            trials.extend(of_each_kernel(&DAMAGED, Operands::Damaged));
            trials
        }
        Scale::Count => chosen(RUNGS, &[128]),
        Scale::Laptop => chosen(RUNGS, &[64, 128, 256, 384]),
        Scale::Gpu => {
            let (last, others) = RUNGS.split_last().unwrap();
            let mut trials = Vec::new();
            for rung in others {
                let steps = if rung.name == ONE_TILE { &STEPS[..] } else { &[1024] };
                let mut sizes = [steps, &[4096]].concat();
                sizes.sort_unstable();
                trials.extend(chosen(std::slice::from_ref(rung), &sizes));
            }
            trials.extend(chosen(std::slice::from_ref(last), &SWEEP));
            trials
        }
    }
}

/// What stands in the operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operands {
    /// Numbers between -1 and 1.
    Finite,
    /// A NaN where a row of A begins, and an infinity at the end of B: nobody may multiply by what lies beyond a row's end.
    Damaged,
}

/// Each rung on square products, by the kernel that it chooses.
fn chosen(rungs: &'static [Rung], sizes: &[usize]) -> Vec<Trial> {
    let of_rung = |rung: &'static Rung| {
        sizes.iter().map(move |&size| {
            let (kernel, config) = rung.choose([size; 3]).unwrap();
            trial(rung, (kernel, config), [size; 3], Operands::Finite)
        })
    };
    rungs.iter().flat_map(of_rung).collect()
}

/// Each kernel of each rung on the products that it can do; those for clusters with the fewest and the most blocks of one, and an
/// odd number.
fn of_each_kernel(shapes: &[[usize; 3]], operands: Operands) -> Vec<Trial> {
    let mut trials = Vec::new();
    for rung in RUNGS {
        for kernel in rung.kernels {
            for &shape in shapes.iter().filter(|&&shape| kernel.fits(shape)) {
                for splits in [1, 2, 3, 8].into_iter().filter(|&splits| kernel.can_split(splits)) {
                    trials.push(trial(rung, (kernel, kernel.config(shape, splits)), shape, operands));
                }
            }
        }
    }
    trials
}

fn trial(
    rung: &'static Rung,
    (kernel, config): (&'static Kernel, LaunchConfig),
    shape @ [m, n, k]: [usize; 3],
    operands: Operands,
) -> Trial {
    let words = match config.cluster {
        1 => format!("{m} x {n} x {k}"),
        blocks => format!("{m} x {n} x {k}, {blocks} blocks a tile"),
    };
    let name = (rung.name, vec![kernel.meta.name]);
    let threads = if config.cluster > 1 { config.cluster * config.block.volume() as u32 } else { 0 };
    let trial = Trial::new(name, m as f64, words, work(rung, kernel, shape), move || {
        let (mut x, mut y) = (numbers(m * k, 1), numbers(k * n, 2));
        if operands == Operands::Damaged {
            (x[m / 2 * k], y[k * n - 1]) = (f32::NAN, f32::INFINITY);
        }
        let (x, y) = (Arc::new(x), Arc::new(y));
        let mut arrays = Arrays::default();
        let (a, b) = (arrays.input("a", Arc::clone(&x)), arrays.input("b", Arc::clone(&y)));
        let out = arrays.output("out", m * n);
        Problem::new(
            arrays,
            move |on, placed| {
                let [m, n, k] = shape.map(|extent| extent as u32);
                let arguments = Arguments { out: placed.of(out), a: placed.of(a), b: placed.of(b), m, n, k };
                // SAFETY: the arrays have the product's shapes and begin on 16 bytes, and the grid is the kernel's for them.
                unsafe { (kernel.launch)(on, config, arguments) }
            },
            move |_, i| {
                let (row, col) = (i / n, i % n);
                let term = |i: usize| f64::from(x[row * k + i]) * f64::from(y[i * n + col]);
                (0..k).map(term).fold(Sum::default(), Sum::and).within(ROUNDINGS)
            },
        )
    });
    trial.with_cluster_threads(threads).with_grid(kernel.meta, config)
}

/// What a product is worth, and what is foretold of it where its tiles are whole.
fn work(rung: &Rung, kernel: &Kernel, [m, n, k]: [usize; 3]) -> Work {
    let [rows, cols] = kernel.tile.map(|extent| extent as usize);
    let is_whole = m.is_multiple_of(rows) && n.is_multiple_of(cols.min(128)) && k.is_multiple_of(32);
    let [m, n, k, rows, cols] = [m, n, k, rows, cols].map(|extent| extent as f64);
    let work = Work::of_bytes(4.0 * (m * k + k * n + m * n)).with_flop(2.0 * m * n * k);
    if !is_whole {
        return work;
    }
    let warps = m * n / 32.0;
    let (loaded, stored) = match rung.name {
        // For a term 32 rows of A and an element of B; sums of 32 rows.
        "uncoalesced" => (warps * k * 33.0, warps * 32.0),
        // An element of A and 32 neighbours of B.
        "naive" | "1d" => (warps * k * 5.0, warps * 4.0),
        // The rows of A and the columns of B of each tile.
        _ => (m / rows * (n / cols) * (rows + cols) * k / 8.0, warps * 4.0),
    };
    work.with_sectors(loaded, stored).without_conflicts()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn most_multiprocessors_have_a_block() {
        for size in SWEEP {
            let (kernel, config) = RUNGS.last().unwrap().choose([size; 3]).unwrap();
            let blocks = config.grid.volume();
            assert!(blocks >= 96, "{size}: {blocks} blocks of {}", kernel.meta.name);
        }
    }

    #[test]
    fn sizes_end_just_before_a_wave_and_just_after() {
        let tiles = |size: usize| size.div_ceil(128).pow(2);
        for sizes in [&SWEEP[..], &STEPS] {
            for waves in [132, 264, 528] {
                let share = |&size: &usize| tiles(size) as f64 / waves as f64;
                let before = sizes.iter().map(share).any(|share| (0.9..=1.0).contains(&share));
                let after = sizes.iter().map(share).any(|share| share > 1.0 && share < 1.15);
                assert!(before && after, "{waves} tiles a wave");
            }
        }
    }

    #[test]
    fn large_products_share_no_sums() {
        for size in [4096, 6144, 8191, 8192] {
            let (kernel, config) = RUNGS.last().unwrap().choose([size; 3]).unwrap();
            assert_eq!((config.cluster, kernel.sums), (1, [16, 8]), "{size}");
        }
    }
}
