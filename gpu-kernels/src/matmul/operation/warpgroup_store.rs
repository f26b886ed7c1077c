//! From the accumulators of a warpgroup to the results: through panels and tensor copies, or straight from registers.

use cuda_std::mma::stmatrix;
use cuda_std::wgmma::{Accumulator, Panel};
use cuda_std::{bulk, tensor, thread};

use super::super::args::{MatmulArgs, OUT_TENSOR};
use super::super::epilogue::{store_pair, with_epilogue};
use super::super::ladder::WARPGROUP;
use super::warpgroup_operand::WarpgroupOperand;
use super::warpgroup_tiles::Tile;

/// Accumulators that are written at once: those of 16 columns.
const CHUNK: usize = 8;

/// Runs code for each chunk of accumulators. A loop of that much code would not be unrolled, and accumulators that a loop counts
/// through lie in local memory.
macro_rules! for_each_chunk {
    ($i:ident, $registers:expr, $body:expr) => {
        for_each_chunk!(@ $i, $registers, $body, 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15)
    };
    (@ $i:ident, $registers:expr, $body:expr, $($chunk:literal)*) => {
        $(
            if $chunk < $registers / CHUNK {
                let $i: usize = $chunk;
                $body
            }
        )*
    };
}

/// Writes the results of a consumer.
///
/// # Safety
/// All threads of the warpgroup call it, and no other thread uses its panels, its named barrier and its results. The first
/// thread waits for the copies before it returns from the kernel.
#[inline(always)]
pub(super) unsafe fn store<T: WarpgroupOperand, const REGISTERS: usize>(
    args: &MatmulArgs<T>,
    tile: &Tile,
    panels: *mut Panel<T, 64>,
    sums: &Accumulator<REGISTERS>,
    consumer: u32,
) {
    let tid = thread::thread_idx_x() % WARPGROUP;
    let row = tile.row + 64 * consumer;
    // SAFETY: the thread's own results, or those of its split; as in rung 7.
    unsafe {
        if !args.has(OUT_TENSOR) {
            for_each_chunk!(i, REGISTERS, store_chunk::<T>(args, tile, row, i, chunk(sums, i)));
            return;
        }
        if tid == 0 {
            bulk::wait_read::<0>();
        }
        thread::sync_named_aligned(1 + consumer, WARPGROUP);
        for_each_chunk!(i, REGISTERS, write_chunk::<T>(args, tile, (panels, row), i, chunk(sums, i)));
        bulk::fence_shared();
        thread::sync_named_aligned(1 + consumer, WARPGROUP);
        if tid == 0 {
            for panel in 0..REGISTERS / 32 {
                let at = [tile.col + 64 * panel as u32, row, tile.batch].map(|at| at as i32);
                tensor::shared_to_global(&args.out_map, at, panels.add(panel));
            }
            bulk::commit();
        }
    }
}

/// The accumulators of chunk `i`.
#[inline(always)]
fn chunk<const REGISTERS: usize>(sums: &Accumulator<REGISTERS>, i: usize) -> [f32; CHUNK] {
    let (d, i) = (&sums.0, CHUNK * i);
    [d[i], d[i + 1], d[i + 2], d[i + 3], d[i + 4], d[i + 5], d[i + 6], d[i + 7]]
}

/// Row and column of the pair `2 * pair` of chunk `i`, of a warpgroup's results from `row` and `tile.col` on.
#[inline(always)]
fn place(tile: &Tile, row: u32, i: usize, pair: usize) -> [u32; 2] {
    let (r, c) = Accumulator::<CHUNK>::position(thread::thread_idx_x() % WARPGROUP, 2 * pair);
    [row + r as u32, tile.col + (16 * i + c) as u32]
}

/// Writes a chunk from registers.
///
/// # Safety
/// As for [`store_pair`].
#[inline(always)]
unsafe fn store_chunk<T: WarpgroupOperand>(
    args: &MatmulArgs<T>,
    tile: &Tile,
    row: u32,
    i: usize,
    [a, b, c, d, e, f, g, h]: [f32; CHUNK],
) {
    // SAFETY: the caller's.
    unsafe {
        store_pair(args, [tile.batch, tile.split], place(tile, row, i, 0), [a, b]);
        store_pair(args, [tile.batch, tile.split], place(tile, row, i, 1), [c, d]);
        store_pair(args, [tile.batch, tile.split], place(tile, row, i, 2), [e, f]);
        store_pair(args, [tile.batch, tile.split], place(tile, row, i, 3), [g, h]);
    }
}

/// Writes a chunk to a consumer's panels.
///
/// # Safety
/// All lanes of the warp call it, and no other warp uses its rows of the panels.
#[inline(always)]
unsafe fn write_chunk<T: WarpgroupOperand>(
    args: &MatmulArgs<T>,
    tile: &Tile,
    (panels, row): (*mut Panel<T, 64>, u32),
    i: usize,
    [a, b, c, d, e, f, g, h]: [f32; CHUNK],
) {
    let tid = thread::thread_idx_x() % WARPGROUP;
    let (warp, lane) = (tid / 32, tid % 32);
    // SAFETY: the caller's.
    unsafe {
        let four = [
            T::pack(with_epilogue(args, tile.batch, place(tile, row, i, 0), [a, b])),
            T::pack(with_epilogue(args, tile.batch, place(tile, row, i, 1), [c, d])),
            T::pack(with_epilogue(args, tile.batch, place(tile, row, i, 2), [e, f])),
            T::pack(with_epilogue(args, tile.batch, place(tile, row, i, 3), [g, h])),
        ];
        let at = Panel::chunk(panels.add(i / 4), 16 * warp + lane % 16, (i % 4 * 2) as u32 + lane / 16);
        stmatrix(at, four);
    }
}
