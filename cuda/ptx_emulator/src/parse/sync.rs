//! Control flow, fences and barriers.

use super::function::Body;
use super::instruction::exactly;
use super::mods::Mods;
use super::operand::Operand;
use super::warp;
use crate::instr::{Barrier, BarrierRed, Call, Callee, Op};

pub(super) fn read<'a>(
    body: &mut Body<'_, 'a>,
    head: &str,
    mut mods: Mods<'_>,
    operands: &[Operand<'a>],
) -> Result<Op, String> {
    match head {
        "bra" => {
            mods.take("uni");
            mods.done()?;
            match operands {
                [Operand::Word(_)] => Ok(Op::Bra(0)),
                _ => Err("another number of operands".to_owned()),
            }
        }
        "brx" => {
            mods.take("uni");
            if !mods.take("idx") {
                return Err("not in this form".to_owned());
            }
            mods.done()?;
            let [index, _] = exactly(operands)?;
            Ok(Op::BrxIdx { index: body.src(index, 32)?, targets: Box::default() })
        }
        "call" => {
            mods.take("uni");
            mods.done()?;
            call(body, operands)
        }
        "ret" => {
            mods.take("uni");
            mods.done().map(|()| Op::Ret)
        }
        "exit" => mods.done().map(|()| Op::Exit),
        "trap" => mods.done().map(|()| Op::Trap),
        "nanosleep" => {
            mods.take("u32");
            mods.done().map(|()| Op::Yield)
        }
        "fence" if mods.take("proxy") => {
            if !mods.take("async") {
                return Err("not in this form".to_owned());
            }
            // Other memory never needs this fence, as far as is known.
            let is_shared = !mods.take("global");
            mods.take("shared::cta");
            mods.done()?;
            Ok(if is_shared { Op::FenceProxy { barriers_alone: false } } else { Op::Nop })
        }
        "fence" if mods.take("mbarrier_init") => {
            mods.ends(&[&["release"], &["cluster"]])?;
            Ok(Op::FenceProxy { barriers_alone: true })
        }
        "membar" | "fence" => {
            mods.ignore(|part| {
                matches!(
                    part,
                    "sc" | "acq_rel" | "acquire" | "release" | "cta" | "gl" | "gpu" | "sys" | "cluster"
                )
            });
            mods.done().map(|()| Op::Nop)
        }
        // Grids run one after the other, so the awaited grid has ended.
        "griddepcontrol" => {
            if !mods.take("wait") && !mods.take("launch_dependents") {
                return Err("not in this form".to_owned());
            }
            mods.done().map(|()| Op::Nop)
        }
        "setmaxnreg" => {
            let more = mods.take_of(&[("inc", true), ("dec", false)]).ok_or("not in this form")?;
            mods.ends(&[&["sync"], &["aligned"], &["u32"]])?;
            match exactly(operands)? {
                [Operand::Int(count @ 24..=256)] if count % 8 == 0 => {
                    Ok(Op::MaxRegisters { count: *count as u32, more })
                }
                _ => Err("a number of registers".to_owned()),
            }
        }
        "pmevent" => {
            mods.take("mask");
            mods.done().map(|()| Op::Nop)
        }
        "activemask" => {
            mods.take("b32");
            mods.done()?;
            let [d] = exactly(operands)?;
            Ok(Op::ActiveMask { d: body.dst(d, 32)? })
        }
        "bar" if mods.take("warp") => warp::read(body, head, mods, operands),
        "barrier" if mods.take("cluster") => cluster_barrier(mods, operands),
        "bar" | "barrier" => barrier(body, head, mods, operands),
        _ => warp::read(body, head, mods, operands),
    }
}

fn call<'a>(body: &mut Body<'_, 'a>, operands: &[Operand<'a>]) -> Result<Op, String> {
    let (result, rest) = match operands {
        [Operand::List(results), rest @ ..] => match results.as_slice() {
            [result] => (Some(body.param_range(result)?), rest),
            _ => return Err("another number of results".to_owned()),
        },
        rest => (None, rest),
    };
    let (name, args) = match rest {
        [Operand::Word(name)] => (name, &[][..]),
        // An indirect call may end in a prototype or possible targets, which are not needed.
        [Operand::Word(name), Operand::List(args)] | [Operand::Word(name), Operand::List(args), _] => {
            (name, args.as_slice())
        }
        [Operand::Word(name), Operand::Word(_)] if name.starts_with('%') => (name, &[][..]),
        _ => return Err("a call in another form".to_owned()),
    };
    let args = args.iter().map(|arg| body.param_range(arg)).collect::<Result<Vec<_>, _>>()?;
    let callee = if name.starts_with('%') {
        Callee::Address(body.src(&Operand::Word(name), 64)?)
    } else {
        Callee::Name((*name).to_owned())
    };
    Ok(Op::Call(Box::new(Call { callee, args: args.into(), result })))
}

fn cluster_barrier(mut mods: Mods<'_>, operands: &[Operand<'_>]) -> Result<Op, String> {
    let aligned = mods.take("aligned");
    mods.ignore(|part| matches!(part, "release" | "relaxed" | "acquire"));
    let op = if mods.take("arrive") {
        Op::ClusterArrive
    } else if mods.take("wait") {
        Op::ClusterWait { aligned }
    } else {
        return Err("not in this form".to_owned());
    };
    mods.done()?;
    let [] = exactly(operands)?;
    Ok(op)
}

fn barrier<'a>(
    body: &mut Body<'_, 'a>,
    head: &str,
    mut mods: Mods<'_>,
    operands: &[Operand<'a>],
) -> Result<Op, String> {
    mods.take("cta");
    let aligned = mods.take("aligned") || head == "bar";
    let arrives = mods.take("arrive");
    if arrives || mods.take("sync") {
        mods.done()?;
        let (id, count) = match operands {
            [id] if !arrives => (id, None),
            [id, count] => (id, Some(body.src(count, 32)?)),
            _ => return Err("another number of operands".to_owned()),
        };
        return Ok(Op::Barrier(Box::new(Barrier {
            id: body.src(id, 32)?,
            count,
            aligned,
            arrives,
            red: None,
        })));
    }
    if !mods.take("red") {
        return Err("not in this form".to_owned());
    }
    let kinds = [("popc", BarrierRed::Popc), ("and", BarrierRed::And), ("or", BarrierRed::Or)];
    let kind = mods.take_of(&kinds).ok_or("reduction")?;
    let bits = mods.int_ty()?.bits;
    mods.done()?;
    if bits != if kind == BarrierRed::Popc { 32 } else { 1 } {
        return Err("the type".to_owned());
    }
    let (d, id, count, p) = match operands {
        [d, id, p] => (d, id, None, p),
        [d, id, count, p] => (d, id, Some(body.src(count, 32)?), p),
        _ => return Err("another number of operands".to_owned()),
    };
    let (p, inverted) = body.pred(p)?;
    let red = Some((kind, body.dst(d, bits)?, p, inverted));
    Ok(Op::Barrier(Box::new(Barrier { id: body.src(id, 32)?, count, aligned, arrives: false, red })))
}
