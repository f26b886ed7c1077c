//! Softmax and log-softmax of rows that are held in shared memory, by a block or by a cluster of them.
//!
//! Against [`super::forward`], which holds a row in registers: three blocks of 256 threads fit a multiprocessor, each with up to a
//! third of its shared memory, so that one loads while another computes and a third writes. What is read comes by
//! bulk copies, in pieces, each with a barrier: a piece is reduced while the next ones are on their way. Blocks of a cluster send
//! each other their (max, sum) by stores that count at a barrier; nobody waits for all threads of the cluster.
//!
//! Each element is read from memory once, and twice from shared memory: for the sum and for the result.
//! Requires: compute capability 9.0; the launch's shared memory holds the block's part.

use cuda_std::barrier::Barrier;
use cuda_std::mem::{f32x2, u32x4};
use cuda_std::{GpuFloat as _, cluster, thread};

use super::forward::{ForwardArgs, exp, sum_of};
use super::row::{NO_PAIR, Part, Row, exchange, merge, prefetch_rows};
use crate::element::{Element, Output};

/// Pieces that a part is copied in.
pub(super) const PIECES: usize = 4;

/// Quads of shared memory before the row: barriers of the pieces, and one of the pairs; and the pairs of the blocks.
const HEAD_QUADS: usize = 4 + 16 / 2;

/// Dynamic shared memory of a block that holds one of `blocks` parts of a row of so many vectors.
#[cfg(not(target_arch = "nvptx64"))]
pub(super) const fn shared_bytes(vectors: usize, blocks: u32) -> usize {
    16 * (HEAD_QUADS + super::row::most_vectors(vectors, blocks))
}

/// Vectors of a thread that are reduced at a time.
const AT_ONCE: usize = 4;

/// What a block has in shared memory.
#[derive(Clone, Copy)]
struct Stage {
    /// `[PIECES]`: where the pieces say that they are there.
    pieces: *mut Barrier,
    /// Where the other blocks' pairs do.
    pairs_are_there: *mut Barrier,
    /// `[16]`: the pairs of the cluster's blocks.
    pairs: *mut f32x2,
    /// The vectors of the block's part.
    vectors: *mut u32x4,
}

/// Softmax of the block's part of a row.
///
/// # Safety
/// As for the kernels; `dynamic` has [`HEAD_QUADS`] and a quad for each vector of the part; `shared` has an element for each
/// warp.
#[inline(always)]
pub(super) unsafe fn softmax<I, O, const N: usize, const BLOCK: usize>(
    dynamic: *mut u32x4,
    shared: *mut f32x2,
    args: ForwardArgs<I, O>,
) where
    I: Element<N>,
    O: Output<N>,
{
    let (tid, block) = (thread::thread_idx_x() as usize, thread::block_idx_x() as usize);
    let part = Part { rank: cluster::block_rank(), parts: cluster::num_blocks() };
    let pieces = dynamic.cast::<Barrier>();
    let stage = Stage {
        pieces,
        pairs_are_there: pieces.wrapping_add(PIECES),
        pairs: dynamic.wrapping_add(4).cast(),
        vectors: dynamic.wrapping_add(HEAD_QUADS),
    };
    // SAFETY: the kernel's contract. The barriers are initialised before a barrier of the block, and by all blocks before one
    // of the cluster, at which all threads arrive here and wait in `exchange_blocks`.
    unsafe {
        let row: Row<I, O, BLOCK> = args.row::<N, BLOCK>(block / part.parts as usize, part);
        let piece = row.part_len().div_ceil(PIECES).max(1).next_multiple_of(BLOCK);
        if tid == 0 {
            for i in 0..=PIECES {
                Barrier::init(stage.pieces.add(i), 1);
            }
            Barrier::fence_init();
            if part.parts > 1 {
                Barrier::arrive_expect_tx(stage.pairs_are_there, 8 * part.parts);
            }
        }
        thread::sync_threads_aligned();
        if part.parts > 1 {
            cluster::arrive_relaxed();
        }
        row.fetch::<N>(stage.vectors, piece, stage.pieces);
        if args.prefetch_blocks > 0 {
            let later = block / part.parts as usize + args.prefetch_blocks as usize;
            prefetch_rows(args.inp, args.inp_stride, [args.rows, args.cols], [later, 1], part);
        }
        let edge_reg = row.load_edges::<N>(f32::NEG_INFINITY);

        // From the smallest number on: of -inf the difference to itself is NaN.
        let max = edge_reg[0].max(edge_reg[1]).max(f32::MIN);
        let [first, second] = edge_reg.map(|x| args.exp(x - max));
        let mut pair = f32x2::new(max, first + second);
        for i in 0..PIECES {
            let vectors = row.part_len().saturating_sub(i * piece).min(piece);
            if vectors == 0 {
                break;
            }
            Barrier::wait_parity(stage.pieces.add(i), 0);
            pair = reduce::<I, O, N, BLOCK>(stage.vectors.add(i * piece + tid), vectors, pair, &args);
        }
        pair = exchange::<BLOCK>(shared, merge::<32>(pair, args.scale), args.scale);
        if part.parts > 1 {
            pair = exchange_blocks(&stage, part, pair, args.scale);
        }

        let f32x2 { x: max, y: sum } = pair;
        let (a, b) = args.factors(sum);
        let finish = |x: f32| {
            let x = x - max;
            if args.is_log() { x * args.scale + b } else { args.exp(x) * a }
        };
        let mut i = 0;
        while let Some(to) = row.output::<N>(i) {
            O::store(to, I::unpack(*stage.vectors.add(i * BLOCK + tid)).map(finish));
            i += 1;
        }
        row.store_edges::<N>(edge_reg.map(finish));
    }
}

/// The (max, sum) of the thread's elements so far, with those of a piece of `len` vectors: the thread's vector, and every
/// `BLOCK`th after it.
///
/// # Safety
/// The piece is there.
#[inline(always)]
unsafe fn reduce<I, O, const N: usize, const BLOCK: usize>(
    first: *const u32x4,
    len: usize,
    mut pair: f32x2,
    args: &ForwardArgs<I, O>,
) -> f32x2
where
    I: Element<N>,
    O: Output<N>,
{
    let tid = thread::thread_idx_x() as usize;
    let mut at = 0;
    while at < len {
        // After the end there is nothing but -inf.
        let x_reg: [u32x4; AT_ONCE] = core::array::from_fn(|i| {
            let vector = at + i * BLOCK;
            // SAFETY: a vector of the piece.
            if vector + tid < len { unsafe { *first.add(vector) } } else { I::NEG_INFINITY }
        });
        let max = x_reg.iter().fold(I::MIN, |max, &x| I::larger(max, x));
        let max = I::unpack(max).into_iter().fold(pair.x, f32::max);
        let mut sum = pair.y * exp::<O>(pair.x - max, args.scale);
        for i in 0..AT_ONCE {
            sum += sum_of(I::unpack(x_reg[i]).map(|x| args.exp(x - max)));
        }
        pair = f32x2::new(max, sum);
        at += AT_ONCE * BLOCK;
    }
    pair
}

/// The pair of a row from those of the blocks of its cluster.
///
/// # Safety
/// All threads of the cluster come here, once, after they arrived at its barrier; the barriers are initialised.
#[inline(always)]
unsafe fn exchange_blocks(stage: &Stage, part: Part, of_block: f32x2, scale: f32) -> f32x2 {
    let tid = thread::thread_idx_x();
    // SAFETY: the other blocks have initialised their barriers when they are waited for, and none ends before it has all pairs;
    // each block writes an element of its own in every block.
    unsafe {
        cluster::wait();
        if tid < part.parts {
            let slot = stage.pairs.add(part.rank as usize);
            cluster::store_async(slot, of_block, stage.pairs_are_there, tid);
        }
        Barrier::wait_parity_cluster(stage.pairs_are_there, 0);
        let block = tid % 16;
        merge::<16>(if block < part.parts { *stage.pairs.add(block as usize) } else { NO_PAIR }, scale)
    }
}
