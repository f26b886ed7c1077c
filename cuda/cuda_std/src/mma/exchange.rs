//! Tensor cores on the executor: the lanes of a warp exchange their operands.
//!
//! Each lane lends its operands and results, which lie on its stack, to one call that computes all results. Lanes that
//! are OS threads must not access each other's memory, because nothing orders the accesses. So the scheduler passes
//! copies as words.

use super::number::Number;
use super::operands::{Exchange, Rows, Tiles};
use super::{Element, FragmentA, FragmentB, FragmentC};
use crate::simt::context::{Collective, ShuffleMode, WARP_SIZE, WarpOp, collective, current, unwinds};

/// Computes `c[i][j] += a[i] * b[j]` in the whole warp.
#[inline(always)]
#[track_caller]
pub(super) fn multiply<T: Element, const M: usize, const N: usize>(
    name: &'static str,
    a: &[FragmentA<T>; M],
    b: &[FragmentB<T>; N],
    c: &mut [[FragmentC; N]; M],
) {
    let (a, b) = (a.map(FragmentA::registers), b.map(FragmentB::registers));
    if Exchange::fits_words(M, N) || current(name, |context| context.channel.is_fiber()) {
        lend_tiles(name, T::NUMBER, (&a, &b), c.as_flattened_mut());
    } else {
        multiply_in_parts(name, T::NUMBER, (&a, &b), c.as_flattened_mut());
    }
}

/// Computes [`multiply`] for lanes that are OS threads, with more tiles than the scheduler passes at once.
#[cold]
#[track_caller]
fn multiply_in_parts(
    name: &'static str,
    number: Number,
    (a, b): (&[[u32; 4]], &[[u32; 2]]),
    c: &mut [FragmentC],
) {
    for (i, c) in c.chunks_exact_mut(b.len()).enumerate() {
        for (b, c) in b.chunks(Exchange::MOST_COLUMNS).zip(c.chunks_mut(Exchange::MOST_COLUMNS)) {
            lend_tiles(name, number, (&a[i..=i], b), c);
        }
    }
}

#[inline(always)]
#[track_caller]
fn lend_tiles(name: &'static str, number: Number, (a, b): (&[[u32; 4]], &[[u32; 2]]), c: &mut [FragmentC]) {
    let mut tiles = Tiles { a: a.as_ptr(), b: b.as_ptr(), c: c.as_mut_ptr().cast() };
    lend(name, Exchange::Multiply { number, m: a.len(), n: b.len() }, (&raw mut tiles).cast());
}

#[inline(always)]
#[track_caller]
fn lend(name: &'static str, exchange: Exchange, lent: *mut ()) {
    collective(name, Collective::Warp { mask: u32::MAX, op: WarpOp::Exchange { exchange, lent } });
}

/// Returns the value of another lane.
#[track_caller]
pub(super) fn shuffle(name: &'static str, value: u128, lane: u32) -> u128 {
    let op = WarpOp::Shuffle { mode: ShuffleMode::Idx, value, b: lane, width: WARP_SIZE };
    collective(name, Collective::Warp { mask: u32::MAX, op }).value
}

/// Returns the rows that hold the lane's elements of `matrices` matrices, from the rows that the lanes pass: one per
/// matrix, or two per transposed matrix.
#[inline(always)]
#[track_caller]
pub(super) fn rows(name: &'static str, matrices: usize, is_transposed: bool, own: *mut u8) -> [*mut u8; 8] {
    if unwinds() {
        // No lane takes part, and this lane's own row may be invalid.
        return [core::ptr::from_mut(Box::leak(Box::new(0u128))).cast(); 8];
    }
    let mut rows = Rows { own, wanted: [core::ptr::null_mut(); 8] };
    lend(name, Exchange::Rows { matrices, is_transposed }, (&raw mut rows).cast());
    rows.wanted
}
