//! The order of a device's work: its streams, the order between their work, and the recording in progress.
//!
//! With one stream and no recording, all work is in order and nothing is tracked.

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
#[derive(Debug)]
pub(super) struct Recorded {
    pub launches: Launches,
    pub touches: Vec<Touch>,
}

/// Why a recording cannot become a graph.
#[derive(Debug)]
pub(super) enum Spoiled {
    /// The default stream does not wait for this stream's last work.
    Unjoined(u32),
    /// The recorded work did this.
    By(&'static str),
}

#[derive(Debug, Default)]
pub(super) struct Order {
    /// Whether anything must be tracked.
    is_kept: AtomicBool,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// The streams' numbers, the default stream's first.
    streams: Vec<u32>,
    world: World,
    recording: Option<Recording>,
    recordings: u64,
    /// Threads that are replaying recorded work.
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
    /// Whether there is only one stream, no recording is in progress and no recorded work is being replayed.
    pub fn is_plain(&self) -> bool {
        !self.is_kept.load(Ordering::Relaxed)
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
            let number = (1..).find(|number| !state.streams.contains(number)).unwrap_or(u32::MAX);
            state.streams.push(number);
            let now = state.world.now(0);
            state.world.wait(number, &now);
            number
        })
    }

    /// Closes a stream. Its work has ended.
    pub fn close(&self, stream: u32) {
        self.change(|state| {
            let now = state.world.now(stream);
            state.world.end(&now);
            state.streams.retain(|&open| open != stream);
            // The default stream's work is in order, and later streams begin after it.
            if state.streams.len() == 1 {
                let now = state.world.now_all();
                state.world.end(&now);
            }
            state.world.forget_ordered(&state.streams);
        });
    }

    /// The number of accesses that are kept.
    #[cfg(test)]
    pub fn remembered(&self) -> usize {
        self.lock().world.remembered()
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

    /// Orders the stream's later work after the point. A stream that waits for a point of the recording joins it.
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
                spoiled_by: None,
            });
            true
        })
    }

    /// Ends the recording in progress.
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

    /// Whether the stream's work is being recorded.
    pub fn is_recording(&self, stream: u32) -> bool {
        self.lock().recording_of(stream).is_some()
    }

    /// Whether this thread is in recorded work, which may contain only launches and events.
    pub fn is_in_recorded_work(&self) -> bool {
        if self.is_plain() {
            return false;
        }
        let state = self.lock();
        let current = std::thread::current().id();
        state.is_replaying() || state.recording.as_ref().is_some_and(|recording| recording.thread == current)
    }

    /// Whether this thread is recording, and the stream is not part of the recording.
    pub fn is_outside_of_recording(&self, stream: u32) -> bool {
        let current = std::thread::current().id();
        self.lock()
            .recording
            .as_ref()
            .is_some_and(|recording| recording.thread == current && !recording.streams.contains(&stream))
    }

    /// Marks this thread's recording, if there is one, as unusable because of `action`.
    pub fn spoil(&self, action: &'static str) {
        let mut state = self.lock();
        let current = std::thread::current().id();
        if let Some(recording) = state.recording.as_mut().filter(|recording| recording.thread == current) {
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
