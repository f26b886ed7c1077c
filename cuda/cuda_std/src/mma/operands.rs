//! What the lanes of a warp lend for an exchange on tensor cores, and its results: pure functions of it.

mod words;

use super::number::Number;

/// Lanes of a warp.
const LANES: usize = 32;

/// An operation on operands that lie on the lanes' stacks. All participating lanes request the same one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exchange {
    /// Multiplications of `m` x `n` tiles. Each lane lends its [`Tiles`].
    Multiply { number: Number, m: usize, n: usize },
    /// The addresses of the rows of matrices. Each lane lends its [`Rows`].
    Rows { matrices: usize, is_transposed: bool },
}

/// A lane's share of the tiles of a multiplication: `m` of A, `n` of B, and `m * n` of C by rows.
pub(super) struct Tiles {
    pub a: *const [u32; 4],
    pub b: *const [u32; 2],
    pub c: *mut [f32; 4],
}

/// A lane's row, and the rows that it wants: one per matrix, or two per transposed matrix.
pub(super) struct Rows {
    pub own: *mut u8,
    pub wanted: [*mut u8; 8],
}

impl Exchange {
    /// Computes the results of all lanes.
    ///
    /// # Safety
    /// Each lane has lent what the operation needs, and is suspended.
    pub(crate) unsafe fn complete(self, lanes: &[*mut (); LANES]) {
        match self {
            Exchange::Multiply { number, m, n } => {
                // SAFETY: the caller promises that they are valid, and no other reference to them is alive.
                let tiles: [&Tiles; 32] = core::array::from_fn(|lane| unsafe { &*lanes[lane].cast() });
                // SAFETY: all lanes have this number of tiles.
                unsafe { multiply_all(number, m, n, &tiles) };
            }
            Exchange::Rows { matrices, is_transposed } => {
                // SAFETY: each lane has lent its rows, and is suspended.
                let own = lanes.map(|lane| unsafe { (*lane.cast::<Rows>()).own });
                for (lane, rows) in lanes.iter().enumerate() {
                    // SAFETY: each lane has lent its rows, and is suspended.
                    let wanted = unsafe { &mut (*rows.cast::<Rows>()).wanted };
                    for (i, wanted) in wanted.iter_mut().enumerate().take(matrices * rows_of(is_transposed)) {
                        *wanted = own[source_of_row(lane, i, is_transposed)];
                    }
                }
            }
        }
    }
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
        // SAFETY: the caller guarantees the tiles.
        Number::F16 => unsafe { multiply_tiles::<16>(|word| numbers(Number::F16, word), m, n, lanes) },
        // SAFETY: the caller guarantees the tiles.
        Number::Bf16 => unsafe { multiply_tiles::<16>(|word| numbers(Number::Bf16, word), m, n, lanes) },
        // SAFETY: the caller guarantees the tiles.
        Number::Tf32 => unsafe { multiply_tiles::<8>(|word| numbers(Number::Tf32, word), m, n, lanes) },
    }
}

/// # Safety
/// Each lane has `m` tiles of A, `n` of B, and `m * n` of C.
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
            // SAFETY: the caller guarantees the tiles.
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
            // SAFETY: the caller guarantees the tiles.
            let registers = unsafe { *tiles.a.add(i) };
            for (register, word) in registers.into_iter().enumerate() {
                let (row, column) = (lane / 4 + register % 2 * 8, lane % 4 * each + register / 2 * (K / 2));
                let values = numbers(word);
                a[row][column..column + each].copy_from_slice(&values[..each]);
            }
        }
        for (j, b) in bs.iter().enumerate() {
            let mut c = [[0.0; 8]; 16];
            // SAFETY: the caller guarantees the tiles.
            let of_lane = |lane: usize| unsafe { &mut (*lanes[lane].c.add(i * n + j)) };
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

/// The number of rows of a matrix that hold a lane's two elements.
const fn rows_of(is_transposed: bool) -> usize {
    if is_transposed { 2 } else { 1 }
}

/// Returns the lane that has the address of the `i`th row that `lane` wants.
fn source_of_row(lane: usize, i: usize, is_transposed: bool) -> usize {
    if is_transposed { i / 2 * 8 + lane % 4 * 2 + i % 2 } else { i * 8 + lane / 4 }
}
