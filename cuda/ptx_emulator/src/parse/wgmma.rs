//! `wgmma`.

use super::function::Body;
use super::mods::Mods;
use super::operand::Operand;
use crate::instr::{HalfTy, Left, Multiply, Op, Slot, Wgmma, WgmmaTy};

pub(super) fn read<'a>(
    body: &mut Body<'_, 'a>,
    _head: &str,
    mut mods: Mods<'_>,
    operands: &[Operand<'a>],
) -> Result<Op, String> {
    let kind = mods.first()?;
    if !(mods.take("sync") && mods.take("aligned")) {
        return Err("without `.sync.aligned`".to_owned());
    }
    let wgmma = match (kind, operands) {
        ("fence", []) => Wgmma::Fence,
        ("commit_group", []) => Wgmma::Commit,
        ("wait_group", [Operand::Int(left)]) => Wgmma::Wait { left: *left },
        ("mma_async", _) => return multiply(body, mods, operands),
        _ => return Err("not in this form".to_owned()),
    };
    mods.done()?;
    Ok(Op::Wgmma(Box::new(wgmma)))
}

/// The n of a shape such as `m64n8k16`, if it is valid for this element type.
fn columns(shape: &str, ty: WgmmaTy) -> Option<usize> {
    let (n, k) = shape.strip_prefix("m64n")?.split_once('k')?;
    let n: usize = n.parse().ok()?;
    (matches!(n, 8..=256) && n.is_multiple_of(8) && k.parse() == Ok(ty.k())).then_some(n)
}

fn multiply<'a>(body: &mut Body<'_, 'a>, mut mods: Mods<'_>, operands: &[Operand<'a>]) -> Result<Op, String> {
    let types = [
        ("f16", WgmmaTy::Half(HalfTy::F16)),
        ("bf16", WgmmaTy::Half(HalfTy::Bf16)),
        ("tf32", WgmmaTy::Tf32),
        ("e4m3", WgmmaTy::E4m3),
    ];
    let shape = mods.first()?;
    if mods.first()? != "f32" {
        return Err("the type of the accumulators".to_owned());
    }
    let (a_ty, b_ty) = (mods.take_of(&types).ok_or("type")?, mods.take_of(&types).ok_or("type")?);
    mods.done()?;
    if a_ty != b_ty {
        return Err("types".to_owned());
    }
    let n = columns(shape, a_ty).ok_or("shape")?;
    let [d, a, b, keep, scale_a, scale_b, trans @ ..] = operands else {
        return Err("too few operands".to_owned());
    };
    let d = d.vector(n / 2)?.iter().map(|d| body.dst(d, 32)).collect::<Result<Box<[Slot]>, _>>()?;
    let mut distinct = d.to_vec();
    distinct.sort_unstable();
    distinct.dedup();
    if distinct.len() < d.len() {
        return Err("an accumulator twice".to_owned());
    }
    // 16-bit elements in shared memory may lie with M or N innermost.
    let may_trans = matches!(a_ty, WgmmaTy::Half(_));
    let (a, b_trans) = match (a, trans) {
        (Operand::Vector(_), _) => {
            let registers = a.vector(4)?.iter().map(|a| body.src(a, 32)).collect::<Result<_, _>>()?;
            let b_trans = match trans {
                [b] if may_trans => flag(b)?,
                [] if !may_trans => false,
                _ => return Err("another number of operands".to_owned()),
            };
            (Left::Registers(registers), b_trans)
        }
        (_, [a_trans, b_trans]) if may_trans => {
            (Left::Descriptor { at: body.src(a, 64)?, trans: flag(a_trans)? }, flag(b_trans)?)
        }
        (_, []) if !may_trans => (Left::Descriptor { at: body.src(a, 64)?, trans: false }, false),
        _ => return Err("another number of operands".to_owned()),
    };
    let keep = body.pred(keep)?;
    let negate = [scale(scale_a)?, scale(scale_b)?];
    let b = body.src(b, 64)?;
    let multiply = Multiply { ty: a_ty, n, d, a, b, b_trans, keep, negate };
    Ok(Op::Wgmma(Box::new(Wgmma::Multiply(multiply))))
}

/// 1, or -1 for a negation.
fn scale(operand: &Operand<'_>) -> Result<bool, String> {
    match operand {
        Operand::Int(1) => Ok(false),
        Operand::Int(u64::MAX) => Ok(true),
        _ => Err("a scale other than 1 and -1".to_owned()),
    }
}

fn flag(operand: &Operand<'_>) -> Result<bool, String> {
    match operand {
        Operand::Int(flag @ (0 | 1)) => Ok(*flag == 1),
        _ => Err("a flag other than 0 and 1".to_owned()),
    }
}
