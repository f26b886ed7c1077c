//! `cp`: asynchronous copies, and prefetches.

use super::bulk;
use super::function::Body;
use super::instruction::exactly;
use super::mods::Mods;
use super::operand::Operand;
use crate::instr::{CopyAsync, Op, Space};

pub(super) fn read<'a>(
    body: &mut Body<'_, 'a>,
    head: &str,
    mut mods: Mods<'_>,
    operands: &[Operand<'a>],
) -> Result<Op, String> {
    if mods.any(|part| part == "bulk") {
        return bulk::read(body, head, mods, operands);
    }
    if !mods.take("async") {
        return Err("unknown opcode".to_owned());
    }
    if mods.take("commit_group") {
        mods.done()?;
        let [] = exactly(operands)?;
        return Ok(Op::CopyCommit);
    }
    if mods.take("wait_all") {
        mods.done()?;
        let [] = exactly(operands)?;
        return Ok(Op::CopyWait { left: None });
    }
    if mods.take("wait_group") {
        mods.done()?;
        let [left] = exactly(operands)?;
        return Ok(Op::CopyWait { left: Some(body.src(left, 32)?) });
    }
    let (ca, cg) = (mods.take("ca"), mods.take("cg"));
    if ca == cg || !mods.take("shared") || !mods.take("global") {
        return Err("not in this form".to_owned());
    }
    mods.ignore(|part| matches!(part, "L2::64B" | "L2::128B" | "L2::256B"));
    mods.done()?;
    let (target, source, size, bytes) = match operands {
        [target, source, Operand::Int(size)] => (target, source, *size, None),
        [target, source, Operand::Int(size), bytes] => (target, source, *size, Some(body.src(bytes, 32)?)),
        _ => return Err("another number of operands".to_owned()),
    };
    if !(size == 16 || ca && matches!(size, 4 | 8)) {
        return Err(format!("a copy of {size} bytes"));
    }
    let (target, source) = (body.address(target, Space::Shared)?, body.address(source, Space::Global)?);
    Ok(Op::CopyAsync(Box::new(CopyAsync { target, source, size, bytes })))
}
