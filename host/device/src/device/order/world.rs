//! The order of work: a vector clock per stream, and the accesses that later work may race with.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use super::super::race::{DataRace, StreamAccess, StreamWork};

/// A vector clock: by stream, how much of its work comes before. Streams without an entry have none.
#[derive(Clone, Debug, Default)]
pub(super) struct Clock(BTreeMap<u32, u64>);

impl Clock {
    pub fn at(&self, stream: u32) -> u64 {
        self.0.get(&stream).copied().unwrap_or(0)
    }

    fn set(&mut self, stream: u32, time: u64) {
        self.0.insert(stream, time);
    }

    /// Takes the maximum of both clocks.
    pub fn join(&mut self, other: &Clock) {
        for (&stream, &time) in &other.0 {
            if time > self.at(stream) {
                self.set(stream, time);
            }
        }
    }
}

/// An access of work to bytes.
#[derive(Clone, Debug)]
pub(in super::super) struct Touch {
    /// The name of the parameter or field; empty for a copy.
    pub argument: &'static str,
    /// The addresses, at least one.
    pub bytes: Range<usize>,
    pub is_write: bool,
    pub work: StreamWork,
}

#[derive(Clone, Debug)]
struct Access {
    touch: Touch,
    stream: u32,
    /// The stream's time at which it was queued.
    time: u64,
    /// Its place among all accesses.
    number: u64,
}

/// The accesses to some bytes that later work may race with.
///
/// A write comes after all earlier accesses to its bytes, or it would be a race. Later work that comes after the write comes
/// after those too, and other work races with the write, so they need not be kept. For the same reason the last read of each
/// stream stands for its earlier ones.
#[derive(Clone, Debug)]
struct Piece {
    /// One past its last address.
    end: usize,
    write: Option<Access>,
    /// Reads after the write, by stream.
    reads: BTreeMap<u32, Access>,
}

/// The fewest accesses that are added before ordered ones are forgotten.
const LEAST_ADDED: usize = 64;

/// The clocks of all streams, and the accesses of their work.
#[derive(Debug, Default)]
pub(super) struct World {
    /// By stream; a closed stream keeps its last clock.
    clocks: Vec<Clock>,
    /// The work that the host knows to have ended. All later work comes after it.
    ended: Clock,
    /// The accesses by their first address. Pieces do not overlap, so admitting work takes a search, however many there are.
    pieces: BTreeMap<usize, Piece>,
    /// The number of all accesses so far.
    admitted: u64,
    /// Accesses added since ordered ones were forgotten, and the number at which that is done again.
    added: usize,
    most_added: usize,
}

impl World {
    fn clock(&mut self, stream: u32) -> &mut Clock {
        let at = stream as usize;
        if at >= self.clocks.len() {
            self.clocks.resize_with(at + 1, Clock::default);
        }
        &mut self.clocks[at]
    }

    /// Advances the stream's clock for its next work, and returns the work's time.
    pub fn advance(&mut self, stream: u32) -> u64 {
        let clock = self.clock(stream);
        let time = clock.at(stream) + 1;
        clock.set(stream, time);
        time
    }

    /// Notes work on the stream with these touches, unless it races with other work.
    pub fn admit(&mut self, stream: u32, touches: &[Touch]) -> Result<u64, Box<DataRace>> {
        self.clock(stream);
        if let Some(race) = touches.iter().find_map(|touch| self.race(stream, touch)) {
            return Err(Box::new(race));
        }
        let time = self.advance(stream);
        for touch in touches.iter().filter(|touch| !touch.bytes.is_empty()) {
            self.admitted += 1;
            self.add(Access { touch: touch.clone(), stream, time, number: self.admitted });
        }
        Ok(time)
    }

    fn add(&mut self, access: Access) {
        let Range { start, end } = access.touch.bytes;
        // Most work touches the same bytes as earlier work.
        if let Some(piece) = self.pieces.get_mut(&start).filter(|piece| piece.end == end) {
            if access.touch.is_write {
                piece.reads.clear();
                piece.write = Some(access);
            } else {
                piece.reads.insert(access.stream, access);
            }
            return;
        }
        self.split_at(start);
        self.split_at(end);
        let within: Vec<(usize, usize)> =
            self.pieces.range(start..end).map(|(&at, piece)| (at, piece.end)).collect();
        self.added += 1 + within.len();
        if access.touch.is_write {
            within.iter().for_each(|(at, _)| drop(self.pieces.remove(at)));
            self.pieces.insert(start, Piece { end, write: Some(access), reads: BTreeMap::new() });
            return;
        }
        let read = |access: &Access| BTreeMap::from([(access.stream, access.clone())]);
        let mut from = start;
        for (at, end) in within.into_iter().chain([(end, end)]) {
            if from < at {
                self.pieces.insert(from, Piece { end: at, write: None, reads: read(&access) });
            }
            if let Some(piece) = self.pieces.get_mut(&at).filter(|_| at < end) {
                piece.reads.insert(access.stream, access.clone());
            }
            from = end;
        }
    }

    /// Lets a piece begin at this address, if one has it.
    fn split_at(&mut self, address: usize) {
        let before = self.pieces.range_mut(..address).next_back();
        if let Some((_, piece)) = before.filter(|(_, piece)| piece.end > address) {
            let rest = piece.clone();
            piece.end = address;
            self.pieces.insert(address, rest);
        }
    }

    /// Forgets all accesses to these bytes.
    pub fn forget(&mut self, bytes: Range<usize>) {
        self.split_at(bytes.start);
        self.split_at(bytes.end);
        let within: Vec<usize> = self.pieces.range(bytes).map(|(&at, _)| at).collect();
        within.iter().for_each(|at| drop(self.pieces.remove(at)));
    }

    /// Removes work that was admitted at this time but not queued.
    pub fn cancel(&mut self, stream: u32, time: u64) {
        self.retain(|access| (access.stream, access.time) != (stream, time));
    }

    fn race(&self, stream: u32, touch: &Touch) -> Option<DataRace> {
        let clock = &self.clocks[stream as usize];
        let Range { start, end } = touch.bytes;
        let before = self.pieces.range(..start).next_back().filter(|(_, piece)| piece.end > start);
        let pieces = before.into_iter().chain(self.pieces.range(start..end.max(start)));
        let mut accesses = pieces.flat_map(|(_, piece)| {
            let reads = touch.is_write.then(|| piece.reads.values());
            piece.write.iter().chain(reads.into_iter().flatten())
        });
        let old = accesses.find(|old| !is_before(old, clock, &self.ended))?;
        let shared = touch.bytes.start.max(old.touch.bytes.start)..touch.bytes.end.min(old.touch.bytes.end);
        let side = |touch: &Touch, stream| StreamAccess {
            work: touch.work,
            stream,
            argument: touch.argument,
            is_write: touch.is_write,
            bytes: shared.start - touch.bytes.start..shared.end - touch.bytes.start,
        };
        Some(DataRace { first: side(&old.touch, old.stream), second: side(touch, stream) })
    }

    /// The work before an event that is recorded on the stream now.
    pub fn now(&mut self, stream: u32) -> Clock {
        self.clock(stream).clone()
    }

    /// Orders later work on the stream after the work in `clock`.
    pub fn wait(&mut self, stream: u32, clock: &Clock) {
        self.clock(stream).join(clock);
    }

    /// Notes that the host has seen the end of the work in `clock`.
    pub fn end(&mut self, clock: &Clock) {
        self.ended.join(clock);
    }

    /// All work that is queued now on all streams.
    pub fn now_all(&self) -> Clock {
        let times = (0..).zip(&self.clocks).map(|(stream, clock)| (stream, clock.at(stream)));
        Clock(times.filter(|(_, time)| *time > 0).collect())
    }

    /// Forgets accesses that come before all later work of these streams, if enough were added to be worth looking.
    pub fn forget_ordered(&mut self, streams: &BTreeSet<u32>) {
        if self.added >= self.most_added.max(LEAST_ADDED) {
            self.forget_ordered_now(streams);
        }
    }

    /// Same as [`Self::forget_ordered`], at once.
    pub fn forget_ordered_now(&mut self, streams: &BTreeSet<u32>) {
        // By stream: how many others wait for work of it, and for how much at least.
        let mut waits: BTreeMap<u32, (usize, u64)> = BTreeMap::new();
        let clocks = streams.iter().filter_map(|&stream| Some((stream, self.clocks.get(stream as usize)?)));
        let mut entries = 0;
        for (waiting, clock) in clocks {
            entries += clock.0.len();
            for (&stream, &time) in clock.0.iter().filter(|(stream, _)| **stream != waiting) {
                let (count, least) = waits.entry(stream).or_insert((0, u64::MAX));
                (*count, *least) = (*count + 1, time.min(*least));
            }
        }
        let ended = self.ended.clone();
        let kept = self.retain(|access| {
            let others = streams.len() - usize::from(streams.contains(&access.stream));
            let (count, least) = waits.get(&access.stream).copied().unwrap_or((0, u64::MAX));
            let waited = if count == others { least } else { 0 };
            waited.max(ended.at(access.stream)) < access.time
        });
        (self.added, self.most_added) = (0, kept + entries);
    }

    /// Removes the other accesses, and returns the number of those kept.
    fn retain(&mut self, keep: impl Fn(&Access) -> bool) -> usize {
        let mut kept = 0;
        self.pieces.retain(|_, piece| {
            piece.write = piece.write.take().filter(&keep);
            piece.reads.retain(|_, read| keep(read));
            let count = piece.reads.len() + usize::from(piece.write.is_some());
            kept += count;
            count > 0
        });
        kept
    }

    /// Whether all of the stream's work comes before later work on the default stream.
    pub fn has_joined(&mut self, stream: u32) -> bool {
        let time = self.clock(stream).at(stream);
        self.clock(0).at(stream) >= time
    }

    /// All accesses that no later access covers, in their order.
    pub fn into_touches(self) -> Vec<Touch> {
        let accesses = self
            .pieces
            .into_values()
            .flat_map(|piece| piece.write.into_iter().chain(piece.reads.into_values()));
        let by_number: BTreeMap<u64, Touch> = accesses.map(|access| (access.number, access.touch)).collect();
        by_number.into_values().collect()
    }

    #[cfg(test)]
    pub fn remembered(&self) -> usize {
        self.pieces.values().map(|piece| piece.reads.len() + usize::from(piece.write.is_some())).sum()
    }
}

fn is_before(access: &Access, clock: &Clock, ended: &Clock) -> bool {
    clock.at(access.stream).max(ended.at(access.stream)) >= access.time
}
