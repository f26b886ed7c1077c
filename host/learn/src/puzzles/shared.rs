//! Chapters 5 to 8: shared memory, banks, reductions and scans.

use cuda_std::launch::LaunchConfig;

use super::first::{cover, transpose};
use crate::problem::{Draw, Problem, Puzzle};
use crate::rules::{COALESCED, Measure, ONCE, Rule};

pub(super) const PUZZLES: &[Puzzle] = &[
    Puzzle { number: 15, name: "reverse_block", problem: reverse_block, rules: ONCE },
    Puzzle { number: 16, name: "moving_average", problem: moving_average, rules: HALO },
    Puzzle { number: 17, name: "pooling", problem: pooling, rules: ONCE },
    Puzzle { number: 18, name: "transpose_tile", problem: |draw| transpose(draw, 32, (32, 8)), rules: ONCE },
    Puzzle { number: 19, name: "padding", problem: |draw| transpose(draw, 32, (32, 8)), rules: NO_CONFLICTS },
    Puzzle { number: 20, name: "block_sum", problem: block_sum, rules: SHUFFLED },
    Puzzle { number: 21, name: "dot", problem: dot, rules: &[COALESCED[0], atomics(4.0)] },
    Puzzle { number: 22, name: "row_sums", problem: row_sums, rules: ONCE },
    Puzzle {
        number: 23,
        name: "total_by_atomic",
        problem: total_by_atomic,
        rules: &[COALESCED[0], atomics(16.0)],
    },
    Puzzle { number: 24, name: "warp_scan", problem: |draw| scan(draw, 128, 32), rules: ONCE },
    Puzzle { number: 25, name: "block_scan", problem: |draw| scan(draw, 256, 256), rules: NO_CONFLICTS },
    Puzzle { number: 26, name: "histogram", problem: histogram, rules: &[COALESCED[0], atomics(256.0)] },
    Puzzle { number: 27, name: "compact", problem: compact, rules: &[] },
];

const HALO: &[Rule] = &[Rule {
    measure: Measure::Reads,
    most: 1.1,
    advice: "Threads of a block read the same elements. Read each once, into shared memory, and then from there.",
}];

const NO_CONFLICTS: &[Rule] = &[
    ONCE[0],
    ONCE[1],
    ONCE[2],
    Rule {
        measure: Measure::Conflicts,
        most: 0.0,
        advice: "Lanes of a warp access different words of one bank: words that are a multiple of 32 words apart.",
    },
];

const SHUFFLED: &[Rule] = &[Rule {
    measure: Measure::SharedAccesses,
    most: 16.0,
    advice: "Let each warp add its elements by shuffles first: then a block exchanges one number per warp.",
}];

/// A limit of atomic operations.
const fn atomics(most: f64) -> Rule {
    let advice =
        "Let a warp or a block add first, in registers or in shared memory, and one thread call the atomic.";
    Rule { measure: Measure::GlobalAtomics, most, advice }
}

fn reverse_block(draw: &mut Draw) -> Problem {
    let len = draw.extent(64, 4);
    let data = draw.floats(len);
    let reversed: Vec<f32> = data.chunks(64).flat_map(|block| block.iter().rev()).copied().collect();
    Problem::new(LaunchConfig::cover(len, 64)).update("data", data, reversed).number("n", len)
}

fn moving_average(draw: &mut Draw) -> Problem {
    let len = draw.extent(128, 4);
    let inp = draw.floats(len);
    let mean = |i: usize| inp[i.saturating_sub(2)..len.min(i + 3)].iter().sum::<f32>() / 5.0;
    let out: Vec<f32> = (0..len).map(mean).collect();
    let problem = Problem::new(LaunchConfig::cover(len, 128)).output("out", out).within(1e-4);
    problem.input("inp", inp).number("n", len)
}

fn pooling(draw: &mut Draw) -> Problem {
    let (rows, cols) = (draw.extent(8, 4), draw.extent(64, 2));
    let inp = draw.floats(rows * cols);
    let (high, wide) = (rows.div_ceil(2), cols.div_ceil(2));
    let window = |i: usize| {
        let (row, col) = (i / wide * 2, i % wide * 2);
        let all = [(row, col), (row, col + 1), (row + 1, col), (row + 1, col + 1)];
        let inside = all.into_iter().filter(|&(row, col)| row < rows && col < cols);
        inside.map(|(row, col)| inp[row * cols + col]).fold(f32::NEG_INFINITY, f32::max)
    };
    let out: Vec<f32> = (0..high * wide).map(window).collect();
    let problem = Problem::new(cover(high, wide, (32, 4))).output("out", out).cols(wide);
    problem.input("inp", inp).cols(cols).number("rows", rows).number("cols", cols)
}

fn block_sum(draw: &mut Draw) -> Problem {
    let len = draw.extent(256, 4);
    let inp = draw.floats(len);
    let out: Vec<f32> = inp.chunks(256).map(|block| block.iter().sum()).collect();
    Problem::new(LaunchConfig::cover(len, 256)).output("out", out).slice("inp", inp)
}

fn dot(draw: &mut Draw) -> Problem {
    let len = draw.extent(512, 5);
    let (a, b) = (draw.small_floats(len), draw.small_floats(len));
    let out: f32 = a.iter().zip(&b).map(|(a, b)| a * b).sum();
    let problem = Problem::new(LaunchConfig::new(4, 256)).update("out", vec![0.0f32], vec![out]);
    problem.input("a", a).input("b", b).number("n", len)
}

fn row_sums(draw: &mut Draw) -> Problem {
    let (rows, cols) = (draw.extent(8, 4), draw.extent(64, 3));
    let inp = draw.floats(rows * cols);
    let out: Vec<f32> = inp.chunks(cols).map(|row| row.iter().sum()).collect();
    let problem = Problem::new(LaunchConfig::cover(32 * rows, 128)).output("out", out);
    problem.input("inp", inp).cols(cols).number("rows", rows).number("cols", cols)
}

fn total_by_atomic(draw: &mut Draw) -> Problem {
    let len = draw.extent(128, 4);
    let inp = draw.integers(len, 1000);
    let total: u32 = inp.iter().sum();
    Problem::new(LaunchConfig::cover(len, 128)).update("total", vec![0u32], vec![total]).slice("inp", inp)
}

/// Running sums of each group.
fn scan(draw: &mut Draw, block: usize, group: usize) -> Problem {
    let len = draw.extent(block, 4);
    let inp = draw.floats(len);
    let running = |sum: &mut f32, x: &f32| {
        *sum += x;
        Some(*sum)
    };
    let out: Vec<f32> = inp.chunks(group).flat_map(|group| group.iter().scan(0.0, running)).collect();
    Problem::new(LaunchConfig::cover(len, block as u32)).output("out", out).slice("inp", inp)
}

fn histogram(draw: &mut Draw) -> Problem {
    let len = draw.extent(256, 4);
    let inp = draw.integers(len, 64);
    let mut counts = vec![0u32; 64];
    inp.iter().for_each(|&bin| counts[bin as usize] += 1);
    Problem::new(LaunchConfig::cover(len, 256)).update("counts", vec![0u32; 64], counts).slice("inp", inp)
}

fn compact(draw: &mut Draw) -> Problem {
    let len = draw.extent(127, 1);
    let inp = draw.floats(len);
    let mut out: Vec<f32> = inp.iter().copied().filter(|&x| x > 0.0).collect();
    let kept = out.len() as u32;
    out.resize(len, 0.0);
    let problem = Problem::new(LaunchConfig::new(1, 128)).update("out", vec![0.0f32; len], out);
    problem.output("len", vec![kept]).slice("inp", inp)
}
