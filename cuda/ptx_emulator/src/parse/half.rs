//! Instructions on 16-bit numbers.

use super::function::Body;
use super::instruction::exactly;
use super::mods::Mods;
use super::operand::Operand;
use crate::instr::{CvtHalf, FloatOp, HalfExtreme, HalfTy, Op, Round};

/// Whether the modifiers make an instruction one of this module's.
pub(super) fn is_half(mods: &Mods<'_>) -> bool {
    mods.any(|part| matches!(part, "f16" | "bf16" | "f16x2" | "bf16x2"))
}

/// `min` and `max`.
pub(super) fn extreme<'a>(
    body: &mut Body<'_, 'a>,
    head: &str,
    mut mods: Mods<'_>,
    operands: &[Operand<'a>],
) -> Result<Op, String> {
    let (ty, packed) = match mods.pop() {
        Some("f16") => (HalfTy::F16, false),
        Some("bf16") => (HalfTy::Bf16, false),
        Some("f16x2") => (HalfTy::F16, true),
        Some("bf16x2") => (HalfTy::Bf16, true),
        _ => return Err("a type that is none of 16 bits".to_owned()),
    };
    let nan = mods.take("NaN");
    mods.done()?;
    let op = if head == "max" { FloatOp::Max { nan } } else { FloatOp::Min { nan } };
    let bits = if packed { 32 } else { 16 };
    let [d, a, b] = exactly(operands)?;
    let (a, b) = (body.src(a, bits)?, body.src(b, bits)?);
    Ok(Op::HalfExtreme { kind: HalfExtreme { op, ty, packed }, d: body.dst(d, bits)?, a, b })
}

/// `cvt` between f32 and 16-bit numbers.
pub(super) fn cvt<'a>(
    body: &mut Body<'_, 'a>,
    _head: &str,
    mut mods: Mods<'_>,
    operands: &[Operand<'a>],
) -> Result<Op, String> {
    let (from, to) = (mods.pop(), mods.pop());
    let (ftz, round) = (mods.take("ftz"), mods.round());
    mods.done()?;
    let (cvt, d_bits, a_bits) = match (to, from, round) {
        (Some("f32"), Some("f16"), None) => (CvtHalf::Widen(HalfTy::F16), 32, 16),
        (Some("f32"), Some("bf16"), None) if !ftz => (CvtHalf::Widen(HalfTy::Bf16), 32, 16),
        (Some("f16"), Some("f32"), Some(round)) => (CvtHalf::Narrow(HalfTy::F16, round), 16, 32),
        (Some(to), Some("f32"), Some(round @ (Round::Nearest | Round::Zero))) if !ftz => match to {
            "bf16" => (CvtHalf::Narrow(HalfTy::Bf16, round), 16, 32),
            "f16x2" => (CvtHalf::Pack(HalfTy::F16, round), 32, 32),
            "bf16x2" => (CvtHalf::Pack(HalfTy::Bf16, round), 32, 32),
            _ => return Err(format!("type `.{to}`")),
        },
        _ => return Err("these types with this rounding".to_owned()),
    };
    if let CvtHalf::Pack(..) = cvt {
        let [d, a, b] = exactly(operands)?;
        let (a, b) = (body.src(a, 32)?, body.src(b, 32)?);
        return Ok(Op::CvtHalf { cvt, ftz, d: body.dst(d, 32)?, a, b });
    }
    let [d, a] = exactly(operands)?;
    Ok(Op::CvtHalf { cvt, ftz, d: body.dst(d, d_bits)?, a: body.src(a, a_bits)?, b: body.number(0) })
}
