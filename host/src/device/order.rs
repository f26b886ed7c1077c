//! The order of a device's work: which streams there are, which work comes after which, and what is being recorded.
//!
//! With one stream and no recording there is nothing to keep: all its work is in order.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::ThreadId;

use super::launches::{Launch, Launches};
use super::race::DataRace;

mod world;

#[cfg(test)]
mod tests;

pub(super) use world::Touch;
use world::{Clock, World};

/// What is to be done with work.
#[derive(Debug)]
pub(super) enum Admission {
    /// To queue it; where it is tracked, its stream and time.
    Run(Option<(u32, u64)>),
    /// To add it to the recording.
    Record,
}

/// A point in a stream's work, for waits to be ordered by.
#[derive(Clone, Debug)]
pub(super) struct Stamp {
    clock: Clock,
    /// The recording it is a point of.
    recording: Option<u64>,
}

impl Stamp {
    /// Whether it is a point of a recording, which only the graph reaches.
    pub fn is_recorded(&self) -> bool {
        self.recording.is_some()
    }
}

/// Why a wait is refused.
#[derive(Debug)]
pub(super) enum Outside {
    /// The event is one of a recording, and the wait is not.
    EventRecorded,
    /// The wait is one of a recording, and the event is not.
    WaitRecorded,
}

/// What a recording holds.
#[derive(Debug)]
pub(super) struct Recorded {
    pub launches: Launches,
    pub touches: Vec<Touch>,
}

/// Why a recording is no graph.
#[derive(Debug)]
pub(super) enum Spoiled {
    /// Work of this stream comes before nothing of the default stream.
    Unjoined(u32),
    /// This was done in between.
    By(&'static str),
}

#[derive(Debug, Default)]
pub(super) struct Order {
    /// Whether there is anything to keep.
    is_kept: AtomicBool,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// The streams' numbers, the default one's first.
    streams: Vec<u32>,
    world: World,
    recording: Option<Recording>,
    recordings: u64,
    /// Threads that run recorded work again.
    replaying: Vec<ThreadId>,
}

#[derive(Debug)]
struct Recording {
    id: u64,
    thread: ThreadId,
    streams: Vec<u32>,
    world: World,
    launches: Launches,
    spoiled_by: Option<&'static str>,
}

impl Default for State {
    fn default() -> Self {
        let (world, replaying) = (World::default(), Vec::new());
        Self { streams: vec![0], world, recording: None, recordings: 0, replaying }
    }
}

impl State {
    fn is_replaying(&self) -> bool {
        !self.replaying.is_empty() && self.replaying.contains(&std::thread::current().id())
    }

    fn recording_of(&mut self, stream: u32) -> Option<&mut Recording> {
        self.recording.as_mut().filter(|recording| recording.streams.contains(&stream))
    }
}

impl Order {
    /// Whether there is but one stream, no recording is under way and no recorded work is run again.
    pub fn is_plain(&self) -> bool {
        !self.is_kept.load(Ordering::Relaxed)
    }

    /// Changes the state, and what follows from it.
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

    /// A new stream, whose work comes after what is queued on the default stream now.
    pub fn open(&self) -> u32 {
        self.change(|state| {
            let number = (1..).find(|number| !state.streams.contains(number)).unwrap_or(u32::MAX);
            state.streams.push(number);
            let now = state.world.now(0);
            state.world.wait(number, &now);
            number
        })
    }

    /// The stream goes, and its work has ended.
    pub fn close(&self, stream: u32) {
        self.change(|state| {
            let now = state.world.now(stream);
            state.world.end(&now);
            state.streams.retain(|&open| open != stream);
            // The default stream's own work is in order, and later streams begin after it.
            if state.streams.len() == 1 {
                let now = state.world.now_all();
                state.world.end(&now);
            }
            state.world.forget_ordered(&state.streams);
        });
    }

    /// How many accesses are kept.
    #[cfg(test)]
    pub fn remembered(&self) -> usize {
        self.lock().world.remembered()
    }

    /// Asks to queue work that touches this on the stream.
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

    /// Takes back admitted work that could not be queued.
    pub fn cancel(&self, admission: &Admission) {
        if let &Admission::Run(Some((stream, time))) = admission {
            self.lock().world.cancel(stream, time);
        }
    }

    /// The stream's point now.
    pub fn stamp(&self, stream: u32) -> Stamp {
        let mut state = self.lock();
        match state.recording_of(stream) {
            Some(recording) => Stamp { clock: recording.world.now(stream), recording: Some(recording.id) },
            None => Stamp { clock: state.world.now(stream), recording: None },
        }
    }

    /// The stream's later work comes after the point. A stream that waits for a point of the recording joins it.
    pub fn wait(&self, stream: u32, stamp: &Stamp) -> Result<(), Outside> {
        let mut state = self.lock();
        if state.is_replaying() {
            return Ok(());
        }
        match (stamp.recording, &mut state.recording) {
            (Some(id), Some(recording)) if recording.id == id => {
                if !recording.streams.contains(&stream) {
                    recording.streams.push(stream);
                    recording.world.advance(stream);
                }
                recording.world.wait(stream, &stamp.clock);
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
        Ok(())
    }

    /// The host has seen the end of all work before the point.
    pub fn ended(&self, stamp: &Stamp) {
        let State { streams, world, .. } = &mut *self.lock();
        world.end(&stamp.clock);
        world.forget_ordered(streams);
    }

    /// The point of all streams now.
    pub fn stamp_all(&self) -> Stamp {
        Stamp { clock: self.lock().world.now_all(), recording: None }
    }

    /// Begins to record the default stream, unless that is under way.
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
                spoiled_by: None,
            });
            true
        })
    }

    /// Ends the recording, which was begun.
    pub fn end_recording(&self) -> Result<Recorded, Spoiled> {
        let recording = self.change(|state| state.recording.take());
        let Some(Recording { streams, mut world, launches, spoiled_by, .. }) = recording else {
            return Err(Spoiled::By("ending another recording"));
        };
        if let Some(action) = spoiled_by {
            return Err(Spoiled::By(action));
        }
        match streams.into_iter().find(|&stream| !world.has_joined(stream)) {
            Some(stream) => Err(Spoiled::Unjoined(stream)),
            None => Ok(Recorded { launches, touches: world.into_touches() }),
        }
    }

    /// Whether work of the stream is recorded.
    pub fn is_recording(&self, stream: u32) -> bool {
        self.lock().recording_of(stream).is_some()
    }

    /// Whether this thread is in recorded work, which holds launches and events alone.
    pub fn is_in_recorded_work(&self) -> bool {
        if self.is_plain() {
            return false;
        }
        let state = self.lock();
        let current = std::thread::current().id();
        state.is_replaying() || state.recording.as_ref().is_some_and(|recording| recording.thread == current)
    }

    /// Whether this thread records work, and the stream is not part of that.
    pub fn is_outside_of_recording(&self, stream: u32) -> bool {
        let current = std::thread::current().id();
        self.lock()
            .recording
            .as_ref()
            .is_some_and(|recording| recording.thread == current && !recording.streams.contains(&stream))
    }

    /// The recording that this thread has under way holds no such action, and so becomes no graph.
    pub fn spoil(&self, action: &'static str) {
        let mut state = self.lock();
        let current = std::thread::current().id();
        if let Some(recording) = state.recording.as_mut().filter(|recording| recording.thread == current) {
            recording.spoiled_by.get_or_insert(action);
        }
    }

    /// Runs recorded work again, in this thread. Its launches were admitted as one.
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
