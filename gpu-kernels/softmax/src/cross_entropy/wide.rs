//! Rows of any width.
//!
//! No block holds such a row in registers, so it is read twice if a gradient is wanted. The second pass begins with what the
//! first has read last.

use cuda_std::mem::f32x2;
use cuda_std::thread;

use super::args::{CrossEntropyArgs, Gradient};
use super::first_max::{first_of, first_of_row};
use crate::forward::{exp, sum_of};
use crate::row::{Row, exchange, merge};
use common_kernels::element::Element;

/// Computes the cross entropy of rows of any width, one per block: every thread keeps a running maximum with its sum, and
/// reads its part again for the gradient.
///
/// # Safety
/// Same as for the kernels; `shared` and `first_shared` belong to the block and have an element per warp each.
#[inline(always)]
pub(super) unsafe fn wide<T, const N: usize, const BLOCK: usize, const VECTORS: usize>(
    shared: *mut f32x2,
    first_shared: *mut u32,
    args: CrossEntropyArgs<T>,
) where
    T: Element<N>,
{
    // SAFETY: the kernel's contract, and a barrier lies between this and the gradient.
    let (index, row, target, logit) = unsafe {
        let (index, row) = args.row::<N, BLOCK, BLOCK>();
        let target = args.target(index);
        (index, row, target, args.logit(index, target))
    };
    let source = if args.needs_logits(target) { row } else { row.empty() };
    let edge_reg = source.load_edges::<N>(f32::NEG_INFINITY);
    let (mine, first) = reduce::<T, N, BLOCK, VECTORS>(source, edge_reg, args.wants_correct());
    // SAFETY: all threads of the block execute this and everything below.
    let pair = unsafe { exchange::<BLOCK>(shared, merge::<32>(mine, 1.0), 1.0) };
    let f32x2 { x: max, y: sum } = pair;
    let mut first_in_row = u32::MAX;
    if args.wants_correct() {
        let first = if mine.x == max { first } else { u32::MAX };
        // SAFETY: all threads execute this; the condition is the same in the whole grid.
        first_in_row = unsafe { first_of_row::<BLOCK, 32>(first_shared, first) };
    }

    // SAFETY: one thread writes the row's results, and each writes the gradient of its own elements.
    unsafe {
        if thread::thread_idx_x() == 0 {
            args.write_results(index, target, logit, pair, first_in_row);
        }
        if !args.wants_gradient() {
            return;
        }
        let gradient = args.gradient(index, target, sum);
        write::<T, N, BLOCK, VECTORS>([row, source], gradient, (edge_reg, logit), max);
    }
}

/// Writes the gradient of this thread's elements of a row. `source` is the row, or an empty one if its elements do not
/// count. `edge_reg` has its single elements, and `logit` is the target's, if one of the thread's vectors has it.
///
/// # Safety
/// No other code uses what is written.
#[inline(always)]
pub(super) unsafe fn write<T: Element<N>, const N: usize, const BLOCK: usize, const VECTORS: usize>(
    [row, source]: [Row<T, T, BLOCK>; 2],
    gradient: Gradient,
    (edge_reg, logit): ([f32; 2], f32),
    max: f32,
) {
    // Backwards: L2 still holds the end of the row.
    let mut start = 0;
    while row.has_vectors(start) {
        start += VECTORS;
    }
    while start > 0 {
        start -= VECTORS;
        let x_reg = source.load::<N, VECTORS>(start, T::NEG_INFINITY);
        for i in 0..VECTORS {
            if let Some(to) = row.output::<N>(start + i) {
                let exps = T::unpack(x_reg[i]).map(|x| exp::<T>(x - max, 1.0));
                // SAFETY: the vector is aligned and lies in the row, and only this thread writes it.
                unsafe { T::store(to, if gradient.is_zero() { [0.0; N] } else { gradient.of_others(exps) }) };
            }
        }
    }
    // SAFETY: the caller's elements; their vectors are written.
    unsafe { gradient.finish::<T, N, BLOCK>(&row, (edge_reg, logit), |x| exp::<T>(x - max, 1.0)) };
}

/// Returns the (max, sum) of this thread's elements, and the column of the first largest one.
#[inline(always)]
pub(super) fn reduce<T: Element<N>, const N: usize, const BLOCK: usize, const VECTORS: usize>(
    row: Row<T, T, BLOCK>,
    edge_reg: [f32; 2],
    wants_correct: bool,
) -> (f32x2, u32) {
    let [a, b] = edge_reg;
    let mut max = f32::MIN.max(a.max(b));
    let mut sum = exp::<T>(a - max, 1.0) + exp::<T>(b - max, 1.0);
    let places = row.edges::<N>();
    let mut first = first_of([a], max, places[0]).min(first_of([b], max, places[1]));
    let mut start = 0;
    while row.has_vectors(start) {
        let x_reg = row.load::<N, VECTORS>(start, T::NEG_INFINITY);
        let larger = x_reg.iter().fold(T::MIN, |max, &x| T::larger(max, x));
        let larger = T::unpack(larger).into_iter().fold(max, f32::max);
        sum *= exp::<T>(max - larger, 1.0);
        first = if larger > max { u32::MAX } else { first };
        for i in 0..VECTORS {
            let x = T::unpack(x_reg[i]);
            sum += sum_of(x.map(|x| exp::<T>(x - larger, 1.0)));
            if let (true, Some(place)) = (wants_correct, row.vector::<N>(start + i)) {
                first = first.min(first_of(x, larger, place));
            }
        }
        max = larger;
        start += VECTORS;
    }
    (f32x2::new(max, sum), first)
}
