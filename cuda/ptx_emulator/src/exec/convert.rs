//! `cvt` (PTX ISA, "Data Movement and Conversion Instructions: cvt").

use core::cmp::Ordering;

use super::exact::{direct32, direct64, sign_of_sum};
use super::float::{finish32, flush};
use crate::instr::{Cvt, CvtRound, FloatTy, IntTy, Round, Ty};

/// Converts a value and extends it to the destination's width.
pub(super) fn convert(cvt: &Cvt, raw: u64) -> u64 {
    match (cvt.to, cvt.from) {
        (Ty::Int(to), Ty::Int(from)) => {
            let value = from.value(raw);
            let value = if cvt.sat { value.clamp(to.min(), to.max()) } else { value };
            extend(to, value as u64, cvt.d_bits)
        }
        (Ty::Int(to), Ty::Float(from)) => extend(to, to_int(cvt, to, from, raw), cvt.d_bits),
        (Ty::Float(to), Ty::Int(from)) => from_int(cvt, to, from.value(raw)),
        (Ty::Float(to), Ty::Float(from)) => between(cvt, to, from, raw),
    }
}

/// Extends a narrower result to a wider register, by its sign or with zeros.
pub(super) fn extend(ty: IntTy, raw: u64, bits: u32) -> u64 {
    let wide = if ty.signed { ty.sign_extend(raw) as u64 } else { raw & ty.mask() };
    wide & (u64::MAX >> (64 - bits))
}

fn load(from: FloatTy, ftz: bool, raw: u64) -> f64 {
    match from {
        FloatTy::F32 => f64::from(flush(f32::from_bits(raw as u32), ftz)),
        FloatTy::F64 => f64::from_bits(raw),
    }
}

fn integral(round: CvtRound, x: f64) -> f64 {
    match round {
        CvtRound::Integral(Round::Nearest) => x.round_ties_even(),
        CvtRound::Integral(Round::Zero) => x.trunc(),
        CvtRound::Integral(Round::Down) => x.floor(),
        CvtRound::Integral(Round::Up) => x.ceil(),
        _ => x,
    }
}

fn to_int(cvt: &Cvt, to: IntTy, from: FloatTy, raw: u64) -> u64 {
    let x = load(from, cvt.ftz, raw);
    if x.is_nan() {
        // Zero, or only the highest bit if either side has 64 bits.
        return if from == FloatTy::F64 || to.bits == 64 { 1 << (to.bits - 1) } else { 0 };
    }
    // Rust's conversion of a float to an integer saturates like the device's.
    let value = integral(cvt.round, x) as i128;
    value.clamp(to.min(), to.max()) as u64
}

fn from_int(cvt: &Cvt, to: FloatTy, value: i128) -> u64 {
    let CvtRound::Float(round) = cvt.round else { return 0 };
    // The result is finite: 2^64 is far below the largest f32.
    match to {
        FloatTy::F32 => {
            let nearest = value as f32;
            let result = direct32(nearest, value.cmp(&(nearest as i128)), round);
            finish32(result, false, cvt.sat)
        }
        FloatTy::F64 => {
            let nearest = value as f64;
            let result = direct64(nearest, value.cmp(&(nearest as i128)), round);
            if cvt.sat { result.clamp(0.0, 1.0) } else { result }.to_bits()
        }
    }
}

fn between(cvt: &Cvt, to: FloatTy, from: FloatTy, raw: u64) -> u64 {
    let x = integral(cvt.round, load(from, cvt.ftz, raw));
    match to {
        FloatTy::F32 => {
            let nearest = x as f32;
            let result = match cvt.round {
                CvtRound::Float(round) if round != Round::Nearest => {
                    direct32(nearest, excess(x, nearest), round)
                }
                _ => nearest,
            };
            finish32(result, cvt.ftz, cvt.sat)
        }
        FloatTy::F64 if cvt.sat => if x.is_nan() { 0f64 } else { x.clamp(0.0, 1.0) + 0.0 }.to_bits(),
        FloatTy::F64 => x.to_bits(),
    }
}

/// Compares `x` with the f32 it was rounded to.
fn excess(x: f64, nearest: f32) -> Ordering {
    if x.is_nan() || x.is_infinite() {
        Ordering::Equal
    } else if nearest.is_infinite() {
        if nearest > 0.0 { Ordering::Less } else { Ordering::Greater }
    } else {
        sign_of_sum(&[(x, 1.0), (-f64::from(nearest), 1.0)])
    }
}
