//! `f32` as three products of TF32 by `wgmma` (compute capability 9.0, `compute_90a`).
//!
//! [`super::split`] has written both operands as `big + small`, each a TF32 number. A stage holds 32 terms of all four
//! parts, and serves `small big + big small + big big`. The tensor cores truncate their sums, so the sums of a stage are
//! added to the others by instructions that round. While one warpgroup adds, the other multiplies.
//@ ptx(matmul_f32x3_128x128w, compute_90a): wgmma.mma_async.sync.aligned.m64n128k8 == 12, setmaxnreg == 2, .local == 0

use cuda_std::barrier::Barrier;
use cuda_std::hint::{fewer_registers, more_registers};
use cuda_std::mma::tf32;
use cuda_std::shared::dynamic_shared_mem_aligned;
use cuda_std::wgmma::{self, Accumulator, Panel};
use cuda_std::{kernel, tensor, thread};

use super::super::args::{MatmulArgs, begin};
#[cfg(not(target_arch = "nvptx64"))]
use super::WarpgroupShape;
use super::warpgroup_operand::WarpgroupOperand;
use super::warpgroup_residuals::load_first_residuals;
use super::warpgroup_store::{Bias, Place, apply_epilogue, store_registers};
use super::warpgroup_work::{ROWS, Work, terms};
use common_kernels::ring::{Ring, element};

const COLS: usize = 128;
const STAGES: usize = 3;
/// Terms of a stage.
const TERMS: u32 = terms(4) as u32;

/// An operand's part of a stage: the big parts of its numbers, then the small ones.
type Parts = [Panel<tf32, ROWS>; 2];

/// The stages and their barriers. A tile has as many columns as rows, so the parts of A and B are alike.
#[repr(C)]
struct Shared {
    a: [Parts; STAGES],
    b: [Parts; STAGES],
    biases: [[f32; COLS]; 2],
    barriers: [Barrier; Ring::<STAGES>::BARRIERS],
}

/// Multiplies the arguments' matrices, through maps of the output of [`super::split`]: `[2 batch, m, k]` and
/// `[2 batch, n, k]`, boxes of 128 rows of 32. `a` and `b` are not read. With a batch pitch of 0 there is one matrix.
///
/// Launched like `matmul_warpgroups`.
///
/// # Safety
/// The launch is as described, and so are the maps. The matrices match their shapes, pitches and batches, and no other code
/// uses `out`. The flags match the addresses and pitches.
#[kernel(
    max_threads = 384,
    min_blocks = 1,
    arch = "90a",
    args,
    facts: WarpgroupShape = WarpgroupShape::new([ROWS, COLS], [1, 1], 4, size_of::<Shared>()),
    instances(
        matmul_f32x3_128x128w = <f32>;
    ),
)]
pub unsafe fn matmul_three_products<T: WarpgroupOperand>(args: MatmulArgs<T>) {
    let shared = dynamic_shared_mem_aligned::<Shared>();
    let tid = thread::thread_idx_x();
    let work = Work::new(&args, [ROWS as u32, COLS as u32]);
    let (mut unit, blocks) = (thread::block_idx_x(), thread::grid_dim_x());
    // SAFETY: the barriers are the block's. All threads execute this; one fills the ring, and the consumers' warps use it.
    let (mut ring, warpgroup) = unsafe {
        let barriers = (&raw mut (*shared).barriers).cast();
        (Ring::<STAGES>::init_only(barriers, 8), wgmma::warpgroup_idx())
    };
    begin();
    if warpgroup == 0 {
        // SAFETY: all threads of the warpgroup execute this.
        unsafe { fewer_registers::<40>() };
        while tid == 0 && unit < work.units {
            let tile = work.tile(unit, TERMS, &args);
            let matrix_a = if args.a_batch == 0 { 0 } else { 2 * tile.batch };
            let matrix_b = if args.b_batch == 0 { 0 } else { 2 * tile.batch };
            let mut k = tile.terms[0];
            while k < tile.terms[1] {
                let full = ring.fill(2 * size_of::<Parts>() as u32);
                for part in 0..2u32 {
                    // SAFETY: the stage is empty, and expects the bytes of both operands.
                    unsafe {
                        let at = [k, tile.row, matrix_a + part].map(|at| at as i32);
                        let a = element(element(&raw mut (*shared).a, ring.stage()), part as usize);
                        tensor::global_to_shared(a, &args.a_map, at, full);
                        let at = [k, tile.col, matrix_b + part].map(|at| at as i32);
                        let b = element(element(&raw mut (*shared).b, ring.stage()), part as usize);
                        tensor::global_to_shared(b, &args.b_map, at, full);
                    }
                }
                ring.advance();
                k += TERMS;
            }
            unit += blocks;
        }
    } else {
        // SAFETY: all threads of the warpgroup execute this.
        unsafe { more_registers::<232>() };
        let consumer = warpgroup - 1;
        while unit < work.units {
            let tile = work.tile(unit, TERMS, &args);
            let place = Place::new::<T, 1, 1>(tile, consumer, 64 * consumer);
            // SAFETY: each consumer has room for its biases.
            let bias = unsafe {
                let shared = element(&raw mut (*shared).biases, consumer as usize);
                Bias::load(&args, &place, COLS as u32, shared.cast())
            };
            // SAFETY: the arguments are this kernel's.
            let residuals = unsafe { load_first_residuals::<T, { COLS / 2 }>(&args, &place) };
            let mut sums = Accumulator::<{ COLS / 2 }>::ZERO;
            let mut k = tile.terms[0];
            while k < tile.terms[1] {
                ring.wait_full();
                // SAFETY: all threads of the warpgroup execute this. The stage is full until all warps have released it.
                let part = unsafe {
                    let (a, b) = (&raw mut (*shared).a, &raw mut (*shared).b);
                    let a =
                        |part| Panel::k_major::<64>(element(element(a, ring.stage()), part), 64 * consumer);
                    let b = |part| Panel::k_major::<COLS>(element(element(b, ring.stage()), part), 0);
                    let mut pending = Accumulator::<{ COLS / 2 }>::ZERO.start();
                    wgmma::fence();
                    for i in 0..4 {
                        pending.multiply_keeping(i > 0, a(1).step(i), b(0).step(i));
                    }
                    for i in 0..4 {
                        pending.multiply(a(0).step(i), b(1).step(i));
                    }
                    for i in 0..4 {
                        pending.multiply(a(0).step(i), b(0).step(i));
                    }
                    wgmma::commit();
                    pending.finish::<0>()
                };
                ring.release_and_advance();
                for i in 0..COLS / 2 {
                    sums.0[i] += part.0[i];
                }
                k += TERMS;
            }
            // SAFETY: all threads of the warpgroup execute this, and only they use the biases and write the results.
            unsafe {
                apply_epilogue(&args, &place, bias, residuals, &mut sums);
                store_registers(&args, &place, &sums);
            }
            unit += blocks;
        }
    }
}
