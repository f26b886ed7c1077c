//! Matrix multiplication.

mod cpu;

use gpu_kernels::gallery::matmul::{Arguments, RUNGS, Tiles};

use super::prelude::*;

/// Tolerance of a sum, in roundings of the sum of absolute values. With both signs, partial sums, and roundings that do not
/// cancel, grow with the square root of the number of terms: about one of the absolute sum.
const ROUNDINGS: f64 = 8.0;

/// `[m, n, k]`. Sizes that are not multiples of tiles and quads; one row, column or term; rows of A and B aligned to 16
/// bytes, one of them, or none. The last ones have several tiles both down and across.
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

pub(super) fn trials(scale: Scale) -> Vec<Trial> {
    let squares: &[usize] = match scale {
        Scale::Tiny | Scale::Edges => &[32],
        Scale::Count => &[128],
        Scale::Laptop => &[64, 128, 256, 384],
        Scale::Gpu => &[1024, 4096],
    };
    let mut trials = cpu::trials(squares, 1024);
    match scale {
        Scale::Tiny => trials.extend(each(RUNGS, &[[2, 4, 9]], |rung, shape| trial(rung, shape, false))),
        Scale::Edges => {
            trials.extend(each(RUNGS, &EDGES, |rung, shape| trial(rung, shape, false)));
            trials.extend(each(RUNGS, &DAMAGED, |rung, shape| trial(rung, shape, true)));
        }
        _ => trials.extend(each(RUNGS, squares, |rung, size| trial(rung, [size; 3], false))),
    }
    trials
}

/// The lesson `waves`: numbers of tiles of 128 x 128, one below the other, each with the same terms.
pub(super) fn waves(scale: Scale) -> Vec<Trial> {
    let (tiles, k): (&[usize], usize) = match scale {
        Scale::Tiny => (&[1], 1),
        Scale::Edges => (&[1, 2], 9),
        Scale::Count => (&[1, 2], 32),
        Scale::Laptop => (&[1, 2, 4], 64),
        Scale::Gpu => (
            &[
                1, 33, 66, 99, 131, 132, 133, 165, 198, 231, 263, 264, 265, 297, 330, 363, 396, 397, 430,
                462, 495, 528, 529, 594, 660, 661, 792, 793,
            ],
            2048,
        ),
    };
    let rungs = RUNGS.iter().filter(|rung| ["square", "vec4"].contains(&rung.name));
    let of_rung = |rung| tiles.iter().map(move |&tiles| (rung, tiles));
    let trial = |(rung, tiles): (_, usize)| {
        let mut trial = trial(rung, [128 * tiles, 128, k], false);
        trial.at = tiles as f64;
        trial
    };
    rungs.flat_map(of_rung).map(trial).collect()
}

/// Damaged operands have a NaN at the beginning of a row of A, and an infinity at the end of B: no kernel may multiply
/// elements beyond a row's end.
fn trial(rung: &'static Rung<Arguments, Tiles>, [m, n, k]: [usize; 3], is_damaged: bool) -> Trial {
    let trial = Trial::of_rung(rung, m, format!("{m} x {n} x {k}"), work(rung, [m, n, k]), move || {
        let (mut x, mut y) = (numbers(m * k, 1), numbers(k * n, 2));
        if is_damaged {
            (x[m / 2 * k], y[k * n - 1]) = (f32::NAN, f32::INFINITY);
        }
        let (x, y) = (Arc::new(x), Arc::new(y));
        let mut arrays = Arrays::default();
        let (a, b) = (arrays.input("a", Arc::clone(&x)), arrays.input("b", Arc::clone(&y)));
        let out = arrays.output("out", m * n);
        let arguments = move |p: &Placed| {
            let [m, n, k] = [m, n, k].map(|extent| extent as u32);
            Arguments { out: p.of(out), a: p.of(a), b: p.of(b), m, n, k }
        };
        let oracle = move |_, i| {
            let (row, col) = (i / n, i % n);
            let term = |i: usize| f64::from(x[row * k + i]) * f64::from(y[i * n + col]);
            (0..k).map(term).fold(Sum::default(), Sum::and).within(ROUNDINGS)
        };
        // SAFETY: the arrays have the matrices' shapes and are aligned to 16 bytes, and the grid is the kernel's.
        unsafe { arrays.launch(rung, rung.kernel.config(m, n), arguments, oracle) }
    });
    trial.with_peak(|device| Some(device.peaks().ok()??.flops))
}

/// The work of a matmul, and its predicted counts if all tiles are full.
fn work(rung: &Rung<Arguments, Tiles>, [m, n, k]: [usize; 3]) -> Work {
    let [rows, cols] = rung.kernel.tile.map(|extent| extent as usize);
    let work = Work::of_bytes(4 * (m * k + k * n + m * n)).with_flop(2 * m * n * k);
    let is_whole = m.is_multiple_of(rows) && n.is_multiple_of(cols.min(128)) && k.is_multiple_of(32);
    if !is_whole {
        return work;
    }
    let warps = m * n / WARP;
    let (loaded, stored) = match rung.name {
        // Per term, 32 rows of A and an element of B; sums of 32 rows.
        "uncoalesced" => (warps * k * 33, warps * 32),
        // An element of A and 32 neighbours of B.
        "naive" | "1d" => (warps * k * 5, warps * 4),
        // And the sum so far, which goes back each time.
        "in_memory" => (warps * k * 9, warps * 4 * (k + 1)),
        // The rows of A and the columns of B of each tile.
        _ => (m / rows * (n / cols) * (rows + cols) * k / 8, warps * 4),
    };
    work.with_sectors(loaded, stored).with_conflicts(0).with_divergent_branches(0)
}
