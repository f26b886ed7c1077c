//! Decides when a collective operation is complete, and computes each thread's result: pure functions of the requests,
//! shared by every scheduler.

use core::mem::discriminant;

use super::context::{Barrier, Collective, Outcome, Request, ShuffleMode, WARP_SIZE, WarpOp};
use crate::mma::Exchange;
use crate::warp::{Fold, NumberType, WarpReductionOp};

/// A result for each lane.
pub(super) type Outcomes = [Outcome; WARP_SIZE as usize];

/// What the lanes of a warp are doing.
pub(super) type Lanes<'a> = [Lane<'a>; WARP_SIZE as usize];

/// What one lane is doing while the warp waits.
#[derive(Clone, Copy, Debug)]
pub(super) enum Lane<'a> {
    /// The block has no such thread.
    Absent,
    /// It has returned from the kernel.
    Returned,
    /// It waits for others.
    Waits(&'a Request),
}

/// A rule broken by the mask of a warp operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MaskError {
    /// The caller `lane` is not in its own mask.
    CallerNotInMask { lane: u32, mask: u32 },
    /// `lane` waits for `missing`, which its mask names.
    NotTakingPart { lane: u32, mask: u32, missing: u32 },
}

/// Returns the lanes with a complete warp operation, one bit for each, and writes their results to `outcomes`.
pub(super) fn complete_warp_ops(lanes: &Lanes<'_>, outcomes: &mut Outcomes) -> Result<u32, MaskError> {
    let mut done = 0;
    let mut lane = 0;
    while lane < WARP_SIZE {
        if done & (1 << lane) == 0
            && let Some((mask, op)) = warp_op(lanes, lane)
        {
            if mask & (1 << lane) == 0 {
                return Err(MaskError::CallerNotInMask { lane, mask });
            }
            // Each group is checked once, at its lowest lane.
            if mask.trailing_zeros() == lane && missing_lane(lanes, mask, op).is_none() {
                complete_group(lanes, mask, op, outcomes);
                done |= mask;
            }
        }
        lane += 1;
    }
    Ok(done)
}

/// Computes the results of the lanes in `mask`, which all wait in this operation.
fn complete_group(lanes: &Lanes<'_>, mask: u32, op: &WarpOp, outcomes: &mut Outcomes) {
    let common = match *op {
        WarpOp::Sync => return,
        WarpOp::Exchange { exchange, .. } => return complete_exchange(lanes, exchange),
        WarpOp::Fold { fold, of, width, .. } => {
            return complete_fold(lanes, mask, (fold, of, width), outcomes);
        }
        WarpOp::Shuffle { .. } | WarpOp::MatchAny(_) => None,
        _ => Some(outcome(lanes, mask.trailing_zeros(), mask)),
    };
    let mut rest = mask;
    while rest != 0 {
        let lane = rest.trailing_zeros();
        outcomes[lane as usize] = match common {
            Some(common) => common,
            None => outcome(lanes, lane, mask),
        };
        rest &= rest - 1;
    }
}

/// Computes the results of a [`WarpOp::Fold`].
fn complete_fold(
    lanes: &Lanes<'_>,
    mask: u32,
    (which, of, width): (Fold, NumberType, u32),
    outcomes: &mut Outcomes,
) {
    let mut values = UNDEFINED;
    for lane in bits(mask) {
        if let Some((_, WarpOp::Fold { value, .. })) = warp_op(lanes, lane) {
            values[lane as usize] = *value;
        }
    }
    fold(&mut values, (which, of, width));
    for lane in bits(mask) {
        let segment = lane & !(width - 1);
        outcomes[lane as usize] = Outcome { value: values[segment as usize].into(), flag: false };
    }
}

/// Writes the results of an exchange to the memory that the 32 lanes have lent.
fn complete_exchange(lanes: &Lanes<'_>, exchange: Exchange) {
    let lent = core::array::from_fn(|lane| match warp_op(lanes, lane as u32) {
        Some((_, &WarpOp::Exchange { lent, .. })) => lent,
        _ => core::ptr::null_mut(),
    });
    if !lent.contains(&core::ptr::null_mut()) {
        // SAFETY: each lane is a fiber that is suspended in this exchange, with what it has lent on its stack.
        unsafe { exchange.complete(&lent) };
    }
}

/// The value of lanes outside a mask. It is undefined on the GPU, and a recognisable pattern here.
pub(super) const UNDEFINED: [u64; WARP_SIZE as usize] = [u64::MAX; WARP_SIZE as usize];

/// As above, for a shuffle.
pub(super) const UNDEFINED_WIDE: u128 = u128::MAX;

/// Computes a [`WarpOp::Fold`] of each segment into its first lane.
pub(super) fn fold(values: &mut [u64; WARP_SIZE as usize], (fold, of, width): (Fold, NumberType, u32)) {
    let mut first = 0;
    while first < WARP_SIZE as usize {
        let mut distance = width as usize / 2;
        while distance > 0 {
            let mut lane = first;
            while lane < first + distance {
                values[lane] = fold.of(of, values[lane], values[lane + distance]);
                lane += 1;
            }
            distance /= 2;
        }
        first += width as usize;
    }
}

/// Returns the results of the lanes in `mask`, which all wait in one operation.
pub(super) fn outcomes(lanes: &Lanes<'_>, mask: u32) -> Outcomes {
    let mut outcomes = [Outcome::default(); WARP_SIZE as usize];
    if let Some((_, op)) = warp_op(lanes, mask.trailing_zeros()) {
        complete_group(lanes, mask, op, &mut outcomes);
    }
    outcomes
}

/// Returns the rule that a stuck warp broke; `None` if no lane waits in a warp operation.
pub(super) fn why_stuck(lanes: &Lanes<'_>) -> Option<MaskError> {
    (0..WARP_SIZE).find_map(|lane| {
        let (mask, op) = warp_op(lanes, lane)?;
        let missing = missing_lane(lanes, mask, op)?;
        Some(MaskError::NotTakingPart { lane, mask, missing })
    })
}

/// Returns the result of a block barrier of this form, the same for all threads: `agreeing` of `threads` have a
/// true predicate.
pub(super) fn barrier_outcome(form: Barrier, agreeing: u64, threads: u64) -> Outcome {
    let value = match form {
        Barrier::Sync => 0,
        Barrier::Count(_) => agreeing,
        Barrier::And(_) => u64::from(agreeing == threads),
        Barrier::Or(_) => u64::from(agreeing > 0),
    };
    Outcome { value: value.into(), flag: false }
}

/// Returns whether the request is for a barrier with a true predicate.
pub(super) fn agrees(request: &Request) -> bool {
    let Collective::Barrier(barrier) = request.collective else { return false };
    matches!(barrier, Barrier::Count(true) | Barrier::And(true) | Barrier::Or(true))
}

/// Returns whether two threads wait at the same barrier of a block or a cluster: the same call, in the same form.
pub(super) fn same_barrier(a: &Request, b: &Request) -> bool {
    let same_form = match (a.collective, b.collective) {
        (Collective::Barrier(a), Collective::Barrier(b)) => discriminant(&a) == discriminant(&b),
        (Collective::Cluster, Collective::Cluster) => true,
        _ => false,
    };
    same_form && (core::ptr::eq(a.location, b.location) || a.location == b.location)
}

/// Returns whether the request is for a barrier of the block.
pub(super) fn is_block_barrier(request: &Request) -> bool {
    matches!(request.collective, Collective::Barrier(_))
}

/// Returns whether the request is for the barrier of the cluster.
pub(super) fn is_cluster_barrier(request: &Request) -> bool {
    request.collective == Collective::Cluster
}

fn bits(mask: u32) -> impl Iterator<Item = u32> {
    (0..WARP_SIZE).filter(move |lane| mask & (1 << lane) != 0)
}

fn warp_op<'a>(lanes: &Lanes<'a>, lane: u32) -> Option<(u32, &'a WarpOp)> {
    match lanes[lane as usize] {
        Lane::Waits(Request { collective: Collective::Warp { mask, op }, .. }) => Some((*mask, op)),
        _ => None,
    }
}

/// Returns a lane of `mask` that does not wait in the same operation.
fn missing_lane(lanes: &Lanes<'_>, mask: u32, op: &WarpOp) -> Option<u32> {
    let mut rest = mask;
    while rest != 0 {
        let lane = rest.trailing_zeros();
        match warp_op(lanes, lane) {
            Some((other_mask, other)) if other_mask == mask && same_operation(op, other) => {}
            _ => return Some(lane),
        }
        rest &= rest - 1;
    }
    None
}

/// Returns whether both are the same instruction with the same qualifiers; the operands may differ.
fn same_operation(a: &WarpOp, b: &WarpOp) -> bool {
    match (a, b) {
        (
            WarpOp::Shuffle { mode: a, width: width_a, .. },
            WarpOp::Shuffle { mode: b, width: width_b, .. },
        ) => a == b && width_a == width_b,
        (WarpOp::Reduce { op: a, .. }, WarpOp::Reduce { op: b, .. }) => a == b,
        (
            WarpOp::Fold { fold: a, of: of_a, width: width_a, .. },
            WarpOp::Fold { fold: b, of: of_b, width: width_b, .. },
        ) => a == b && of_a == of_b && width_a == width_b,
        (WarpOp::Exchange { exchange: a, .. }, WarpOp::Exchange { exchange: b, .. }) => a == b,
        _ => discriminant(a) == discriminant(b),
    }
}

/// Returns the result of `mask`'s complete operation for `lane`.
fn outcome(lanes: &Lanes<'_>, lane: u32, mask: u32) -> Outcome {
    let ops = || bits(mask).filter_map(|member| Some((member, warp_op(lanes, member)?.1)));
    let ballot = |predicate: &dyn Fn(&WarpOp) -> bool| -> u32 {
        ops().filter(|&(_, op)| predicate(op)).map(|(member, _)| 1 << member).sum()
    };
    let Some((_, own)) = warp_op(lanes, lane) else {
        return Outcome::default();
    };
    match *own {
        // None of these gives a lane a result of its own.
        WarpOp::Sync | WarpOp::Fold { .. } | WarpOp::Exchange { .. } => Outcome::default(),
        WarpOp::VoteAll(_) => {
            Outcome { flag: ballot(&|op| *op == WarpOp::VoteAll(true)) == mask, ..Outcome::default() }
        }
        WarpOp::VoteAny(_) => {
            Outcome { flag: ballot(&|op| *op == WarpOp::VoteAny(true)) != 0, ..Outcome::default() }
        }
        WarpOp::VoteBallot(_) => {
            Outcome { value: ballot(&|op| *op == WarpOp::VoteBallot(true)).into(), flag: false }
        }
        WarpOp::MatchAny(_) => Outcome { value: ballot(&|op| op == own).into(), flag: false },
        WarpOp::MatchAll(_) => {
            let all = ballot(&|op| op == own) == mask;
            Outcome { value: if all { mask.into() } else { 0 }, flag: all }
        }
        WarpOp::Reduce { op, .. } => {
            let values = ops().filter_map(|(_, op)| match *op {
                WarpOp::Reduce { value, .. } => Some(value),
                _ => None,
            });
            let value = values.reduce(|a, b| reduce(op, a, b)).unwrap_or_default();
            Outcome { value: u128::from(value as u64), flag: false }
        }
        WarpOp::Shuffle { mode, value, b, width } => {
            let (source, in_range) = shuffle_source(mode, lane, b, width);
            let value = match warp_op(lanes, source) {
                _ if !in_range => value,
                Some((_, WarpOp::Shuffle { value, .. })) if mask & (1 << source) != 0 => *value,
                // The source lane is outside the mask.
                _ => UNDEFINED_WIDE,
            };
            Outcome { value, flag: in_range }
        }
    }
}

fn reduce(op: WarpReductionOp, a: i64, b: i64) -> i64 {
    match op {
        WarpReductionOp::Add => a.wrapping_add(b),
        WarpReductionOp::Min => a.min(b),
        WarpReductionOp::Max => a.max(b),
        WarpReductionOp::And => a & b,
        WarpReductionOp::Or => a | b,
        WarpReductionOp::Xor => a ^ b,
    }
}

/// Returns the lane that a shuffle reads, and whether it lies in the caller's segment (PTX ISA, `shfl.sync`, pseudo-code).
pub(super) fn shuffle_source(mode: ShuffleMode, lane: u32, b: u32, width: u32) -> (u32, bool) {
    let segment_mask = (WARP_SIZE - width) & 0x1f;
    let first = lane & segment_mask;
    let last = first | (!segment_mask & 0x1f);
    let b = b & 0x1f;
    match mode {
        ShuffleMode::Idx => {
            let source = first | (b & !segment_mask & 0x1f);
            (source, source <= last)
        }
        ShuffleMode::Up => match lane.checked_sub(b) {
            Some(source) if source >= first => (source, true),
            _ => (lane, false),
        },
        ShuffleMode::Down if lane + b <= last => (lane + b, true),
        ShuffleMode::Xor if lane ^ b <= last => (lane ^ b, true),
        ShuffleMode::Down | ShuffleMode::Xor => (lane, false),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shuffle_sources_follow_the_isa() {
        use ShuffleMode::{Down, Idx, Up, Xor};
        let cases = [
            (Idx, 5, 0, 32, (0, true)),
            (Idx, 21, 3, 8, (19, true)),
            (Up, 0, 1, 32, (0, false)),
            (Up, 9, 1, 8, (8, true)),
            (Up, 8, 1, 8, (8, false)),
            (Down, 31, 1, 32, (31, false)),
            (Down, 6, 1, 8, (7, true)),
            (Down, 7, 1, 8, (7, false)),
            (Xor, 7, 16, 32, (23, true)),
            // Across segments a butterfly may read below, never above.
            (Xor, 7, 8, 8, (7, false)),
            (Xor, 15, 8, 8, (7, true)),
        ];
        for (mode, lane, b, width, expected) in cases {
            assert_eq!(shuffle_source(mode, lane, b, width), expected, "{mode:?} {lane} {b} {width}");
        }
    }
}
