//! Chapters 9 to 11: matrix multiplication, softmax and tensor cores.

use cuda_std::bf16;
use cuda_std::launch::LaunchConfig;

use super::first::cover;
use crate::problem::{Draw, Problem, Puzzle, Sizes};
use crate::rules::{COALESCED, Measure, ONCE, Rule};

pub(super) const PUZZLES: &[Puzzle] = &[
    Puzzle { number: 28, name: "matmul_naive", problem: |draw| matmul(draw, 16), rules: ONCE },
    Puzzle { number: 29, name: "matmul_tiled", problem: |draw| matmul(draw, 16), rules: &[reads(4.0)] },
    Puzzle { number: 30, name: "matmul_registers", problem: |draw| matmul(draw, 32), rules: &[reads(2.0)] },
    Puzzle { number: 31, name: "softmax_stable", problem: softmax, rules: COALESCED },
    Puzzle {
        number: 32,
        name: "softmax_online",
        problem: softmax,
        rules: &[COALESCED[0], COALESCED[1], reads(2.0)],
    },
    Puzzle { number: 33, name: "half_precision", problem: half_precision, rules: HALF },
    Puzzle { number: 34, name: "mma_tile", problem: mma_tile, rules: TENSOR },
];

const HALF: &[Rule] = &[Rule { measure: Measure::LoadSectors, most: 2.0, advice: COALESCED[0].advice }];

const TENSOR: &[Rule] = &[Rule {
    measure: Measure::NoTensorCores,
    most: 0.0,
    advice: "The kernel multiplies with ordinary instructions. Use `mma_sync`.",
}];

/// A limit of reads.
const fn reads(most: f64) -> Rule {
    let advice = "Read an element once and use it several times: from shared memory, or from registers.";
    Rule { measure: Measure::Reads, most, advice }
}

/// `a * b`, of `[m, k]` and `[k, n]`.
fn product(a: &[f32], b: &[f32], [m, n, k]: [usize; 3]) -> Vec<f32> {
    let element = |at: usize| {
        let terms = (0..k).map(|i| f64::from(a[at / n * k + i]) * f64::from(b[i * n + at % n]));
        terms.sum::<f64>() as f32
    };
    (0..m * n).map(element).collect()
}

fn matmul(draw: &mut Draw, tile: u32) -> Problem {
    let unit = tile as usize;
    let extents = [(); 3].map(|()| draw.extent(unit, 64 / unit));
    let [m, n, k] = extents;
    let (a, b) = (draw.small_floats(m * k), draw.small_floats(k * n));
    let config = LaunchConfig { block: (16, 16).into(), ..cover(m, n, (tile, tile)) };
    let problem = Problem::new(config).output("c", product(&a, &b, extents)).cols(n);
    let problem = problem.input("a", a).cols(k).input("b", b).cols(n);
    problem.number("m", m).number("n", n).number("k", k)
}

/// Rows around 0, around a large number, and around a small one.
fn softmax(draw: &mut Draw) -> Problem {
    let (rows, cols) = (draw.extent(4, 3), draw.extent(64, 3));
    let mut inp = draw.small_floats(rows * cols);
    let shifts = [200.0, 0.0, -200.0];
    inp.iter_mut().enumerate().for_each(|(i, x)| *x += shifts[i / cols % 3]);
    let row = |row: &[f32]| {
        let largest = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let exponentials: Vec<f64> = row.iter().map(|x| f64::from(x - largest).exp()).collect();
        let sum: f64 = exponentials.iter().sum();
        exponentials.into_iter().map(move |x| (x / sum) as f32)
    };
    let out: Vec<f32> = inp.chunks(cols).flat_map(row).collect();
    let problem =
        Problem::new(LaunchConfig::cover(32 * rows, 128)).output("out", out).cols(cols).within(1e-6);
    problem.input("inp", inp).cols(cols).number("rows", rows).number("cols", cols)
}

fn half_precision(draw: &mut Draw) -> Problem {
    let (rows, cols) = (draw.extent(8, 4), draw.extent(64, 3));
    // Quarters from 12 to 28 have at most seven bits, so that each is a `bf16`, and their sums soon are not.
    let inp: Vec<f32> = draw.small_floats(rows * cols).into_iter().map(|x| x + 20.0).collect();
    let out: Vec<f32> = inp.chunks(cols).map(|row| row.iter().sum()).collect();
    let problem = Problem::new(LaunchConfig::cover(32 * rows, 128)).output("out", out);
    let problem = problem.input("inp", to_bf16(&inp)).cols(cols);
    problem.number("rows", rows).number("cols", cols)
}

fn mma_tile(draw: &mut Draw) -> Problem {
    let most = if draw.sizes() == Sizes::Few { 1 } else { 4 };
    let [m, n, k] = [16, 8, 16].map(|unit| unit * draw.between(1, most));
    let (a, b) = (draw.small_floats(m * k), draw.small_floats(k * n));
    let config = LaunchConfig::cover(32 * (m / 16) * (n / 8), 128);
    let problem = Problem::new(config).output("c", product(&a, &b, [m, n, k])).cols(n);
    let problem = problem.input("a", to_bf16(&a)).cols(k).input("b", to_bf16(&b)).cols(n);
    problem.number("m", m).number("n", n).number("k", k)
}

fn to_bf16(all: &[f32]) -> Vec<bf16> {
    all.iter().map(|&x| bf16::from_f32(x)).collect()
}
