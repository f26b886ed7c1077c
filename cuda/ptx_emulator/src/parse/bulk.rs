//! `cp.async.bulk`.

use super::function::Body;
use super::instruction::exactly;
use super::memory;
use super::mods::Mods;
use super::operand::Operand;
use crate::instr::{BulkCopy, Op, Space};

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
    let to_shared = mods.take("shared::cluster") || mods.take("shared::cta");
    if !to_shared || !mods.take("global") || !mods.take("mbarrier::complete_tx::bytes") {
        return Err("not in this form".to_owned());
    }
    mods.done()?;
    let [target, source, bytes, barrier] = exactly(operands)?;
    let (target, source) = (body.address(target, Space::Shared)?, body.address(source, Space::Global)?);
    let (bytes, barrier) = (body.src(bytes, 32)?, body.address(barrier, Space::Shared)?);
    Ok(Op::BulkCopy(Box::new(BulkCopy { target, source, bytes, barrier })))
}
