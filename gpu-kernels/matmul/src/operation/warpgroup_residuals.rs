//! Residuals of a warpgroup's results: loaded as they lie in memory, many at once, and added to the accumulators later.

use cuda_std::wgmma::Accumulator;

use super::super::args::{MatmulArgs, OUT_F32};
use super::super::epilogue::{has_whole_residuals, offset, raw, residual_of_raw, unrolled};
use super::warpgroup_operand::WarpgroupOperand;
use super::warpgroup_store::{CHUNK, Place, chunk, put};

/// The most chunks whose residuals are loaded at once.
const MOST_AT_ONCE: usize = 8;

/// Returns the number of chunks whose residuals are loaded at once, for which there are registers.
pub(super) const fn at_once(registers: usize) -> usize {
    if has_registers_for_residuals(registers) { MOST_AT_ONCE } else { MOST_AT_ONCE / 2 }
}

/// Whether there are registers for residuals beside as many accumulators under the multiplications.
pub(super) const fn has_registers_for_residuals(accumulators: usize) -> bool {
    accumulators < 128
}

/// The residuals of some chunks as they are in memory: nothing waits for their loads before they are added.
pub(super) type Residuals = [[[u32; 2]; CHUNK / 2]; MOST_AT_ONCE];

/// Loads the residuals of [`at_once`] chunks from `first` on, if there is a residual.
///
/// # Safety
/// The arguments are a kernel's.
#[inline(always)]
pub(super) unsafe fn load_residuals<T: WarpgroupOperand, const REGISTERS: usize>(
    args: &MatmulArgs<T>,
    place: &Place,
    first: usize,
) -> Residuals {
    let mut residuals = [[[0; 2]; CHUNK / 2]; MOST_AT_ONCE];
    let [own_row, own_col] = place.first;
    if args.residual.is_null() || own_row >= args.m || own_col >= args.n {
        return residuals;
    }
    // Branches once instead of once per pair.
    macro_rules! load {
        ($ty:ty, $is_whole:literal) => {{
            unrolled!(i, at_once(REGISTERS).min(REGISTERS / CHUNK - first), {
                for pair in 0..CHUNK / 2 {
                    // Outside the result the thread reads another of its own instead, without a branch.
                    let [row, col] = place.at(first + i, pair);
                    let row = if row < args.m { row } else { own_row };
                    let col = if col < args.n { col } else { own_col };
                    let at = offset(place.tile.batch, args.residual_batch, row, args.residual_pitch, col);
                    let from = args.residual.cast::<$ty>().wrapping_add(at);
                    let count = (args.n - col) as usize;
                    // SAFETY: the residual has the element, and its right neighbour if there is one.
                    let words = unsafe { raw(from, $is_whole, count) };
                    residuals[i % MOST_AT_ONCE][pair] = words;
                }
            });
        }};
    }
    match (size_of::<T>() == 4 || args.has(OUT_F32), has_whole_residuals::<T, 2>(args)) {
        (true, true) => load!(f32, true),
        (true, false) => load!(f32, false),
        (false, true) => load!(T, true),
        (false, false) => load!(T, false),
    }
    residuals
}

/// Loads the first residuals of a tile before its multiplications, if there are registers.
///
/// # Safety
/// Same as for [`load_residuals`].
#[inline(always)]
pub(super) unsafe fn load_first_residuals<T: WarpgroupOperand, const REGISTERS: usize>(
    args: &MatmulArgs<T>,
    place: &Place,
) -> Residuals {
    match has_registers_for_residuals(REGISTERS) {
        // SAFETY: the caller's contract.
        true => unsafe { load_residuals::<T, REGISTERS>(args, place, 0) },
        false => [[[0; 2]; CHUNK / 2]; MOST_AT_ONCE],
    }
}

/// Adds the residuals of chunks from `first` on to their accumulators.
#[inline(always)]
pub(super) fn add_residuals<T: WarpgroupOperand, const REGISTERS: usize>(
    args: &MatmulArgs<T>,
    place: &Place,
    first: usize,
    residuals: &Residuals,
    sums: &mut Accumulator<REGISTERS>,
) {
    macro_rules! add {
        ($is_f32:expr, $is_whole:literal) => {{
            unrolled!(i, at_once(REGISTERS).min(REGISTERS / CHUNK - first), {
                let of_pair = |pair: usize| {
                    residual_of_raw::<T, 2>(residuals[i % MOST_AT_ONCE][pair], $is_f32, $is_whole)
                };
                put(sums, first + i, place.plus(chunk(sums, first + i), of_pair));
            });
        }};
    }
    match (size_of::<T>() == 4 || args.has(OUT_F32), has_whole_residuals::<T, 2>(args)) {
        (true, _) => add!(true, true),
        (false, true) => add!(false, true),
        (false, false) => add!(false, false),
    }
}
