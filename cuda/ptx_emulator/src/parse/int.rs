//! Integer, logic, shift and comparison instructions.

use super::float;
use super::function::Body;
use super::instruction::exactly;
use super::mods::Mods;
use super::operand::Operand;
use crate::instr::{
    BitOp, BoolOp, CarryOp, Cmp, FloatCmp, Half, IntOp, IntTy, IntUnary, Op, SINK, SetpOut, Ty,
};

const U32: IntTy = IntTy { bits: 32, signed: false };

pub(super) fn read<'a>(
    body: &mut Body<'_, 'a>,
    head: &str,
    mods: Mods<'_>,
    operands: &[Operand<'a>],
) -> Result<Op, String> {
    if let Some(signed) = match mods.last() {
        Some("u16x2") => Some(false),
        Some("s16x2") => Some(true),
        _ => None,
    } {
        return pair(body, head, signed, mods, operands);
    }
    match head {
        "not" | "cnot" | "neg" | "abs" | "popc" | "clz" | "brev" | "bfind" => {
            unary(body, head, mods, operands)
        }
        "add" | "sub" | "addc" | "subc" | "mad" | "madc" | "mul" => arithmetic(body, head, mods, operands),
        "div" | "rem" | "min" | "max" | "and" | "or" | "xor" | "shl" | "shr" => {
            binary(body, head, mods, operands)
        }
        "shf" | "prmt" | "bfe" | "bfi" | "lop3" => bits(body, head, mods, operands),
        _ => Err("unknown opcode".to_owned()),
    }
}

/// `add`, `min` and `max` of two pairs of 16-bit numbers.
fn pair<'a>(
    body: &mut Body<'_, 'a>,
    head: &str,
    signed: bool,
    mut mods: Mods<'_>,
    operands: &[Operand<'a>],
) -> Result<Op, String> {
    mods.pop();
    let relu = signed && mods.take("relu");
    mods.done()?;
    let op = match (head, relu) {
        ("add", false) => IntOp::Add,
        ("min", false) => IntOp::Min,
        ("max", false) => IntOp::Max,
        ("min", true) => IntOp::MinRelu,
        ("max", true) => IntOp::MaxRelu,
        _ => return Err("not of pairs".to_owned()),
    };
    let [d, a, b] = exactly(operands)?;
    Ok(Op::IntPair { op, signed, d: body.dst(d, 32)?, a: body.src(a, 32)?, b: body.src(b, 32)? })
}

fn unary<'a>(
    body: &mut Body<'_, 'a>,
    head: &str,
    mut mods: Mods<'_>,
    operands: &[Operand<'a>],
) -> Result<Op, String> {
    let ty = mods.int_ty()?;
    let op = match head {
        "not" => IntUnary::Not,
        "cnot" => IntUnary::Cnot,
        "neg" => IntUnary::Neg,
        "abs" => IntUnary::Abs,
        "popc" => IntUnary::Popc,
        "clz" => IntUnary::Clz,
        "brev" => IntUnary::Brev,
        _ if mods.take("shiftamt") => IntUnary::BfindShift,
        _ => IntUnary::Bfind,
    };
    mods.done()?;
    let [d, a] = exactly(operands)?;
    let counts = matches!(op, IntUnary::Popc | IntUnary::Clz | IntUnary::Bfind | IntUnary::BfindShift);
    Ok(Op::IntUnary { op, ty, d: body.dst(d, if counts { 32 } else { ty.bits })?, a: body.int(a, ty)? })
}

fn binary<'a>(
    body: &mut Body<'_, 'a>,
    head: &str,
    mut mods: Mods<'_>,
    operands: &[Operand<'a>],
) -> Result<Op, String> {
    let ty = mods.int_ty()?;
    let relu = ty.signed && ty.bits == 32 && matches!(head, "min" | "max") && mods.take("relu");
    mods.done()?;
    let op = match head {
        "div" => IntOp::Div,
        "rem" => IntOp::Rem,
        "min" if relu => IntOp::MinRelu,
        "max" if relu => IntOp::MaxRelu,
        "min" => IntOp::Min,
        "max" => IntOp::Max,
        "and" => IntOp::And,
        "or" => IntOp::Or,
        "xor" => IntOp::Xor,
        "shl" => IntOp::Shl,
        _ => IntOp::Shr,
    };
    let [d, a, b] = exactly(operands)?;
    // The amount of a shift is 32 bits wide, whatever the type.
    let b_ty = if matches!(op, IntOp::Shl | IntOp::Shr) { U32 } else { ty };
    Ok(Op::Int { op, ty, d: body.dst(d, ty.bits)?, a: body.int(a, ty)?, b: body.int(b, b_ty)? })
}

fn arithmetic<'a>(
    body: &mut Body<'_, 'a>,
    head: &str,
    mut mods: Mods<'_>,
    operands: &[Operand<'a>],
) -> Result<Op, String> {
    let carry_out = mods.take("cc");
    let carry_in = matches!(head, "addc" | "subc" | "madc");
    let half = mods.take_of(&[("lo", Half::Lo), ("hi", Half::Hi), ("wide", Half::Wide)]);
    let ty = mods.int_ty()?;
    mods.done()?;
    let d_bits = if half == Some(Half::Wide) { 2 * ty.bits } else { ty.bits };
    let d = body.dst(operands.first().ok_or("no operands")?, d_bits)?;
    if head.starts_with("mad") {
        let half = half.ok_or("neither `.lo`, `.hi` nor `.wide`")?;
        let [_, a, b, c] = exactly(operands)?;
        let (a, b, c) = (body.int(a, ty)?, body.int(b, ty)?, body.src(c, d_bits)?);
        if !carry_in && !carry_out {
            return Ok(Op::Mad { half, ty, d, a, b, c });
        }
        let op = match half {
            Half::Lo => CarryOp::MadLo,
            Half::Hi => CarryOp::MadHi,
            Half::Wide => return Err("a wide product with a carry".to_owned()),
        };
        return Ok(Op::Carry { op, ty, d, a, b, c, carry_in, carry_out });
    }
    let [_, a, b] = exactly(operands)?;
    let (a, b) = (body.int(a, ty)?, body.int(b, ty)?);
    let op = match (head, half) {
        ("mul", Some(Half::Wide)) => return Ok(Op::MulWide { ty, d, a, b }),
        ("mul", Some(Half::Lo)) => IntOp::MulLo,
        ("mul", Some(Half::Hi)) => IntOp::MulHi,
        ("add" | "addc", None) => IntOp::Add,
        ("sub" | "subc", None) => IntOp::Sub,
        _ => return Err("which half of the product?".to_owned()),
    };
    if carry_in || carry_out {
        let op = if op == IntOp::Add { CarryOp::Add } else { CarryOp::Sub };
        return Ok(Op::Carry { op, ty, d, a, b, c: body.number(0), carry_in, carry_out });
    }
    Ok(Op::Int { op, ty, d, a, b })
}

fn bits<'a>(
    body: &mut Body<'_, 'a>,
    head: &str,
    mut mods: Mods<'_>,
    operands: &[Operand<'a>],
) -> Result<Op, String> {
    let ty = mods.int_ty()?;
    let d = body.dst(operands.first().ok_or("no operands")?, ty.bits)?;
    let op = match head {
        "shf" => {
            let is_left = mods.take("l");
            if !is_left && !mods.take("r") {
                return Err("neither `.l` nor `.r`".to_owned());
            }
            let clamp = mods.take("clamp");
            if !clamp && !mods.take("wrap") {
                return Err("neither `.clamp` nor `.wrap`".to_owned());
            }
            if is_left { BitOp::ShfLeft { clamp } } else { BitOp::ShfRight { clamp } }
        }
        "prmt" => BitOp::Prmt,
        "bfe" => BitOp::Bfe,
        "lop3" => {
            mods.done()?;
            let [_, a, b, c, table] = exactly(operands)?;
            let Operand::Int(table @ 0..=255) = *table else {
                return Err("the table is no number".to_owned());
            };
            let (a, b, c) = (body.int(a, ty)?, body.int(b, ty)?, body.int(c, ty)?);
            return Ok(Op::Bits { op: BitOp::Lop3(table as u8), ty, d, a, b, c });
        }
        _ => {
            mods.done()?;
            let [_, f, b, c, len] = exactly(operands)?;
            let (f, b, c, len) = (body.int(f, ty)?, body.int(b, ty)?, body.int(c, U32)?, body.int(len, U32)?);
            return Ok(Op::Bfi { ty, d, f, b, c, len });
        }
    };
    mods.done()?;
    if ty.bits != 32 && op != BitOp::Bfe {
        return Err("a width other than 32".to_owned());
    }
    let [_, a, b, c] = exactly(operands)?;
    let b_ty = if op == BitOp::Bfe { U32 } else { ty };
    Ok(Op::Bits { op, ty, d, a: body.int(a, ty)?, b: body.int(b, b_ty)?, c: body.int(c, U32)? })
}

/// `setp`, for integers and floats.
pub(super) fn setp<'a>(
    body: &mut Body<'_, 'a>,
    _head: &str,
    mut mods: Mods<'_>,
    operands: &[Operand<'a>],
) -> Result<Op, String> {
    let ty = mods.ty()?;
    let cmp = mods.first()?;
    let ftz = mods.take("ftz");
    let combine = mods.take_of(&[("and", BoolOp::And), ("or", BoolOp::Or), ("xor", BoolOp::Xor)]);
    mods.done()?;
    let [out, a, b, ..] = operands else { return Err("too few operands".to_owned()) };
    let (p, q) = match out {
        Operand::Pair(p, q) => (body.dst(&Operand::Word(p), 1)?, body.dst(&Operand::Word(q), 1)?),
        _ => (body.dst(out, 1)?, SINK),
    };
    let combine = match (combine, operands.len()) {
        (None, 3) => None,
        (Some(op), 4) => {
            let (c, inverted) = body.pred(&operands[3])?;
            Some((op, c, inverted))
        }
        _ => return Err("another number of operands".to_owned()),
    };
    let out = SetpOut { p, q, combine };
    match ty {
        Ty::Float(ty) => {
            let cmp = float_cmp(cmp).ok_or_else(|| format!("comparison `.{cmp}`"))?;
            let (a, b) = (body.float(a, ty)?, body.float(b, ty)?);
            float::check_ftz(ty, ftz)?;
            Ok(Op::SetpFloat { cmp, ty, ftz, out, a, b })
        }
        Ty::Int(ty) if !ftz => {
            let known = match cmp {
                "lo" => Some(Cmp::Lt),
                "ls" => Some(Cmp::Le),
                "hi" => Some(Cmp::Gt),
                "hs" => Some(Cmp::Ge),
                _ => int_cmp(cmp),
            };
            let cmp = known.ok_or_else(|| format!("comparison `.{cmp}`"))?;
            Ok(Op::SetpInt { cmp, ty, out, a: body.int(a, ty)?, b: body.int(b, ty)? })
        }
        Ty::Int(_) => Err("modifier `.ftz`".to_owned()),
    }
}

fn int_cmp(name: &str) -> Option<Cmp> {
    Some(match name {
        "eq" => Cmp::Eq,
        "ne" => Cmp::Ne,
        "lt" => Cmp::Lt,
        "le" => Cmp::Le,
        "gt" => Cmp::Gt,
        "ge" => Cmp::Ge,
        _ => return None,
    })
}

fn float_cmp(name: &str) -> Option<FloatCmp> {
    match name {
        "num" => Some(FloatCmp::Num),
        "nan" => Some(FloatCmp::Nan),
        _ => match int_cmp(name) {
            Some(cmp) => Some(FloatCmp::Ordered(cmp)),
            None => int_cmp(name.strip_suffix('u')?).map(FloatCmp::Unordered),
        },
    }
}
