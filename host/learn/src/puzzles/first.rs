//! Chapters 1 to 4: threads, grids, coalescing and warps.

use cuda_std::launch::LaunchConfig;

use crate::problem::{Draw, Problem, Puzzle, Sizes};
use crate::rules::{COALESCED, Measure, ONCE, Rule};

pub(super) const PUZZLES: &[Puzzle] = &[
    Puzzle { number: 1, name: "add_ten", problem: add_ten, rules: ONCE },
    Puzzle { number: 2, name: "zip_add", problem: zip_add, rules: ONCE },
    Puzzle { number: 3, name: "guard", problem: guard, rules: ONCE },
    Puzzle { number: 4, name: "reverse", problem: reverse, rules: ONCE },
    Puzzle { number: 5, name: "grid_stride", problem: grid_stride, rules: GRID_STRIDE },
    Puzzle { number: 6, name: "matrix_add", problem: matrix_add, rules: ONCE },
    Puzzle { number: 7, name: "broadcast", problem: broadcast, rules: ONCE },
    Puzzle {
        number: 8,
        name: "transpose_naive",
        problem: |draw| transpose(draw, 16, (16, 16)),
        rules: &[ONCE[2]],
    },
    Puzzle { number: 9, name: "row_scale", problem: row_scale, rules: ONCE },
    Puzzle { number: 10, name: "soa", problem: soa, rules: SOA },
    Puzzle { number: 11, name: "vector_load", problem: vector_load, rules: VECTORS },
    Puzzle { number: 12, name: "divergence", problem: divergence, rules: UNIFORM },
    Puzzle { number: 13, name: "warp_sum", problem: warp_sum, rules: ONCE },
    Puzzle { number: 14, name: "warp_vote", problem: warp_vote, rules: ONCE },
];

const GRID_STRIDE: &[Rule] = &[
    ONCE[0],
    ONCE[1],
    ONCE[2],
    Rule {
        measure: Measure::Reads,
        most: 1.0,
        advice: "Threads repeat each other's work: the step of the loop is the number of all threads of the grid.",
    },
];

const SOA: &[Rule] = &[
    COALESCED[0],
    Rule {
        measure: Measure::StoreSectors,
        most: 8.0,
        advice: "Neighbours of `inp` go to three places, so that a warp writes three runs.",
    },
];

const VECTORS: &[Rule] = &[Rule {
    measure: Measure::Loads,
    most: 32.0,
    advice: "A request of a warp with 4 bytes per thread loads 128 bytes, one with 16 bytes per thread 512.",
}];

const UNIFORM: &[Rule] = &[
    Rule {
        measure: Measure::Divergent,
        most: 0.0,
        advice: "Lanes of one warp take different branches. Give each warp elements of one kind.",
    },
    Rule {
        measure: Measure::Instructions,
        most: 1700.0,
        advice: "Some warps compute what no element needs. Let only those with even elements run the loop.",
    },
];

fn add_ten(draw: &mut Draw) -> Problem {
    let len = draw.extent(128, 4);
    let inp = draw.floats(len);
    let out: Vec<f32> = inp.iter().map(|x| x + 10.0).collect();
    Problem::new(LaunchConfig::cover(len, 128)).output("out", out).slice("inp", inp)
}

fn zip_add(draw: &mut Draw) -> Problem {
    let len = draw.extent(128, 4);
    let (a, b) = (draw.floats(len), draw.floats(len));
    let out: Vec<f32> = a.iter().zip(&b).map(|(a, b)| a + b).collect();
    Problem::new(LaunchConfig::cover(len, 128)).output("out", out).slice("a", a).slice("b", b)
}

fn guard(draw: &mut Draw) -> Problem {
    let len = draw.extent(128, 7);
    let inp = draw.floats(len);
    let out: Vec<f32> = inp.iter().map(|x| x * x).collect();
    Problem::new(LaunchConfig::new(8, 128)).output("out", out).input("inp", inp).number("n", len)
}

fn reverse(draw: &mut Draw) -> Problem {
    let len = draw.extent(128, 4);
    let inp = draw.floats(len);
    let out: Vec<f32> = inp.iter().rev().copied().collect();
    Problem::new(LaunchConfig::cover(len, 128)).output("out", out).input("inp", inp).number("n", len)
}

fn grid_stride(draw: &mut Draw) -> Problem {
    let len = draw.extent(256, 4);
    let inp = draw.floats(len);
    let out: Vec<f32> = inp.iter().map(|x| 2.0 * x + 1.0).collect();
    Problem::new(LaunchConfig::new(4, 64)).output("out", out).input("inp", inp).number("n", len)
}

/// A grid of blocks that covers a matrix, columns along x.
pub(super) fn cover(rows: usize, cols: usize, (x, y): (u32, u32)) -> LaunchConfig {
    LaunchConfig::new(((cols as u32).div_ceil(x), (rows as u32).div_ceil(y)), (x, y))
}

fn matrix_add(draw: &mut Draw) -> Problem {
    let (rows, cols) = (draw.extent(16, 4), draw.extent(16, 4));
    let (a, b) = (draw.floats(rows * cols), draw.floats(rows * cols));
    let out: Vec<f32> = a.iter().zip(&b).map(|(a, b)| a + b).collect();
    let problem = Problem::new(cover(rows, cols, (16, 16))).output("out", out).cols(cols);
    let problem = problem.input("a", a).cols(cols).input("b", b).cols(cols);
    problem.number("rows", rows).number("cols", cols)
}

fn broadcast(draw: &mut Draw) -> Problem {
    let (rows, cols) = (draw.extent(8, 4), draw.extent(32, 3));
    let (left, top) = (draw.floats(rows), draw.floats(cols));
    let out: Vec<f32> = (0..rows * cols).map(|i| left[i / cols] + top[i % cols]).collect();
    let problem = Problem::new(cover(rows, cols, (32, 4))).output("out", out).cols(cols);
    problem.input("left", left).input("top", top).number("rows", rows).number("cols", cols)
}

/// The transpose with tiles of this extent, and blocks of these threads.
pub(super) fn transpose(draw: &mut Draw, tile: u32, block: (u32, u32)) -> Problem {
    let unit = tile as usize;
    let (rows, cols) = (draw.extent(unit, 3), draw.extent(unit, 3));
    let inp = draw.floats(rows * cols);
    let out: Vec<f32> = (0..rows * cols).map(|i| inp[i % rows * cols + i / rows]).collect();
    let config = LaunchConfig { block: block.into(), ..cover(rows, cols, (tile, tile)) };
    let problem = Problem::new(config).output("out", out).cols(rows).input("inp", inp).cols(cols);
    problem.number("rows", rows).number("cols", cols)
}

fn row_scale(draw: &mut Draw) -> Problem {
    let (rows, cols) = (draw.extent(32, 3), draw.extent(32, 3));
    let (inp, scale) = (draw.floats(rows * cols), draw.floats(rows));
    let out: Vec<f32> = (0..rows * cols).map(|i| inp[i] * scale[i / cols]).collect();
    let problem = Problem::new(LaunchConfig::cover(rows * cols, 128)).output("out", out).cols(cols);
    problem.input("inp", inp).cols(cols).input("scale", scale).number("rows", rows).number("cols", cols)
}

fn soa(draw: &mut Draw) -> Problem {
    let len = draw.extent(128, 3);
    let inp = draw.floats(3 * len);
    let out: Vec<f32> = (0..3 * len).map(|i| inp[i % len * 3 + i / len]).collect();
    Problem::new(LaunchConfig::cover(3 * len, 128)).output("out", out).input("inp", inp).number("n", len)
}

fn vector_load(draw: &mut Draw) -> Problem {
    let len = draw.extent(512, 8);
    let inp = draw.floats(len);
    let out: Vec<f32> = inp.iter().map(|x| 2.0 * x).collect();
    let config = LaunchConfig::cover(len.div_ceil(4), 128);
    Problem::new(config).output("out", out).input("inp", inp).number("n", len)
}

fn divergence(draw: &mut Draw) -> Problem {
    let (len, rounds) = (draw.extent(128, 4), draw.between(1, 20));
    let rounds = if draw.sizes() == Sizes::Counted { 100 } else { rounds };
    let data = draw.integers(len, 1 << 20);
    let step = |x: u32, _| x.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
    let replaced = data.iter().enumerate().map(|(i, &x)| match i % 2 {
        0 => (0..rounds).fold(x, step),
        _ => x + 1,
    });
    let expected: Vec<u32> = replaced.collect();
    let problem = Problem::new(LaunchConfig::cover(len, 128)).update("data", data, expected);
    problem.number("n", len).number("rounds", rounds)
}

fn warp_sum(draw: &mut Draw) -> Problem {
    let len = draw.extent(128, 4);
    let inp = draw.floats(len);
    let out: Vec<f32> = inp.chunks(32).map(|warp| warp.iter().sum()).collect();
    Problem::new(LaunchConfig::cover(len, 128)).output("out", out).slice("inp", inp)
}

fn warp_vote(draw: &mut Draw) -> Problem {
    let len = draw.extent(128, 4);
    let (inp, limit) = (draw.integers(len, 100), draw.between(10, 90));
    let count = |warp: &[u32]| warp.iter().filter(|&&x| x > limit as u32).count() as u32;
    let out: Vec<u32> = inp.chunks(32).map(count).collect();
    Problem::new(LaunchConfig::cover(len, 128)).output("out", out).slice("inp", inp).number("limit", limit)
}
