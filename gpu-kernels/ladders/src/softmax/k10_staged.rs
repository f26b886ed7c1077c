//! k10: shared memory holds a wide row.
//!
//! Since k9 no register holds the row. Bulk copies bring a block's part of it into shared memory, in pieces with a barrier
//! each, and a piece is reduced while the next ones are in flight. A block sends its (max, sum) by stores that count at a
//! barrier of each other block, and no thread waits for all threads of the cluster.
//! Buys: three blocks per multiprocessor: one loads while another computes and a third writes.
//! Requires: compute capability 9.0, and rows that fit 16 blocks, up to 923648 elements.
//@ ptx(compute_90+): cp.async.bulk.shared::cluster.global >= 1, st.async >= 1, ld.global.nc.v4 == 0, .local == 0

#[cfg(not(target_arch = "nvptx64"))]
use super::ladder::{Arguments, Shapes};
use super::{exchange, vectors::Vectors};
use cuda_std::barrier::Barrier;
use cuda_std::mem::{f32x2, f32x4};
use cuda_std::{GpuFloat as _, bulk, cluster, kernel, shared, thread};
use softmax_kernels::row::Part;
use softmax_kernels::stage::{Stage, piece_len};

/// `out = exp(inp - max) / sum(exp(inp - max))` along each row; both `[rows, cols]`.
///
/// Launched with `rows` clusters of at most 16 blocks of `THREADS` threads, with dynamic shared memory for their parts.
///
/// # Safety
/// The launch is as described; `out` holds `rows * cols` elements that no other code uses; `inp` holds at least as many.
#[kernel(
    with(WARPS = THREADS / 32),
    min_arch = 90,
    max_threads = THREADS,
    min_blocks = 3,
    args = Arguments,
    facts: Shapes = Shapes::staged::<THREADS>(),
    instances(
        softmax_k10_staged_256 = <256>;
    ),
)]
pub unsafe fn softmax_k10_staged<const THREADS: usize, const WARPS: u32>(
    #[shared(WARPS as usize)] shared: *mut f32x2,
    out: *mut f32,
    inp: &[f32],
    #[from(u32)] rows: usize,
    #[from(u32)] cols: usize,
) {
    let (rank, blocks) = (cluster::block_rank(), cluster::num_blocks());
    let (row, tid) = (thread::block_idx_x() as usize, thread::thread_idx_x() as usize);
    let row = row / blocks as usize;
    // SAFETY: all threads of the cluster execute this and what follows; the launch brings the memory.
    let stage = unsafe { Stage::new(shared::dynamic_shared_mem(), Part { rank, parts: blocks }, 1) };
    let x_shared = stage.vectors.cast::<f32x4>();
    let mine = Vectors::<THREADS>::new(inp, [rows, cols], row, tid);
    let mine = mine.of_block(rank, blocks, 0);

    let part = mine.part(tid);
    let piece = piece_len::<THREADS, 1>(part.len());
    if tid == 0 {
        for (i, from) in part.chunks(piece).enumerate() {
            // SAFETY: the stage has room for the part and a barrier for each piece; both ends are whole vectors.
            unsafe {
                let (to, arrived) = (x_shared.add(i * piece), stage.pieces.add(i));
                Barrier::arrive_expect_tx(arrived, 16 * from.len() as u32);
                bulk::global_to_shared(to, from.as_ptr(), from.len() as u32, arrived);
            }
        }
    }

    let edge = mine.edge();
    // Starts from the smallest number: -inf minus -inf is NaN.
    let mut max = edge.max(f32::MIN);
    let mut sum = (edge - max).exp();
    let reduce = |first: usize, len: usize| {
        for v in (first + tid..first + len).step_by(THREADS) {
            // SAFETY: a vector of a piece that has arrived.
            let x = unsafe { *x_shared.add(v) }.to_array();
            let larger = x.into_iter().fold(max, f32::max);
            sum = x.into_iter().fold(sum * (max - larger).exp(), |sum, x| sum + (x - larger).exp());
            max = larger;
        }
    };
    // SAFETY: the pieces are in flight.
    unsafe { stage.for_each_piece(part.len(), piece, reduce) };
    // SAFETY: all threads of the block execute this.
    let (max, sum) = unsafe { exchange::merge_block::<WARPS>(shared, tid, (max, sum)) };
    // SAFETY: all threads of the cluster execute this.
    let (max, sum) = unsafe { exchange::merge_staged(&stage, blocks, (max, sum)) };

    let scale = 1.0 / sum;
    let exp = |x: f32| (x - max).exp();
    // SAFETY: `out` has the shape of `inp`, and only this thread writes its part. The whole block sees the staged row.
    unsafe {
        mine.store_each(out, |i| (*x_shared.add(tid + i * THREADS)).to_array().map(|x| exp(x) * scale));
        mine.store_edge(out, exp(edge) * scale);
    }
}
