//! Joint operations of threads: what a thread waits for, and its result once all have arrived.

use super::grid::Exec;
use super::row::Flow;
use super::thread::Cx;
use super::wait::{BarrierRed, BarrierWait, Lanes, Wait, WarpWait};
use crate::error::Cause;
use crate::instr::{Form, Instr, SINK, flag};

impl Cx<'_> {
    fn barrier_wait(&self, i: &Instr, red: Option<BarrierRed>) -> Exec<BarrierWait> {
        let unsupported = |reason: String| Cause::Unsupported(reason).into();
        let id = self.value(i.a)? as u32;
        if id > 15 {
            return Err(unsupported(format!("barrier {id}; a block has 16")));
        }
        let count = if i.b == SINK { None } else { Some(self.value(i.b)? as u32) };
        if count.is_some_and(|count| count == 0 || count % 32 != 0) {
            return Err(unsupported("a barrier of a number of threads that are no whole warps".to_owned()));
        }
        let red = match red {
            Some(red) => Some((red, (self.value(i.c)? != 0) != i.form.has(flag::NOT))),
            None => None,
        };
        Ok(BarrierWait { id, count, aligned: i.form.has(flag::ALIGNED), red, d: i.d })
    }

    /// `bar.sync` and `bar.red`.
    pub fn at_barrier(&mut self, i: &Instr, red: Option<BarrierRed>) -> Exec<Flow> {
        self.barrier_wait(i, red).map(|wait| Flow::Wait(Wait::Barrier(wait)))
    }

    /// `bar.arrive`.
    pub fn arrive_at(&mut self, i: &Instr) -> Exec<Flow> {
        let BarrierWait { id, count, .. } = self.barrier_wait(i, None)?;
        let count = count.unwrap_or_default();
        let (wanted, here) = self.shared.arrivals.entry((self.ids.rank, id)).or_insert((count, 0));
        *here += 1;
        if *wanted == count { Ok(Flow::Yield) } else { Err(disagree(id, count, *wanted).into()) }
    }

    /// `barrier.cluster.arrive`.
    pub fn arrive(&mut self) -> Exec {
        if core::mem::replace(self.has_arrived, true) {
            let reason = "barrier.cluster.arrive after an arrival that was not waited for";
            return Err(Cause::Cluster(reason.to_owned()).into());
        }
        Ok(())
    }

    /// `barrier.cluster.wait`.
    pub fn at_cluster_barrier(&mut self, i: &Instr) -> Exec<Flow> {
        if !core::mem::take(self.has_arrived) {
            let reason = "barrier.cluster.wait without barrier.cluster.arrive before it";
            return Err(Cause::Cluster(reason.to_owned()).into());
        }
        Ok(Flow::Wait(Wait::Cluster { aligned: i.form.has(flag::ALIGNED) }))
    }

    /// An operation of the lanes of the mask in the last operand.
    pub fn at_warp_operation(&self, i: &Instr) -> Exec<Flow> {
        let (mask, lane) = (self.value(i.e)? as u32, self.ids.lane);
        if mask & (1 << lane) == 0 {
            let instead = "executes the instruction and is not in its own mask".to_owned();
            return Err(Cause::Mask { lane, mask, missing: lane, instead }.into());
        }
        let a = self.value(i.a)?;
        let a = if i.form.has(flag::NOT) { u64::from(a == 0) } else { a };
        let (b, c) = (self.value(i.b)? as u32, self.value(i.c)? as u32);
        Ok(Flow::Wait(Wait::Warp(WarpWait { kind: (i.row, i.form.ty), mask, a, b, c, d: i.d, p: i.p })))
    }
}

/// The fault of threads that disagree on a barrier's thread count.
pub(crate) fn disagree(id: u32, count: u32, wanted: u32) -> Cause {
    Cause::Unsupported(format!("barrier {id} of {count} threads, and of {wanted}"))
}

/// The result of a reduction, for every thread of a barrier.
pub(crate) fn reduce(waits: &[BarrierWait]) -> u64 {
    let set = waits.iter().filter(|wait| matches!(wait.red, Some((_, true)))).count();
    match waits.first().and_then(|wait| wait.red) {
        None => 0,
        Some((BarrierRed::Popc, _)) => set as u64,
        Some((BarrierRed::And, _)) => u64::from(set == waits.len()),
        Some((BarrierRed::Or, _)) => u64::from(set > 0),
    }
}

/// The members of the mask with their lanes.
fn members<'l>(lanes: &'l Lanes, own: &WarpWait) -> impl Iterator<Item = (usize, &'l WarpWait)> {
    let mask = own.mask;
    let member = move |(lane, wait): (usize, &'l Option<WarpWait>)| Some((lane, wait.as_ref()?));
    lanes.iter().enumerate().filter(move |(lane, _)| mask >> lane & 1 == 1).filter_map(member)
}

/// The lanes for which `holds`.
fn lanes_with(lanes: &Lanes, own: &WarpWait, holds: impl Fn(&WarpWait) -> bool) -> u32 {
    members(lanes, own).filter(|(_, wait)| holds(wait)).fold(0, |all, (lane, _)| all | 1 << lane)
}

/// The lanes whose predicate is set.
pub(crate) fn ballot(lanes: &Lanes, own: &WarpWait) -> u32 {
    lanes_with(lanes, own, |wait| wait.a != 0)
}

/// The lanes with the same value.
pub(crate) fn matches(lanes: &Lanes, own: &WarpWait) -> u32 {
    lanes_with(lanes, own, |wait| wait.a == own.a)
}

/// `redux.sync`.
pub(crate) fn fold(lanes: &Lanes, own: &WarpWait, by: fn(&Form, u64, u64, u64) -> u64) -> (u64, bool) {
    let form = Form { ty: own.kind.1, ..Form::default() };
    let values = members(lanes, own).map(|(_, wait)| wait.a);
    let all = values.reduce(|a, b| by(&form, a, b, 0) & form.ty.mask());
    (all.unwrap_or_default(), false)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shuffle {
    Up,
    Down,
    Bfly,
    Idx,
}

/// `shfl.sync`, from the pseudo-code in the ISA.
pub(crate) fn shuffle(lanes: &Lanes, lane: u32, own: &WarpWait, mode: Shuffle) -> Exec<(u64, bool)> {
    let (b, clamp, segments) = (own.b & 31, own.c & 31, (own.c >> 8) & 31);
    let max_lane = (lane & segments) | (clamp & !segments);
    let min_lane = lane & segments;
    let (source, in_range) = match mode {
        Shuffle::Up => (lane.wrapping_sub(b), lane as i32 - b as i32 >= max_lane as i32),
        Shuffle::Down => (lane + b, lane + b <= max_lane),
        Shuffle::Bfly => (lane ^ b, (lane ^ b) <= max_lane),
        Shuffle::Idx => {
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
