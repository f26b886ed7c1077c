//! k9: a wide row is spread over a cluster of blocks.
//!
//! Since k8 the row is held by 2 to 16 blocks: each writes its (max, sum) into the shared memory of all the others,
//! after one barrier of the cluster; an earlier one, hidden under the loads, says that all of them are there.
//! Buys: one read and one write also of rows that no block has the registers for, up to 524288 elements.
//! Requires: compute capability 9.0, and rows for enough blocks; the pair of kernels in `split` does the others.
//@ ptx(softmax_k9_cluster_512x8, softmax_k9_cluster_1024x8, compute_90+): ld.global.nc.v4 == 8, bar.sync == 1
//@ ptx(softmax_k9_cluster_512x8, softmax_k9_cluster_1024x8, compute_90+): barrier.cluster == 4, mapa == 1, .local == 0

#[cfg(not(target_arch = "nvptx64"))]
use super::ladder::{Arguments, Shapes};
use super::pair::{exchange, merge};
use cuda_std::mem::{f32x2, f32x4, load_global_nc, store_global};
use cuda_std::{GpuFloat as _, cluster, hint, kernel, thread};

pub mod split;

/// `out = exp(inp - max) / sum(exp(inp - max))` along each row; both `[rows, cols]`.
///
/// Launched on `rows` clusters of at most 16 blocks of `BLOCK` threads.
///
/// # Safety
/// The launch is as said; `cols` is at most what the threads hold; `out` holds `rows * cols` elements that nobody else
/// uses; `inp` holds at least as many.
#[kernel(
    with(WARPS = BLOCK / 32),
    min_arch = 90,
    max_threads = BLOCK,
    args = Arguments,
    facts: Shapes = Shapes::cluster_per_row::<BLOCK, VECTORS>(most),
    instances(
        softmax_k9_cluster_512x8 = <512, 8>, most = 8;
        softmax_k9_cluster_1024x8 = <1024, 8>, most = 16;
    ),
)]
pub unsafe fn softmax_k9_cluster<const BLOCK: usize, const VECTORS: usize, const WARPS: u32>(
    #[shared(WARPS as usize + 16)] shared: *mut f32x2,
    out: *mut f32,
    inp: &[f32],
    #[from(u32)] rows: usize,
    #[from(u32)] cols: usize,
) {
    // SAFETY: all threads of the cluster come here, and to the wait and the barrier below.
    unsafe { cluster::arrive_relaxed() };
    let (rank, blocks) = (cluster::block_rank(), cluster::num_blocks());
    let (row, tid) = ((thread::block_idx_x() / blocks) as usize, thread::thread_idx_x() as usize);
    let x = &inp[..rows * cols][row * cols..][..cols];
    let head = x.as_ptr().align_offset(16).min(cols);
    let vectors = (cols - head) / 4;
    // Every block has a whole number of 512 bytes, as far as the row's vectors go, and the first the edge too.
    let share = (vectors as u32).div_ceil(blocks).next_multiple_of(32);
    let (first, end) = ((rank * share) as usize, vectors.min(((rank + 1) * share) as usize));
    let edge = if rank > 0 { cols } else { tid + if tid < head { 0 } else { 4 * vectors } };

    let x_reg: [[f32; 4]; VECTORS] = core::array::from_fn(|i| {
        let v = first + tid + i * BLOCK;
        if v >= end {
            return [f32::NEG_INFINITY; 4];
        }
        // SAFETY: the vector lies in the row, which nobody writes, a whole number of vectors from a boundary.
        unsafe { load_global_nc(x.as_ptr().add(head + 4 * v).cast::<f32x4>()) }.to_array()
    });
    let edge_reg = x.get(edge).copied().unwrap_or(f32::NEG_INFINITY);
    // From the smallest number on, so that threads with nothing but -inf add 0 and not NaN.
    let elements = if hint::worth_doing(first + tid < end) { x_reg.as_flattened() } else { &[] };
    let max = elements.iter().copied().fold(edge_reg.max(f32::MIN), f32::max);
    let sum = elements.iter().fold((edge_reg - max).exp(), |sum, x| sum + (x - max).exp());
    // SAFETY: all threads of the cluster come here. The other blocks have started when theirs are waited for; each
    // writes an element of its own in every block, and reads its block's after the barrier. Nobody goes before that.
    let f32x2 { x: max, y: sum } = unsafe {
        let pair = exchange::<WARPS>(shared, tid, f32x2::new(max, sum));
        let of_blocks = shared.add(WARPS as usize);
        cluster::wait();
        if tid < blocks as usize {
            *cluster::map_shared(of_blocks.add(rank as usize), tid as u32) = pair;
        }
        cluster::sync();
        let has_block = tid % 16 < blocks as usize;
        merge::<16>(if has_block { *of_blocks.add(tid % 16) } else { f32x2::new(f32::MIN, 0.0) })
    };
    let scale = 1.0 / sum;
    // SAFETY: the row lies in the shape of `out`, vectors and edge lie in the row, and this thread alone writes them;
    // the vectors are aligned if they are equally far from a boundary in both rows.
    unsafe {
        let y = out.add(row * cols);
        let is_aligned = y.add(head).cast::<f32x4>().is_aligned();
        for i in 0..elements.len() / 4 {
            let (v, values) = (first + tid + i * BLOCK, x_reg[i].map(|x| (x - max).exp() * scale));
            if v < end && is_aligned {
                store_global(y.add(head + 4 * v).cast(), f32x4::from(values));
            } else if v < end {
                (0..4).for_each(|j| *y.add(head + 4 * v + j) = values[j]);
            }
        }
        if edge < cols {
            *y.add(edge) = (edge_reg - max).exp() * scale;
        }
    }
}
