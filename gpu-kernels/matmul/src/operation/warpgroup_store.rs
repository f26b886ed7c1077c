//! From the accumulators of a warpgroup to the results: through panels and tensor copies, or straight from registers.

use cuda_std::mma::stmatrix;
use cuda_std::wgmma::{Accumulator, Panel};
use cuda_std::{bulk, tensor, thread};

use super::super::args::{GELU, MatmulArgs, OUT_TENSOR, RELU};
use super::super::epilogue::{bias_at, gelu, relu, residual_at, store_pair};
use super::warpgroup_operand::WarpgroupOperand;
use super::warpgroup_work::Tile;
use common_kernels::element::Number;
use common_kernels::ring::WARPGROUP;

/// Accumulators that are written at once: 16 columns.
const CHUNK: usize = 8;

/// Returns a consumer's panels to store a tile of `cols` columns: one is written while the other is copied out.
pub(super) const fn out_panels(cols: usize) -> usize {
    if cols > 64 { 2 } else { 1 }
}

/// Runs code for each chunk of accumulators. The compiler does not unroll a loop over that much code, and accumulators with
/// a loop index lie in local memory.
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

/// Turns a consumer's sums into results, before rounding: `activation(alpha sum + bias + residual)`.
///
/// Each term is a pass over the accumulators, so that they branch once instead of once per result. Numbers outside the
/// result are meaningless.
///
/// # Safety
/// The arguments are a kernel's.
#[inline(always)]
pub(super) unsafe fn apply_epilogue<T: Number, const REGISTERS: usize>(
    args: &MatmulArgs<T>,
    tile: &Tile,
    consumer: u32,
    sums: &mut Accumulator<REGISTERS>,
) {
    if args.is_plain() {
        return;
    }
    let row = tile.row + 64 * consumer;
    if args.alpha != 1.0 {
        for_each_chunk!(i, REGISTERS, put(sums, i, chunk(sums, i).map(|x| args.alpha * x)));
    }
    // A branch per chunk keeps ptxas from loading for all chunks at once, for which there are not enough registers.
    let is_inside = |i: usize| tile.col + (16 * i as u32) < args.n;
    // SAFETY: the columns that are inside have a bias, and with their rows a residual.
    unsafe {
        if !args.bias.is_null() {
            for_each_chunk!(i, REGISTERS, {
                if is_inside(i) {
                    put(sums, i, plus_bias(args, place(tile, row, i, 0)[1], chunk(sums, i)));
                }
            });
        }
        if !args.residual.is_null() {
            for_each_chunk!(i, REGISTERS, {
                if is_inside(i) {
                    put(sums, i, plus_residual(args, tile.batch, place(tile, row, i, 0), chunk(sums, i)));
                }
            });
        }
    }
    if args.has(RELU) {
        for_each_chunk!(i, REGISTERS, put(sums, i, chunk(sums, i).map(relu)));
    } else if args.has(GELU) {
        for_each_chunk!(i, REGISTERS, {
            if is_inside(i) {
                put(sums, i, chunk(sums, i).map(gelu));
            }
        });
    }
}

/// Returns a chunk that starts in column `col` plus the bias of its columns, which is the same for both rows of a thread.
///
/// # Safety
/// Same as for [`bias_at`].
#[inline(always)]
unsafe fn plus_bias<T: Number>(args: &MatmulArgs<T>, col: u32, x: [f32; CHUNK]) -> [f32; CHUNK] {
    // SAFETY: the bias is not null.
    let [a, b, c, d] = unsafe {
        [bias_at(args, col), bias_at(args, col + 1), bias_at(args, col + 8), bias_at(args, col + 9)]
    };
    [x[0] + a, x[1] + b, x[2] + a, x[3] + b, x[4] + c, x[5] + d, x[6] + c, x[7] + d]
}

/// Returns a chunk, whose first element is at this row and column, plus the residual.
///
/// # Safety
/// Same as for [`residual_at`].
#[inline(always)]
unsafe fn plus_residual<T: Number>(
    args: &MatmulArgs<T>,
    batch: u32,
    [row, col]: [u32; 2],
    x: [f32; CHUNK],
) -> [f32; CHUNK] {
    // SAFETY: the residual is not null.
    let at = |down: u32, right: u32| unsafe { residual_at(args, batch, [row + down, col + right]) };
    [
        x[0] + at(0, 0),
        x[1] + at(0, 1),
        x[2] + at(8, 0),
        x[3] + at(8, 1),
        x[4] + at(0, 8),
        x[5] + at(0, 9),
        x[6] + at(8, 8),
        x[7] + at(8, 9),
    ]
}

/// Writes the results of a consumer. `sums` are results before rounding, or the sums of a split.
///
/// # Safety
/// All threads of the warpgroup call this, and no other thread uses its panels, its named barrier and its results. The first
/// thread waits for the copies before it returns from the kernel.
#[inline(always)]
pub(super) unsafe fn store<T: WarpgroupOperand, const REGISTERS: usize>(
    args: &MatmulArgs<T>,
    tile: &Tile,
    panels: *mut Panel<T, 64>,
    sums: &Accumulator<REGISTERS>,
    consumer: u32,
) {
    if !args.has(OUT_TENSOR) {
        // SAFETY: only this thread writes its results.
        return unsafe { store_registers(args, tile, sums, consumer) };
    }
    let tid = thread::thread_idx_x() % WARPGROUP;
    let row = tile.row + 64 * consumer;
    // SAFETY: the copies of a panel start after all threads have written, fenced and synchronised. It is rewritten once all
    // copies except the latest have read theirs.
    unsafe {
        for_each_chunk!(i, REGISTERS, {
            let panel = panels.add(i / 4 % const { out_panels(2 * REGISTERS) });
            if i.is_multiple_of(4) {
                if tid == 0 {
                    // The tile before may have used any panel last.
                    if i == 0 { bulk::wait_read::<0>() } else { bulk::wait_read::<1>() }
                }
                thread::sync_named_aligned(1 + consumer, WARPGROUP);
            }
            write_chunk(panel, i % 4, chunk(sums, i));
            if i % 4 == 3 {
                bulk::fence_shared();
                thread::sync_named_aligned(1 + consumer, WARPGROUP);
                if tid == 0 {
                    let at = [tile.col + 16 * (i as u32 - 3), row, tile.batch].map(|at| at as i32);
                    tensor::shared_to_global(&args.out_map, at, panel);
                    bulk::commit();
                }
            }
        });
    }
}

/// Writes the results of a consumer, or the sums of its split, directly from registers.
///
/// # Safety
/// Same as for [`store`].
#[inline(always)]
pub(super) unsafe fn store_registers<T: Number, const REGISTERS: usize>(
    args: &MatmulArgs<T>,
    tile: &Tile,
    sums: &Accumulator<REGISTERS>,
    consumer: u32,
) {
    let (row, to) = (tile.row + 64 * consumer, [tile.batch, tile.split]);
    // SAFETY: only this thread writes its results.
    unsafe {
        for_each_chunk!(i, REGISTERS, {
            let x = chunk(sums, i);
            store_pair(args, to, place(tile, row, i, 0), [x[0], x[1]]);
            store_pair(args, to, place(tile, row, i, 2), [x[2], x[3]]);
            store_pair(args, to, place(tile, row, i, 4), [x[4], x[5]]);
            store_pair(args, to, place(tile, row, i, 6), [x[6], x[7]]);
        });
    }
}

/// Returns the accumulators of chunk `i`.
#[inline(always)]
fn chunk<const REGISTERS: usize>(sums: &Accumulator<REGISTERS>, i: usize) -> [f32; CHUNK] {
    let (d, i) = (&sums.0, CHUNK * i);
    [d[i], d[i + 1], d[i + 2], d[i + 3], d[i + 4], d[i + 5], d[i + 6], d[i + 7]]
}

/// Replaces the accumulators of chunk `i`.
#[inline(always)]
fn put<const REGISTERS: usize>(sums: &mut Accumulator<REGISTERS>, i: usize, chunk: [f32; CHUNK]) {
    let (d, i) = (&mut sums.0, CHUNK * i);
    [d[i], d[i + 1], d[i + 2], d[i + 3], d[i + 4], d[i + 5], d[i + 6], d[i + 7]] = chunk;
}

/// Returns the row and column of an element of chunk `i`; a warpgroup's results start at `row` and `tile.col`.
#[inline(always)]
fn place(tile: &Tile, row: u32, i: usize, element: usize) -> [u32; 2] {
    let (r, c) = Accumulator::<CHUNK>::position(thread::thread_idx_x() % WARPGROUP, element);
    [row + r as u32, tile.col + (16 * i + c) as u32]
}

/// Rounds a chunk and writes it as the `i`th chunk of a panel.
///
/// # Safety
/// All lanes of the warp call this, and no other warp uses its rows of the panel.
#[inline(always)]
unsafe fn write_chunk<T: WarpgroupOperand>(panel: *mut Panel<T, 64>, i: usize, x: [f32; CHUNK]) {
    let tid = thread::thread_idx_x() % WARPGROUP;
    let (warp, lane) = (tid / 32, tid % 32);
    let four = [[x[0], x[1]], [x[2], x[3]], [x[4], x[5]], [x[6], x[7]]].map(T::pack);
    // SAFETY: all lanes execute this, and only this warp uses its rows of the panel.
    unsafe {
        let at = Panel::chunk(panel, 16 * warp + lane % 16, (2 * i) as u32 + lane / 16);
        stmatrix(at, four);
    }
}
