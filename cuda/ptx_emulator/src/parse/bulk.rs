//! `cp.async.bulk`.

use super::function::Body;
use super::instruction::exactly;
use super::memory;
use super::mods::Mods;
use super::operand::Operand;
use crate::instr::{BulkCopy, BulkStore, Op, Space};

pub(super) fn read<'a>(
    body: &mut Body<'_, 'a>,
    head: &str,
    mut mods: Mods<'_>,
    operands: &[Operand<'a>],
) -> Result<Op, String> {
    if mods.any(|part| part == "prefetch") {
        return memory::prefetch(body, head, mods, operands);
    }
    if !mods.take("async") || !mods.take("bulk") {
        return Err("not in this form".to_owned());
    }
    if mods.take("commit_group") {
        mods.done()?;
        let [] = exactly(operands)?;
        return Ok(Op::BulkCommit);
    }
    if mods.take("wait_group") {
        let read = mods.take("read");
        mods.done()?;
        let [left] = exactly(operands)?;
        return Ok(Op::BulkWait { left: body.src(left, 32)?, read });
    }
    if mods.take("bulk_group") {
        return store(body, mods, operands);
    }
    if !mods.take("mbarrier::complete_tx::bytes") {
        return Err("not in this form".to_owned());
    }
    mods.ends(&[&["shared::cluster", "shared::cta"], &["global"]])?;
    let [target, source, bytes, barrier] = exactly(operands)?;
    let (target, source) = (body.address(target, Space::Shared)?, body.address(source, Space::Global)?);
    let (bytes, barrier) = (body.src(bytes, 32)?, body.address(barrier, Space::Shared)?);
    Ok(Op::BulkCopy(Box::new(BulkCopy { target, source, bytes, barrier })))
}

fn store<'a>(body: &mut Body<'_, 'a>, mods: Mods<'_>, operands: &[Operand<'a>]) -> Result<Op, String> {
    mods.ends(&[&["global"], &["shared::cta"]])?;
    let [target, source, bytes] = exactly(operands)?;
    let (target, source) = (body.address(target, Space::Global)?, body.address(source, Space::Shared)?);
    Ok(Op::BulkStore(Box::new(BulkStore { target, source, bytes: body.src(bytes, 32)? })))
}
