//! The operands and results of a warp operation as numbers, which other threads read without being ordered behind the
//! one that wrote them.

use super::super::context::{Outcome, ShuffleMode, WarpOp};
use super::latest::Latest;
use crate::warp::{Fold, NumberType, WarpReductionOp};

/// A mask and a [`WarpOp`] in parts: which operation with its parameters and, in the upper half, the mask; the operand in
/// two halves; the shuffle's `b`.
#[derive(Default)]
pub(super) struct OpWords([Latest; 4]);

impl OpWords {
    pub fn write(&self, mask: u32, op: WarpOp) {
        let (which, low) = encode(op);
        self.0[0].set(u64::from(mask) << 32 | which);
        self.0[1].set(low);
        if let WarpOp::Shuffle { value, b, .. } = op {
            self.0[2].set((value >> 64) as u64);
            self.0[3].set(b.into());
        }
    }

    /// What was written last.
    pub fn read(&self) -> (u32, WarpOp) {
        let which = self.0[0].get();
        let (high, b) =
            if which as u8 == SHUFFLE as u8 { (self.0[2].get(), self.0[3].get() as u32) } else { (0, 0) };
        ((which >> 32) as u32, decode(which, [self.0[1].get(), high], b))
    }
}

/// An [`Outcome`] in parts: the value's lower half; the flag, and 2 if there is an upper half; that.
#[derive(Default)]
pub(super) struct OutcomeWords([Latest; 3]);

impl OutcomeWords {
    pub fn write(&self, outcome: Outcome) {
        let high = (outcome.value >> 64) as u64;
        self.0[0].set(outcome.value as u64);
        self.0[1].set(u64::from(outcome.flag) | if high == 0 { 0 } else { 2 });
        if high != 0 {
            self.0[2].set(high);
        }
    }

    pub fn read(&self) -> Outcome {
        let flags = self.0[1].get();
        let high = if flags & 2 == 0 { 0 } else { self.0[2].get() };
        Outcome { value: whole(self.0[0].get(), high), flag: flags & 1 != 0 }
    }
}

fn whole(low: u64, high: u64) -> u128 {
    u128::from(high) << 64 | u128::from(low)
}

const SHUFFLE: u64 = 1;

const MODES: [ShuffleMode; 4] = [ShuffleMode::Idx, ShuffleMode::Up, ShuffleMode::Down, ShuffleMode::Xor];

const REDUCTIONS: [WarpReductionOp; 6] = [
    WarpReductionOp::Add,
    WarpReductionOp::Min,
    WarpReductionOp::Max,
    WarpReductionOp::And,
    WarpReductionOp::Or,
    WarpReductionOp::Xor,
];

const FOLDS: [Fold; 3] = [Fold::Sum, Fold::Smaller, Fold::Larger];

const NUMBERS: [NumberType; 6] =
    [NumberType::F32, NumberType::F64, NumberType::U32, NumberType::I32, NumberType::U64, NumberType::I64];

/// Which operation, a byte each: the kind, its parameter, its width, its second parameter; and the operand's lower half.
fn encode(op: WarpOp) -> (u64, u64) {
    match op {
        WarpOp::Sync => (0, 0),
        WarpOp::Shuffle { mode, value, width, .. } => {
            (SHUFFLE | (mode as u64) << 8 | u64::from(width) << 16, value as u64)
        }
        WarpOp::VoteAll(value) => (2, value.into()),
        WarpOp::VoteAny(value) => (3, value.into()),
        WarpOp::VoteBallot(value) => (4, value.into()),
        WarpOp::MatchAny(value) => (5, value),
        WarpOp::MatchAll(value) => (6, value),
        WarpOp::Reduce { op, value } => (7 | (op as u64) << 8, value.cast_unsigned()),
        WarpOp::Fold { fold, of, value, width } => {
            (8 | (fold as u64) << 8 | u64::from(width) << 16 | (of as u64) << 24, value)
        }
    }
}

fn decode(which: u64, [low, high]: [u64; 2], b: u32) -> WarpOp {
    let (parameter, width) = ((which >> 8) as u8 as usize, u32::from((which >> 16) as u8));
    match which as u8 {
        0 => WarpOp::Sync,
        1 => WarpOp::Shuffle { mode: MODES[parameter], value: whole(low, high), b, width },
        2 => WarpOp::VoteAll(low != 0),
        3 => WarpOp::VoteAny(low != 0),
        4 => WarpOp::VoteBallot(low != 0),
        5 => WarpOp::MatchAny(low),
        6 => WarpOp::MatchAll(low),
        7 => WarpOp::Reduce { op: REDUCTIONS[parameter], value: low.cast_signed() },
        _ => {
            let of = NUMBERS[usize::from((which >> 24) as u8)];
            WarpOp::Fold { fold: FOLDS[parameter], of, value: low, width }
        }
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
            for fold in FOLDS {
                ops.extend(NUMBERS.map(|of| WarpOp::Fold { fold, of, value: value as u64, width: 16 }));
            }
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
        for (value, flag) in
            [(u128::MAX - 1, true), (7, false), (1 << 64, false), (u128::from(u64::MAX), true)]
        {
            let outcome = Outcome { value, flag };
            words.write(outcome);
            assert_eq!(words.read(), outcome);
        }
    }
}
