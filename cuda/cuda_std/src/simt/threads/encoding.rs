//! The requests and results of threads, as numbers that other threads read without ordering.

use super::super::context::{Barrier, Collective, Outcome, ShuffleMode, Wait, WaitKind, WarpOp};
use super::relaxed::Relaxed64;
use crate::mma::Exchange;
use crate::warp::{Fold, NumberType, WarpReductionOp};

/// What a thread is doing: its kind in the lowest byte, then the parameters that threads in the same operation share. The
/// upper half has the mask of a warp operation or the number of a wait. Equal words are the same operation.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Word(u64);

impl Word {
    pub const RUNS: Word = Word(0);
    pub const RETURNED: Word = Word(1);

    const BARRIER: u64 = 2;
    const COUNT: u64 = 3;
    const AND: u64 = 4;
    const OR: u64 = 5;
    const CLUSTER: u64 = 6;
    const SYNC: u64 = 7;
    const SHUFFLE: u64 = 8;
    const VOTE_ALL: u64 = 9;
    const VOTE_ANY: u64 = 10;
    const VOTE_BALLOT: u64 = 11;
    const MATCH_ANY: u64 = 12;
    const MATCH_ALL: u64 = 13;
    const REDUCE: u64 = 14;
    const FOLD: u64 = 15;
    const WORDS: u64 = 16;
    const WAIT: u64 = 17;
    const EXCHANGE: u64 = 18;

    #[inline]
    fn kind(self) -> u64 {
        self.0 & 0xff
    }

    /// Returns whether the operation has results.
    #[inline]
    pub fn has_outcome(self) -> bool {
        const NONE: [u64; 6] =
            [Word::EXCHANGE, Word::BARRIER, Word::CLUSTER, Word::WAIT, Word::SYNC, Word::WORDS];
        !NONE.contains(&self.kind())
    }

    #[inline]
    pub fn is_sync_warp(self) -> bool {
        self.kind() == Self::SYNC
    }

    #[inline]
    pub fn is_fold(self) -> bool {
        self.0 & 0xff == Self::FOLD
    }

    /// Returns what a [`WarpOp::Fold`] does, and its width.
    #[inline]
    pub fn as_fold(self) -> Option<(Fold, NumberType, u32)> {
        if !self.is_fold() {
            return None;
        }
        let [parameter, width, of] = self.parameters();
        Some((FOLDS[parameter], NUMBERS[of], width as u32))
    }

    /// Returns the mode of a [`WarpOp::Shuffle`], and its width.
    #[inline]
    pub fn as_shuffle(self) -> Option<(ShuffleMode, u32)> {
        let [parameter, width, _] = self.parameters();
        (self.kind() == Self::SHUFFLE).then(|| (MODES[parameter], width as u32))
    }

    /// Returns what a [`WarpOp::Exchange`] does.
    #[inline]
    pub fn as_exchange(self) -> Option<Exchange> {
        (self.kind() == Self::EXCHANGE).then(|| Exchange::from_parameters(self.parameters()))
    }

    /// Returns the mask of a warp operation.
    #[inline]
    pub fn mask(self) -> u32 {
        (self.0 >> 32) as u32
    }

    #[inline]
    fn parameters(self) -> [usize; 3] {
        [(self.0 >> 8) as usize & 0xff, (self.0 >> 16) as usize & 0xff, (self.0 >> 24) as usize & 0xff]
    }
}

/// What one thread does, visible to all: a [`Word`], and for a warp operation its operand in two halves and a
/// shuffle's `b`, or for a wait its memory, kind and bound.
#[derive(Default)]
pub(super) struct EncodedRequest {
    word: Relaxed64,
    operands: [Relaxed64; 3],
}

impl EncodedRequest {
    /// Notes what the thread waits for.
    #[inline]
    pub fn put(&self, collective: Collective) -> Word {
        let (word, low) = encode(collective);
        if let Some(low) = low {
            self.operands[0].set(low);
        }
        if let Collective::Warp { op: WarpOp::Shuffle { value, b, .. }, .. } = collective {
            self.operands[1].set((value >> 64) as u64);
            self.operands[2].set(b.into());
        }
        if let Collective::Wait(Wait { kind, bound, .. }) = collective {
            self.operands[1].set(core::ptr::from_ref(kind).expose_provenance() as u64);
            self.operands[2].set(bound);
        }
        self.word.set(word.0);
        word
    }

    /// Notes that the thread runs or has returned.
    #[inline]
    pub fn set(&self, word: Word) {
        self.word.set(word.0);
    }

    /// Returns the latest word.
    #[inline]
    pub fn word(&self) -> Word {
        Word(self.word.get())
    }

    /// Returns whether the thread runs.
    #[inline]
    pub fn runs(&self) -> bool {
        self.word.get() == 0
    }

    /// Returns whether this is the latest word.
    #[inline]
    pub fn is(&self, word: Word) -> bool {
        self.word.get() == word.0
    }

    /// Returns the lower half of the operand.
    #[inline]
    pub fn low(&self) -> u64 {
        self.operands[0].get()
    }

    /// Returns the value of a shuffle, and its `b`.
    #[inline]
    pub fn shuffled(&self) -> (u128, u32) {
        let [low, high, b] = &self.operands;
        (whole(low.get(), high.get()), b.get() as u32)
    }

    /// Returns what the thread waits for, if it waits.
    pub fn read(&self) -> Option<Collective> {
        let word = self.word();
        let has_three = [Word::SHUFFLE, Word::WAIT].contains(&word.kind());
        let operands = if has_three { [1, 2].map(|i| self.operands[i].get()) } else { [0; 2] };
        decode(word, self.low(), operands)
    }
}

/// An [`Outcome`] in three words: the value's lower half; the flag, plus 2 if there is an upper half; the upper half.
#[derive(Default)]
pub(super) struct OutcomeWords([Relaxed64; 3]);

impl OutcomeWords {
    pub fn write(&self, outcome: Outcome) {
        let high = (outcome.value >> 64) as u64;
        self.write_low(outcome.value as u64);
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

    /// Writes a number for [`Self::read_low`].
    #[inline]
    pub fn write_low(&self, value: u64) {
        self.0[0].set(value);
    }

    #[inline]
    pub fn read_low(&self) -> u64 {
        self.0[0].get()
    }
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

const FOLDS: [Fold; 3] = [Fold::Sum, Fold::Smaller, Fold::Larger];

const NUMBERS: [NumberType; 6] =
    [NumberType::F32, NumberType::F64, NumberType::U32, NumberType::I32, NumberType::U64, NumberType::I64];

/// Returns the word, and the operand's lower half if there is an operand. A barrier's predicate is in the word.
#[inline]
fn encode(collective: Collective) -> (Word, Option<u64>) {
    let (mask, op) = match collective {
        Collective::Warp { mask, op } => (mask, op),
        Collective::Barrier(Barrier::Sync) => return (Word(Word::BARRIER), None),
        Collective::Barrier(Barrier::Count(holds)) => {
            return (Word(Word::COUNT | u64::from(holds) << 8), None);
        }
        Collective::Barrier(Barrier::And(holds)) => return (Word(Word::AND | u64::from(holds) << 8), None),
        Collective::Barrier(Barrier::Or(holds)) => return (Word(Word::OR | u64::from(holds) << 8), None),
        Collective::Cluster => return (Word(Word::CLUSTER), None),
        Collective::Words => return (Word(Word::WORDS), None),
        Collective::Wait(Wait { state, number, .. }) => {
            return (Word(Word::WAIT | u64::from(number) << 32), Some(state.expose_provenance() as u64));
        }
    };
    let (which, low) = match op {
        WarpOp::Fold { fold, of, value, width } => {
            (Word::FOLD | (fold as u64) << 8 | u64::from(width) << 16 | (of as u64) << 24, Some(value))
        }
        WarpOp::Sync => (Word::SYNC, None),
        WarpOp::Exchange { exchange, .. } => {
            let [kind, m, n] = exchange.to_parameters();
            (Word::EXCHANGE | kind << 8 | m << 16 | n << 24, None)
        }
        WarpOp::Shuffle { mode, value, width, .. } => {
            (Word::SHUFFLE | (mode as u64) << 8 | u64::from(width) << 16, Some(value as u64))
        }
        WarpOp::VoteAll(value) => (Word::VOTE_ALL, Some(value.into())),
        WarpOp::VoteAny(value) => (Word::VOTE_ANY, Some(value.into())),
        WarpOp::VoteBallot(value) => (Word::VOTE_BALLOT, Some(value.into())),
        WarpOp::MatchAny(value) => (Word::MATCH_ANY, Some(value)),
        WarpOp::MatchAll(value) => (Word::MATCH_ALL, Some(value)),
        WarpOp::Reduce { op, value } => (Word::REDUCE | (op as u64) << 8, Some(value.cast_unsigned())),
    };
    (Word(u64::from(mask) << 32 | which), low)
}

fn decode(word: Word, low: u64, [high, b]: [u64; 2]) -> Option<Collective> {
    let [parameter, width, of] = word.parameters();
    let holds = parameter != 0;
    let width = width as u32;
    let op = match word.kind() {
        Word::BARRIER => return Some(Collective::Barrier(Barrier::Sync)),
        Word::COUNT => return Some(Collective::Barrier(Barrier::Count(holds))),
        Word::AND => return Some(Collective::Barrier(Barrier::And(holds))),
        Word::OR => return Some(Collective::Barrier(Barrier::Or(holds))),
        Word::CLUSTER => return Some(Collective::Cluster),
        Word::WORDS => return Some(Collective::Words),
        Word::WAIT => {
            let state = core::ptr::with_exposed_provenance_mut(low as usize);
            // SAFETY: `put` has exposed a reference to a static.
            let kind = unsafe { &*core::ptr::with_exposed_provenance::<WaitKind>(high as usize) };
            return Some(Collective::Wait(Wait { kind, state, number: word.mask(), bound: b }));
        }
        Word::SYNC => WarpOp::Sync,
        Word::SHUFFLE => {
            WarpOp::Shuffle { mode: MODES[parameter], value: whole(low, high), b: b as u32, width }
        }
        Word::VOTE_ALL => WarpOp::VoteAll(low != 0),
        Word::VOTE_ANY => WarpOp::VoteAny(low != 0),
        Word::VOTE_BALLOT => WarpOp::VoteBallot(low != 0),
        Word::MATCH_ANY => WarpOp::MatchAny(low),
        Word::MATCH_ALL => WarpOp::MatchAll(low),
        Word::REDUCE => WarpOp::Reduce { op: REDUCTIONS[parameter], value: low.cast_signed() },
        Word::FOLD => WarpOp::Fold { fold: FOLDS[parameter], of: NUMBERS[of], value: low, width },
        // Other threads must not access what a lane has lent.
        Word::EXCHANGE => WarpOp::Exchange {
            exchange: Exchange::from_parameters(word.parameters()),
            lent: core::ptr::null_mut(),
        },
        _ => return None,
    };
    Some(Collective::Warp { mask: word.mask(), op })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_thread_waits_for_is_read_as_it_was_written() {
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
            for (kind, m, n) in [(1, 1, 1), (2, 4, 8), (3, 2, 1), (4, 4, 0), (5, 2, 0)] {
                let exchange = Exchange::from_parameters([kind, m, n]);
                ops.push(WarpOp::Exchange { exchange, lent: core::ptr::null_mut() });
            }
            for (width, b) in [(32, 0), (1, u32::MAX), (8, 17)] {
                ops.extend(MODES.map(|mode| WarpOp::Shuffle { mode, value, b, width }));
            }
        }
        let warps = [1, u32::MAX].into_iter().flat_map(|mask| ops.iter().map(move |&op| (mask, op)));
        let mut all: Vec<_> = warps.map(|(mask, op)| Collective::Warp { mask, op }).collect();
        all.extend([Collective::Cluster, Collective::Words, Collective::Barrier(Barrier::Sync)]);
        let barrier: *mut u64 = &mut 0;
        static KIND: WaitKind = WaitKind { can_go_on: |_, _| true, lacks: |_, _, _| None };
        let wait = |(number, bound)| Collective::Wait(Wait { kind: &KIND, state: barrier, number, bound });
        all.extend([(0, u64::MAX), (u32::MAX, 0)].map(wait));
        for holds in [false, true] {
            all.extend(
                [Barrier::Count(holds), Barrier::And(holds), Barrier::Or(holds)].map(Collective::Barrier),
            );
        }
        let ask = EncodedRequest::default();
        assert!(ask.word() == Word::RUNS && ask.read().is_none());
        for collective in all {
            let word = ask.put(collective);
            assert!(ask.word() == word);
            assert_eq!(ask.read(), Some(collective));
            let Collective::Warp { mask, op } = collective else { continue };
            assert_eq!(word.mask(), mask);
            assert_eq!(word.is_sync_warp(), op == WarpOp::Sync);
            assert_eq!(word.as_fold().is_some(), matches!(op, WarpOp::Fold { .. }));
        }
        ask.set(Word::RETURNED);
        assert!(ask.read().is_none());
    }

    #[test]
    fn words_are_equal_where_the_operation_is_the_same() {
        let word = |op| encode(Collective::Warp { mask: 3, op }).0;
        let fold = |width, value| word(WarpOp::Fold { fold: Fold::Sum, of: NumberType::F32, value, width });
        assert!(fold(8, 1) == fold(8, 2));
        assert!(fold(8, 1) != fold(16, 1));
        let shuffle = |mode, value, b| word(WarpOp::Shuffle { mode, value, b, width: 32 });
        assert!(shuffle(ShuffleMode::Up, 1, 2) == shuffle(ShuffleMode::Up, 3, 4));
        assert!(shuffle(ShuffleMode::Up, 1, 2) != shuffle(ShuffleMode::Down, 1, 2));
        assert!(word(WarpOp::VoteAll(true)) == word(WarpOp::VoteAll(false)));
        assert!(word(WarpOp::VoteAll(true)) != word(WarpOp::VoteAny(true)));
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
            assert_eq!(words.read_low(), value as u64);
        }
    }
}
