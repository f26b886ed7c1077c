//! `cp.async.bulk`.

use super::function::Body;
use super::instruction::exactly;
use super::memory;
use super::mods::Mods;
use super::operand::Operand;
use crate::instr::{BulkCopy, BulkStore, Op, Space, StoreAsync};

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
    let (to, from) = if mods.ends(&[&["shared::cluster"], &["global"]]).is_ok() {
        (Space::SharedCluster, Space::Global)
    } else if mods.ends(&[&["shared::cta"], &["global"]]).is_ok() {
        (Space::Shared, Space::Global)
    } else {
        mods.ends(&[&["shared::cluster"], &["shared::cta"]])?;
        (Space::SharedCluster, Space::Shared)
    };
    let [target, source, bytes, barrier] = exactly(operands)?;
    let (target, source) = (body.address(target, to)?, body.address(source, from)?);
    let (bytes, barrier) = (body.src(bytes, 32)?, body.address(barrier, to)?);
    Ok(Op::BulkCopy(Box::new(BulkCopy { target, source, bytes, barrier })))
}

fn store<'a>(body: &mut Body<'_, 'a>, mods: Mods<'_>, operands: &[Operand<'a>]) -> Result<Op, String> {
    mods.ends(&[&["global"], &["shared::cta"]])?;
    let [target, source, bytes] = exactly(operands)?;
    let (target, source) = (body.address(target, Space::Global)?, body.address(source, Space::Shared)?);
    Ok(Op::BulkStore(Box::new(BulkStore { target, source, bytes: body.src(bytes, 32)? })))
}

/// `st.async`.
pub(super) fn store_async<'a>(
    body: &mut Body<'_, 'a>,
    _head: &str,
    mut mods: Mods<'_>,
    operands: &[Operand<'a>],
) -> Result<Op, String> {
    mods.take("async");
    mods.take("weak");
    let bits = mods.ty()?.bits();
    let count = mods.take_of(&[("v2", 2), ("v4", 4)]).unwrap_or(1);
    mods.ends(&[&["shared::cluster"], &["mbarrier::complete_tx::bytes"]])?;
    if !matches!((bits, count), (32, _) | (64, 1 | 2)) {
        return Err("a type or vector".to_owned());
    }
    let [at, values, barrier] = exactly(operands)?;
    let values = if count == 1 { core::slice::from_ref(values) } else { values.vector(count)? };
    let values = values.iter().map(|value| body.src(value, bits)).collect::<Result<Vec<_>, _>>()?;
    let (at, barrier) =
        (body.address(at, Space::SharedCluster)?, body.address(barrier, Space::SharedCluster)?);
    let bytes = u64::from(bits / 8);
    Ok(Op::StoreAsync(Box::new(StoreAsync { at, values: values.into(), bytes, barrier })))
}
