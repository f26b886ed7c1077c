//! The order of work: a vector clock per stream, and the accesses that later work may race with.

use std::ops::Range;

use super::super::race::{DataRace, StreamAccess, StreamWork};

/// A vector clock: by stream, how much of its work comes before.
#[derive(Clone, Debug, Default)]
pub(super) struct Clock(Vec<u64>);

impl Clock {
    pub fn at(&self, stream: u32) -> u64 {
        self.0.get(stream as usize).copied().unwrap_or(0)
    }

    fn set(&mut self, stream: u32, time: u64) {
        let at = stream as usize;
        if at >= self.0.len() {
            self.0.resize(at + 1, 0);
        }
        self.0[at] = time;
    }

    /// Takes the maximum of both clocks.
    pub fn join(&mut self, other: &Clock) {
        for (stream, &time) in (0..).zip(&other.0) {
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
}

/// The clocks of all streams, and the accesses of their work.
#[derive(Debug, Default)]
pub(super) struct World {
    /// By stream; a closed stream keeps its last clock.
    clocks: Vec<Clock>,
    /// The work that the host knows to have ended. All later work comes after it.
    ended: Clock,
    accesses: Vec<Access>,
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
        for touch in touches {
            // Work that is ordered after this access is also ordered after the accesses it covers. Work that is not ordered
            // after this access races with it, so the covered accesses are not needed to find the race. They can be removed.
            let covers = |old: &Touch| {
                touch.bytes.start <= old.bytes.start
                    && old.bytes.end <= touch.bytes.end
                    && (touch.is_write || !old.is_write)
            };
            let (clock, ended) = (&self.clocks[stream as usize], &self.ended);
            self.accesses.retain(|old| !(covers(&old.touch) && is_before(old, clock, ended)));
            self.accesses.push(Access { touch: touch.clone(), stream, time });
        }
        Ok(time)
    }

    /// Removes work that was admitted at this time but not queued.
    pub fn cancel(&mut self, stream: u32, time: u64) {
        self.accesses.retain(|access| (access.stream, access.time) != (stream, time));
    }

    fn race(&self, stream: u32, touch: &Touch) -> Option<DataRace> {
        let clock = &self.clocks[stream as usize];
        let races = |old: &&Access| {
            old.touch.bytes.start < touch.bytes.end
                && touch.bytes.start < old.touch.bytes.end
                && (old.touch.is_write || touch.is_write)
                && !is_before(old, clock, &self.ended)
        };
        let old = self.accesses.iter().find(races)?;
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
        let mut all = Clock::default();
        self.clocks.iter().for_each(|clock| all.join(clock));
        all
    }

    /// Forgets accesses that come before all later work of these streams.
    pub fn forget_ordered(&mut self, streams: &[u32]) {
        let Self { clocks, ended, accesses } = self;
        let nobody = Clock::default();
        accesses.retain(|access| {
            let mut streams = streams.iter().filter(|&&stream| stream != access.stream);
            !streams.all(|&stream| is_before(access, clocks.get(stream as usize).unwrap_or(&nobody), ended))
        });
    }

    /// Whether all of the stream's work comes before later work on the default stream.
    pub fn has_joined(&mut self, stream: u32) -> bool {
        let time = self.clock(stream).at(stream);
        self.clock(0).at(stream) >= time
    }

    /// All accesses that no later access covers.
    pub fn into_touches(self) -> Vec<Touch> {
        self.accesses.into_iter().map(|access| access.touch).collect()
    }

    #[cfg(test)]
    pub fn remembered(&self) -> usize {
        self.accesses.len()
    }
}

fn is_before(access: &Access, clock: &Clock, ended: &Clock) -> bool {
    clock.at(access.stream).max(ended.at(access.stream)) >= access.time
}
