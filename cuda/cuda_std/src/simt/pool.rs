//! Helper threads that take part in a launch if they come in time.
//!
//! A general thread pool makes its caller wait until every spawned task has run, even if a busy machine lets the helper
//! sleep for milliseconds and nothing is left to do. Here the caller withdraws the work, and does not wait for a helper
//! that comes too late.

use core::any::Any;
use core::cell::Cell;
use core::hint::spin_loop;
use core::sync::atomic::{AtomicU64, Ordering};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use super::per_process::PerProcess;
use crate::launch::LaunchError;

/// The number of times that an idle helper, or a caller that waits for helpers, polls before it sleeps: some tens of
/// microseconds, about the time between two launches of a training step.
const SPINS: u32 = 2_000;

/// Work that is open to helpers.
struct Job {
    id: u64,
    work: Work,
    /// Helpers that may still join.
    wanted: usize,
    /// Helpers at work.
    active: usize,
    /// The payload of a helper's panic.
    panic: Option<Box<dyn Any + Send>>,
}

/// The work of a caller that waits for its end.
#[derive(Clone, Copy)]
struct Work(*const (dyn Fn() + Sync));

// SAFETY: the function is `Sync`, and a pointer to it is used only while its caller waits in `share`.
unsafe impl Send for Work {}

struct State {
    jobs: Vec<Job>,
    helpers: usize,
    next_id: u64,
}

struct Pool {
    state: Mutex<State>,
    /// Counts the jobs, so that helpers see a new one without the lock.
    offered: AtomicU64,
    /// Counts the helpers' departures, so that callers see one without the lock.
    left: AtomicU64,
    new_job: Condvar,
    helper_left: Condvar,
}

static POOL: PerProcess<Pool> = PerProcess::new(|| Pool {
    state: Mutex::new(State { jobs: Vec::new(), helpers: 0, next_id: 0 }),
    offered: AtomicU64::new(0),
    left: AtomicU64::new(0),
    new_job: Condvar::new(),
    helper_left: Condvar::new(),
});

thread_local! {
    /// The helper's number, from 1 on; 0 in every other thread.
    static NUMBER: Cell<u32> = const { Cell::new(0) };
}

/// Returns this thread's number among those that share a launch: 0 for the caller, else the helper's number.
pub(crate) fn worker() -> u32 {
    NUMBER.get()
}

/// Runs `work` on the calling thread and on up to `helpers` others at the same time. Returns when the caller's call and
/// the calls of the helpers that came have returned.
pub(super) fn share(helpers: usize, work: &(dyn Fn() + Sync)) {
    // SAFETY: only the lifetime changes. The job is withdrawn below, after the last helper has left it, and until
    // then `work` is borrowed.
    let erased =
        Work(unsafe { core::mem::transmute::<&(dyn Fn() + Sync), &'static (dyn Fn() + Sync)>(work) });
    let pool = POOL.get();
    let id = pool.offer(helpers, erased);
    let own = catch_unwind(AssertUnwindSafe(work));
    let helpers_panic = pool.withdraw(id);
    if let Err(payload) = own {
        resume_unwind(payload);
    }
    if let Some(payload) = helpers_panic {
        resume_unwind(payload);
    }
}

/// Runs the launch of a thread that unwinds on another thread, and returns its result: here its kernel threads would seem to
/// unwind too.
pub(super) fn apart(
    kernel: &'static str,
    launch: impl FnOnce() -> Result<(), LaunchError> + Send,
) -> Result<(), LaunchError> {
    let failed = |reason| LaunchError::Device(format!("launch of {kernel} failed: {reason}").into());
    std::thread::scope(|scope| {
        let launch = std::thread::Builder::new().spawn_scoped(scope, launch);
        let launch = launch.map_err(|error| failed(format!("its thread cannot be created: {error}")))?;
        launch.join().unwrap_or_else(|_| Err(failed("it panicked".into())))
    })
}

impl Pool {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn offer(&'static self, helpers: usize, work: Work) -> u64 {
        let mut state = self.lock();
        let id = state.next_id;
        state.next_id += 1;
        state.jobs.push(Job { id, work, wanted: helpers, active: 0, panic: None });
        while state.helpers < helpers {
            let number = state.helpers + 1;
            let help = move || {
                NUMBER.set(number as u32);
                self.help();
            };
            // Without another thread the caller does the work alone.
            if std::thread::Builder::new().name(format!("simt-{number}")).spawn(help).is_err() {
                break;
            }
            state.helpers += 1;
        }
        drop(state);
        self.offered.fetch_add(1, Ordering::Release);
        self.new_job.notify_all();
        id
    }

    /// Closes a job to further helpers, and waits for those at work.
    fn withdraw(&self, id: u64) -> Option<Box<dyn Any + Send>> {
        let mut state = self.lock();
        loop {
            let at = state.jobs.iter().position(|job| job.id == id)?;
            state.jobs[at].wanted = 0;
            if state.jobs[at].active == 0 {
                return state.jobs.swap_remove(at).panic;
            }
            let seen = self.left.load(Ordering::Acquire);
            drop(state);
            let left = spin_until(|| self.left.load(Ordering::Acquire) != seen);
            state = self.lock();
            let is_active = state.jobs.iter().any(|job| job.id == id && job.active > 0);
            if !left && is_active {
                state = self.helper_left.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
        }
    }

    /// The loop of a helper.
    fn help(&self) {
        let mut state = self.lock();
        loop {
            if let Some(job) = state.jobs.iter_mut().find(|job| job.wanted > 0) {
                job.wanted -= 1;
                job.active += 1;
                let (id, work) = (job.id, job.work);
                drop(state);
                // SAFETY: `share` waits until this helper has left the job, and borrows the work until then.
                let result = catch_unwind(AssertUnwindSafe(|| unsafe { (*work.0)() }));
                state = self.lock();
                if let Some(job) = state.jobs.iter_mut().find(|job| job.id == id) {
                    job.active -= 1;
                    job.panic = job.panic.take().or(result.err());
                }
                self.left.fetch_add(1, Ordering::Release);
                self.helper_left.notify_all();
                continue;
            }
            let seen = self.offered.load(Ordering::Acquire);
            drop(state);
            let is_new = spin_until(|| self.offered.load(Ordering::Acquire) != seen);
            state = self.lock();
            if !is_new && !state.jobs.iter().any(|job| job.wanted > 0) {
                state = self.new_job.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
        }
    }
}

/// Polls for a while; returns whether `seen` was true.
fn spin_until(seen: impl Fn() -> bool) -> bool {
    (0..SPINS).any(|_| {
        spin_loop();
        seen()
    })
}

#[cfg(test)]
mod tests {
    use core::sync::atomic::AtomicUsize;

    use super::*;

    #[test]
    fn every_piece_is_done_once_whoever_comes() {
        for helpers in [0, 1, 3] {
            for pieces in [1, 2, 100] {
                let next = AtomicUsize::new(0);
                let done: Vec<AtomicUsize> = (0..pieces).map(|_| AtomicUsize::new(0)).collect();
                share(helpers, &|| {
                    while let Some(piece) = done.get(next.fetch_add(1, Ordering::Relaxed)) {
                        piece.fetch_add(1, Ordering::Relaxed);
                    }
                });
                assert!(done.iter().all(|piece| piece.load(Ordering::Relaxed) == 1), "{helpers} {pieces}");
            }
        }
    }

    #[test]
    fn callers_do_not_disturb_each_other() {
        let total = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..50 {
                        let next = AtomicUsize::new(0);
                        share(2, &|| {
                            while next.fetch_add(1, Ordering::Relaxed) < 10 {
                                total.fetch_add(1, Ordering::Relaxed);
                            }
                        });
                    }
                });
            }
        });
        assert_eq!(total.into_inner(), 4 * 50 * 10);
    }

    #[test]
    fn a_panic_reaches_the_caller_and_the_pool_works_on() {
        let caught = catch_unwind(|| share(1, &|| panic!("planted")));
        assert_eq!(caught.unwrap_err().downcast_ref::<&str>(), Some(&"planted"));
        let calls = AtomicUsize::new(0);
        share(1, &|| {
            calls.fetch_add(1, Ordering::Relaxed);
        });
        assert!((1..=2).contains(&calls.into_inner()));
    }
}
