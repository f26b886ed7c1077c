//! Short rows: a group of 1, 2, 4 .. 32 lanes for each of them.
//!
//! A lane adds up its elements of a row, and then the lanes of the group add up their sums by shuffles, `log2` of the width.
//! Wide groups need more shuffles, and have lanes without an element. Narrow ones have lanes that read far apart, so that a
//! request touches more sectors.
//!
//! Requires: blocks of 256 threads.
//@ ptx(groups_1): shfl == 0, ld.global == 1, .local == 0
//@ ptx(groups_4): shfl.sync.bfly == 2, .local == 0
//@ ptx(groups_8): shfl.sync.bfly == 3, .local == 0
//@ ptx(groups_16): shfl.sync.bfly == 4, .local == 0
//@ ptx(groups_32): shfl.sync.bfly == 5, .local == 0

use cuda_std::hint::opaque;
use cuda_std::warp::reduce_sum_width;
use cuda_std::{kernel, thread};

lesson! {
    buffers(out: f32, inp: f32)
    values(rows: u32, cols: u32)
    facts(Grid)
    "groups_1" = groups_rows[0]: "a thread per row";
    "groups_4" = groups_rows[1]: "four lanes per row";
    "groups_8" = groups_rows[2]: "eight lanes per row";
    "groups_16" = groups_rows[3]: "half of a warp per row";
    "groups_32" = groups_rows[4]: "a warp per row";
}

/// The launch for a number of rows.
#[cfg(not(target_arch = "nvptx64"))]
const fn of_rows<const WIDTH: u32>() -> Grid {
    Grid { config: |rows| cuda_std::launch::LaunchConfig::cover(rows * WIDTH as usize, 256) }
}

/// Computes `out[row]`, the sum of a row of `inp`, which is `[rows, cols]`. `WIDTH` lanes share a row.
///
/// Launched with at least `WIDTH * rows` threads along x, in blocks of 256.
///
/// # Safety
/// The launch is as described; `inp` holds `rows * cols` elements and `out` `rows`, which no other code uses.
#[kernel(
    max_threads = 256,
    args = Arguments,
    facts: Grid = of_rows::<WIDTH>(),
    instances(groups_1 = <1>; groups_4 = <4>; groups_8 = <8>; groups_16 = <16>; groups_32 = <32>;),
)]
pub unsafe fn groups_rows<const WIDTH: u32>(out: *mut f32, inp: *const f32, rows: u32, cols: u32) {
    let (row, lane) = (thread::index_1d() / WIDTH, thread::index_1d() % WIDTH);
    let (mut sum, mut col) = (0.0, lane as usize);
    if row < rows {
        while col < cols as usize {
            // SAFETY: the row and the column lie in the matrix.
            sum += unsafe { *inp.add(row as usize * cols as usize + col) };
            col = opaque(col + WIDTH as usize);
        }
    }
    // SAFETY: all lanes of the warp execute this.
    let sum = unsafe { reduce_sum_width::<f32, WIDTH>(u32::MAX, sum) };
    if row < rows && lane == 0 {
        // SAFETY: only this thread writes the element.
        unsafe { *out.add(row as usize) = sum };
    }
}
