//! Rung 1: three kernels, with the matrix of queries and keys in global memory.
//!
//! The first kernel writes the logits, `scale Q K^T`. The second replaces each row by its softmax. The third multiplies V by
//! the rows. A block computes one query, on CUDA cores.
//!
//! For each head, with N queries and N keys of D = 128 elements: the kernels write the matrix twice and read it twice,
//! `16 N^2` bytes. The softmax reads each row twice more, mostly from L2. Each query reads all of K and V, `4 D N^2` bytes,
//! most of them from L2. Q and the result are `4 D N` bytes. The two multiplications take `4 D N^2` FLOPs.
//@ ptx(attention_01_logits, attention_01_softmax, attention_01_values, compute_80+): .local == 0

use cuda_std::half::{bf16, bf16_to_f32, f32_to_bf16};
use cuda_std::mem::{load_global, u32x4};
use cuda_std::{GpuFloat, kernel, thread, warp};

#[cfg(not(target_arch = "nvptx64"))]
use super::ladder::RungShape;
use super::ladder::{LadderArgs, SIZE};
use common_kernels::element::Element;

/// Threads of a block: one for each column of the result.
const THREADS: u32 = SIZE as u32;
/// Elements in 16 bytes.
const VECTOR: usize = 8;

/// Writes the logits of a query. Launched with one block per query of each head.
///
/// # Safety
/// The arguments are as [`ladder`](super) describes, and no other code uses `matrix`.
#[kernel(max_threads = 128, min_arch = 80, args, facts: RungShape = RungShape::new([1, 1], THREADS, 0))]
pub unsafe fn attention_01_logits(args: LadderArgs) {
    let block = thread::block_idx_x();
    let tile = args.tile(block, 1);
    // SAFETY: the rows of Q, K and the matrix lie in their tensors. Rows start at multiples of 16 bytes.
    unsafe {
        let q = args.q.add(args.first_query(tile));
        let logits = args.matrix_row(block);
        let mut key = thread::thread_idx_x();
        while key < args.keys {
            let k = args.k.add(args.first_key(tile) + key as usize * args.stride());
            let mut sum = 0.0;
            for i in 0..SIZE / VECTOR {
                let (q, k) = (load(q.add(VECTOR * i)), load(k.add(VECTOR * i)));
                for j in 0..VECTOR {
                    sum = q[j].mul_add(k[j], sum);
                }
            }
            *logits.add(key as usize) = args.scale * sum;
            key += THREADS;
        }
    }
}

/// Replaces the logits of a query by their softmax. Launched with one warp per query of each head, after
/// [`attention_01_logits()`].
///
/// # Safety
/// Same as for [`attention_01_logits()`].
#[kernel(max_threads = 32, min_arch = 80, args, facts: RungShape = RungShape::new([1, 1], 32, 0))]
pub unsafe fn attention_01_softmax(args: LadderArgs) {
    let (lane, keys) = (thread::thread_idx_x() as usize, args.keys as usize);
    // SAFETY: the row lies in the matrix, and each element belongs to one lane. All lanes take part in the reductions.
    unsafe {
        let row = args.matrix_row(thread::block_idx_x());
        let mut max = f32::NEG_INFINITY;
        let mut key = lane;
        while key < keys {
            max = max.max(*row.add(key));
            key += 32;
        }
        let max = warp::reduce_max(max);
        let mut sum = 0.0;
        let mut key = lane;
        while key < keys {
            sum += (*row.add(key) - max).exp();
            key += 32;
        }
        let sum = warp::reduce_sum(sum);
        let mut key = lane;
        while key < keys {
            *row.add(key) = (*row.add(key) - max).exp() / sum;
            key += 32;
        }
    }
}

/// Multiplies V by the weights of a query. Launched with one block per query of each head, after [`attention_01_softmax()`].
///
/// # Safety
/// Same as for [`attention_01_logits()`], and no other code uses `out`.
#[kernel(max_threads = 128, min_arch = 80, args, facts: RungShape = RungShape::new([1, 1], THREADS, 0))]
pub unsafe fn attention_01_values(args: LadderArgs) {
    let (block, col) = (thread::block_idx_x(), thread::thread_idx_x() as usize);
    let tile = args.tile(block, 1);
    // SAFETY: the rows lie in their tensors, and only this thread writes its result.
    unsafe {
        let weights = args.matrix_row(block);
        let v = args.v.add(args.first_key(tile) + col);
        let mut sum = 0f32;
        for key in 0..args.keys as usize {
            sum = (*weights.add(key)).mul_add(bf16_to_f32(*v.add(key * args.stride())), sum);
        }
        *args.out.add(args.first_query(tile) + col) = f32_to_bf16(sum);
    }
}

impl LadderArgs {
    /// Returns the row of the matrix for a query, which is counted over all heads.
    ///
    /// # Safety
    /// The matrix and the query exist.
    #[inline(always)]
    unsafe fn matrix_row(&self, query: u32) -> *mut f32 {
        // SAFETY: the matrix has a row for the query.
        unsafe { self.matrix.add(query as usize * self.keys as usize) }
    }
}

/// Loads eight neighbours in a row.
///
/// # Safety
/// `row` points to eight elements, and is a multiple of 16 bytes.
#[inline(always)]
unsafe fn load(row: *const bf16) -> [f32; VECTOR] {
    // SAFETY: the caller's contract.
    bf16::unpack(unsafe { load_global(row.cast::<u32x4>()) })
}
