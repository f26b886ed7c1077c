//! fixed: numbers with a fixed point, of all widths.

use ::fixed::types::{I16F16, I24F8, I32F32, U8F8, U64F64};

use super::out::{Out, array};

pub fn numbers(input: &[u8], number: u32, output: &mut [u8]) {
    let mut out = Out::new(output);
    let [a, b] = [0, 4].map(|at| I16F16::from_le_bytes(array(input, at)));
    out.bytes(&a.saturating_mul(b).to_le_bytes());
    out.bytes(&a.checked_div(b).unwrap_or(I16F16::MAX).to_le_bytes());
    out.bytes(&a.wrapping_add(b).frac().to_le_bytes());
    let [a, b] = [8, 16].map(|at| I32F32::from_le_bytes(array(input, at)));
    out.bytes(&a.wrapping_mul(b).to_le_bytes());
    out.bytes(&a.checked_rem(b).unwrap_or(I32F32::MIN).to_le_bytes());
    out.bytes(&a.checked_sqrt().unwrap_or(I32F32::ZERO).to_le_bytes());
    out.bytes(&a.wrapping_round_ties_even().saturating_sub(b.wrapping_ceil()).to_le_bytes());
    let [a, b] = [24, 40].map(|at| U64F64::from_le_bytes(array(input, at)));
    out.bytes(&a.wrapping_mul(b).to_le_bytes());
    out.bytes(&a.checked_div(b).unwrap_or(U64F64::MAX).to_le_bytes());
    out.number(a.checked_int_log2().unwrap_or(-99) as u64 ^ u64::from(b.leading_zeros()));
    let float = f64::from(f32::from_le_bytes(array(input, 56))) * f64::from(number);
    let a = I24F8::saturating_from_num(if float.is_nan() { 0.5 } else { float });
    out.bytes(&a.to_le_bytes());
    out.float(a.to_num::<f64>());
    let narrow = U8F8::from_le_bytes(array(input, 60));
    out.bytes(&narrow.wrapping_mul_int(number as u16).to_le_bytes());
    out.bytes(&narrow.to_num::<u8>().to_le_bytes());
}
