//! Matrix multiplication.

use std::sync::Arc;

use cuda_std::launch::LaunchConfig;
use ferrowarp::device::Device;
use gpu_kernels::gallery::matmul::{Arguments, Kernel, RUNGS, Rung};

use super::prediction::h200;
use super::{Arrays, Axis, Lesson, Measure, Prediction, Problem, Scale, Trial, Work, numbers};
use crate::reference::Sum;

pub(super) const LESSON: Lesson = Lesson {
    name: "matmul",
    title: "Matrix multiplication",
    axis: Axis { label: "m = n = k", is_log: true },
    measure: Measure::Flops,
    rungs: || RUNGS.iter().map(|rung| (rung.name, rung.idea)).collect(),
    trials,
    predictions,
};

/// Tolerance of a sum, in roundings of the sum of absolute values. With both signs, partial sums, and roundings that do not
/// cancel, grow with the square root of the number of terms: about one of the absolute sum.
const ROUNDINGS: f64 = 8.0;

/// `[m, n, k]`. Sizes that are not multiples of tiles, quads and buffers; one row, column or term; rows of A and B aligned
/// to 16 bytes, one of them, or none. The last ones have several tiles both down and across.
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

/// Sizes for damaged operands: rows of B aligned to 16 bytes, and not.
const DAMAGED: [[usize; 3]; 2] = [[35, 36, 33], [35, 33, 33]];

/// The smallest multiplication that exercises all of a rung.
const TINY: [usize; 3] = [2, 4, 9];

/// Sizes that show on a GPU the cost of alignment and of the last, half-empty wave of tiles. From 256 to 3072 the tiles need
/// several waves; 2944 is the first with more than four 128 x 128 tiles for each of 132 multiprocessors; sizes around 4096
/// divide by 1, 2, 4, 8, 16 and 32.
const SWEEP: [usize; 37] = [
    256, 384, 511, 512, 640, 768, 896, 1000, 1023, 1024, 1152, 1280, 1408, 1536, 1664, 1792, 1920, 2047,
    2048, 2176, 2304, 2688, 2816, 2944, 3072, 4064, 4080, 4088, 4092, 4094, 4095, 4096, 4097, 4100, 4104,
    6144, 8192,
];

/// Sizes that show the same for a rung that always uses tiles of 128 x 128.
const STEPS: [usize; 19] = [
    768, 1024, 1280, 1408, 1536, 1792, 2047, 2048, 2176, 2560, 2688, 2816, 2944, 3072, 4088, 4092, 4095,
    4097, 4104,
];

/// That rung.
const ONE_TILE: &str = "tall";

/// Multiply-adds of warps in the 128 x 128 x 128 multiplication that the emulator counts.
const OF_WARPS: f64 = 128.0 * 128.0 * 128.0 / 32.0;
/// How the share of the peak follows from that count.
const ISSUE: &str = "multiply-adds as a share of all instructions, as counted";

fn predictions() -> Vec<Prediction> {
    vec![
        Prediction::rate("uncoalesced", 64.0 / 33.0 * h200::MULTIPROCESSORS * h200::CLOCK)
            .from("33 lines per 32 multiply-adds, L1 looks up one line per cycle")
            .why("The lookup of 33 lines is the limit. Nothing else matters."),
        Prediction::share_of_peak("naive", 1.0 / 8.0)
            .from("two loads per multiply-add, L1 serves a quarter")
            .elsewhere("934 us, size not given", "Notes on lecture 4 of CUDA MODE, RTX 3090")
            .why(
                "L1 misses add to it. The 32 rows of A that a block reads lie a power of two apart and compete for the same sets, \
                 probably: the loss is larger at 4096 than at 1024.",
            ),
        Prediction::time_over("1d", "naive", 1.0)
            .at(1024.0)
            .from("the same loads")
            .elsewhere("a negligible difference", "GPUs, RTX 3090 Ti")
            .why("A block of one row reads one row of A and not 32, so L1 has less to keep. It is the faster of the two."),
        Prediction::time_over("1d", "naive", 1.0).from("the same loads").why(
            "The advantage of one row of A per block grows with the matrix.",
        ),
        Prediction::share_of_peak("shared", 1.0 / 8.0)
            .from("two loads per multiply-add, shared memory serves a quarter")
            .elsewhere("707 us where plain takes 934 us", "Notes on lecture 4 of CUDA MODE, RTX 3090")
            .why("Shared memory is the limit, and it does not miss."),
        Prediction::time_over("naive", "shared", 1.0)
            .from("two loads per multiply-add in both")
            .elsewhere("1.2 x", "GPUs, RTX 3090 Ti")
            .why("What tiles save is the time of the misses. On an H200 that is more than on the older GPUs."),
        Prediction::share_of_peak("column", 0.25 / 1.125)
            .from("1.125 loads per multiply-add, shared memory serves a quarter")
            .why(
                "The formula counts loads of PTX. The eight elements of A that the unrolled loop takes from one row are neighbours, \
                 so ptxas can merge them into fewer, wider loads.",
            ),
        Prediction::share_of_peak("square", OF_WARPS / 100_360.0)
            .from(ISSUE)
            .why("16 loads of 4 bytes before 64 multiply-adds. The warps of a block wait for shared memory at the same time."),
        Prediction::share_of_peak("vec4", OF_WARPS / 77_768.0)
            .from(ISSUE)
            .why("Fewer, wider loads. Each tile still waits for global memory and at two barriers."),
        Prediction::share_of_peak("warp", OF_WARPS / 77_944.0)
            .from(ISSUE)
            .why("A rectangle per warp needs fewer different numbers. The waits for global memory stay."),
        Prediction::share_of_peak("async", OF_WARPS / 83_344.0)
            .from(ISSUE)
            .why("Copies run ahead, so the waits are gone. What is left is loads and multiply-adds that do not pair up perfectly."),
        Prediction::share_of_peak("tall", OF_WARPS / 75_888.0)
            .at(4096.0)
            .from(ISSUE)
            .why("With 128 accumulators per thread only few warps fit, and they hide less of the latency of shared memory."),
        Prediction::share_of_peak("large", 2.0 * OF_WARPS / 150_444.0)
            .from(ISSUE)
            .why("As `tall`. A larger tile saves traffic that was not the limit."),
        Prediction::share_of_peak("tuned", OF_WARPS / 75_888.0)
            .at(4096.0)
            .from("the kernel of `tall` for large matrices")
            .why("As `tall`. cuBLAS is ahead here; see the table."),
        Prediction::growth("tall", 2048.0, 2.0 * 2176.0 / 2048.0)
            .at(2176.0)
            .from("2 waves for 1, and 6 % more terms")
            .elsewhere("the step from 98 to 120 tiles on 108 multiprocessors", "CS336, lecture 5, A100")
            .why("289 tiles are 25 more than fit at once. They take a second wave."),
    ]
}

fn trials(scale: Scale) -> Vec<Trial> {
    match scale {
        // Every kernel, whether or not its rung would choose it.
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

/// The values of the operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operands {
    /// Numbers between -1 and 1.
    Finite,
    /// A NaN at the beginning of a row of A, and an infinity at the end of B: no kernel may multiply elements beyond a row's
    /// end.
    Damaged,
}

/// Each rung on square matrices, with the kernel that it chooses.
fn chosen(rungs: &'static [Rung], sizes: &[usize]) -> Vec<Trial> {
    let of_rung = |rung: &'static Rung| {
        sizes.iter().map(move |&size| {
            let (kernel, config) = rung.choose([size; 3]).unwrap();
            trial(rung, (kernel, config), [size; 3], Operands::Finite)
        })
    };
    rungs.iter().flat_map(of_rung).collect()
}

/// Each kernel of each rung on the sizes that it supports; for clusters, the fewest, the most and an odd number of blocks.
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
                // SAFETY: the arrays have the matrices' shapes and are aligned to 16 bytes, and the grid is the kernel's.
                unsafe { (kernel.launch)(on, config, arguments) }
            },
            move |_, i| {
                let (row, col) = (i / n, i % n);
                let term = |i: usize| f64::from(x[row * k + i]) * f64::from(y[i * n + col]);
                (0..k).map(term).fold(Sum::default(), Sum::and).within(ROUNDINGS)
            },
        )
    });
    let peak = |device: &Device| Some(device.peaks().ok()??.flops);
    trial.with_cluster_threads(threads).with_grid(kernel.meta, config).with_peak(peak)
}

/// The work of a matmul, and its predicted counts if all tiles are full.
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
        // Per term, 32 rows of A and an element of B; sums of 32 rows.
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
