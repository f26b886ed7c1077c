//! `mbarrier`.

use super::function::Body;
use super::mods::Mods;
use super::operand::Operand;
use crate::instr::{Mbarrier, MbarrierKind, Op, SINK, Space};

pub(super) fn read<'a>(
    body: &mut Body<'_, 'a>,
    _head: &str,
    mut mods: Mods<'_>,
    operands: &[Operand<'a>],
) -> Result<Op, String> {
    let is_remote = mods.take("shared::cluster");
    if mods.pop() != Some("b64") || !(is_remote || mods.take("shared") || mods.take("shared::cta")) {
        return Err("type or state space".to_owned());
    }
    mods.ignore(|part| matches!(part, "release" | "acquire" | "relaxed" | "cta" | "cluster"));
    let expects = mods.take("expect_tx");
    let kinds = [
        ("init", MbarrierKind::Init),
        ("inval", MbarrierKind::Inval),
        ("arrive", MbarrierKind::Arrive { expects }),
        ("complete_tx", MbarrierKind::CompleteTx),
        ("test_wait", MbarrierKind::Wait { parity: false }),
        ("try_wait", MbarrierKind::Wait { parity: false }),
    ];
    let kind = match mods.take_of(&kinds) {
        Some(MbarrierKind::Wait { .. }) => MbarrierKind::Wait { parity: mods.take("parity") },
        Some(kind) => kind,
        None if expects => MbarrierKind::ExpectTx,
        None => return Err("not in this form".to_owned()),
    };
    mods.done()?;
    if is_remote && !matches!((kind, operands), (MbarrierKind::Arrive { .. }, [Operand::Word("_"), ..])) {
        return Err("not for other blocks, or with a state".to_owned());
    }
    let one = body.number(1);
    let (d, at, a) = match (kind, operands) {
        (MbarrierKind::Inval, [at]) => (SINK, at, one),
        (MbarrierKind::Init | MbarrierKind::ExpectTx | MbarrierKind::CompleteTx, [at, a]) => {
            (SINK, at, body.src(a, 32)?)
        }
        (MbarrierKind::Arrive { expects: false }, [d, at]) => (body.dst(d, 64)?, at, one),
        (MbarrierKind::Arrive { .. }, [d, at, a]) => (body.dst(d, 64)?, at, body.src(a, 32)?),
        (MbarrierKind::Wait { parity }, [d, at, a]) => {
            (body.dst(d, 1)?, at, body.src(a, if parity { 32 } else { 64 })?)
        }
        _ => return Err("another number of operands".to_owned()),
    };
    let space = if is_remote { Space::SharedCluster } else { Space::Shared };
    Ok(Op::Mbarrier(Box::new(Mbarrier { kind, at: body.address(at, space)?, d, a })))
}
