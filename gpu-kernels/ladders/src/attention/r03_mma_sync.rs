//! Rung 3: tensor cores by `mma.sync`, fed by `ldmatrix` and `cp.async`. This way works from compute capability 8.0 on.
//!
//! A block of 4 warps computes 64 queries, 16 per warp. Each lane holds its share of the queries, the logits and the results
//! in registers. The accumulators of the logits, rounded to `bf16`, are already in the order in which `mma.sync` expects its
//! first operand. So the weights go from one multiplication to the next without shared memory. Asynchronous copies bring the
//! next tile of keys while this one is multiplied.
//!
//! For each head, with N queries and N keys of D = 128 elements: the N / 64 blocks read `4 D N^2 / 64` bytes of K and V, as
//! in rung 2. The tensor cores take over the `4 D N^2` FLOPs.
//@ ptx(attention_03_mma_sync, compute_80+): mma.sync.aligned.m16n8k16 == 128, ldmatrix.sync.aligned.m8n8.x4.trans == 32, .local == 0

use cuda_std::half::{bf16, f32_to_bf16x2};
use cuda_std::mem::{store_global, u32x4};
use cuda_std::mma::{FragmentA, FragmentB, FragmentC, ldmatrix, ldmatrix_trans, mma_sync_tiles};
use cuda_std::pipeline::memcpy_async_l2;
use cuda_std::shared::dynamic_shared_mem;
use cuda_std::wgmma::Accumulator;
use cuda_std::{kernel, pipeline, thread};

#[cfg(not(target_arch = "nvptx64"))]
use super::ladder::RungShape;
use super::ladder::{LadderArgs, SIZE};
use attention_kernels::operation::online::Online;

/// Queries of a tile.
const QUERIES: usize = 64;
/// Keys of a tile.
const KEYS: usize = 64;
const THREADS: usize = 128;
const STAGES: usize = 2;
/// Elements in 16 bytes.
const VECTOR: usize = 8;
/// Elements from one row in shared memory to the next. The rows of a fragment lie in different banks.
const PITCH: usize = SIZE + VECTOR;

/// Rows of Q, K or V.
type Rows<const COUNT: usize> = [[bf16; PITCH]; COUNT];

/// The queries, and the stages of K and V.
#[repr(C)]
struct Shared {
    q: Rows<QUERIES>,
    k: [Rows<KEYS>; STAGES],
    v: [Rows<KEYS>; STAGES],
}

/// Computes attention over the tensors in `args`. Launched with one block per 64 queries of each head, with the shared
/// memory of `facts`.
///
/// # Safety
/// The arguments are as [`ladder`](super) describes, and no other code uses `out`.
#[kernel(
    max_threads = 128,
    min_blocks = 2,
    min_arch = 80,
    args,
    facts: RungShape = RungShape::new([QUERIES, KEYS], THREADS as u32, size_of::<Shared>()),
)]
pub unsafe fn attention_03_mma_sync(args: LadderArgs) {
    let tid = thread::thread_idx_x() as usize;
    let (row, lane) = (tid / 32 * 16, tid % 32);
    let tile = args.tile(thread::block_idx_x(), QUERIES as u32);
    let steps = args.keys as usize / KEYS;
    let shared = dynamic_shared_mem::<Shared>();
    let mut rows = Online::EMPTY;
    let mut out = [[FragmentC::ZERO; SIZE / 8]];
    // SAFETY: the launch has given the block this shared memory, and there are `STAGES` stages.
    let (q, k_at, v_at) = unsafe {
        let (k, v) = ((&raw mut (*shared).k).cast::<bf16>(), (&raw mut (*shared).v).cast::<bf16>());
        let k_at = move |step: usize| k.add(step % STAGES * KEYS * PITCH);
        let v_at = move |step: usize| v.add(step % STAGES * KEYS * PITCH);
        ((&raw mut (*shared).q).cast::<bf16>(), k_at, v_at)
    };
    let copy_keys = |step: usize| {
        let from = args.first_key(tile) + step * KEYS * args.stride();
        // SAFETY: the keys lie in their tensors. All threads are done with the stage.
        unsafe {
            copy::<KEYS>(k_at(step), args.k.add(from), args.stride(), tid);
            copy::<KEYS>(v_at(step), args.v.add(from), args.stride(), tid);
        }
    };
    // SAFETY: the tile's rows lie in Q, and nothing uses the shared memory yet.
    unsafe { copy::<QUERIES>(q, args.q.add(args.first_query(tile)), args.stride(), tid) };
    copy_keys(0);
    pipeline::commit();
    let mut queries = [FragmentA::<bf16>::from_registers([0; 4]); SIZE / 16];
    for step in 0..steps {
        if step + 1 < steps {
            copy_keys(step + 1);
        }
        pipeline::commit();
        pipeline::wait_prior::<1>();
        // SAFETY: all threads execute this.
        unsafe { thread::sync_threads_aligned() };
        if step == 0 {
            for i in 0..SIZE / 16 {
                // SAFETY: the queries have arrived, and all lanes execute this.
                queries[i] = unsafe {
                    let at = q.add((row + lane % 16) * PITCH + 16 * i + lane / 16 * 8);
                    FragmentA::from_registers(ldmatrix(at))
                };
            }
        }

        let mut logits = [[FragmentC::ZERO; KEYS / 8]];
        for i in 0..SIZE / 16 {
            let mut keys = [FragmentB::<bf16>::from_registers([0; 2]); KEYS / 8];
            for j in 0..KEYS / 16 {
                let key = 16 * j + lane % 8 + lane / 16 * 8;
                // SAFETY: the stage has arrived, and all lanes execute this.
                let [a, b, c, d] =
                    unsafe { ldmatrix(k_at(step).add(key * PITCH + 16 * i + lane / 8 % 2 * 8)) };
                [keys[2 * j], keys[2 * j + 1]] = [[a, b], [c, d]].map(FragmentB::from_registers);
            }
            // SAFETY: all lanes execute this.
            unsafe { mma_sync_tiles(&[queries[i]], &keys, &mut logits) };
        }
        // Four neighbours in the array: two logits of a query, and two of the query 8 further down.
        let mut x = Accumulator([0.0; KEYS / 2]);
        for j in 0..KEYS / 8 {
            [x.0[4 * j], x.0[4 * j + 1], x.0[4 * j + 2], x.0[4 * j + 3]] = logits[0][j].0;
        }
        // SAFETY: all lanes execute this.
        let factors = unsafe { rows.update(&mut x, args.factor()) };
        for i in 0..SIZE / 8 {
            out[0][i] = scaled(out[0][i], factors);
        }
        for j in 0..KEYS / 16 {
            let pair = |at: usize| f32_to_bf16x2([x.0[8 * j + at], x.0[8 * j + at + 1]]);
            let weights = FragmentA::<bf16>::from_registers([pair(0), pair(2), pair(4), pair(6)]);
            let mut values = [FragmentB::<bf16>::from_registers([0; 2]); SIZE / 8];
            // SAFETY: the stage has arrived, and all lanes execute this.
            unsafe {
                for i in 0..SIZE / 16 {
                    let at = v_at(step).add((16 * j + lane % 16) * PITCH + 16 * i + lane / 16 * 8);
                    let [a, b, c, d] = ldmatrix_trans(at);
                    [values[2 * i], values[2 * i + 1]] = [[a, b], [c, d]].map(FragmentB::from_registers);
                }
                mma_sync_tiles(&[weights], &values, &mut out);
            }
        }
        // SAFETY: all threads execute this.
        unsafe { thread::sync_threads_aligned() };
    }
    pipeline::wait_all();

    // SAFETY: the tile's rows lie in the result, and only this lane writes its pairs. All lanes take part in the sums.
    unsafe {
        let [[a, _], [b, _]] = rows.finish(args.scale);
        let (down, across) = FragmentC::position(lane as u32, 0);
        let to = args.out.add(args.first_query(tile) + (row + down) * args.stride() + across);
        for i in 0..SIZE / 8 {
            let FragmentC([x, y, z, w]) = scaled(out[0][i], [a, b]);
            store_global(to.add(8 * i).cast(), f32_to_bf16x2([x, y]));
            store_global(to.add(8 * i + 8 * args.stride()).cast(), f32_to_bf16x2([z, w]));
        }
    }
}

/// Multiplies the two rows of a lane by factors.
#[inline(always)]
fn scaled(FragmentC([x, y, z, w]): FragmentC, [a, b]: [f32; 2]) -> FragmentC {
    FragmentC([x * a, y * a, z * b, w * b])
}

/// Starts the copies of rows to shared memory.
///
/// # Safety
/// All threads of the block call this. `from` has `COUNT` rows, which start at multiples of 16 bytes, and no other code uses
/// the memory before the copies are complete.
#[inline(always)]
unsafe fn copy<const COUNT: usize>(to: *mut bf16, from: *const bf16, stride: usize, tid: usize) {
    for i in 0..COUNT * SIZE / VECTOR / THREADS {
        let vector = tid + THREADS * i;
        let (row, col) = (vector / (SIZE / VECTOR), vector % (SIZE / VECTOR) * VECTOR);
        // SAFETY: a vector of the caller's rows.
        unsafe {
            memcpy_async_l2::<u32x4>(to.add(row * PITCH + col).cast(), from.add(row * stride + col).cast());
        }
    }
}
