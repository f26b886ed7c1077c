//! Matrix multiplication by `wgmma` (compute capability 9.0, `compute_90a`): of `bf16` and `f16` in every layout, and of
//! `f32` as TF32 if the terms are neighbours in one of the operands at least.
//!
//! This is rung 7 of the ladder with the operation's epilogue, layouts and batches. Tensor copies require operands with rows
//! at multiples of 16 bytes; [`super::tensor_tiles`] takes the others. In a layout in which the terms are not neighbours, a
//! panel has the terms as rows, and `wgmma` transposes it on the way. It cannot transpose `f32`, but takes A from registers,
//! which the threads load from such a panel. If it is B that needs this, the kernel computes the transpose of the result.
//!
//! A 16-bit result goes through panels, which tensor copies write if its rows start at multiples of 16 bytes, and warps
//! otherwise. `f32` is written directly from the registers.
//!
//! Each of two warpgroups has half of the rows of a tile. Of tiles with 64 rows each has every other one, so that one
//! multiplies while the other writes results.
//!
//! The instances are the tuning table: rows and columns of the tile, and stages.
//@ ptx(matmul_bf16_kk_128x256w, compute_90a): wgmma.mma_async.sync.aligned.m64n256k16 == 4, setmaxnreg == 2, .local == 0
//@ ptx(matmul_f16_mn_128x256w, compute_90a): wgmma.mma_async.sync.aligned.m64n256k16 == 4, setmaxnreg == 2, .local == 0
//@ ptx(matmul_f32_kn_256x128s, compute_90a): wgmma.mma_async.sync.aligned.m64n256k8 == 4, ld.shared.v2 >= 8, .local == 0
//@ ptx(matmul_bf16_kn_128x256w, compute_90a): stmatrix.sync.aligned.m8n8.x4 == 16, .local == 0

use cuda_std::barrier::Barrier;
use cuda_std::half::{bf16, f16};
use cuda_std::hint::{fewer_registers, more_registers};
use cuda_std::shared::dynamic_shared_mem_aligned;
use cuda_std::wgmma::{self, Accumulator, Panel, Registers};
use cuda_std::{bulk, kernel, tensor, thread};

use super::super::args::{MatmulArgs, begin};
#[cfg(not(target_arch = "nvptx64"))]
use super::WarpgroupShape;
use super::warpgroup_operand::{WarpgroupOperand, is_in_registers, is_swapped};
use super::warpgroup_residuals::load_first_residuals;
use super::warpgroup_store::{Bias, Place, apply_epilogue, out_panels, store};
use super::warpgroup_work::{PANEL_ROW, Work, copy, terms};
use common_kernels::ring::{Ring, WARPGROUP};

/// Returns the bytes of the stages, of the outgoing results, and of the barriers, after the first multiple of 1024.
pub const fn shared_bytes([rows, cols]: [usize; 2], stages: usize, bytes: usize) -> usize {
    stages * (rows + cols) * PANEL_ROW + 2 * out_bytes(cols, bytes) + 2 * stages * size_of::<Barrier>()
}

/// Bytes of a panel of results.
const OUT_PANEL: usize = 64 * PANEL_ROW;

/// Returns the bytes of a consumer's outgoing results, which replace its biases. `f32` results are written from registers.
const fn out_bytes(cols: usize, bytes: usize) -> usize {
    if bytes == 2 && cols >= 64 { out_panels(cols) * OUT_PANEL } else { 4 * cols }
}

/// Multiplies the arguments' matrices, through the maps of A, B and, with `OUT_TENSOR`, of the result. A map has the rows of
/// the stored matrix, and the batch as its third dimension. Its boxes are 64 elements wide; `facts` states their rows.
///
/// Launched with any number of blocks along x, with the shared memory of `facts`. The blocks share the tiles of all matrices
/// and splits.
///
/// # Safety
/// The launch is as described. The matrices match their shapes, pitches, batches and maps, and no other code uses `out`,
/// which with several splits holds their sums. The flags match the addresses and pitches.
#[kernel(
    with(REGISTERS = COLS / 2),
    max_threads = 384,
    min_blocks = 1,
    arch = "90a",
    args,
    facts: WarpgroupShape =
        WarpgroupShape::new([ROWS, COLS], [A_K, B_K], BYTES, shared_bytes([ROWS, COLS], STAGES, BYTES)),
    instances(
        for T in [bf16, f16], BYTES = 2 {
            matmul_{T}_kk_128x256w = <1, 1, 128, 256, 4>;
            matmul_{T}_kn_128x256w = <1, 0, 128, 256, 4>;
            matmul_{T}_mk_128x256w = <0, 1, 128, 256, 4>;
            matmul_{T}_mn_128x256w = <0, 0, 128, 256, 4>;
            matmul_{T}_kk_128x192w = <1, 1, 128, 192, 4>;
            matmul_{T}_kn_128x192w = <1, 0, 128, 192, 4>;
            matmul_{T}_mk_128x192w = <0, 1, 128, 192, 4>;
            matmul_{T}_mn_128x192w = <0, 0, 128, 192, 4>;
            matmul_{T}_kk_128x128w = <1, 1, 128, 128, 6>;
            matmul_{T}_kn_128x128w = <1, 0, 128, 128, 6>;
            matmul_{T}_mk_128x128w = <0, 1, 128, 128, 6>;
            matmul_{T}_mn_128x128w = <0, 0, 128, 128, 6>;
            matmul_{T}_kk_64x128p = <1, 1, 64, 128, 8>;
            matmul_{T}_kn_64x128p = <1, 0, 64, 128, 8>;
            matmul_{T}_mk_64x128p = <0, 1, 64, 128, 8>;
            matmul_{T}_mn_64x128p = <0, 0, 64, 128, 8>;
            matmul_{T}_kk_64x64p = <1, 1, 64, 64, 12>;
            matmul_{T}_kn_64x64p = <1, 0, 64, 64, 12>;
            matmul_{T}_mk_64x64p = <0, 1, 64, 64, 12>;
            matmul_{T}_mn_64x64p = <0, 0, 64, 64, 12>;
            matmul_{T}_mk_64x32p = <0, 1, 64, 32, 16>;
        }
        T = f32, BYTES = 4 {
            matmul_f32_kk_128x256w = <1, 1, 128, 256, 4>;
            matmul_f32_kk_128x192w = <1, 1, 128, 192, 5>;
            matmul_f32_kk_128x128w = <1, 1, 128, 128, 6>;
            matmul_f32_kn_256x128s = <1, 0, 128, 256, 4>;
            matmul_f32_kn_192x128s = <1, 0, 128, 192, 5>;
            matmul_f32_mk_128x256w = <0, 1, 128, 256, 4>;
            matmul_f32_mk_128x192w = <0, 1, 128, 192, 5>;
            matmul_f32_kk_64x128p = <1, 1, 64, 128, 8>;
            matmul_f32_kk_64x64p = <1, 1, 64, 64, 12>;
            matmul_f32_kn_128x64p = <1, 0, 64, 128, 8>;
            matmul_f32_kn_64x64p = <1, 0, 64, 64, 12>;
            matmul_f32_mk_64x128p = <0, 1, 64, 128, 8>;
            matmul_f32_mk_64x64p = <0, 1, 64, 64, 12>;
        }
    ),
)]
pub unsafe fn matmul_warpgroups<
    T: WarpgroupOperand,
    const A_K: usize,
    const B_K: usize,
    const ROWS: usize,
    const COLS: usize,
    const STAGES: usize,
    const BYTES: usize,
    const REGISTERS: usize,
>(
    args: MatmulArgs<T>,
) where
    [f32; REGISTERS]: Registers,
{
    let tid = thread::thread_idx_x();
    let shared = dynamic_shared_mem_aligned::<Panel<T, 8>>().cast::<u8>();
    let (a_bytes, b_bytes) = const { (ROWS * PANEL_ROW, COLS * PANEL_ROW) };
    let b_shared = shared.wrapping_add(STAGES * a_bytes);
    let out_shared = b_shared.wrapping_add(STAGES * b_bytes);
    let barriers = out_shared.wrapping_add(const { 2 * out_bytes(COLS, BYTES) }).cast::<Barrier>();
    let is_swapped = const { is_swapped(BYTES, B_K) };
    let is_in_registers = const { is_in_registers(BYTES, A_K, B_K) };
    let work = Work::new(&args, if is_swapped { [COLS, ROWS] } else { [ROWS, COLS] }.map(|side| side as u32));
    if tid == 0 {
        tensor::prefetch(&args.a_map);
        tensor::prefetch(&args.b_map);
    }
    // SAFETY: the barriers are the block's. All threads execute this; one fills the ring, and the consumers' warps use it.
    let (mut ring, warpgroup) = unsafe {
        (Ring::<STAGES>::init_only(barriers, if ROWS == 64 { 4 } else { 8 }), wgmma::warpgroup_idx())
    };
    begin();
    let mut unit = thread::block_idx_x();
    if warpgroup == 0 {
        // SAFETY: all threads of the warpgroup execute this.
        unsafe { fewer_registers::<40>() };
        while tid == 0 && unit < work.units {
            let tile = work.tile(unit, const { terms(BYTES) as u32 }, &args);
            let batch_a = if args.a_batch == 0 { 0 } else { tile.batch as i32 };
            let batch_b = if args.b_batch == 0 { 0 } else { tile.batch as i32 };
            let mut k = tile.terms[0];
            while k < tile.terms[1] {
                let full = ring.fill((a_bytes + b_bytes) as u32);
                // SAFETY: the stage is empty, and expects the bytes of both operands.
                unsafe {
                    let to = shared.add(ring.stage() * a_bytes);
                    let to_b = b_shared.add(ring.stage() * b_bytes);
                    if is_swapped {
                        copy::<T, B_K>(to, &args.b_map, [tile.col, k], batch_b, ROWS as u32, full);
                        copy::<T, A_K>(to_b, &args.a_map, [tile.row, k], batch_a, COLS as u32, full);
                    } else {
                        copy::<T, A_K>(to, &args.a_map, [tile.row, k], batch_a, ROWS as u32, full);
                        copy::<T, B_K>(to_b, &args.b_map, [tile.col, k], batch_b, COLS as u32, full);
                    }
                }
                ring.advance();
                k += const { terms(BYTES) as u32 };
            }
            unit += thread::grid_dim_x();
        }
    } else {
        // SAFETY: all threads of the warpgroup execute this.
        unsafe { more_registers::<232>() };
        let consumer = warpgroup - 1;
        // Each consumer has half of a tile, or every other tile.
        let (turns, row) = if ROWS == 64 { (2, 0) } else { (1, 64 * consumer) };
        let depth = const { terms(BYTES) as u32 };
        let skip = |ring: &mut Ring<STAGES>, unit: u32| {
            if ROWS == 64 && unit < work.units {
                let mut left = work.tile(unit, depth, &args).stages(depth);
                while left > 0 {
                    ring.advance();
                    left -= 1;
                }
            }
        };
        if ROWS == 64 && consumer == 1 {
            skip(&mut ring, unit);
            unit += thread::grid_dim_x();
        }
        // SAFETY: each consumer has its panels, or room for its biases.
        let panels = unsafe { out_shared.add(consumer as usize * const { out_bytes(COLS, BYTES) }) };
        while unit < work.units {
            let tile = work.tile(unit, const { terms(BYTES) as u32 }, &args);
            let place = Place::new::<T, A_K, B_K>(tile, consumer, row);
            // SAFETY: the arguments are this kernel's.
            let (bias, residuals) = unsafe {
                (
                    Bias::load(&args, &place, COLS as u32, panels),
                    load_first_residuals::<T, REGISTERS>(&args, &place),
                )
            };
            if ROWS == 64 && unit != thread::block_idx_x() {
                // Parities tell only neighbouring rounds of the ring apart, so the stages of the tile before are done first.
                // SAFETY: all threads of the warpgroup execute this, and those of the other arrive.
                unsafe { thread::sync_named_aligned(3 + consumer, 2 * WARPGROUP) };
            }
            let mut pending = Accumulator::<REGISTERS>::ZERO.start();
            let (mut before, mut k) = (0, tile.terms[0]);
            while k < tile.terms[1] {
                ring.wait_full();
                let is_first = k == tile.terms[0];
                // SAFETY: all threads of the warpgroup execute this. The stage is full until all warps have released it.
                unsafe {
                    let a = shared.add(ring.stage() * a_bytes);
                    let b = b_shared.add(ring.stage() * b_bytes);
                    T::multiply::<A_K, B_K, COLS, REGISTERS>(&mut pending, !is_first, a, b, row);
                    wgmma::commit();
                    if is_in_registers {
                        wgmma::wait::<0>();
                    } else {
                        wgmma::wait::<1>();
                    }
                }
                if is_in_registers {
                    ring.release();
                } else if !is_first {
                    ring.release_stage(before);
                }
                before = ring.stage();
                ring.advance();
                k += const { terms(BYTES) as u32 };
            }
            // SAFETY: all threads of the warpgroup execute this.
            let mut sums = unsafe { pending.finish::<0>() };
            if !is_in_registers && tile.terms[0] < tile.terms[1] {
                ring.release_stage(before);
            }
            if ROWS == 64 && unit + thread::grid_dim_x() < work.units {
                // SAFETY: all threads of the warpgroup execute this, and those of the other wait.
                unsafe { thread::arrive_named_aligned(4 - consumer, 2 * WARPGROUP) };
            }
            // SAFETY: all threads of the warpgroup execute this, and only they use the panels and write the results.
            unsafe {
                apply_epilogue(&args, &place, bias, residuals, &mut sums);
                store::<T, REGISTERS>(&args, &place, panels.cast(), &sums);
            }
            skip(&mut ring, unit + thread::grid_dim_x());
            unit += turns * thread::grid_dim_x();
        }
        if tid.is_multiple_of(WARPGROUP) {
            bulk::wait_read::<0>();
        }
    }
}
