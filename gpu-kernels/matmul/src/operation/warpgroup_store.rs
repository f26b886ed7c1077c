//! From the accumulators of a warpgroup to the results: through panels and tensor copies, or straight from registers.

use cuda_std::mem::{f32x2, load_shared, store_global, store_shared};
use cuda_std::mma::stmatrix;
use cuda_std::wgmma::{Accumulator, Panel};
use cuda_std::{bulk, tensor, thread, warp};

use super::super::args::{GELU, MatmulArgs, OUT_F32, OUT_TENSOR, RELU};
use super::super::epilogue::{bias_pair, gelu, offset, relu, store_pair, unrolled};
use super::warpgroup_operand::{WarpgroupOperand, is_swapped};
use super::warpgroup_residuals::{
    Residuals, add_residuals, at_once, has_registers_for_residuals, load_residuals,
};
use super::warpgroup_work::Tile;
use common_kernels::ring::WARPGROUP;

/// Accumulators that are written at once: 16 columns.
pub(super) const CHUNK: usize = 8;

/// Returns a consumer's panels to store a tile of `cols` columns: one is written while the other is copied out.
pub(super) const fn out_panels(cols: usize) -> usize {
    if cols > 64 { 2 } else { 1 }
}

/// Where a thread's results lie: pairs of neighbours in a row, four of them in a chunk.
#[derive(Clone, Copy)]
pub(super) struct Place {
    pub tile: Tile,
    consumer: u32,
    /// The consumer's first row in the tile.
    row: u32,
    /// Row and column of the first result.
    pub first: [u32; 2],
    /// Rows from the first pair to the second.
    apart: u32,
    is_swapped: bool,
}

impl Place {
    /// The place of the calling thread's results in a tile, for a kernel of operands of `T` in this layout. `first` is the
    /// consumer's first row in the tile; with swapped operands its first column.
    #[inline(always)]
    pub fn new<T: WarpgroupOperand, const A_K: usize, const B_K: usize>(
        tile: Tile,
        consumer: u32,
        first: u32,
    ) -> Self {
        let tid = thread::thread_idx_x() % WARPGROUP;
        let row = first + T::row::<A_K, B_K>(tid / 32 * 16 + tid % 32 / 4);
        let (col, is_swapped) = (tid % 4 * 2, const { is_swapped(size_of::<T>(), B_K) });
        let apart = if is_swapped { 1 } else { T::row::<A_K, B_K>(8) };
        let [down, right] = if is_swapped { [col, row] } else { [row, col] };
        Self { tile, consumer, row: first, first: [tile.row + down, tile.col + right], apart, is_swapped }
    }

    /// Returns the row and the first column of a pair of chunk `i`.
    #[inline(always)]
    pub fn at(&self, i: usize, pair: usize) -> [u32; 2] {
        let [row, col] = self.first;
        let (along, across) = (16 * i + pair / 2 * 8, pair % 2);
        let (along, across) = (along as u32, across as u32 * self.apart);
        if self.is_swapped { [row + along + across, col] } else { [row + across, col + along] }
    }

    /// Whether chunk `i` has results. A branch per chunk keeps ptxas from loading for all chunks at once, for which there are
    /// not enough registers.
    #[inline(always)]
    fn has<T>(&self, args: &MatmulArgs<T>, i: usize) -> bool {
        let (start, end) = if self.is_swapped { (self.tile.row, args.m) } else { (self.tile.col, args.n) };
        start + (16 * i as u32) < end
    }

    /// Returns the pairs of a chunk's accumulators, one after the other. It is its own inverse.
    #[inline(always)]
    fn pairs(&self, x: [f32; CHUNK]) -> [f32; CHUNK] {
        let [a, b, c, d, e, f, g, h] = x;
        if self.is_swapped { [a, c, b, d, e, g, f, h] } else { x }
    }

    /// Returns the accumulators plus what `f` returns for each pair.
    #[inline(always)]
    pub fn plus(&self, x: [f32; CHUNK], mut f: impl FnMut(usize) -> [f32; 2]) -> [f32; CHUNK] {
        let mut x = self.pairs(x);
        for pair in 0..CHUNK / 2 {
            let [left, right] = f(pair);
            x[2 * pair] += left;
            x[2 * pair + 1] += right;
        }
        self.pairs(x)
    }
}

/// The biases of a consumer's columns: each thread loads two of them under the multiplications.
#[derive(Clone, Copy)]
pub(super) struct Bias<T> {
    /// As they are in memory: nothing waits for them before the epilogue.
    loaded: [T; 2],
    shared: *mut f32,
}

impl<T: WarpgroupOperand> Bias<T> {
    /// Loads the thread's biases. `shared` has room for those of `cols` columns, for the consumer alone from
    /// [`apply_epilogue`] on.
    ///
    /// # Safety
    /// The arguments are a kernel's.
    #[inline(always)]
    pub unsafe fn load(args: &MatmulArgs<T>, place: &Place, cols: u32, shared: *mut u8) -> Self {
        let right = thread::thread_idx_x() % WARPGROUP * 2;
        let col = match (place.is_swapped, right < cols) {
            (true, _) => place.first[1],
            (false, true) => place.tile.col + right,
            (false, false) => args.n,
        };
        // SAFETY: the caller's contract.
        Self { loaded: unsafe { bias_pair(args, col) }, shared: shared.cast() }
    }

    /// Exchanges the biases of a tile of `cols` columns among the consumer's threads.
    ///
    /// # Safety
    /// All threads of the warpgroup call this. No copy from the shared memory is pending, except by the first thread.
    #[inline(always)]
    unsafe fn exchange(&self, place: &Place, cols: usize) {
        if place.is_swapped {
            return;
        }
        let tid = thread::thread_idx_x() % WARPGROUP;
        // SAFETY: each thread writes its own biases, after all copies have read the memory, and before any thread reads them.
        unsafe {
            if tid == 0 {
                bulk::wait_read::<0>();
            }
            thread::sync_named_aligned(1 + place.consumer, WARPGROUP);
            if 2 * tid < cols as u32 {
                let to = self.shared.add(2 * tid as usize);
                let [left, right] = self.loaded.map(T::to_f32);
                store_shared(to.cast(), f32x2::new(left, right));
            }
            thread::sync_named_aligned(1 + place.consumer, WARPGROUP);
        }
    }

    /// Returns the biases of a pair of chunk `i`.
    ///
    /// # Safety
    /// The biases were exchanged.
    #[inline(always)]
    unsafe fn pair(&self, place: &Place, i: usize, pair: usize) -> [f32; 2] {
        if place.is_swapped {
            return self.loaded.map(T::to_f32);
        }
        let col = place.at(i, pair)[1] - place.tile.col;
        // SAFETY: the tile has the columns.
        unsafe { load_shared::<f32x2>(self.shared.add(col as usize).cast()).to_array() }
    }
}

/// Turns a consumer's sums into results, before rounding: `activation(alpha sum + bias + residual)`.
///
/// Each term is a pass over the accumulators, so that they branch once instead of once per result. Numbers outside the
/// result are meaningless.
///
/// # Safety
/// The arguments are a kernel's. All threads of the warpgroup call this, and no other thread uses its named barrier and the
/// memory of its biases.
#[inline(always)]
pub(super) unsafe fn apply_epilogue<T: WarpgroupOperand, const REGISTERS: usize>(
    args: &MatmulArgs<T>,
    place: &Place,
    bias: Bias<T>,
    residuals: Residuals,
    sums: &mut Accumulator<REGISTERS>,
) {
    if args.is_plain() {
        return;
    }
    if args.alpha != 1.0 {
        unrolled!(i, REGISTERS / CHUNK, put(sums, i, chunk(sums, i).map(|x| args.alpha * x)));
    }
    // SAFETY: all threads of the warpgroup execute this. The results that are inside have a residual.
    unsafe {
        if !args.bias.is_null() {
            bias.exchange(place, Accumulator::<REGISTERS>::COLUMNS);
            unrolled!(i, REGISTERS / CHUNK, {
                put(sums, i, place.plus(chunk(sums, i), |pair| bias.pair(place, i, pair)));
            });
        }
        if !args.residual.is_null() {
            unrolled!(i, REGISTERS.div_ceil(CHUNK * at_once(REGISTERS)), {
                let first = i * at_once(REGISTERS);
                let residuals = match i == 0 && has_registers_for_residuals(REGISTERS) {
                    true => residuals,
                    false => load_residuals::<T, REGISTERS>(args, place, first),
                };
                add_residuals(args, place, first, &residuals, sums);
            });
        }
    }
    if args.has(RELU) {
        unrolled!(i, REGISTERS / CHUNK, put(sums, i, chunk(sums, i).map(relu)));
    } else if args.has(GELU) {
        unrolled!(i, REGISTERS / CHUNK, {
            if place.has(args, i) {
                let [a, b, c, d, e, f, g, h] = chunk(sums, i);
                let ([a, b, c, d], [e, f, g, h]) = (gelu([a, b, c, d]), gelu([e, f, g, h]));
                put(sums, i, [a, b, c, d, e, f, g, h]);
            }
        });
    }
}

/// Writes the results of a consumer. `sums` are results before rounding, or the sums of a split.
///
/// # Safety
/// All threads of the warpgroup call this, and no other thread uses its panels, its named barrier and its results. The first
/// thread waits for the copies before it returns from the kernel.
#[inline(always)]
pub(super) unsafe fn store<T: WarpgroupOperand, const REGISTERS: usize>(
    args: &MatmulArgs<T>,
    place: &Place,
    panels: *mut Panel<T, 64>,
    sums: &Accumulator<REGISTERS>,
) {
    if const { size_of::<T>() == 4 || REGISTERS < 32 } || args.has(OUT_F32) {
        // SAFETY: only this thread writes its results.
        return unsafe { store_registers(args, place, sums) };
    }
    let tid = thread::thread_idx_x() % WARPGROUP;
    let &Place { tile, consumer, row, .. } = place;
    let (row, is_tensor) = (tile.row + row, args.has(OUT_TENSOR));
    // SAFETY: the copies of a panel start after all threads have written, fenced and synchronised. It is rewritten once all
    // copies except the latest have read theirs. Without tensor copies a warp copies the rows that it has written.
    unsafe {
        unrolled!(i, REGISTERS / CHUNK, {
            let panel = panels.add(i / 4 % const { out_panels(2 * REGISTERS) });
            if is_tensor && i.is_multiple_of(4) {
                if tid == 0 {
                    // The tile before may have used any panel last.
                    if i == 0 { bulk::wait_read::<0>() } else { bulk::wait_read::<1>() }
                }
                thread::sync_named_aligned(1 + consumer, WARPGROUP);
            }
            write_chunk(panel, i % 4, chunk(sums, i));
            if i % 4 == 3 {
                let at = [tile.col + 16 * (i as u32 - 3), row, tile.batch];
                if is_tensor {
                    bulk::fence_shared();
                    thread::sync_named_aligned(1 + consumer, WARPGROUP);
                    if tid == 0 {
                        tensor::shared_to_global(&args.out_map, at.map(|at| at as i32), panel);
                        bulk::commit();
                    }
                } else {
                    warp::sync_warp(u32::MAX);
                    copy_rows(args, at, panel);
                    warp::sync_warp(u32::MAX);
                }
            }
        });
    }
}

/// Copies the warp's rows of a panel to the results from column, row and matrix `at` on, which may start anywhere.
///
/// # Safety
/// All lanes of the warp call this. The panel holds results, and no other warp writes those of the rows.
#[inline(always)]
unsafe fn copy_rows<T: WarpgroupOperand>(
    args: &MatmulArgs<T>,
    [col, row, batch]: [u32; 3],
    panel: *mut Panel<T, 64>,
) {
    let tid = thread::thread_idx_x() % WARPGROUP;
    let (first, lane) = (tid / 32 * 16, tid % 32);
    let cols = args.n.saturating_sub(col).min(64);
    let end = args.m.saturating_sub(row).min(first + 16);
    let mut r = first;
    while r < end {
        let to = args.out.cast::<u16>();
        let to = to.wrapping_add(offset(batch, args.out_batch, row + r, args.out_pitch, col));
        // SAFETY: the panel has the row and the columns, of which the first `cols` lie in the result.
        unsafe {
            let at = |c: u32| Panel::element(panel, r, c % 64).cast::<u16>().read();
            // Two neighbours at a multiple of four bytes.
            let c = 2 * lane + u32::from(!to.addr().is_multiple_of(4));
            if c + 1 < cols {
                let pair = u32::from(at(c)) | u32::from(at(c + 1)) << 16;
                store_global(to.add(c as usize).cast::<u32>(), pair);
            } else if c < cols {
                *to.add(c as usize) = at(c);
            }
            if c == 1 && cols > 0 {
                *to = at(0);
            }
        }
        r += 1;
    }
}

/// Writes the results of a consumer, or the sums of its split, directly from registers.
///
/// # Safety
/// Same as for [`store`].
#[inline(always)]
pub(super) unsafe fn store_registers<T: WarpgroupOperand, const REGISTERS: usize>(
    args: &MatmulArgs<T>,
    place: &Place,
    sums: &Accumulator<REGISTERS>,
) {
    let to = [place.tile.batch, place.tile.split];
    // SAFETY: only this thread writes its results.
    unsafe {
        unrolled!(i, REGISTERS / CHUNK, {
            let x = place.pairs(chunk(sums, i));
            for pair in 0..CHUNK / 2 {
                store_pair(args, to, place.at(i, pair), [x[2 * pair], x[2 * pair + 1]]);
            }
        });
    }
}

/// Returns the accumulators of chunk `i`.
#[inline(always)]
pub(super) fn chunk<const REGISTERS: usize>(sums: &Accumulator<REGISTERS>, i: usize) -> [f32; CHUNK] {
    let (d, i) = (&sums.0, CHUNK * i);
    [d[i], d[i + 1], d[i + 2], d[i + 3], d[i + 4], d[i + 5], d[i + 6], d[i + 7]]
}

/// Replaces the accumulators of chunk `i`.
#[inline(always)]
pub(super) fn put<const REGISTERS: usize>(sums: &mut Accumulator<REGISTERS>, i: usize, chunk: [f32; CHUNK]) {
    let (d, i) = (&mut sums.0, CHUNK * i);
    [d[i], d[i + 1], d[i + 2], d[i + 3], d[i + 4], d[i + 5], d[i + 6], d[i + 7]] = chunk;
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
