//! Operations among the lanes of a warp.

use super::function::Body;
use super::instruction::exactly;
use super::mods::Mods;
use super::operand::Operand;
use crate::instr::{IntOp, IntTy, Op, SINK, ShflMode, VoteMode, WarpKind, WarpOp};

pub(super) fn read<'a>(
    body: &mut Body<'_, 'a>,
    head: &str,
    mut mods: Mods<'_>,
    operands: &[Operand<'a>],
) -> Result<Op, String> {
    if !mods.take("sync") {
        return Err("without `.sync`".to_owned());
    }
    if head == "bar" {
        mods.done()?;
        let [mask] = exactly(operands)?;
        return Ok(Op::Warp(Box::new(plain(body, WarpKind::Sync, mask)?)));
    }
    let ty = mods.int_ty()?;
    let read = match head {
        "shfl" => shfl,
        "vote" => vote,
        "match" => matching,
        _ => redux,
    };
    read(body, ty, mods, operands).map(|op| Op::Warp(Box::new(op)))
}

/// An operation without operands.
fn plain<'a>(body: &mut Body<'_, 'a>, kind: WarpKind, mask: &Operand<'a>) -> Result<WarpOp, String> {
    let (none, mask) = (body.number(0), body.src(mask, 32)?);
    Ok(WarpOp { kind, mask, d: SINK, p: SINK, a: none, invert: false, b: none, c: none })
}

fn shfl<'a>(
    body: &mut Body<'_, 'a>,
    _ty: IntTy,
    mut mods: Mods<'_>,
    operands: &[Operand<'a>],
) -> Result<WarpOp, String> {
    let modes =
        [("up", ShflMode::Up), ("down", ShflMode::Down), ("bfly", ShflMode::Bfly), ("idx", ShflMode::Idx)];
    let mode = mods.take_of(&modes).ok_or("mode")?;
    mods.done()?;
    let [d, a, b, c, mask] = exactly(operands)?;
    let (d, p) = body.dst_pair(d, 32)?;
    let (a, b, c) = (body.src(a, 32)?, body.src(b, 32)?, body.src(c, 32)?);
    Ok(WarpOp { d, p, a, b, c, ..plain(body, WarpKind::Shfl(mode), mask)? })
}

fn vote<'a>(
    body: &mut Body<'_, 'a>,
    ty: IntTy,
    mut mods: Mods<'_>,
    operands: &[Operand<'a>],
) -> Result<WarpOp, String> {
    let modes = [
        ("all", VoteMode::All),
        ("any", VoteMode::Any),
        ("uni", VoteMode::Uni),
        ("ballot", VoteMode::Ballot),
    ];
    let mode = mods.take_of(&modes).ok_or("mode")?;
    mods.done()?;
    if ty.bits != if mode == VoteMode::Ballot { 32 } else { 1 } {
        return Err("the type".to_owned());
    }
    let [d, a, mask] = exactly(operands)?;
    let (d, (a, invert)) = (body.dst(d, ty.bits)?, body.pred(a)?);
    Ok(WarpOp { d, a, invert, ..plain(body, WarpKind::Vote(mode), mask)? })
}

fn matching<'a>(
    body: &mut Body<'_, 'a>,
    ty: IntTy,
    mut mods: Mods<'_>,
    operands: &[Operand<'a>],
) -> Result<WarpOp, String> {
    let kind = match (mods.take("any"), mods.take("all")) {
        (true, false) => WarpKind::MatchAny(ty.bits),
        (false, true) => WarpKind::MatchAll(ty.bits),
        _ => return Err("mode".to_owned()),
    };
    mods.done()?;
    let [d, a, mask] = exactly(operands)?;
    let ((d, p), a) = (body.dst_pair(d, 32)?, body.src(a, ty.bits)?);
    Ok(WarpOp { d, p, a, ..plain(body, kind, mask)? })
}

fn redux<'a>(
    body: &mut Body<'_, 'a>,
    ty: IntTy,
    mut mods: Mods<'_>,
    operands: &[Operand<'a>],
) -> Result<WarpOp, String> {
    let ops = [
        ("add", IntOp::Add),
        ("min", IntOp::Min),
        ("max", IntOp::Max),
        ("and", IntOp::And),
        ("or", IntOp::Or),
        ("xor", IntOp::Xor),
    ];
    let op = mods.take_of(&ops).ok_or("operation")?;
    mods.done()?;
    if ty.bits != 32 {
        return Err("the type".to_owned());
    }
    let [d, a, mask] = exactly(operands)?;
    let (d, a) = (body.dst(d, 32)?, body.src(a, 32)?);
    Ok(WarpOp { d, a, ..plain(body, WarpKind::Redux(op, ty), mask)? })
}
