//! Branches and loops where the lanes of a warp diverge.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use gpu_kernels::gallery::divergence::{Arguments, CHAIN, GUARDED, RUNGS, TABLE};

use super::prelude::*;

/// Threads of the largest launch whose branches are predicted.
const COUNTED: usize = 1 << 15;

/// A launch: its blocks, the threads of each, and the iterations.
#[derive(Clone, Copy)]
struct Size {
    blocks: usize,
    block: usize,
    turns: usize,
}

pub(super) fn trials(scale: Scale) -> Vec<Trial> {
    // Blocks have one warp per way, except where every thread costs time.
    let block = if scale == Scale::Tiny { 64 } else { 1024 };
    let (blocks, turns, ways): (usize, usize, &[usize]) = match scale {
        Scale::Tiny => (1, 2, &[2]),
        Scale::Edges => (1, 5, &[1, 2, 7, 32]),
        Scale::Count => (1, 64, &[1, 2, 4, 8, 16, 32]),
        Scale::Laptop => (16, 256, &[1, 2, 4, 8, 16, 32]),
        Scale::Gpu => (132 * 2, 8192, &[1, 2, 4, 8, 16, 32]),
    };
    let mut trials = each(RUNGS, ways, |rung, ways| {
        let size = match rung.name {
            // One warp per multiprocessor, so that nothing hides the latency.
            "chase" => Size { blocks: blocks.div_ceil(2), block: 32, turns },
            "trips_one_block" => Size { blocks: blocks.div_ceil(2), block, turns },
            // Many blocks, so that short ones make room for others.
            "trips_shuffled" | "trips_sorted" if scale == Scale::Gpu => {
                Size { blocks: 8 * blocks, block, turns: turns / 8 }
            }
            "if_load" | "select" | "if_40" if scale == Scale::Gpu => {
                Size { blocks, block, turns: turns / 16 }
            }
            _ => Size { blocks, block, turns },
        };
        trial(rung, size, ways)
    });
    // A condition has two sides.
    let has_sides = |rung| ["chase", "if_load", "select", "if_40"].contains(&rung);
    trials.retain(|trial| !has_sides(trial.rung) || trial.at <= 2.0);
    trials
}

/// The iterations of a thread that takes this way.
fn trips(rung: &str, way: usize, ways: usize, turns: usize) -> usize {
    if rung.starts_with("trips") { 2 * turns * (way + 1) / (ways + 1) } else { turns }
}

/// The input of a rung; one element if it reads none.
fn input(rung: &str, Size { blocks, block, turns }: Size, ways: usize) -> Vec<u32> {
    match rung {
        "trips_shuffled" | "trips_sorted" => {
            let way = |x: f32| (((x + 1.0) / 2.0 * ways as f32) as usize).min(ways - 1);
            let mut all = numbers_as(blocks * block, 5, |x| trips(rung, way(x), ways, turns) as u32);
            if rung == "trips_sorted" {
                all.sort_unstable_by_key(|&trips| Reverse(trips));
            }
            all
        }
        // A generator with the full period, so that each place leads to another one, far away.
        "chase" => elements(CHAIN, |i| ((i * 1_664_525 + 1_013_904_223) % CHAIN) as u32),
        "if_load" | "select" => elements(TABLE, word),
        _ => vec![0],
    }
}

/// Divergent branches of a launch. If lanes take different ways, the branch for each way is taken by some lanes and not by
/// others. If lanes run a loop for different numbers of iterations, the branch at the end of an iteration diverges whenever
/// that iteration is the last one for some lanes.
fn divergent(rung: &str, size: Size, ways: usize) -> usize {
    let warps = size.blocks * size.block / WARP;
    match rung {
        "branch_by_lane" if ways > 1 => warps * ways,
        "trips_by_lane" => {
            let numbers = (0..ways).map(|way| trips(rung, way, ways, size.turns));
            warps * (numbers.collect::<BTreeSet<_>>().len() - 1)
        }
        "trips_shuffled" | "trips_sorted" => {
            let numbers = input(rung, size, ways);
            numbers.chunks(WARP).map(|warp| warp.iter().collect::<BTreeSet<_>>().len() - 1).sum()
        }
        "chase" => warps * (ways - 1),
        // Among 32 lanes the condition holds for some and not for others, practically always.
        "if_load" | "if_40" => warps * size.turns * (ways - 1),
        _ => 0,
    }
}

fn trial(rung: &'static Rung<Arguments, ()>, size: Size, ways: usize) -> Trial {
    let Size { blocks, block, turns } = size;
    let threads = block * blocks;
    let warps = threads / WARP;
    let loaded = match rung.name {
        "trips_shuffled" | "trips_sorted" => threads / 8,
        // A side's lanes are at the same place.
        "chase" => warps * turns * ways,
        "select" => warps * turns * 4,
        _ => 0,
    };
    let mut work = Work::of_bytes(4 * threads).with_sectors(loaded, threads / 8);
    if rung.name == "if_load" {
        work = Work::of_bytes(4 * threads);
    }
    // Larger launches are not counted.
    if threads <= COUNTED {
        work = work.with_divergent_branches(divergent(rung.name, size, ways));
    }
    let words = format!("{ways} branches, {turns} iterations");
    Trial::of_rung(rung, ways, words, work, move || {
        let mut arrays = Arrays::default();
        let out = arrays.output("out", threads);
        let table = Arc::new(input(rung.name, size, ways));
        let inp = arrays.input("inp", Arc::clone(&table));
        let arguments = move |p: &Placed| Arguments {
            out: p.of(out),
            inp: p.of(inp),
            ways: ways as u32,
            turns: turns as u32,
        };
        let turn = |x: u32, added: u32| x.wrapping_mul(1_664_525).wrapping_add(added);
        let oracle = move |_, i: usize| {
            let (lane, start) = (i % block % WARP, i as u32);
            let way = if rung.name.ends_with("lane") { lane } else { i % block / WARP } % ways;
            let end = match rung.name {
                "trips_shuffled" | "trips_sorted" => (0..table[i]).fold(start, |x, _| turn(x, 1)),
                "chase" => {
                    let other = usize::from(!lane.is_multiple_of(ways));
                    (0..turns).fold((i / block) as u32, |x, _| table[x as usize ^ other])
                }
                "if_load" | "select" | "if_40" => (0..turns).fold(start, |x, t| {
                    let (x, at) = (turn(x, 1), 32 * t % TABLE + lane);
                    match (x >> 16).is_multiple_of(ways as u32) {
                        true if rung.name == "if_40" => (0..GUARDED).fold(x, |x, _| turn(x ^ at as u32, 3)),
                        true => x ^ table[at],
                        false => x,
                    }
                }),
                name => {
                    let added = if name.starts_with("trips") { 1 } else { 2 * way as u32 + 1 };
                    (0..trips(name, way, ways, turns)).fold(start, |x, _| turn(x, added))
                }
            };
            Bound::exact(end.into())
        };
        // SAFETY: `out` has one element per thread, and `inp` what the rung's kernel reads.
        unsafe { arrays.launch(rung, LaunchConfig::new(blocks as u32, block as u32), arguments, oracle) }
    })
}
