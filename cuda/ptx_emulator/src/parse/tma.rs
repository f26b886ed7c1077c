//! `cp.async.bulk.tensor`, and prefetches of boxes and of tensor maps.

use super::function::Body;
use super::instruction::exactly;
use super::mods::Mods;
use super::operand::Operand;
use crate::instr::{Op, Slot, Space, TensorBox, TensorLoad, TensorStore};

/// The numbers of coordinates.
const RANKS: [(&str, usize); 5] = [("1d", 1), ("2d", 2), ("3d", 3), ("4d", 4), ("5d", 5)];

pub(super) fn read<'a>(
    body: &mut Body<'_, 'a>,
    _head: &str,
    mut mods: Mods<'_>,
    operands: &[Operand<'a>],
) -> Result<Op, String> {
    if !["async", "bulk", "tensor"].iter().all(|part| mods.take(part)) {
        return Err("not in this form".to_owned());
    }
    let rank = mods.take_of(&RANKS).ok_or("the number of dimensions")?;
    // A box is a tile unless another mode is named, which is left over and rejected.
    mods.take("tile");
    let has_policy = mods.take("L2::cache_hint");
    let (operands, policy) = match operands {
        [operands @ .., policy] if has_policy => (operands, Some(body.src(policy, 64)?)),
        _ if has_policy => return Err("too few operands".to_owned()),
        _ => (operands, None),
    };
    if mods.take("prefetch") {
        mods.ends(&[&["L2"], &["global"]])?;
        let [source] = exactly(operands)?;
        return Ok(Op::TensorPrefetch(Box::new(of_tensor(body, source, rank)?)));
    }
    if mods.take("bulk_group") {
        mods.ends(&[&["global"], &["shared::cta"]])?;
        let [target, source] = exactly(operands)?;
        let (target, source) = (of_tensor(body, target, rank)?, body.address(source, Space::Shared)?);
        return Ok(Op::TensorStore(Box::new(TensorStore { target, source, policy })));
    }
    load(body, mods, operands, rank, policy)
}

fn load<'a>(
    body: &mut Body<'_, 'a>,
    mut mods: Mods<'_>,
    operands: &[Operand<'a>],
    rank: usize,
    policy: Option<Slot>,
) -> Result<Op, String> {
    let is_multicast = mods.take("multicast::cluster");
    if !mods.take("mbarrier::complete_tx::bytes") {
        return Err("not in this form".to_owned());
    }
    let space =
        match mods.take_of(&[("shared::cluster", Space::SharedCluster), ("shared::cta", Space::Shared)]) {
            Some(space) if space == Space::SharedCluster || !is_multicast => space,
            _ => return Err("a state space".to_owned()),
        };
    mods.ends(&[&["global"]])?;
    let (operands, blocks) = match operands {
        [operands @ .., blocks] if is_multicast => (operands, Some(body.src(blocks, 16)?)),
        operands => (operands, None),
    };
    let [target, source, barrier] = exactly(operands)?;
    let source = of_tensor(body, source, rank)?;
    let (target, barrier) = (body.address(target, space)?, body.address(barrier, space)?);
    Ok(Op::TensorLoad(Box::new(TensorLoad { target, source, barrier, blocks, policy })))
}

/// `[map, {x, y}]`
fn of_tensor<'a>(body: &mut Body<'_, 'a>, operand: &Operand<'a>, rank: usize) -> Result<TensorBox, String> {
    let Operand::Tensor(map, at) = operand else {
        return Err("a tensor map with coordinates is expected".to_owned());
    };
    if at.len() != rank {
        return Err(format!("{} coordinates of {rank} dimensions", at.len()));
    }
    let at = at.iter().map(|at| body.src(at, 32)).collect::<Result<_, _>>()?;
    Ok(TensorBox { map: body.address(map, Space::Generic)?, at })
}

/// `prefetch.tensormap`.
pub(super) fn prefetch_map<'a>(
    body: &mut Body<'_, 'a>,
    _head: &str,
    mut mods: Mods<'_>,
    operands: &[Operand<'a>],
) -> Result<Op, String> {
    mods.take("tensormap");
    let space = mods.take_of(&[("param", Space::Param), ("const", Space::Const)]).unwrap_or(Space::Generic);
    mods.done()?;
    let [at] = exactly(operands)?;
    Ok(Op::MapPrefetch { at: body.address(at, space)? })
}
