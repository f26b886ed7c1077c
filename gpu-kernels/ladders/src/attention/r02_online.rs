//! Rung 2: tiles of queries and keys in shared memory, and an online softmax.
//!
//! A block computes 64 queries, still on CUDA cores. It goes through the keys in tiles of 64. For each query it keeps the
//! largest logit so far, the sum of the exponentials, and the weighted sum of the values. A larger logit in a later tile
//! makes the old sums too large: they are multiplied by `2^(factor (old max - new max))`. So no logit leaves the block, and
//! the matrix of queries and keys is never stored.
//!
//! For each head, with N queries and N keys of D = 128 elements: the matrix takes 0 bytes. Each of the N / 64 blocks reads
//! all of K and V, `4 D N^2 / 64` bytes. The FLOPs are those of rung 1, `4 D N^2`.
//@ ptx(attention_02_online, compute_80+): .local == 0, bar.sync == 2

use cuda_std::fastmath::ex2_approx_ftz;
use cuda_std::half::bf16;
use cuda_std::mem::{load_global, load_shared, store_shared, u32x4};
use cuda_std::shared::dynamic_shared_mem;
use cuda_std::{GpuFloat, kernel, thread, warp};

#[cfg(not(target_arch = "nvptx64"))]
use super::ladder::RungShape;
use super::ladder::{LadderArgs, SIZE};
use common_kernels::element::{Element, Output};

/// Queries of a tile.
const QUERIES: usize = 64;
/// Keys of a tile.
const KEYS: usize = 64;
const THREADS: usize = 256;
/// Elements in 16 bytes.
const VECTOR: usize = 8;
/// Vectors of a row, and threads that share a query: half of a warp.
const ACROSS: usize = SIZE / VECTOR;
/// Neighbouring queries of a thread.
const DOWN: usize = QUERIES / (THREADS / ACROSS);
/// Logits of a thread for each of its queries: every 16th.
const LOGITS: usize = KEYS / ACROSS;
/// Elements from one row in shared memory to the next. Vectors of neighbouring rows lie in different banks.
const PITCH: usize = SIZE + VECTOR;

/// Rows of Q, K or V.
type Rows<const COUNT: usize> = [[bf16; PITCH]; COUNT];

/// The tiles, and the weights of the values.
#[repr(C)]
struct Shared {
    q: Rows<QUERIES>,
    k: Rows<KEYS>,
    v: Rows<KEYS>,
    weights: [[f32; KEYS]; QUERIES],
}

/// Computes attention. Launched with one block per 64 queries of each head, with the shared memory of `facts`.
///
/// # Safety
/// The arguments are as [`ladder`](super) describes, and no other code uses `out`.
#[kernel(
    max_threads = 256,
    min_blocks = 2,
    min_arch = 80,
    args,
    facts: RungShape = RungShape::new([QUERIES, KEYS], THREADS as u32, size_of::<Shared>()),
)]
pub unsafe fn attention_02_online(args: LadderArgs) {
    let tid = thread::thread_idx_x() as usize;
    let (row, lane) = (tid / ACROSS * DOWN, tid % ACROSS);
    let tile = args.tile(thread::block_idx_x(), QUERIES as u32);
    let shared = dynamic_shared_mem::<Shared>();
    let factor = args.factor();
    let mut max = [f32::NEG_INFINITY; DOWN];
    let mut sum = [0.0; DOWN];
    let mut out = [[0.0; VECTOR]; DOWN];
    // SAFETY: the tile's rows lie in Q, and the launch has given the block this shared memory.
    let (q, k, v, weights) = unsafe {
        let q = (&raw mut (*shared).q).cast::<bf16>();
        copy::<QUERIES>(q, args.q.add(args.first_query(tile)), args.stride(), tid);
        let (k, v) = ((&raw mut (*shared).k).cast::<bf16>(), (&raw mut (*shared).v).cast::<bf16>());
        (q, k, v, (&raw mut (*shared).weights).cast::<f32>())
    };
    let mut first = 0;
    while first < args.keys as usize {
        let from = args.first_key(tile) + first * args.stride();
        // SAFETY: the keys lie in their tensors. All threads synchronise before they overwrite a tile, and after it.
        unsafe {
            thread::sync_threads_aligned();
            copy::<KEYS>(k, args.k.add(from), args.stride(), tid);
            copy::<KEYS>(v, args.v.add(from), args.stride(), tid);
            thread::sync_threads_aligned();
        }

        // SAFETY: the tile is complete. One half of a warp writes and reads the weights of a query, and all lanes take part in
        // the reductions.
        unsafe {
            let mut logits = [[0.0; LOGITS]; DOWN];
            for i in 0..ACROSS {
                let keys: [_; LOGITS] = core::array::from_fn(|j| load(k, lane + ACROSS * j, i));
                for r in 0..DOWN {
                    let query = load(q, row + r, i);
                    for j in 0..LOGITS {
                        for e in 0..VECTOR {
                            logits[r][j] = query[e].mul_add(keys[j][e], logits[r][j]);
                        }
                    }
                }
            }
            for r in 0..DOWN {
                let own = logits[r].into_iter().fold(max[r], f32::max);
                let larger = warp::reduce_max_width::<f32, { ACROSS as u32 }>(u32::MAX, own);
                let old = ex2_approx_ftz((max[r] - larger) * factor);
                max[r] = larger;
                sum[r] *= old;
                out[r] = out[r].map(|x| x * old);
                for j in 0..LOGITS {
                    let weight = ex2_approx_ftz((logits[r][j] - larger) * factor);
                    sum[r] += weight;
                    *weights.add((row + r) * KEYS + lane + ACROSS * j) = weight;
                }
            }
            warp::sync_warp(u32::MAX);
            for key in 0..KEYS {
                let values = load(v, key, lane);
                for r in 0..DOWN {
                    let weight = *weights.add((row + r) * KEYS + key);
                    for e in 0..VECTOR {
                        out[r][e] = weight.mul_add(values[e], out[r][e]);
                    }
                }
            }
        }
        first += KEYS;
    }
    // SAFETY: the tile's rows lie in the result, and only this thread writes its vectors. All lanes take part in the sums.
    unsafe {
        let to = args.out.add(args.first_query(tile) + VECTOR * lane);
        for r in 0..DOWN {
            let all = warp::reduce_sum_width::<f32, { ACROSS as u32 }>(u32::MAX, sum[r]);
            bf16::store(to.add((row + r) * args.stride()), out[r].map(|x| x / all));
        }
    }
}

/// Copies rows to shared memory.
///
/// # Safety
/// All threads of the block call this. `from` has `COUNT` rows, which start at multiples of 16 bytes, and no other code uses
/// `to`.
#[inline(always)]
unsafe fn copy<const COUNT: usize>(to: *mut bf16, from: *const bf16, stride: usize, tid: usize) {
    for i in 0..COUNT * ACROSS / THREADS {
        let (row, col) = (tid / ACROSS + THREADS / ACROSS * i, tid % ACROSS * VECTOR);
        // SAFETY: a vector of the caller's rows.
        unsafe {
            let vector: u32x4 = load_global(from.add(row * stride + col).cast());
            store_shared(to.add(row * PITCH + col).cast(), vector);
        }
    }
}

/// Loads vector `i` of a row in shared memory.
///
/// # Safety
/// The vector has been written.
#[inline(always)]
unsafe fn load(rows: *const bf16, row: usize, i: usize) -> [f32; VECTOR] {
    // SAFETY: the vector has been written.
    bf16::unpack(unsafe { load_shared(rows.add(row * PITCH + VECTOR * i).cast::<u32x4>()) })
}
