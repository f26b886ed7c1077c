//! Softmax and log-softmax of rows that a block or a cluster holds in shared memory: rung k10, generalised.
//!
//! Unlike [`super::forward`], which holds a row in registers, three blocks of 256 threads fit a multiprocessor, each with up
//! to a third of its shared memory: one loads while another computes and a third writes. Bulk copies bring the row in
//! pieces, with a barrier each, and a piece is reduced while the next ones are in flight. Blocks of a cluster send each
//! other their (max, sum) by stores that count at a barrier; no thread waits for all threads of the cluster.
//!
//! Each element is read once from memory and twice from shared memory: for the sum and for the result.
//! Requires: compute capability 9.0; the launch's shared memory holds the block's part.

use cuda_std::mem::{f32x2, u32x4};
use cuda_std::{cluster, thread};

use super::forward::{ForwardArgs, exp, sum_of};
use super::row::{NO_PAIR, Part, Row, exchange, merge, prefetch_rows};
use super::stage::{Stage, piece_len};
use common_kernels::element::{Element, Output};

/// Vectors that a thread reduces at a time.
pub(super) const AT_ONCE: usize = 4;

/// Computes the softmax of the block's part of a row.
///
/// # Safety
/// Same as for the kernels; `dynamic` is the launch's dynamic shared memory; `shared` has an element per warp.
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
    // SAFETY: the kernel's contract; all threads of the block execute this and everything below.
    unsafe {
        let stage = Stage::<f32x2>::new(dynamic, part, 1);
        let row: Row<I, O, BLOCK> = args.row::<N, BLOCK>(block / part.parts as usize, part);
        let piece = piece_len::<BLOCK, AT_ONCE>(row.part_len());
        Row::fetch::<N, 1>([row], [stage.vectors], piece, stage.pieces);
        if args.prefetch_blocks > 0 {
            let later = block / part.parts as usize + args.prefetch_blocks as usize;
            prefetch_rows(args.inp, args.inp_stride, [args.rows, args.cols], [later, 1], part);
        }
        let edge_reg = row.load_edges::<N>(f32::NEG_INFINITY);

        // Starts from the smallest number: -inf minus -inf is NaN.
        let max = edge_reg[0].max(edge_reg[1]).max(f32::MIN);
        let [first, second] = edge_reg.map(|x| args.exp(x - max));
        let mut pair = f32x2::new(max, first + second);
        stage.for_each_piece(row.part_len(), piece, |first, len| {
            pair = reduce_piece::<I, O, N, BLOCK>(
                stage.vectors.wrapping_add(first + tid),
                len,
                pair,
                args.scale,
            );
        });
        pair = exchange::<BLOCK>(shared, merge::<32>(pair, args.scale), args.scale);
        if part.parts > 1 {
            pair = merge::<16>(stage.others.swap(pair, NO_PAIR), args.scale);
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

/// Adds a piece of `len` vectors to the (max, sum) of the thread's elements: the thread's vector, and every `BLOCK`th after
/// it.
///
/// # Safety
/// The piece has arrived.
#[inline(always)]
pub(super) unsafe fn reduce_piece<I, O, const N: usize, const BLOCK: usize>(
    first: *const u32x4,
    len: usize,
    mut pair: f32x2,
    scale: f32,
) -> f32x2
where
    I: Element<N>,
    O: Output<N>,
{
    let mut at = 0;
    while at + (AT_ONCE - 1) * BLOCK < len {
        // SAFETY: vectors of the piece; those after its end are not read.
        pair = unsafe { reduce_vectors::<I, O, N, BLOCK, AT_ONCE>(first.add(at), len - at, pair, scale) };
        at += AT_ONCE * BLOCK;
    }
    while at < len {
        // SAFETY: all threads execute this; the vectors have arrived.
        pair = unsafe { reduce_vectors::<I, O, N, BLOCK, 1>(first.add(at), len - at, pair, scale) };
        at += BLOCK;
    }
    pair
}

/// Does the same for `VECTORS` of the thread's vectors; those after the end of the piece count as -inf.
///
/// # Safety
/// Same as for [`reduce_piece`].
#[inline(always)]
unsafe fn reduce_vectors<I, O, const N: usize, const BLOCK: usize, const VECTORS: usize>(
    first: *const u32x4,
    len: usize,
    pair: f32x2,
    scale: f32,
) -> f32x2
where
    I: Element<N>,
    O: Output<N>,
{
    let tid = thread::thread_idx_x() as usize;
    let x_reg: [u32x4; VECTORS] = core::array::from_fn(|i| {
        // SAFETY: a vector of the piece.
        if i * BLOCK + tid < len { unsafe { *first.add(i * BLOCK) } } else { I::NEG_INFINITY }
    });
    let max = x_reg.iter().fold(I::MIN, |max, &x| I::larger(max, x));
    let max = I::unpack(max).into_iter().fold(pair.x, f32::max);
    let mut sum = pair.y * exp::<O>(pair.x - max, scale);
    for i in 0..VECTORS {
        sum += sum_of(I::unpack(x_reg[i]).map(|x| exp::<O>(x - max, scale)));
    }
    f32x2::new(max, sum)
}
