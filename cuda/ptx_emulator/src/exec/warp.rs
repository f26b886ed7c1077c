//! Joint operations of threads: what a thread waits for, and its result once all have arrived.

use super::thread::Cx;
use super::{Exec, int};
use crate::error::Cause;
use crate::instr::{Barrier, BarrierRed, SINK, ShflMode, Slot, VoteMode, WarpKind, WarpOp};

/// What a thread waits for, with its operands.
#[derive(Clone, Copy, Debug)]
pub(super) enum Wait {
    Barrier(BarrierWait),
    Cluster {
        aligned: bool,
    },
    Warp(WarpWait),
    /// For the other threads of the warpgroup, at an instruction that all execute.
    Warpgroup,
    ActiveMask {
        d: Slot,
    },
}

#[derive(Clone, Copy, Debug)]
pub(super) struct BarrierWait {
    pub id: u32,
    /// Threads that take part; `None` for all.
    pub count: Option<u32>,
    pub aligned: bool,
    /// The reduction, and the thread's predicate.
    pub red: Option<(BarrierRed, bool)>,
    pub d: Slot,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct WarpWait {
    pub kind: WarpKind,
    pub mask: u32,
    pub a: u64,
    pub b: u32,
    pub c: u32,
    pub d: Slot,
    pub p: Slot,
}

pub(super) fn at_barrier(cx: &Cx<'_>, barrier: &Barrier) -> Exec<BarrierWait> {
    let id = cx.value(barrier.id)? as u32;
    if id > 15 {
        return Err(Cause::Unsupported(format!("barrier {id}; a block has 16")).into());
    }
    let count = match barrier.count {
        Some(count) => Some(cx.value(count)? as u32),
        None => None,
    };
    if count.is_some_and(|count| count == 0 || count % 32 != 0) {
        return Err(Cause::Unsupported(
            "a barrier of a number of threads that are no whole warps".to_owned(),
        )
        .into());
    }
    let (red, d) = match barrier.red {
        Some((kind, d, p, inverted)) => (Some((kind, (cx.value(p)? != 0) != inverted)), d),
        None => (None, SINK),
    };
    Ok(BarrierWait { id, count, aligned: barrier.aligned, red, d })
}

pub(super) fn at_warp_op(cx: &Cx<'_>, op: &WarpOp) -> Exec<Wait> {
    let (mask, lane) = (cx.value(op.mask)? as u32, cx.ids.lane);
    if mask & (1 << lane) == 0 {
        let instead = "executes the instruction and is not in its own mask".to_owned();
        return Err(Cause::Mask { lane, mask, missing: lane, instead }.into());
    }
    let a = cx.value(op.a)?;
    let a = if op.invert { u64::from(a == 0) } else { a };
    let (b, c) = (cx.value(op.b)? as u32, cx.value(op.c)? as u32);
    Ok(Wait::Warp(WarpWait { kind: op.kind, mask, a, b, c, d: op.d, p: op.p }))
}

/// The wait for all lanes, at a matrix instruction.
pub(super) fn at_tensor() -> Wait {
    Wait::Warp(WarpWait { kind: WarpKind::Tensor, mask: u32::MAX, a: 0, b: 0, c: 0, d: SINK, p: SINK })
}

/// The result of a reduction, for every thread of a barrier.
pub(super) fn reduce(waits: &[BarrierWait]) -> u64 {
    let set = waits.iter().filter(|wait| matches!(wait.red, Some((_, true)))).count();
    match waits.first().and_then(|wait| wait.red) {
        None => 0,
        Some((BarrierRed::Popc, _)) => set as u64,
        Some((BarrierRed::And, _)) => u64::from(set == waits.len()),
        Some((BarrierRed::Or, _)) => u64::from(set > 0),
    }
}

/// Result and predicate of a complete warp operation for one lane of its mask.
pub(super) fn outcome(lanes: &[Option<WarpWait>; 32], lane: u32, own: &WarpWait) -> Exec<(u64, bool)> {
    let mask = own.mask;
    let members = || (0..32).filter(|i| mask & (1 << i) != 0).filter_map(|i| Some((i, lanes[i as usize]?)));
    let ballot = |holds: &dyn Fn(&WarpWait) -> bool| -> u32 {
        members().filter(|(_, wait)| holds(wait)).fold(0, |ballot, (i, _)| ballot | 1 << i)
    };
    Ok(match own.kind {
        // A matrix instruction has written its results.
        WarpKind::Sync | WarpKind::Tensor => (0, false),
        WarpKind::Shfl(mode) => shuffle(lanes, lane, own, mode)?,
        WarpKind::Vote(mode) => {
            let set = ballot(&|wait| wait.a != 0);
            let value = match mode {
                VoteMode::All => u64::from(set == mask),
                VoteMode::Any => u64::from(set != 0),
                VoteMode::Uni => u64::from(set == mask || set == 0),
                VoteMode::Ballot => u64::from(set),
            };
            (value, false)
        }
        WarpKind::MatchAny(_) => (u64::from(ballot(&|wait| wait.a == own.a)), false),
        WarpKind::MatchAll(_) => {
            let all = ballot(&|wait| wait.a == own.a) == mask;
            (if all { u64::from(mask) } else { 0 }, all)
        }
        WarpKind::Redux(op, ty) => {
            let mut values = members().map(|(_, wait)| wait.a);
            let mut value = values.next().unwrap_or_default();
            for next in values {
                value = int::binary(op, ty, value, next).unwrap_or_default();
            }
            (value, false)
        }
    })
}

/// `shfl.sync`, from the pseudo-code in the ISA.
fn shuffle(lanes: &[Option<WarpWait>; 32], lane: u32, own: &WarpWait, mode: ShflMode) -> Exec<(u64, bool)> {
    let (b, clamp, segments) = (own.b & 31, own.c & 31, (own.c >> 8) & 31);
    let max_lane = (lane & segments) | (clamp & !segments);
    let min_lane = lane & segments;
    let (source, in_range) = match mode {
        ShflMode::Up => {
            let source = lane as i32 - b as i32;
            (source as u32, source >= max_lane as i32)
        }
        ShflMode::Down => (lane + b, lane + b <= max_lane),
        ShflMode::Bfly => (lane ^ b, (lane ^ b) <= max_lane),
        ShflMode::Idx => {
            let source = min_lane | (b & !segments);
            (source, source <= max_lane)
        }
    };
    let source_lane = if in_range { source } else { lane };
    match lanes[source_lane as usize & 31] {
        Some(wait) if own.mask & (1 << source_lane) != 0 => Ok((wait.a, in_range)),
        _ => Err(Cause::ShuffleSource { lane, source_lane, mask: own.mask }.into()),
    }
}
