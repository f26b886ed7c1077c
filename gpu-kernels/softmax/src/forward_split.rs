//! Softmax of rows that are too wide for registers, or too few to keep a GPU busy: a pair of kernels.
//!
//! A row is cut into parts, one block each. The first kernel computes every part's (max, sum), as rung k7 does for a row;
//! the second combines the pairs of a row and writes.
//! Costs: the row is read twice, the second time as far as possible from L2.
//! Requires: `BLOCK` threads per block and `rows * parts` blocks; any width.

use cuda_std::mem::f32x2;
use cuda_std::thread;
use cuda_std::warp::{reduce_max, reduce_sum};

use super::forward::{ForwardArgs, exp, sum_of};
use super::row::{NO_PAIR, Part, Row, exchange, merge, row_or_empty};
use common_kernels::element::{Element, Number, Output};

/// Writes the (max, sum) of each part of each row to `pairs`, `[rows, parts]`.
///
/// # Safety
/// Same as for the kernels; `shared` belongs to the block and has an element per warp.
#[inline(always)]
pub(super) unsafe fn reduce<I, O, const N: usize, const VECTORS: usize, const BLOCK: usize>(
    shared: *mut f32x2,
    args: ForwardArgs<I, O>,
) where
    I: Element<N>,
    O: Number,
{
    // Both kernels align the vectors to the output. Here it is unknown, and the alignment does not matter.
    let (row, part) = part_of(thread::block_idx_x(), args.parts);
    let [row, cols] = row_or_empty(row, [args.rows, args.cols]);
    // SAFETY: the kernel's contract; this output is never written.
    let row = unsafe {
        let inp = args.inp.add(row * args.inp_stride as usize);
        Row::<I, I, BLOCK>::new::<N>(inp.cast_mut(), inp, cols, part)
    };
    let [first, second] = row.load_edges::<N>(f32::NEG_INFINITY);
    let mut max = f32::MIN.max(first.max(second));
    let mut sum = args.exp(first - max) + args.exp(second - max);
    let mut start = 0;
    while row.has_vectors(start) {
        let x_reg = row.load::<N, VECTORS>(start, I::NEG_INFINITY);
        let larger = x_reg.iter().fold(I::MIN, |max, &x| I::larger(max, x));
        let larger = I::unpack(larger).into_iter().fold(max, f32::max);
        sum *= args.exp(max - larger);
        for i in 0..VECTORS {
            sum += sum_of(I::unpack(x_reg[i]).map(|x| args.exp(x - larger)));
        }
        max = larger;
        start += VECTORS;
    }
    // SAFETY: all threads of the block execute this, and only the first one writes the part's pair.
    unsafe {
        let max_warp = reduce_max(max);
        let sum_warp = reduce_sum(sum * args.exp(max - max_warp));
        let pair = exchange::<BLOCK>(shared, f32x2::new(max_warp, sum_warp), args.scale);
        if thread::thread_idx_x() == 0 {
            *args.pairs.add(thread::block_idx_x() as usize) = pair;
        }
    }
}

/// Writes the outputs of each part of each row, from the pairs of the row.
///
/// # Safety
/// Same as for the kernels; `shared` belongs to the block and has an element per warp.
#[inline(always)]
pub(super) unsafe fn write<I, O, const N: usize, const VECTORS: usize, const BLOCK: usize>(
    shared: *mut f32x2,
    args: ForwardArgs<I, O>,
) where
    I: Element<N>,
    O: Output<N>,
{
    // From the last part to the first: the parts that were read last are still in L2.
    let block = thread::grid_dim_x() - 1 - thread::block_idx_x();
    let (row, part) = part_of(block, args.parts);
    // SAFETY: the kernel's contract.
    let row = unsafe { args.row::<N, BLOCK>(row, part) };
    let (tid, first) = (thread::thread_idx_x(), block / args.parts * args.parts);
    // SAFETY: all threads of the block execute this; the row has a pair per part.
    let f32x2 { x: max, y: sum } = unsafe {
        let mut mine = NO_PAIR;
        for i in (tid..args.parts).step_by(BLOCK) {
            let f32x2 { x, y } = *args.pairs.add((first + i) as usize);
            let max = mine.x.max(x);
            mine = f32x2::new(
                max,
                mine.y * exp::<f32>(mine.x - max, args.scale) + y * exp::<f32>(x - max, args.scale),
            );
        }
        exchange::<BLOCK>(shared, merge::<32>(mine, args.scale), args.scale)
    };
    let (a, b) = args.factors(sum);
    let finish = |x: f32| {
        let x = x - max;
        if args.is_log() { x * args.scale + b } else { args.exp(x) * a }
    };
    let edge_reg = row.load_edges::<N>(f32::NEG_INFINITY);
    // SAFETY: only this thread reads and writes these elements.
    unsafe { row.store_edges::<N>(edge_reg.map(finish)) };
    let mut start = 0;
    while row.has_vectors(start) {
        let x_reg = row.load::<N, VECTORS>(start, I::NEG_INFINITY);
        for i in 0..VECTORS {
            if let Some(to) = row.output::<N>(start + i) {
                // SAFETY: the vector is aligned and lies in the row, and only this thread writes it.
                unsafe { O::store(to, I::unpack(x_reg[i]).map(finish)) };
            }
        }
        start += VECTORS;
    }
}

/// Returns the row and the part of the block with this number.
///
/// The blocks of a row have consecutive numbers, in the order of its parts.
#[inline(always)]
pub(super) fn part_of(block: u32, parts: u32) -> (usize, Part) {
    ((block / parts) as usize, Part { rank: block % parts, parts })
}
