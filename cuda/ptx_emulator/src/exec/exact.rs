//! Directed rounding, from a result rounded to nearest and the sign of its error.

use core::cmp::Ordering;

use crate::instr::Round;

/// The sign of a sum of products, computed without any rounding.
///
/// A fixed-point number wide enough for every product of two finite f64: from 2^-2148 up to 2^2048.
pub(super) fn sign_of_sum(products: &[(f64, f64)]) -> Ordering {
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
pub(super) fn sign_of_rest(p: f64, q: f64, r: f64) -> Ordering {
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

macro_rules! directed {
    ($name:ident, $float:ty) => {
        /// Rounds to `round`, from `nearest` and the comparison of the exact value with it in `exact`.
        pub(super) fn $name(nearest: $float, exact: Ordering, round: Round) -> $float {
            match (round, exact) {
                (Round::Down, Ordering::Less) => nearest.next_down(),
                (Round::Up, Ordering::Greater) => nearest.next_up(),
                (Round::Zero, Ordering::Less) if nearest > 0.0 => nearest.next_down(),
                (Round::Zero, Ordering::Greater) if nearest < 0.0 => nearest.next_up(),
                _ => nearest,
            }
        }
    };
}
directed!(direct32, f32);
directed!(direct64, f64);

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
}
