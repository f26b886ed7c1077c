//! The operands and results of a warp operation as numbers, which other threads read without being ordered behind the
//! one that wrote them.

use super::super::context::{Outcome, ShuffleMode, WarpOp};
use super::latest::Latest;
use crate::warp::WarpReductionOp;

/// A mask and a [`WarpOp`] in parts: which operation, with its parameters; the mask; the operand in two halves.
#[derive(Default)]
pub(super) struct OpWords([Latest; 4]);

impl OpWords {
    pub fn write(&self, mask: u32, op: WarpOp) {
        let ([which, low, high], is_wide) = encode(op);
        self.0[0].set(which);
        self.0[1].set(mask.into());
        self.0[2].set(low);
        if is_wide {
            self.0[3].set(high);
        }
    }

    /// What was written last.
    pub fn read(&self) -> (u32, WarpOp) {
        let which = self.0[0].get();
        let high = if which as u8 == SHUFFLE { self.0[3].get() } else { 0 };
        (self.0[1].get() as u32, decode([which, self.0[2].get(), high]))
    }
}

/// An [`Outcome`] in parts.
#[derive(Default)]
pub(super) struct OutcomeWords([Latest; 3]);

impl OutcomeWords {
    pub fn write(&self, outcome: Outcome) {
        let [low, high] = halves(outcome.value);
        self.0[0].set(low);
        self.0[1].set(high);
        self.0[2].set(outcome.flag.into());
    }

    pub fn read(&self) -> Outcome {
        Outcome { value: whole(self.0[0].get(), self.0[1].get()), flag: self.0[2].get() != 0 }
    }
}

fn halves(value: u128) -> [u64; 2] {
    [value as u64, (value >> 64) as u64]
}

fn whole(low: u64, high: u64) -> u128 {
    u128::from(high) << 64 | u128::from(low)
}

const MODES: [ShuffleMode; 4] = [ShuffleMode::Idx, ShuffleMode::Up, ShuffleMode::Down, ShuffleMode::Xor];

const REDUCTIONS: [WarpReductionOp; 6] = [
    WarpReductionOp::Add,
    WarpReductionOp::Min,
    WarpReductionOp::Max,
    WarpReductionOp::And,
    WarpReductionOp::Or,
    WarpReductionOp::Xor,
];

fn position<T: PartialEq>(all: &[T], one: &T) -> u64 {
    all.iter().position(|other| other == one).unwrap_or_default() as u64
}

const SHUFFLE: u8 = 1;

/// The parts, and whether the operand has a second half.
fn encode(op: WarpOp) -> ([u64; 3], bool) {
    let small = |which: u64, value: u64| ([which, value, 0], false);
    match op {
        WarpOp::Sync => small(0, 0),
        WarpOp::Shuffle { mode, value, b, width } => {
            let [low, high] = halves(value);
            let parameters = position(&MODES, &mode) << 8 | u64::from(width) << 16 | u64::from(b) << 32;
            ([u64::from(SHUFFLE) | parameters, low, high], true)
        }
        WarpOp::VoteAll(value) => small(2, value.into()),
        WarpOp::VoteAny(value) => small(3, value.into()),
        WarpOp::VoteBallot(value) => small(4, value.into()),
        WarpOp::MatchAny(value) => small(5, value),
        WarpOp::MatchAll(value) => small(6, value),
        WarpOp::Reduce { op, value } => small(7 | position(&REDUCTIONS, &op) << 8, value.cast_unsigned()),
    }
}

fn decode([which, low, high]: [u64; 3]) -> WarpOp {
    let parameter = (which >> 8) as u8;
    match which as u8 {
        0 => WarpOp::Sync,
        SHUFFLE => WarpOp::Shuffle {
            mode: MODES[usize::from(parameter)],
            value: whole(low, high),
            b: (which >> 32) as u32,
            width: (which >> 16) as u32 & 0xff,
        },
        2 => WarpOp::VoteAll(low != 0),
        3 => WarpOp::VoteAny(low != 0),
        4 => WarpOp::VoteBallot(low != 0),
        5 => WarpOp::MatchAny(low),
        6 => WarpOp::MatchAll(low),
        _ => WarpOp::Reduce { op: REDUCTIONS[usize::from(parameter)], value: low.cast_signed() },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_operation_is_read_as_it_was_written() {
        let mut ops = vec![WarpOp::Sync];
        for flag in [false, true] {
            ops.extend([WarpOp::VoteAll(flag), WarpOp::VoteAny(flag), WarpOp::VoteBallot(flag)]);
        }
        for value in [0, 1, u128::MAX, 0x0123_4567_89ab_cdef_0011_2233_4455_6677] {
            ops.extend([WarpOp::MatchAny(value as u64), WarpOp::MatchAll(value as u64)]);
            ops.extend(REDUCTIONS.map(|op| WarpOp::Reduce { op, value: value as i64 }));
            for (width, b) in [(32, 0), (1, u32::MAX), (8, 17)] {
                ops.extend(MODES.map(|mode| WarpOp::Shuffle { mode, value, b, width }));
            }
        }
        let words = OpWords::default();
        for mask in [1, u32::MAX] {
            for &op in &ops {
                words.write(mask, op);
                assert_eq!(words.read(), (mask, op));
            }
        }
    }

    #[test]
    fn an_outcome_is_read_as_it_was_written() {
        let words = OutcomeWords::default();
        for outcome in [Outcome { value: u128::MAX - 1, flag: true }, Outcome { value: 7, flag: false }] {
            words.write(outcome);
            assert_eq!(words.read(), outcome);
        }
    }
}
