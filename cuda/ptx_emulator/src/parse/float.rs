//! Floating-point instructions and conversions.

use super::function::Body;
use super::instruction::exactly;
use super::mods::Mods;
use super::operand::Operand;
use crate::instr::{Cvt, CvtRound, FloatMode, FloatOp, FloatTy, FloatUnary, Op, Round, Testp, Ty};

pub(super) fn read<'a>(
    body: &mut Body<'_, 'a>,
    head: &str,
    mut mods: Mods<'_>,
    operands: &[Operand<'a>],
) -> Result<Op, String> {
    let Ty::Float(ty) = mods.ty()? else {
        return Err("a type that is no float".to_owned());
    };
    if head == "testp" {
        return testp(body, ty, mods, operands);
    }
    let (ftz, sat) = (mods.take("ftz"), mods.take("sat"));
    let round = mods.round();
    let mode = FloatMode { ty, round: round.unwrap_or(Round::Nearest), ftz, sat };
    let approx = mods.take("approx");
    let bits = Ty::Float(ty).bits();
    let d = body.dst(operands.first().ok_or("no operands")?, bits)?;
    let op = match head {
        "add" => FloatOp::Add,
        "sub" => FloatOp::Sub,
        "mul" => FloatOp::Mul,
        "div" if approx && ty == FloatTy::F32 => FloatOp::DivApprox,
        "div" if mods.take("full") && ty == FloatTy::F32 => FloatOp::DivFull,
        "div" if round.is_some() => FloatOp::Div,
        "min" => FloatOp::Min { nan: mods.take("NaN") },
        "max" => FloatOp::Max { nan: mods.take("NaN") },
        "copysign" => FloatOp::Copysign,
        "fma" | "mad" => {
            mods.done()?;
            round.ok_or("no rounding")?;
            check(mode, approx, true)?;
            let [_, a, b, c] = exactly(operands)?;
            let (a, b, c) = (body.float(a, ty)?, body.float(b, ty)?, body.float(c, ty)?);
            return Ok(Op::Fma { mode, d, a, b, c });
        }
        _ => return unary(body, head, (mode, round, approx), mods, operands),
    };
    mods.done()?;
    let rounds = matches!(op, FloatOp::Add | FloatOp::Sub | FloatOp::Mul | FloatOp::Div);
    if round.is_some() && !rounds {
        return Err("a rounding".to_owned());
    }
    let saturates = matches!(op, FloatOp::Add | FloatOp::Sub | FloatOp::Mul);
    check(mode, approx && op != FloatOp::DivApprox, saturates)?;
    let [_, a, b] = exactly(operands)?;
    Ok(Op::Float { op, mode, d, a: body.float(a, ty)?, b: body.float(b, ty)? })
}

/// Rejects modifiers that the instruction does not have.
fn check(mode: FloatMode, approx: bool, saturates: bool) -> Result<(), String> {
    if approx {
        return Err("modifier `.approx`".to_owned());
    }
    if mode.sat && (!saturates || mode.ty == FloatTy::F64) {
        return Err("modifier `.sat`".to_owned());
    }
    check_ftz(mode.ty, mode.ftz)
}

pub(super) fn check_ftz(ty: FloatTy, ftz: bool) -> Result<(), String> {
    if ftz && ty == FloatTy::F64 { Err("modifier `.ftz` of an f64".to_owned()) } else { Ok(()) }
}

fn unary<'a>(
    body: &mut Body<'_, 'a>,
    head: &str,
    (mode, round, approx): (FloatMode, Option<Round>, bool),
    mods: Mods<'_>,
    operands: &[Operand<'a>],
) -> Result<Op, String> {
    mods.done()?;
    let is_f32 = mode.ty == FloatTy::F32;
    let op = match (head, round.is_some(), approx) {
        ("neg", false, false) => FloatUnary::Neg,
        ("abs", false, false) => FloatUnary::Abs,
        ("sqrt", true, false) => FloatUnary::Sqrt,
        ("rcp", true, false) => FloatUnary::Rcp,
        ("sqrt", false, true) if is_f32 => FloatUnary::SqrtApprox,
        ("rcp", false, true) if is_f32 || mode.ftz => FloatUnary::RcpApprox,
        ("rsqrt", false, true) => FloatUnary::RsqrtApprox,
        ("ex2", false, true) if is_f32 => FloatUnary::Ex2,
        ("lg2", false, true) if is_f32 => FloatUnary::Lg2,
        ("sin", false, true) if is_f32 => FloatUnary::Sin,
        ("cos", false, true) if is_f32 => FloatUnary::Cos,
        ("tanh", false, true) if is_f32 && !mode.ftz => FloatUnary::Tanh,
        _ => return Err("not in this form".to_owned()),
    };
    let coarse = matches!(op, FloatUnary::RcpApprox | FloatUnary::RsqrtApprox);
    if mode.sat || (mode.ftz && !is_f32 && !coarse) {
        return Err("`.sat`, or `.ftz` of an f64".to_owned());
    }
    let [d, a] = exactly(operands)?;
    let d = body.dst(d, Ty::Float(mode.ty).bits())?;
    Ok(Op::FloatUnary { op, mode, d, a: body.float(a, mode.ty)? })
}

fn testp<'a>(
    body: &mut Body<'_, 'a>,
    ty: FloatTy,
    mut mods: Mods<'_>,
    operands: &[Operand<'a>],
) -> Result<Op, String> {
    let tests = [
        ("finite", Testp::Finite),
        ("infinite", Testp::Infinite),
        ("number", Testp::Number),
        ("notanumber", Testp::NotANumber),
        ("normal", Testp::Normal),
        ("subnormal", Testp::Subnormal),
    ];
    let test = mods.take_of(&tests).ok_or("no test")?;
    mods.done()?;
    let [d, a] = exactly(operands)?;
    Ok(Op::Testp { test, ty, d: body.dst(d, 1)?, a: body.float(a, ty)? })
}

/// `cvt`, between all integers and floats.
pub(super) fn cvt<'a>(
    body: &mut Body<'_, 'a>,
    _head: &str,
    mut mods: Mods<'_>,
    operands: &[Operand<'a>],
) -> Result<Op, String> {
    let (from, to) = (mods.ty()?, mods.ty()?);
    let (ftz, sat) = (mods.take("ftz"), mods.take("sat"));
    let integral = mods.take_of(&[
        ("rni", Round::Nearest),
        ("rzi", Round::Zero),
        ("rmi", Round::Down),
        ("rpi", Round::Up),
    ]);
    let round = match (integral, mods.round()) {
        (None, None) => CvtRound::None,
        (Some(round), None) => CvtRound::Integral(round),
        (None, Some(round)) => CvtRound::Float(round),
        _ => return Err("two roundings".to_owned()),
    };
    mods.done()?;
    // The rounding is mandatory exactly where the result can be inexact.
    let fits = match (to, from) {
        (Ty::Int(_), Ty::Int(_)) => round == CvtRound::None && !ftz,
        (Ty::Int(_), Ty::Float(_)) => matches!(round, CvtRound::Integral(_)),
        (Ty::Float(_), Ty::Int(_)) => matches!(round, CvtRound::Float(_)) && !ftz,
        (Ty::Float(FloatTy::F32), Ty::Float(FloatTy::F64)) => matches!(round, CvtRound::Float(_)),
        (Ty::Float(FloatTy::F64), Ty::Float(FloatTy::F32)) => round == CvtRound::None,
        (Ty::Float(_), Ty::Float(_)) => !matches!(round, CvtRound::Float(_)),
    };
    let involves_f32 = [to, from].contains(&Ty::Float(FloatTy::F32));
    if !fits || (ftz && !involves_f32) {
        return Err("this rounding for these types".to_owned());
    }
    let [d, a] = exactly(operands)?;
    let (d, d_bits) = body.dst_wide(d, to.bits())?;
    let (a, _) = body.src_wide(a, from.bits())?;
    if to.bits() == 1 || from.bits() == 1 {
        return Err("a predicate".to_owned());
    }
    Ok(Op::Cvt(Box::new(Cvt { to, from, round, ftz, sat, d, d_bits, a })))
}
