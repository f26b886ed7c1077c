//! Threads, grids and memory.

use cuda_std::launch::LaunchConfig;

use crate::problem::{Draw, Problem, Puzzle};
use crate::rules::{Measure, Rule};

/// Accesses of neighbours.
const COALESCED: &[Rule] = &[
    Rule {
        measure: Measure::LoadSectors,
        most: 4.0,
        advice: "Let neighbouring threads read neighbouring elements in the same instruction.",
    },
    Rule {
        measure: Measure::StoreSectors,
        most: 4.0,
        advice: "Let neighbouring threads write neighbouring elements in the same instruction.",
    },
];

pub(super) const PUZZLES: &[Puzzle] = &[
    Puzzle { number: 1, name: "add_ten", problem: add_ten, rules: COALESCED },
    Puzzle { number: 9, name: "row_scale", problem: row_scale, rules: COALESCED },
    Puzzle { number: 13, name: "warp_sum", problem: warp_sum, rules: COALESCED },
];

fn add_ten(draw: &mut Draw) -> Problem {
    let len = draw.extent(128, 4);
    let inp = draw.floats(len);
    let out: Vec<f32> = inp.iter().map(|x| x + 10.0).collect();
    Problem::new(LaunchConfig::cover(len, 128)).output("out", out).slice("inp", inp)
}

fn row_scale(draw: &mut Draw) -> Problem {
    let (rows, cols) = (draw.extent(32, 3), draw.extent(32, 3));
    let (inp, scale) = (draw.floats(rows * cols), draw.floats(rows));
    let out: Vec<f32> = (0..rows * cols).map(|i| inp[i] * scale[i / cols]).collect();
    Problem::new(LaunchConfig::cover(rows * cols, 128))
        .output("out", out)
        .cols(cols)
        .input("inp", inp)
        .cols(cols)
        .input("scale", scale)
        .number("rows", rows)
        .number("cols", cols)
}

fn warp_sum(draw: &mut Draw) -> Problem {
    let len = draw.extent(128, 4);
    let inp = draw.floats(len);
    let out: Vec<f32> = inp.chunks(32).map(|warp| warp.iter().sum()).collect();
    Problem::new(LaunchConfig::cover(len, 128)).output("out", out).slice("inp", inp)
}
