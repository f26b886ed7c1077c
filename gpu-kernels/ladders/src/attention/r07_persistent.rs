//! Rung 7: one block per multiprocessor; tensor copies store a tile while the next one is computed; warpgroups take turns.
//!
//! A block stays on its multiprocessor and computes tile after tile, so the queries and keys of the next tile arrive while
//! this one ends. `stmatrix` writes results into panels, and a tensor copy brings them to global memory during the next
//! tile. The two warpgroups take turns to start their multiplications: each waits until the other has started its own. So
//! one computes exponentials while the tensor cores work for the other.
//!
//! Bytes and FLOPs are those of rung 5: for each head `4 D N^2 / 128` bytes of K and V, and `4 D N^2` FLOPs.
//@ ptx(attention_07_persistent, compute_90a): setmaxnreg == 2, wgmma.mma_async.sync.aligned.m64n128k16 == 32, .local == 0
//@ ptx(attention_07_persistent, compute_90a): stmatrix.sync.aligned.m8n8.x4 == 8

use cuda_std::half::bf16;
use cuda_std::hint::{fewer_registers, more_registers};
use cuda_std::shared::dynamic_shared_mem_aligned;
use cuda_std::wgmma::{self, Accumulator};
use cuda_std::{bulk, kernel, thread};

#[cfg(not(target_arch = "nvptx64"))]
use super::ladder::RungShape;
use super::ladder::{LadderArgs, SIZE};
use super::stages::{KEYS, QUERIES, QUERY_BYTES, RESULTS, Shared, Stages};
use attention_kernels::operation::online::Online;
use attention_kernels::operation::turns::Turns;
use attention_kernels::panels::{fragments, store};
use common_kernels::ring::WARPGROUP;

/// Warpgroups that multiply.
const CONSUMERS: usize = 2;
/// Queries of a block's tile.
const TILE: u32 = (CONSUMERS * QUERIES) as u32;

/// Computes attention over the tensors in `args`. Launched with any number of blocks, with the shared memory of `facts`.
///
/// # Safety
/// The arguments are as [`ladder`](super) describes, and no other code uses `out`.
#[kernel(
    max_threads = 384,
    min_blocks = 1,
    arch = "90a",
    args,
    facts: RungShape =
        RungShape::new([CONSUMERS * QUERIES, KEYS], 3 * WARPGROUP, size_of::<Shared<CONSUMERS, CONSUMERS>>() + 1024).persistent(),
)]
pub unsafe fn attention_07_persistent(args: LadderArgs) {
    let tid = thread::thread_idx_x();
    let shared = dynamic_shared_mem_aligned::<Shared<CONSUMERS, CONSUMERS>>();
    let (tiles, blocks) = (args.tiles(TILE), thread::grid_dim_x());
    let mut number = thread::block_idx_x();
    let steps = args.keys / KEYS as u32;
    // SAFETY: all threads execute this, with the memory of the launch.
    let mut stages = unsafe { Stages::init(shared) };
    // SAFETY: all lanes of each warp execute this.
    let warpgroup = unsafe { wgmma::warpgroup_idx() };
    if warpgroup == 0 {
        // SAFETY: all threads of the warpgroup execute this.
        unsafe { fewer_registers::<24>() };
        while tid == 0 && number < tiles {
            let tile = args.tile(number, TILE);
            stages.copy_queries(&args, tile);
            for step in 0..steps {
                stages.copy_keys(&args, tile, step);
                stages.advance();
            }
            number += blocks;
        }
    } else {
        // SAFETY: all threads of the warpgroup execute this.
        unsafe { more_registers::<240>() };
        let consumer = warpgroup - 1;
        // SAFETY: the launch has given the block this shared memory.
        let panels = unsafe { (&raw mut (*shared).out).cast::<u8>().add(consumer as usize * QUERY_BYTES) };
        // SAFETY: all threads of each consumer use its turns together, and the first consumer begins.
        let turns = unsafe { Turns::new(consumer, CONSUMERS as u32) };
        if consumer == 0 {
            turns.begin();
        }
        while number < tiles {
            let tile = args.tile(number, TILE);
            let mut rows = Online::EMPTY;
            let mut out = Accumulator::ZERO;
            stages.q_ring.wait_full();
            stages.k_ring.wait_full();
            // SAFETY: all threads of the warpgroup execute this.
            let mut logits = unsafe { stages.start_logits(Accumulator::ZERO, consumer).finish::<0>() };
            stages.k_ring.release_and_advance();
            // SAFETY: all lanes of the warp execute this.
            let mut factors = unsafe { rows.update(&mut logits, args.factor()) };
            let mut weights = fragments(&logits);
            for _ in 1..steps {
                // The logits of the next keys.
                stages.k_ring.wait_full();
                turns.wait();
                let next = stages.start_logits(logits, consumer);
                // The values of these keys.
                out.scale_rows(factors);
                stages.v_ring.wait_full();
                let pending = stages.start_values(out, &weights);
                turns.pass();
                // SAFETY: all threads of the warpgroup execute this. All groups except the latest are complete: the logits are
                // ready, the values still in progress.
                logits = unsafe { next.finish::<1>() };
                stages.k_ring.release_and_advance();
                // SAFETY: all lanes of the warp execute this.
                factors = unsafe { rows.update(&mut logits, args.factor()) };
                // SAFETY: all threads of the warpgroup execute this.
                out = unsafe { pending.finish::<0>() };
                stages.v_ring.release_and_advance();
                weights = fragments(&logits);
            }
            // The next queries may be copied.
            stages.q_ring.release_and_advance();
            out.scale_rows(factors);
            stages.v_ring.wait_full();
            // SAFETY: all threads of the warpgroup execute this.
            out = unsafe { stages.start_values(out, &weights).finish::<0>() };
            stages.v_ring.release_and_advance();
            let at = [tile.head, tile.query + QUERIES as u32 * consumer, tile.batch];
            // SAFETY: all threads of the warpgroup execute this, and only they use the panels.
            unsafe {
                let [[a, _], [b, _]] = rows.finish(args.scale);
                out.scale_rows([a, b]);
                store::<bf16, SIZE, RESULTS>(&args.out_map, at, panels, &out, 1 + consumer);
            }
            number += blocks;
        }
        if tid.is_multiple_of(WARPGROUP) {
            bulk::wait_read::<0>();
        }
    }
}
