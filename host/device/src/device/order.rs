//! The order of a device's work: its streams, the order between their work, and the recording in progress.
//!
//! With one stream and no recording, all work is in order and nothing is tracked.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::ThreadId;

use super::allocations::{Memory, Needed};
use super::launches::{Launch, Launches};
use super::race::DataRace;

mod world;

#[cfg(test)]
mod tests;

pub(super) use world::Touch;
use world::{Clock, World};

/// What to do with submitted work.
#[derive(Debug)]
pub(super) enum Admission {
    /// Queue it; if it is tracked, with its stream and time.
    Run(Option<(u32, u64)>),
    /// Add it to the recording.
    Record,
}

/// A point in a stream's work, on which other streams can wait.
#[derive(Clone, Debug)]
pub(super) struct Stamp {
    clock: Clock,
    /// The recording that contains the point.
    recording: Option<u64>,
}

impl Stamp {
    /// Whether it is a point of a recording, which is reached only in the graph.
    pub fn is_recorded(&self) -> bool {
        self.recording.is_some()
    }
}

/// Why a wait is refused.
#[derive(Debug)]
pub(super) enum Outside {
    /// The event is part of a recording, and the wait is not.
    EventRecorded,
    /// The wait is part of a recording, and the event is not.
    WaitRecorded,
}

/// The contents of a recording.
pub(super) struct Recorded {
    pub launches: Launches,
    pub touches: Vec<Touch>,
    /// All memory that the launches touch.
    pub memory: Vec<Arc<dyn Memory>>,
    /// What else they use.
    pub needed: Vec<Arc<dyn Needed>>,
}

/// Why a recording cannot become a graph.
#[derive(Debug)]
pub(super) enum Spoiled {
    /// The default stream does not wait for this stream's last work.
    Unjoined(u32),
    /// The recorded work did this.
    By(&'static str),
}

#[derive(Default)]
pub(super) struct Order {
    /// Whether anything must be tracked.
    is_kept: AtomicBool,
    state: Mutex<State>,
}

struct State {
    /// The streams' numbers.
    streams: BTreeSet<u32>,
    /// The numbers of closed streams below the largest.
    free: BTreeSet<u32>,
    world: World,
    recording: Option<Recording>,
    recordings: u64,
    /// Threads that are replaying recorded work.
    replaying: Vec<ThreadId>,
}

struct Recording {
    id: u64,
    thread: ThreadId,
    streams: Vec<u32>,
    world: World,
    launches: Launches,
    /// By first address. Dropping it locks the order, so that must not happen under its lock.
    memory: BTreeMap<usize, Arc<dyn Memory>>,
    needed: Vec<Arc<dyn Needed>>,
    spoiled_by: Option<&'static str>,
}

impl Default for State {
    fn default() -> Self {
        Self {
            streams: BTreeSet::from([0]),
            free: BTreeSet::new(),
            world: World::default(),
            recording: None,
            recordings: 0,
            replaying: Vec::new(),
        }
    }
}

impl State {
    fn is_replaying(&self) -> bool {
        !self.replaying.is_empty() && self.replaying.contains(&std::thread::current().id())
    }

    /// This thread's recording, if the stream is part of it. What other threads do on such a stream runs as usual.
    fn recording_of(&mut self, stream: u32) -> Option<&mut Recording> {
        self.own_recording().filter(|recording| recording.streams.contains(&stream))
    }

    /// The recording, if this thread records it.
    fn own_recording(&mut self) -> Option<&mut Recording> {
        self.recording.as_mut().filter(|recording| recording.thread == std::thread::current().id())
    }
}

impl Order {
    /// Whether there is only one stream, no recording is in progress and no recorded work is being replayed.
    pub fn is_plain(&self) -> bool {
        !self.is_kept.load(Ordering::Relaxed)
    }

    /// Whether anything must be tracked, also if another thread changes that now.
    pub fn is_shared(&self) -> bool {
        let _state = self.lock();
        !self.is_plain()
    }

    /// Changes the state and updates `is_kept`.
    fn change<R>(&self, change: impl FnOnce(&mut State) -> R) -> R {
        let mut state = self.lock();
        let result = change(&mut state);
        let State { streams, recording, replaying, .. } = &*state;
        let is_kept = streams.len() > 1 || recording.is_some() || !replaying.is_empty();
        self.is_kept.store(is_kept, Ordering::Relaxed);
        result
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Opens a stream. Its work comes after the work that is queued on the default stream now.
    pub fn open(&self) -> u32 {
        self.change(|state| {
            let number = state.free.pop_first().unwrap_or(state.streams.len() as u32);
            state.streams.insert(number);
            let now = state.world.now(0);
            state.world.wait(number, &now);
            number
        })
    }

    /// Closes a stream. Its work has ended.
    pub fn close(&self, stream: u32) {
        self.close_after(stream, |world| {
            let now = world.now(stream);
            world.end(&now);
        });
    }

    fn close_after(&self, stream: u32, note: impl FnOnce(&mut World)) {
        self.change(|state| {
            note(&mut state.world);
            if state.streams.remove(&stream) {
                state.free.insert(stream);
            }
            // The default stream's work is in order, and later streams begin after it.
            if state.streams.len() > 1 {
                return state.world.forget_ordered(&state.streams);
            }
            let now = state.world.now_all();
            state.world.end(&now);
            state.world.forget_ordered_now(&state.streams);
        });
    }

    /// Closes a stream whose work may go on. The work of the default stream comes after it.
    pub fn leave(&self, stream: u32) {
        self.close_after(stream, |world| {
            let now = world.now(stream);
            world.wait(0, &now);
        });
    }

    /// The number of accesses that must be kept.
    #[cfg(test)]
    pub fn remembered(&self) -> usize {
        let State { streams, world, .. } = &mut *self.lock();
        world.forget_ordered_now(streams);
        world.remembered()
    }

    /// Admits work with these touches to the stream, unless it races.
    pub fn admit(
        &self,
        stream: u32,
        launch: Option<Launch>,
        touches: &[Touch],
    ) -> Result<Admission, Box<DataRace>> {
        let mut state = self.lock();
        if state.is_replaying() {
            return Ok(Admission::Run(None));
        }
        if let Some(recording) = state.recording_of(stream) {
            recording.world.admit(stream, touches)?;
            launch.into_iter().for_each(|launch| recording.launches.note(launch));
            return Ok(Admission::Record);
        }
        if state.streams.len() == 1 {
            return Ok(Admission::Run(None));
        }
        let time = state.world.admit(stream, touches)?;
        Ok(Admission::Run(Some((stream, time))))
    }

    /// Makes this thread's recording, and later its graph, an owner of the memory.
    pub fn keep(&self, memory: Arc<dyn Memory>) {
        let mut state = self.lock();
        let known = match state.own_recording() {
            Some(recording) => recording.memory.insert(memory.first().addr().get(), memory),
            None => Some(memory),
        };
        drop(state);
        drop(known);
    }

    /// Makes launches of this thread's recording depend on something.
    pub fn need(&self, needed: Arc<dyn Needed>) {
        if let Some(recording) = self.lock().own_recording()
            && !recording.needed.iter().any(|known| Arc::ptr_eq(known, &needed))
        {
            recording.needed.push(needed);
        }
    }

    /// Forgets the work on memory that is freed in its order.
    pub fn forget(&self, bytes: Range<usize>) {
        self.lock().world.forget(bytes);
    }

    /// Removes admitted work that could not be queued.
    pub fn cancel(&self, admission: &Admission) {
        if let &Admission::Run(Some((stream, time))) = admission {
            self.lock().world.cancel(stream, time);
        }
    }

    /// The current point of the stream.
    pub fn stamp(&self, stream: u32) -> Stamp {
        let mut state = self.lock();
        match state.recording_of(stream) {
            Some(recording) => Stamp { clock: recording.world.now(stream), recording: Some(recording.id) },
            None => Stamp { clock: state.world.now(stream), recording: None },
        }
    }

    /// Orders the stream's later work after the point, and returns whether the wait is recorded. A stream that waits for a
    /// point of the recording joins it.
    pub fn wait(&self, stream: u32, stamp: &Stamp) -> Result<bool, Outside> {
        let mut state = self.lock();
        if state.is_replaying() {
            return Ok(false);
        }
        match (stamp.recording, state.own_recording()) {
            (Some(id), Some(recording)) if recording.id == id => {
                if !recording.streams.contains(&stream) {
                    recording.streams.push(stream);
                    recording.world.advance(stream);
                }
                recording.world.wait(stream, &stamp.clock);
                return Ok(true);
            }
            (Some(_), _) => return Err(Outside::EventRecorded),
            (None, Some(recording)) if recording.streams.contains(&stream) => {
                return Err(Outside::WaitRecorded);
            }
            (None, _) => {
                let State { streams, world, .. } = &mut *state;
                world.wait(stream, &stamp.clock);
                world.forget_ordered(streams);
            }
        }
        Ok(false)
    }

    /// Notes that the host has seen the end of all work before the point.
    pub fn ended(&self, stamp: &Stamp) {
        let State { streams, world, .. } = &mut *self.lock();
        world.end(&stamp.clock);
        world.forget_ordered(streams);
    }

    /// The current point of all streams.
    pub fn stamp_all(&self) -> Stamp {
        Stamp { clock: self.lock().world.now_all(), recording: None }
    }

    /// Begins to record the default stream; returns false if a recording or a replay is in progress.
    pub fn begin_recording(&self) -> bool {
        self.change(|state| {
            if state.recording.is_some() || state.is_replaying() {
                return false;
            }
            state.recordings += 1;
            state.recording = Some(Recording {
                id: state.recordings,
                thread: std::thread::current().id(),
                streams: vec![0],
                world: World::default(),
                launches: Launches::default(),
                memory: BTreeMap::new(),
                needed: Vec::new(),
                spoiled_by: None,
            });
            true
        })
    }

    /// Ends the recording in progress.
    pub fn end_recording(&self) -> Result<Recorded, Spoiled> {
        let recording = self.change(|state| state.recording.take());
        let Some(Recording { streams, mut world, launches, memory, needed, spoiled_by, .. }) = recording
        else {
            return Err(Spoiled::By("ending another recording"));
        };
        if let Some(action) = spoiled_by {
            return Err(Spoiled::By(action));
        }
        match streams.into_iter().find(|&stream| !world.has_joined(stream)) {
            Some(stream) => Err(Spoiled::Unjoined(stream)),
            None => {
                let (touches, memory) = (world.into_touches(), memory.into_values().collect());
                Ok(Recorded { launches, touches, memory, needed })
            }
        }
    }

    /// Whether the stream's work is being recorded.
    pub fn is_recording(&self, stream: u32) -> bool {
        self.lock().recording_of(stream).is_some()
    }

    /// Whether this thread is in recorded work, which may contain only launches and events.
    pub fn is_in_recorded_work(&self) -> bool {
        if self.is_plain() {
            return false;
        }
        let mut state = self.lock();
        state.is_replaying() || state.own_recording().is_some()
    }

    /// Whether this thread is recording, and the stream is not part of the recording.
    pub fn is_outside_of_recording(&self, stream: u32) -> bool {
        self.lock().own_recording().is_some_and(|recording| !recording.streams.contains(&stream))
    }

    /// Marks this thread's recording, if there is one, as unusable because of `action`.
    pub fn spoil(&self, action: &'static str) {
        if let Some(recording) = self.lock().own_recording() {
            recording.spoiled_by.get_or_insert(action);
        }
    }

    /// Replays recorded work in this thread. Its launches were admitted as one.
    pub fn replay<R>(&self, work: impl FnOnce() -> R) -> R {
        struct Replaying<'a>(&'a Order);
        impl Drop for Replaying<'_> {
            fn drop(&mut self) {
                let current = std::thread::current().id();
                self.0.change(|state| {
                    let at = state.replaying.iter().position(|&thread| thread == current);
                    at.map(|at| state.replaying.swap_remove(at))
                });
            }
        }
        self.change(|state| state.replaying.push(std::thread::current().id()));
        let _replaying = Replaying(self);
        work()
    }
}
