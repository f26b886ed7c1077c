//! The cumulative sums of an array.

use cuda_std::launch::{LaunchError, RawBuffer};
use gpu_kernels::gallery::scan::{Arguments, RUNGS, Scan, WORDS, scan_add, scan_clear};

use super::prelude::*;

/// Threads per block.
const BLOCK: usize = 256;

pub(super) fn trials(scale: Scale) -> Vec<Trial> {
    // For few elements, few blocks, so that each has several tiles.
    let (lens, most): (&[usize], u32) = match scale {
        Scale::Tiny => (&[70], 2),
        Scale::Edges => (&[1, 31, 257, 4096, 4099, 70_001], 3),
        Scale::Count => (&[1 << 14], 4),
        Scale::Laptop => (&[1 << 12, 1 << 16], u32::MAX),
        Scale::Gpu => (&[1 << 12, 1 << 16, 1 << 20, 1 << 22, 1 << 24, 1 << 26, 1 << 28], u32::MAX),
    };
    let mut trials = each(RUNGS, lens, |rung, len| trial(rung, len, most));
    // A third level of sums.
    trials.extend((scale == Scale::Edges).then(|| trial(&RUNGS[2], 66_000, most)));
    // More tiles than one look back covers.
    trials.extend((scale == Scale::Edges).then(|| trial(&RUNGS[4], 40 * 4096 + 5, u32::MAX)));
    trials
}

/// Passes beyond the first over shared memory that a block's tree takes.
fn conflicts(rung: &str) -> usize {
    if rung != "work_efficient" {
        return 0;
    }
    let of_round = |round: u32| {
        let distance = 1 << round;
        let (active, place) = (BLOCK / (2 * distance), |t: usize| 2 * distance * (t + 1) - 1);
        let of_warp = |first: usize| passes((first..active.min(first + WARP)).map(place)) - 1;
        // Up, two loads and a store; down, two of each. Both elements are as far apart as their neighbours.
        7 * (0..active).step_by(WARP).map(of_warp).sum::<usize>()
    };
    (0..BLOCK.ilog2()).map(of_round).sum()
}

/// The work of a rung, and its predicted counts.
fn work(scan: Scan, rung: &str, len: usize) -> Work {
    let work = Work::of_bytes(8 * len).with_flop(len);
    let Scan::Passes(of_block) = scan else { return work.with_conflicts(0) };
    let (mut loaded, mut stored, mut blocks, mut left) = (0, 0, 0, len);
    loop {
        let of_level = left.div_ceil(of_block);
        // The elements, and the total of each block.
        (loaded, stored) = (loaded + left.div_ceil(8), stored + left.div_ceil(8) + of_level);
        blocks += of_level;
        if of_level == 1 {
            return work.with_sectors(loaded, stored).with_conflicts(blocks * conflicts(rung));
        }
        // The additions: all blocks except the first again, and one number for each warp.
        let added = left - of_block;
        (loaded, stored) = (loaded + added / 8 + added / WARP, stored + added / 8);
        left = of_level;
    }
}

fn trial(rung: &'static Rung<Arguments, Scan>, len: usize, most: u32) -> Trial {
    let scan = rung.kernel.facts;
    let other = if matches!(scan, Scan::Passes(_)) { scan_add::META.name } else { scan_clear::META.name };
    let name = (rung.name, rung.idea, vec![rung.kernel.meta.name, other]);
    let work = work(scan, rung.name, len);
    Trial::new(name, len, format!("{len} elements"), work, move || {
        let numbers = Arc::new(elements(len, word));
        let mut arrays = Arrays::default();
        let inp = arrays.input("inp", Arc::clone(&numbers));
        let out = arrays.output("out", len);
        let (Scan::Passes(of_block) | Scan::LookBack(of_block)) = scan;
        // The totals of each level, and their cumulative sums.
        let mut levels = Vec::new();
        let mut left = len;
        loop {
            left = left.div_ceil(of_block);
            let words = if matches!(scan, Scan::LookBack(_)) { WORDS * left } else { left };
            levels.push([(); 2].map(|()| arrays.scratch("sums", vec![0_u32; words])));
            if left == 1 || matches!(scan, Scan::LookBack(_)) {
                break;
            }
        }
        let launch = move |on: &dyn Launcher, p: &Placed| {
            let arguments =
                Arguments { out: p.of(out), inp: p.of(inp), sums: p.of(levels[0][0]), len: len as u32 };
            match scan {
                Scan::Passes(of_block) => {
                    let levels: Vec<_> = levels.iter().map(|level| level.map(|sums| p.of(sums))).collect();
                    passes_over(rung, on, arguments, of_block, &levels)
                }
                Scan::LookBack(tile) => {
                    let tiles = len.div_ceil(tile);
                    let config = LaunchConfig::new(tiles as u32, BLOCK as u32);
                    let config = p.resident(rung.kernel.meta, config, most)?;
                    // SAFETY: there are words for each tile, which are zero before the scan.
                    unsafe {
                        let words = WORDS * tiles;
                        scan_clear::launch(
                            on,
                            LaunchConfig::cover(words, 256),
                            arguments.sums,
                            words as u32,
                        )?;
                        (rung.kernel.launch)(on, config, arguments)
                    }
                }
            }
        };
        let mut sum = 0_u32;
        let sums: Vec<u32> = numbers.iter().map(|&x| (sum = sum.wrapping_add(x), sum).1).collect();
        Problem::new(arrays, launch, move |_, i| Bound::exact(sums[i].into()))
    })
}

/// Scans the elements of the blocks, and then their totals, which it adds.
fn passes_over(
    rung: &Rung<Arguments, Scan>,
    on: &dyn Launcher,
    arguments: Arguments,
    of_block: usize,
    levels: &[[RawBuffer<u32>; 2]],
) -> Result<(), LaunchError> {
    let len = arguments.len as usize;
    let ([sums, scanned], blocks) = (levels[0], len.div_ceil(of_block));
    // SAFETY: there is a block for its elements, and a total for each block.
    unsafe {
        (rung.kernel.launch)(
            on,
            LaunchConfig::new(blocks as u32, BLOCK as u32),
            Arguments { sums, ..arguments },
        )?;
        if blocks > 1 {
            let of_sums = Arguments { out: scanned, inp: sums, len: blocks as u32, ..arguments };
            passes_over(rung, on, of_sums, of_block, &levels[1..])?;
            let config = LaunchConfig::cover(len, 256);
            scan_add::launch(on, config, arguments.out, scanned, len as u32, of_block as u32)?;
        }
    }
    Ok(())
}
