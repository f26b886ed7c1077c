//! Softmax of rows that are too wide for registers, or too few to keep a GPU busy: a pair of kernels.
//!
//! A row is cut in parts, a block each. The first kernel gives every part's (max, sum), as rung k7 does for a row; the
//! second combines those of a row and writes. Costs: the row is read twice, the second time as far as possible from L2.
//! Requires: `BLOCK` threads a block and `rows * parts` blocks; any width.

use cuda_std::mem::f32x2;
use cuda_std::thread;
use cuda_std::warp::{reduce_max, reduce_sum};

use super::forward::{Options, sum_of};
use super::row::{Matrix, NO_PAIR, Part, Row, exchange, merge};
use crate::element::{Element, Number, Output};

/// The part of a row that is the block's, whose number is `block`.
///
/// The blocks of a row have neighbouring numbers, from that of its first part on. A thread takes every `BLOCK`th vector of
/// the part, and in the first part its share of the elements around the vectors.
///
/// # Safety
/// As for the kernels.
#[inline(always)]
unsafe fn part_of<I, O, const N: usize, const BLOCK: usize>(
    out: Matrix<*mut O>,
    inp: Matrix<*const I>,
    shape: [u32; 2],
    parts: u32,
    block: u32,
) -> Row<I, O, BLOCK>
where
    I: Element<N>,
    O: Number,
{
    let part = Part { rank: block % parts, parts };
    // SAFETY: the kernel's contract.
    unsafe { Row::new::<N>(out, inp, shape, (block / parts) as usize, part) }
}

/// The (max, sum) of each part of each row: `pairs` is `[rows, parts]`.
///
/// # Safety
/// As for the kernels; `shared` has an element of the block's own for each warp.
#[inline(always)]
pub(super) unsafe fn reduce<I, O, const N: usize, const VECTORS: usize, const BLOCK: usize>(
    shared: *mut f32x2,
    pairs: *mut f32x2,
    inp: Matrix<*const I>,
    shape: [u32; 2],
    parts: u32,
    options: Options,
) where
    I: Element<N>,
    O: Number,
{
    // Both kernels put the vectors where the output has its boundaries; here that is not known, and does not matter.
    let out = Matrix { data: inp.data.cast_mut(), stride: inp.stride };
    // SAFETY: the kernel's contract; nothing is written to this output.
    let row = unsafe { part_of::<I, I, N, BLOCK>(out, inp, shape, parts, thread::block_idx_x()) };
    let [first, second] = row.load_edges::<N>(f32::NEG_INFINITY);
    let mut max = f32::MIN.max(first.max(second));
    let mut sum = options.exp::<O>(first - max) + options.exp::<O>(second - max);
    let mut start = 0;
    while row.goes_on::<N>(start) {
        let x_reg = row.load::<N, VECTORS>(start, I::NEG_INFINITY);
        let larger = x_reg.iter().fold(I::MIN, |max, &x| I::larger(max, x));
        let larger = I::unpack(larger).into_iter().fold(max, f32::max);
        sum *= options.exp::<O>(max - larger);
        for i in 0..VECTORS {
            sum += sum_of(I::unpack(x_reg[i]).map(|x| options.exp::<O>(x - larger)));
        }
        max = larger;
        start += VECTORS;
    }
    // SAFETY: all threads of the block come here, and the first alone writes the part's pair.
    unsafe {
        let max_warp = reduce_max(max);
        let sum_warp = reduce_sum(sum * options.exp::<O>(max - max_warp));
        let pair = exchange::<BLOCK>(shared, f32x2::new(max_warp, sum_warp), options.scale);
        if thread::thread_idx_x() == 0 {
            *pairs.add(thread::block_idx_x() as usize) = pair;
        }
    }
}

/// The outputs of each part of each row, from the pairs of the row.
///
/// # Safety
/// As for the kernels; `shared` has an element of the block's own for each warp.
#[inline(always)]
pub(super) unsafe fn write<I, O, const N: usize, const VECTORS: usize, const BLOCK: usize>(
    shared: *mut f32x2,
    out: Matrix<*mut O>,
    inp: Matrix<*const I>,
    pairs: *const f32x2,
    shape: [u32; 2],
    parts: u32,
    options: Options,
) where
    I: Element<N>,
    O: Output<N>,
{
    // From the last part back: those that were read last are still in L2.
    let block = thread::grid_dim_x() - 1 - thread::block_idx_x();
    // SAFETY: the kernel's contract.
    let row = unsafe { part_of::<I, O, N, BLOCK>(out, inp, shape, parts, block) };
    let (tid, first) = (thread::thread_idx_x(), block / parts * parts);
    // SAFETY: all threads of the block come here; the row has as many pairs as parts.
    let f32x2 { x: max, y: sum } = unsafe {
        let mut mine = NO_PAIR;
        for i in (tid..parts).step_by(BLOCK) {
            let f32x2 { x, y } = *pairs.add((first + i) as usize);
            let max = mine.x.max(x);
            mine =
                f32x2::new(max, mine.y * options.exp::<f32>(mine.x - max) + y * options.exp::<f32>(x - max));
        }
        exchange::<BLOCK>(shared, merge::<32>(mine, options.scale), options.scale)
    };
    let (a, b) = options.factors(sum);
    let finish = |x: f32| {
        let x = x - max;
        if options.is_log() { x * options.scale + b } else { options.exp::<O>(x) * a }
    };
    if row.computes_edges::<N>() {
        let edge_reg = row.load_edges::<N>(f32::NEG_INFINITY);
        // SAFETY: this thread alone reads and writes these elements.
        unsafe { row.store_edges::<N>(edge_reg.map(finish)) };
    }
    let mut start = 0;
    while row.goes_on::<N>(start) {
        let x_reg = row.load::<N, VECTORS>(start, I::NEG_INFINITY);
        for i in 0..VECTORS {
            if let Some(to) = row.output::<N>(start + i) {
                // SAFETY: the vector lies in the row, from a boundary on, and this thread alone writes it.
                unsafe { O::store(to, I::unpack(x_reg[i]).map(finish)) };
            }
        }
        start += VECTORS;
    }
}
