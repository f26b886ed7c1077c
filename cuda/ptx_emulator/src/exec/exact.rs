//! Directed rounding, from a result rounded to nearest and the sign of its error.

use core::cmp::Ordering;
use core::ops::{Add, Sub};

use crate::instr::Round;

/// The sign of a sum of products, computed without any rounding.
///
/// A fixed-point number wide enough for every product of two finite f64: from 2^-2148 up to 2^2048.
pub(crate) fn sign_of_sum(products: &[(f64, f64)]) -> Ordering {
    let mut sum = [0u64; 72];
    for &(a, b) in products {
        let ((a_mantissa, a_exponent), (b_mantissa, b_exponent)) = (parts(a), parts(b));
        let product = u128::from(a_mantissa) * u128::from(b_mantissa);
        let at = (a_exponent + b_exponent + 2150) as usize;
        let (limb, shift) = (at / 64, at % 64);
        let low = product << shift;
        let high = if shift == 0 { 0 } else { product >> (128 - shift) };
        add(&mut sum[limb..], [low as u64, (low >> 64) as u64, high as u64], (a < 0.0) != (b < 0.0));
    }
    if sum[71] >> 63 == 1 {
        Ordering::Less
    } else if sum.iter().all(|&limb| limb == 0) {
        Ordering::Equal
    } else {
        Ordering::Greater
    }
}

/// The sign of `p + q - r`, where `p` and `q` are numbers or products of two f32 and `r` is their sum rounded to f32.
pub(crate) fn sign_of_rest(p: f64, q: f64, r: f64) -> Ordering {
    // The error of the f64 sum (Knuth's two-sum). Nothing overflows, and products of f32 are exact.
    let sum = p + q;
    let part = sum - p;
    let left_out = (p - (sum - part)) + (q - part);
    // A multiple of the sum's last place, so larger than the error.
    let rest = sum - r;
    let sign = if rest == 0.0 { left_out } else { rest };
    sign.partial_cmp(&0.0).unwrap_or(Ordering::Equal)
}

fn add(sum: &mut [u64], value: [u64; 3], subtract: bool) {
    let mut carry = false;
    for (i, limb) in sum.iter_mut().enumerate() {
        let part = value.get(i).copied().unwrap_or(0);
        let (first, second);
        (*limb, first) = if subtract { limb.overflowing_sub(part) } else { limb.overflowing_add(part) };
        let one = u64::from(carry);
        (*limb, second) = if subtract { limb.overflowing_sub(one) } else { limb.overflowing_add(one) };
        carry = first || second;
    }
}

/// Mantissa and exponent of a finite number's magnitude: `mantissa * 2^exponent`.
fn parts(x: f64) -> (u64, i32) {
    let (fraction, exponent) = (x.to_bits() & ((1 << 52) - 1), (x.to_bits() >> 52) as i32 & 0x7ff);
    if exponent == 0 { (fraction, -1074) } else { (fraction | 1 << 52, exponent - 1075) }
}

/// f32 or f64.
pub(crate) trait Real:
    Copy + PartialOrd + From<f32> + Into<f64> + Add<Output = Self> + Sub<Output = Self>
{
    fn is_zero(self) -> bool;
    fn next_down(self) -> Self;
    fn next_up(self) -> Self;
    /// The sign of `a * b + c - r * s` where `r` is the rounded result, or where the difference has one product less.
    fn sign(abc: [f64; 3], r: f64, s: f64) -> Ordering;
}

macro_rules! real {
    ($float:ident, $sign:expr) => {
        impl Real for $float {
            fn is_zero(self) -> bool {
                self == 0.0
            }
            fn next_down(self) -> Self {
                $float::next_down(self)
            }
            fn next_up(self) -> Self {
                $float::next_up(self)
            }
            fn sign(abc: [f64; 3], r: f64, s: f64) -> Ordering {
                $sign(abc, r, s)
            }
        }
    };
}
real!(f32, |[a, b, c]: [f64; 3], r, s| sign_of_rest(a * b, c, r * s));
real!(f64, |[a, b, c]: [f64; 3], r: f64, s| sign_of_sum(&[(a, b), (c, 1.0), (-r, s)]));

/// Rounds to `round`, from `nearest` and the comparison of the exact value with it in `exact`.
pub(crate) fn direct<T: Real>(nearest: T, exact: Ordering, round: Round) -> T {
    let zero = T::from(0.0);
    match (round, exact) {
        (Round::Down, Ordering::Less) => nearest.next_down(),
        (Round::Up, Ordering::Greater) => nearest.next_up(),
        (Round::Zero, Ordering::Less) if nearest > zero => nearest.next_down(),
        (Round::Zero, Ordering::Greater) if nearest < zero => nearest.next_up(),
        _ => nearest,
    }
}

/// Compares the exact `(a * b + c) / s` with the rounded `r`. If `r` has overflowed, only the sign counts; it is exact if an
/// operand is not finite or the divisor is zero.
pub(crate) fn compare<T: Real>([a, b, c]: [f64; 3], s: f64, r: f64) -> Ordering {
    if s == 0.0 || r.is_nan() || [a, b, c, s].iter().any(|x| !x.is_finite()) {
        Ordering::Equal
    } else if r.is_infinite() {
        if r > 0.0 { Ordering::Less } else { Ordering::Greater }
    } else {
        let order = T::sign([a, b, c], r, s);
        if s < 0.0 { order.reverse() } else { order }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sign_is_exact() {
        let tiny = f64::from_bits(1);
        assert_eq!(sign_of_sum(&[(1.0, 1.0), (tiny, tiny), (-1.0, 1.0)]), Ordering::Greater);
        assert_eq!(sign_of_sum(&[(1.0, 1.0), (-tiny, tiny), (-1.0, 1.0)]), Ordering::Less);
        assert_eq!(sign_of_sum(&[(f64::MAX, f64::MAX), (-f64::MAX, f64::MAX)]), Ordering::Equal);
        assert_eq!(sign_of_sum(&[(0.1, 3.0), (-0.3, 1.0)]), Ordering::Greater);
        assert_eq!(sign_of_sum(&[(0.0, -5.0)]), Ordering::Equal);
    }

    #[test]
    fn the_short_way_for_f32_is_exact() {
        let mut state = 7u64;
        let mut next = || {
            state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
            // Covers all exponents. Every third value has few bits, so that sums cancel or are exact.
            let bits = (state >> 32) as u32;
            f32::from_bits(if bits.is_multiple_of(3) { bits & 0xfff0_0000 } else { bits })
        };
        for _ in 0..200_000 {
            let [a, b, c] = [next(), next(), next()];
            let [wide_a, wide_b, wide_c, root] = [a, b, c, a.abs().sqrt()].map(f64::from);
            for (r, abc, s) in [
                (a.mul_add(b, c), [wide_a, wide_b, wide_c], 1.0),
                (a + c, [wide_a, 1.0, wide_c], 1.0),
                (a * b, [wide_a, wide_b, 0.0], 1.0),
                (a / b, [wide_a, 1.0, 0.0], wide_b),
                (a.abs().sqrt(), [wide_a.abs(), 1.0, 0.0], root),
            ] {
                let r = f64::from(r);
                assert_eq!(compare::<f32>(abc, s, r), compare::<f64>(abc, s, r), "{abc:?} / {s:e} - {r:e}");
            }
        }
    }
}
