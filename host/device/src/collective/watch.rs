//! Watches the other ranks: a thread sends and receives heartbeats over the connections of the rendezvous.
//!
//! Every rank except 0 has one connection, to rank 0. Each rank reports how many operations it has begun, and rank 0 reports
//! to all which rank has begun the fewest. A rank is lost if its connection closes without a farewell, or if it is silent or
//! late for too long. Rank 0 reports the loss to all, and each rank aborts its communicator.

use std::collections::VecDeque;
use std::io::{ErrorKind, Read as _, Write as _};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use super::error::{LostRank, RankLoss};
use super::rendezvous::Peer;
use crate::device::stream::Event;

/// Bytes of a message: its kind, a rank, and a number.
const MESSAGE_BYTES: usize = 16;

const BEAT: u8 = 1;
const SLOWEST: u8 = 2;
const FAREWELL: u8 = 3;
const ENDED: u8 = 4;
const FAILED: u8 = 5;
const SILENT: u8 = 6;
const BEHIND: u8 = 7;
const LEFT: u8 = 8;
const TIMED_OUT: u8 = 9;
const SLOWEST_LEFT: u8 = 10;

/// Why no further operation is possible.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Failure {
    /// A rank is lost.
    Lost(LostRank),
    /// All ranks have begun an operation that does not end.
    TimedOut,
}

/// State that the watching thread shares with the rank's own thread.
pub(super) struct Shared {
    rank: u32,
    limit: Duration,
    /// Operations that this rank has begun.
    begun: AtomicU64,
    state: Mutex<State>,
    is_stopped: AtomicBool,
}

#[derive(Default)]
struct State {
    failure: Option<Failure>,
    /// A failure not yet reported to the others.
    unreported: Option<Failure>,
    /// The rank that has begun the fewest operations, their number, and whether it has left, per rank 0's last message.
    slowest: Option<(u32, u64, bool)>,
    has_rank_0_left: bool,
    /// GPU operations not known to have ended; below, when the last one ended.
    pending: VecDeque<Event>,
    progress: Option<Instant>,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Why no further operation is possible; `None` if they are.
    pub fn failure(&self) -> Option<Failure> {
        self.state().failure
    }

    /// Notes that this rank has begun an operation.
    pub fn begin(&self) {
        self.begun.fetch_add(1, Ordering::Relaxed);
    }

    /// Keeps the first failure, and reports it to the others if this rank found it. Returns the first failure.
    fn fail(&self, failure: Failure) -> Failure {
        let mut state = self.state();
        if state.failure.is_none() {
            state.unreported = Some(failure);
        }
        *state.failure.get_or_insert(failure)
    }

    /// Notes that an operation failed here. Returns an earlier failure, if there was one.
    pub fn fail_here(&self) -> Option<Failure> {
        let here = Failure::Lost(LostRank { rank: self.rank, loss: RankLoss::Failed });
        Some(self.fail(here)).filter(|&first| first != here)
    }

    /// Notes that an operation does not end. Returns the cause.
    pub fn fail_late(&self) -> Failure {
        let lost = {
            let state = self.state();
            let own = self.begun.load(Ordering::Relaxed);
            match state.slowest {
                _ if state.has_rank_0_left => Some(LostRank { rank: 0, loss: RankLoss::Left }),
                Some((rank, begun, has_left)) if begun < own && rank != self.rank => {
                    let loss = if has_left { RankLoss::Left } else { RankLoss::Behind { begun } };
                    Some(LostRank { rank, loss })
                }
                _ => None,
            }
        };
        self.fail(lost.map_or(Failure::TimedOut, Failure::Lost))
    }

    /// Notes an operation queued on a GPU and followed by `event`.
    pub fn queued(&self, event: Event) {
        let mut state = self.state();
        if state.pending.is_empty() {
            state.progress = Some(Instant::now());
        }
        state.pending.push_back(event);
    }

    /// Forgets operations that have ended. Returns whether the oldest remaining one is over the limit.
    fn is_late(&self) -> bool {
        let mut state = self.state();
        // The device reports its own failures.
        while state.pending.front().is_some_and(|event| event.is_complete().unwrap_or(true)) {
            state.pending.pop_front();
            state.progress = Some(Instant::now());
        }
        !state.pending.is_empty() && state.progress.is_some_and(|progress| progress.elapsed() > self.limit)
    }
}

/// A connection with non-blocking reads and writes.
struct Link {
    peer: Peer,
    received: Vec<u8>,
    heard: Instant,
    begun: u64,
    has_left: bool,
    is_closed: bool,
}

type Message = (u8, u32, u64);

impl Link {
    fn send(&mut self, (what, rank, number): Message) {
        let mut bytes = [0; MESSAGE_BYTES];
        bytes[0] = what;
        bytes[4..8].copy_from_slice(&rank.to_le_bytes());
        bytes[8..].copy_from_slice(&number.to_le_bytes());
        // A failed connection is found when it is read.
        let _ = self.peer.stream.write_all(&bytes);
    }

    /// Returns the messages that have arrived, and notes whether the connection is closed.
    fn receive(&mut self) -> Vec<Message> {
        let mut bytes = [0; 1024];
        while !self.is_closed {
            match self.peer.stream.read(&mut bytes) {
                Ok(0) => self.is_closed = true,
                Ok(count) => {
                    self.received.extend_from_slice(&bytes[..count]);
                    self.heard = Instant::now();
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(_) => self.is_closed = true,
            }
        }
        let whole = self.received.len() / MESSAGE_BYTES * MESSAGE_BYTES;
        let rest = self.received.split_off(whole);
        let received = std::mem::replace(&mut self.received, rest);
        let message = |bytes: &[u8]| {
            let rank = u32::from_le_bytes(bytes[4..8].try_into().unwrap_or_default());
            (bytes[0], rank, u64::from_le_bytes(bytes[8..].try_into().unwrap_or_default()))
        };
        received.chunks_exact(MESSAGE_BYTES).map(message).collect()
    }
}

fn message_of(failure: Failure) -> Message {
    match failure {
        Failure::TimedOut => (TIMED_OUT, 0, 0),
        Failure::Lost(LostRank { rank, loss }) => match loss {
            RankLoss::Ended => (ENDED, rank, 0),
            RankLoss::Failed => (FAILED, rank, 0),
            RankLoss::Silent => (SILENT, rank, 0),
            RankLoss::Left => (LEFT, rank, 0),
            RankLoss::Behind { begun } => (BEHIND, rank, begun),
        },
    }
}

fn failure_of((what, rank, number): Message) -> Option<Failure> {
    let loss = match what {
        TIMED_OUT => return Some(Failure::TimedOut),
        ENDED => RankLoss::Ended,
        FAILED => RankLoss::Failed,
        SILENT => RankLoss::Silent,
        LEFT => RankLoss::Left,
        BEHIND => RankLoss::Behind { begun: number },
        _ => return None,
    };
    Some(Failure::Lost(LostRank { rank, loss }))
}

/// The state of the watching thread.
struct Watcher<A> {
    shared: Arc<Shared>,
    links: Vec<Link>,
    /// Called once, after the first failure.
    abort: Option<A>,
}

impl<A: FnOnce()> Watcher<A> {
    fn run(mut self) {
        let (rank, limit) = (self.shared.rank, self.shared.limit);
        let beat = (limit / 10).min(Duration::from_millis(500));
        let pause = (limit / 50).clamp(Duration::from_millis(1), Duration::from_millis(20));
        let mut next_beat = Instant::now();
        loop {
            let is_stopped = self.shared.is_stopped.load(Ordering::Acquire);
            self.hear();
            if self.shared.is_late() {
                self.shared.fail_late();
            }
            let begun = self.shared.begun.load(Ordering::Relaxed);
            if next_beat <= Instant::now() {
                next_beat = Instant::now() + beat;
                let message = if rank == 0 { self.slowest(begun) } else { (BEAT, rank, begun) };
                self.links.iter_mut().for_each(|link| link.send(message));
            }
            let unreported = self.shared.state().unreported.take();
            if let Some(failure) = unreported {
                self.links.iter_mut().for_each(|link| link.send(message_of(failure)));
            }
            if self.shared.failure().is_some()
                && let Some(abort) = self.abort.take()
            {
                abort();
            }
            if is_stopped {
                self.links.iter_mut().for_each(|link| link.send((FAREWELL, rank, begun)));
                return;
            }
            thread::sleep(pause);
        }
    }

    /// Rank 0's report of the rank that has begun the fewest operations.
    fn slowest(&self, own: u64) -> Message {
        let others = self.links.iter().map(|link| (link.begun, link.peer.rank, link.has_left));
        let (begun, rank, has_left) = others.chain([(own, 0, false)]).min().unwrap_or_default();
        self.shared.state().slowest = Some((rank, begun, has_left));
        (if has_left { SLOWEST_LEFT } else { SLOWEST }, rank, begun)
    }

    /// Handles the messages that have arrived.
    fn hear(&mut self) {
        let (is_hub, limit) = (self.shared.rank == 0, self.shared.limit);
        for link in &mut self.links {
            if link.has_left {
                continue;
            }
            let rank = link.peer.rank;
            for message in link.receive() {
                match message {
                    (BEAT, _, begun) => link.begun = begun,
                    (what @ (SLOWEST | SLOWEST_LEFT), slowest, begun) => {
                        self.shared.state().slowest = Some((slowest, begun, what == SLOWEST_LEFT));
                    }
                    (FAREWELL, _, begun) => {
                        (link.has_left, link.begun) = (true, begun);
                        self.shared.state().has_rank_0_left |= rank == 0;
                    }
                    other => {
                        // Rank 0 forwards failures; the others receive them from rank 0.
                        let Some(failure) = failure_of(other) else { continue };
                        let mut state = self.shared.state();
                        if state.failure.is_none() {
                            state.failure = Some(failure);
                            state.unreported = Some(failure).filter(|_| is_hub);
                        }
                    }
                }
            }
            let loss = match () {
                () if link.has_left => continue,
                () if link.is_closed => RankLoss::Ended,
                () if link.heard.elapsed() > limit => RankLoss::Silent,
                () => continue,
            };
            self.shared.fail(Failure::Lost(LostRank { rank, loss }));
        }
    }
}

/// Owns the thread that watches the other ranks; dropping it stops the thread.
pub(super) struct Watch {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl Watch {
    /// Begins to watch. The watching thread calls `abort` at the first failure.
    pub fn start(
        rank: u32,
        limit: Duration,
        peers: Vec<Peer>,
        abort: impl FnOnce() + Send + 'static,
    ) -> std::io::Result<Self> {
        let shared = Arc::new(Shared {
            rank,
            limit,
            begun: AtomicU64::new(0),
            state: Mutex::default(),
            is_stopped: AtomicBool::new(false),
        });
        let link = |peer| Link {
            peer,
            received: Vec::new(),
            heard: Instant::now(),
            begun: 0,
            has_left: false,
            is_closed: false,
        };
        let links = peers.into_iter().map(link).collect();
        let watcher = Watcher { shared: Arc::clone(&shared), links, abort: Some(abort) };
        let thread = thread::Builder::new().name("collective".to_owned()).spawn(move || watcher.run())?;
        Ok(Self { shared, thread: Some(thread) })
    }

    /// The state shared with the watching thread.
    pub fn shared(&self) -> &Shared {
        &self.shared
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.shared.is_stopped.store(true, Ordering::Release);
        let start = Instant::now();
        // A forked process has no such thread.
        let Some(thread) = self.thread.take().filter(|_| !cust::is_forked()) else { return };
        // A thread that is stuck in NCCL's abort is left behind.
        while !thread.is_finished() && start.elapsed() < self.shared.limit {
            thread::sleep(Duration::from_millis(1));
        }
        if thread.is_finished() {
            // A panic in the thread needs no further action.
            let _ = thread.join();
        }
    }
}
