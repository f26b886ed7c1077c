//! Which work is ordered before which: a vector clock for each stream, and the accesses that later work may race with.

use std::ops::Range;

use super::super::race::{DataRace, StreamAccess, StreamWork};

/// By stream, how much of its work is known to come before.
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

    /// What either knows.
    pub fn join(&mut self, other: &Clock) {
        for (stream, &time) in (0..).zip(&other.0) {
            if time > self.at(stream) {
                self.set(stream, time);
            }
        }
    }
}

/// Bytes that work touches.
#[derive(Clone, Debug)]
pub(in super::super) struct Touch {
    /// The name of the parameter or field; empty for a copy.
    pub argument: &'static str,
    /// Addresses, at least one.
    pub bytes: Range<usize>,
    pub is_write: bool,
    pub work: StreamWork,
}

#[derive(Clone, Debug)]
struct Access {
    touch: Touch,
    stream: u32,
    /// The stream's own time at which it was queued.
    time: u64,
}

/// Streams whose work may run at the same time, and what they have touched.
#[derive(Debug, Default)]
pub(super) struct World {
    /// By stream; of one that is closed its last.
    clocks: Vec<Clock>,
    /// What the host knows to have ended, after which all comes that is queued from now on.
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

    /// The stream's next work, not yet known to others. Gives its time.
    pub fn advance(&mut self, stream: u32) -> u64 {
        let clock = self.clock(stream);
        let time = clock.at(stream) + 1;
        clock.set(stream, time);
        time
    }

    /// Notes work of the stream that touches this, unless it may run at the same time as work that is in its way.
    pub fn admit(&mut self, stream: u32, touches: &[Touch]) -> Result<u64, Box<DataRace>> {
        self.clock(stream);
        if let Some(race) = touches.iter().find_map(|touch| self.race(stream, touch)) {
            return Err(Box::new(race));
        }
        let time = self.advance(stream);
        for touch in touches {
            // Work that is ordered after this one is also ordered after what it covers. Work that is not
            // ordered after it races with this one, so the race is found without them. The covered accesses can go.
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

    /// Takes back what was admitted at that time and did not happen.
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

    /// What comes before an event that is recorded on the stream now.
    pub fn now(&mut self, stream: u32) -> Clock {
        self.clock(stream).clone()
    }

    /// What is queued on the stream from now on comes after what `clock` holds.
    pub fn wait(&mut self, stream: u32, clock: &Clock) {
        self.clock(stream).join(clock);
    }

    /// The host has seen the end of what `clock` holds.
    pub fn end(&mut self, clock: &Clock) {
        self.ended.join(clock);
    }

    /// What all streams are to do now.
    pub fn now_all(&self) -> Clock {
        let mut all = Clock::default();
        self.clocks.iter().for_each(|clock| all.join(clock));
        all
    }

    /// Forgets accesses that all work of these streams comes after.
    pub fn forget_ordered(&mut self, streams: &[u32]) {
        let Self { clocks, ended, accesses } = self;
        let nobody = Clock::default();
        accesses.retain(|access| {
            let mut streams = streams.iter().filter(|&&stream| stream != access.stream);
            !streams.all(|&stream| is_before(access, clocks.get(stream as usize).unwrap_or(&nobody), ended))
        });
    }

    /// Whether all of the stream's work comes before what is queued on the default stream from now on.
    pub fn has_joined(&mut self, stream: u32) -> bool {
        let time = self.clock(stream).at(stream);
        self.clock(0).at(stream) >= time
    }

    /// All that was touched and not covered since.
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
