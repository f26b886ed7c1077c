//! Tensor cores on the executor: the lanes of a warp exchange their operands.
//!
//! Each lane lends its operands and results, which lie on its stack, to one call that computes all results. Lanes that
//! are OS threads must not access each other's memory, because nothing orders the accesses. So the scheduler passes
//! copies as [`words`].

mod words;

use super::{Element, FragmentA, FragmentB, FragmentC, Number};
use crate::simt::context::{Collective, ShuffleMode, WARP_SIZE, WarpOp, collective, current, unwinds};

/// An operation on operands that lie on the lanes' stacks. All participating lanes request the same one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exchange {
    /// Multiplications of `m` x `n` tiles. Each lane lends its [`Tiles`].
    Multiply { number: Number, m: usize, n: usize },
    /// The addresses of the rows of matrices. Each lane lends its [`Rows`].
    Rows { matrices: usize, is_transposed: bool },
}

/// A lane's share of the tiles of a multiplication: `m` of A, `n` of B, and `m * n` of C by rows.
struct Tiles {
    a: *const [u32; 4],
    b: *const [u32; 2],
    c: *mut FragmentC,
}

/// A lane's row, and the rows that it wants: one per matrix, or two per transposed matrix.
struct Rows {
    own: *mut u8,
    wanted: [*mut u8; 8],
}

impl Exchange {
    /// Computes the results of all lanes.
    ///
    /// # Safety
    /// Each lane has lent what the operation needs, and is suspended.
    pub(crate) unsafe fn complete(self, lanes: &[*mut (); WARP_SIZE as usize]) {
        match self {
            Exchange::Multiply { number, m, n } => {
                // SAFETY: the caller promises that they are valid, and no other reference to them is alive.
                let tiles: [&Tiles; 32] = core::array::from_fn(|lane| unsafe { &*lanes[lane].cast() });
                // SAFETY: all lanes have this number of tiles.
                unsafe { multiply_all(number, m, n, &tiles) };
            }
            Exchange::Rows { matrices, is_transposed } => {
                // SAFETY: as above.
                let own = lanes.map(|lane| unsafe { (*lane.cast::<Rows>()).own });
                for (lane, rows) in lanes.iter().enumerate() {
                    // SAFETY: as above.
                    let wanted = unsafe { &mut (*rows.cast::<Rows>()).wanted };
                    for (i, wanted) in wanted.iter_mut().enumerate().take(matrices * rows_of(is_transposed)) {
                        *wanted = own[source_of_row(lane, i, is_transposed)];
                    }
                }
            }
        }
    }
}

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
    let mut tiles = Tiles { a: a.as_ptr(), b: b.as_ptr(), c: c.as_mut_ptr() };
    lend(name, Exchange::Multiply { number, m: a.len(), n: b.len() }, (&raw mut tiles).cast());
}

#[inline(always)]
#[track_caller]
fn lend(name: &'static str, exchange: Exchange, lent: *mut ()) {
    collective(name, Collective::Warp { mask: u32::MAX, op: WarpOp::Exchange { exchange, lent } });
}

/// The numbers of a register as `f32`.
#[inline(always)]
fn numbers(number: Number, register: u32) -> [f32; 2] {
    match number {
        Number::F16 => [f16_to_f32(register), f16_to_f32(register >> 16)],
        Number::Bf16 => [f32::from_bits(register << 16), f32::from_bits(register & 0xffff_0000)],
        // There is no second number.
        Number::Tf32 => [f32::from_bits(register & 0xffff_e000), 0.0],
    }
}

/// Converts the number in the lower half of a register, without a branch.
#[inline(always)]
fn f16_to_f32(register: u32) -> f32 {
    let magnitude = register & 0x7fff;
    // As an f32, the bits have an exponent that is too small by the difference of the biases.
    let scaled = f32::from_bits(magnitude << 13) * f32::from_bits((127 + 112) << 23);
    let special = if magnitude >= 0x7c00 { 0x7f80_0000 } else { 0 };
    f32::from_bits(scaled.to_bits() | special | (register & 0x8000) << 16)
}

/// # Safety
/// Each lane has `m` tiles of A, `n` of B, and `m * n` of C.
unsafe fn multiply_all(number: Number, m: usize, n: usize, lanes: &[&Tiles; 32]) {
    match number {
        // SAFETY: the caller guarantees the tiles, in each of the three arms.
        Number::F16 => unsafe { multiply_tiles::<16>(|word| numbers(Number::F16, word), m, n, lanes) },
        // SAFETY: as above.
        Number::Bf16 => unsafe { multiply_tiles::<16>(|word| numbers(Number::Bf16, word), m, n, lanes) },
        // SAFETY: as above.
        Number::Tf32 => unsafe { multiply_tiles::<8>(|word| numbers(Number::Tf32, word), m, n, lanes) },
    }
}

/// # Safety
/// As above.
unsafe fn multiply_tiles<const K: usize>(
    numbers: impl Fn(u32) -> [f32; 2],
    m: usize,
    n: usize,
    lanes: &[&Tiles; 32],
) {
    let each = K / 8;
    let mut bs = Vec::with_capacity(n);
    for j in 0..n {
        let mut b = [[0.0; 8]; K];
        for (lane, tiles) in lanes.iter().enumerate() {
            // SAFETY: the caller keeps the contract.
            let registers = unsafe { *tiles.b.add(j) };
            for (register, word) in registers.into_iter().enumerate() {
                let (row, values) = (lane % 4 * each + register * (K / 2), numbers(word));
                for i in 0..each {
                    b[row + i][lane / 4] = values[i];
                }
            }
        }
        bs.push(b);
    }
    for i in 0..m {
        let mut a = [[0.0; K]; 16];
        for (lane, tiles) in lanes.iter().enumerate() {
            // SAFETY: the caller keeps the contract.
            let registers = unsafe { *tiles.a.add(i) };
            for (register, word) in registers.into_iter().enumerate() {
                let (row, column) = (lane / 4 + register % 2 * 8, lane % 4 * each + register / 2 * (K / 2));
                let values = numbers(word);
                a[row][column..column + each].copy_from_slice(&values[..each]);
            }
        }
        for (j, b) in bs.iter().enumerate() {
            let mut c = [[0.0; 8]; 16];
            // SAFETY: the caller guarantees the tiles, here and below.
            let of_lane = |lane: usize| unsafe { &mut (*lanes[lane].c.add(i * n + j)).0 };
            for lane in 0..32 {
                let ([upper, lower], column) = (halves(*of_lane(lane)), lane % 4 * 2);
                c[lane / 4][column..column + 2].copy_from_slice(&upper);
                c[lane / 4 + 8][column..column + 2].copy_from_slice(&lower);
            }
            for (row, c) in a.iter().zip(&mut c) {
                add_product(row, b, c);
            }
            for lane in 0..32 {
                let (row, column) = (lane / 4, lane % 4 * 2);
                *of_lane(lane) =
                    [c[row][column], c[row][column + 1], c[row + 8][column], c[row + 8][column + 1]];
            }
        }
    }
}

fn halves([a, b, c, d]: [f32; 4]) -> [[f32; 2]; 2] {
    [[a, b], [c, d]]
}

/// Adds a row of A times the columns of B to `c`.
#[inline(always)]
fn add_product<const K: usize, const COLUMNS: usize>(
    row: &[f32; K],
    b: &[[f32; COLUMNS]; K],
    c: &mut [f32; COLUMNS],
) {
    let mut sums = *c;
    for k in 0..K {
        for column in 0..COLUMNS {
            sums[column] += row[k] * b[k][column];
        }
    }
    *c = sums;
}

/// Returns the value of another lane.
#[track_caller]
pub(super) fn shuffle(name: &'static str, value: u128, lane: u32) -> u128 {
    let op = WarpOp::Shuffle { mode: ShuffleMode::Idx, value, b: lane, width: WARP_SIZE };
    collective(name, Collective::Warp { mask: u32::MAX, op }).value
}

/// The number of rows of a matrix that hold a lane's two elements.
const fn rows_of(is_transposed: bool) -> usize {
    if is_transposed { 2 } else { 1 }
}

/// Returns the lane that has the address of the `i`th row that `lane` wants.
fn source_of_row(lane: usize, i: usize, is_transposed: bool) -> usize {
    if is_transposed { i / 2 * 8 + lane % 4 * 2 + i % 2 } else { i * 8 + lane / 4 }
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
