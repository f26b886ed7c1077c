//! k9: a cluster of blocks holds a wide row.
//!
//! Since k8 2 to 16 blocks hold the row. Each writes its (max, sum) into the shared memory of all the others, after one
//! barrier of the cluster. An earlier barrier, hidden under the loads, ensures that all blocks have started.
//! Buys: one read and one write also of rows that no block has the registers for, up to 524288 elements.
//! Requires: compute capability 9.0, and rows for enough blocks; the pair of kernels in `split` takes the others.
//@ ptx(compute_90+): ld.global.nc.v4 == 8, bar.sync == 1, barrier.cluster == 4, mapa == 1, .local == 0

#[cfg(not(target_arch = "nvptx64"))]
use super::ladder::{Arguments, Shapes};
use super::{exchange, vectors::Vectors};
use cuda_std::mem::f32x2;
use cuda_std::{GpuFloat as _, cluster, kernel, thread};

pub mod split;

/// `out = exp(inp - max) / sum(exp(inp - max))` along each row; both `[rows, cols]`.
///
/// Launched with `rows` clusters of at most 16 blocks of `THREADS` threads, which can hold `cols` elements.
///
/// # Safety
/// The launch is as described; `out` holds `rows * cols` elements that no other code uses; `inp` holds at least as many.
#[kernel(
    with(WARPS = THREADS / 32),
    min_arch = 90,
    max_threads = THREADS,
    args = Arguments,
    facts: Shapes = Shapes::cluster_per_row::<THREADS, VECTORS>(most),
    instances(
        softmax_k9_cluster_512x8 = <512, 8>, most = 8;
        softmax_k9_cluster_1024x8 = <1024, 8>, most = 16;
    ),
)]
pub unsafe fn softmax_k9_cluster<const THREADS: usize, const VECTORS: usize, const WARPS: u32>(
    #[shared(WARPS as usize + 16)] shared: *mut f32x2,
    out: *mut f32,
    inp: &[f32],
    #[from(u32)] rows: usize,
    #[from(u32)] cols: usize,
) {
    // SAFETY: all threads of the cluster execute this, and the wait and the barrier below.
    unsafe { cluster::arrive_relaxed() };
    let (rank, blocks) = (cluster::block_rank(), cluster::num_blocks());
    let (row, tid) = (thread::block_idx_x() as usize, thread::thread_idx_x() as usize);
    let row = row / blocks as usize;
    let mine = Vectors::<THREADS>::new(inp, [rows, cols], row, tid);
    let mine = mine.of_block(rank, blocks, 0);

    let edge = mine.edge();
    let x_reg = mine.load::<VECTORS>();
    // Starts from the smallest number: -inf minus -inf is NaN.
    let max = x_reg.as_flattened().iter().copied().fold(edge.max(f32::MIN), f32::max);
    // SAFETY: all threads of the block execute this.
    let max = unsafe { exchange::lanes_max::<32>(max) };
    let sum = x_reg.as_flattened().iter().fold((edge - max).exp(), |sum, x| sum + (x - max).exp());
    // SAFETY: all lanes execute this.
    let sum = unsafe { exchange::lanes_sum::<32>(sum) };
    // SAFETY: all threads execute this.
    let (max, sum) = unsafe { exchange::merge_warps::<WARPS>(shared, tid, (max, sum)) };
    // SAFETY: all threads of the cluster execute this.
    let (max, sum) = unsafe { exchange::merge_cluster(shared.add(WARPS as usize), tid, (max, sum)) };

    let scale = 1.0 / sum;
    let exp = |x: f32| (x - max).exp();
    // SAFETY: `out` has the shape of `inp`, and only this thread writes its part.
    unsafe {
        mine.store_all::<VECTORS>(out, |i| x_reg[i].map(|x| exp(x) * scale));
        mine.store_edge(out, exp(edge) * scale);
    }
}
