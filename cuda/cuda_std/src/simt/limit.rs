//! The time limit of a launch.
//!
//! A separate thread watches the clock. When a launch is over its limit, the schedulers and the atomics see that, and
//! the launch ends with a fault. A kernel that reaches neither cannot be stopped: a little later its name is printed,
//! with block and thread if the system reports them, and the program ends.

use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use super::fault::{FaultKind, SECONDS as VARIABLE};
#[cfg(all(target_os = "linux", not(miri)))]
use super::os_thread::OsThread;
use super::per_process::PerProcess;
use crate::launch::LaunchError;

/// The least and the longest time in which a kernel over its limit must reach an operation that checks it. Between
/// these bounds, the time is the limit.
const GRACE: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(10));

/// An executor's limit.
#[derive(Clone, Debug)]
pub(super) enum TimeLimit {
    None,
    Of(Duration),
    /// The environment has a limit that cannot be parsed. It is an error of every launch.
    Malformed(String),
}

/// Whether some launch is over its limit; otherwise nothing else is checked.
static EXPIRED: AtomicBool = AtomicBool::new(false);

static WATCHDOG: PerProcess<Watchdog> = PerProcess::new(Watchdog::default);

#[derive(Default)]
struct Watchdog {
    is_started: AtomicBool,
    launches: Mutex<Vec<Arc<Clock>>>,
    changed: Condvar,
}

/// The clock of one launch.
pub(crate) struct Clock {
    kernel: &'static str,
    limit: Duration,
    start: Instant,
    has_expired: AtomicBool,
    workers: Mutex<Vec<OsThread>>,
}

/// A launch while it is watched.
pub(super) struct Timed(Arc<Clock>);

/// An OS thread while it works for a launch.
pub(super) struct Entered<'a>(&'a Clock);

impl TimeLimit {
    /// Reads the limit from the environment.
    pub fn from_environment() -> Self {
        let Some(text) = std::env::var_os(VARIABLE).filter(|text| !text.is_empty()) else {
            return TimeLimit::None;
        };
        let text = text.to_string_lossy();
        parse_time_limit(&text).map_or_else(|_| TimeLimit::Malformed(text.into_owned()), TimeLimit::Of)
    }

    /// Begins to watch a launch; returns `None` without a limit, and under Miri, whose time is not the kernel's.
    ///
    /// # Errors
    /// [`LaunchError::TimeLimit`] if the environment's limit cannot be parsed.
    pub fn begin(&self, kernel: &'static str) -> Result<Option<Timed>, LaunchError> {
        match self {
            TimeLimit::Malformed(value) => Err(LaunchError::TimeLimit { kernel, value: value.clone() }),
            &TimeLimit::Of(limit) if !cfg!(miri) => Ok(Some(Timed::new(kernel, limit))),
            TimeLimit::None | TimeLimit::Of(_) => Ok(None),
        }
    }
}

/// The longest time limit, in seconds: a `Duration` holds 1.8 times as many.
const MOST_SECONDS: f64 = 1e19;

/// Parses a user's time limit: a number of seconds above 0 and at most 1e19, about the longest `Duration`.
///
/// ```
/// use std::time::Duration;
///
/// use cuda_std::simt::parse_time_limit;
///
/// assert_eq!(parse_time_limit("2.5"), Ok(Duration::from_millis(2500)));
/// assert!(parse_time_limit("soon").is_err());
/// assert!(parse_time_limit("1e30").unwrap_err().ends_with("at most 1e19"));
/// ```
///
/// # Errors
/// A description, if it is not such a number.
pub fn parse_time_limit(text: &str) -> Result<Duration, String> {
    let seconds = text.parse::<f64>().ok().filter(|&seconds| seconds > 0.0 && seconds <= MOST_SECONDS);
    let limit = seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    limit
        .filter(|limit| !limit.is_zero())
        .ok_or_else(|| format!("it must be a number of seconds above 0 and at most {MOST_SECONDS:e}"))
}

/// Returns whether some launch is over its limit.
#[inline(always)]
pub(super) fn any_expired() -> bool {
    EXPIRED.load(Ordering::Relaxed)
}

impl Timed {
    fn new(kernel: &'static str, limit: Duration) -> Self {
        let (has_expired, workers) = (AtomicBool::new(false), Mutex::default());
        let clock = Arc::new(Clock { kernel, limit, start: Instant::now(), has_expired, workers });
        WATCHDOG.get().begin(Arc::clone(&clock));
        Self(clock)
    }

    pub fn clock(&self) -> &Clock {
        &self.0
    }

    /// Notes that this OS thread works for the launch, as long as the returned value lives.
    pub fn enter(&self) -> Entered<'_> {
        lock(&self.0.workers).push(OsThread::current());
        Entered(&self.0)
    }
}

impl Drop for Timed {
    fn drop(&mut self) {
        WATCHDOG.get().end(&self.0);
    }
}

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        let (this, mut workers) = (OsThread::current(), lock(&self.0.workers));
        if let Some(at) = workers.iter().position(|worker| *worker == this) {
            workers.swap_remove(at);
        }
    }
}

impl Clock {
    /// Returns whether the launch is over its limit.
    #[inline]
    pub fn has_expired(&self) -> bool {
        self.has_expired.load(Ordering::Relaxed)
    }

    /// Returns the fault of a launch over its limit.
    pub fn fault(&self) -> FaultKind {
        FaultKind::TimedOut { limit: self.limit }
    }

    /// Returns when the next action is due, from the start of the launch.
    fn due(&self) -> Duration {
        let grace = self.limit.clamp(GRACE.0, GRACE.1);
        self.limit.saturating_add(if self.has_expired() { grace } else { Duration::ZERO })
    }

    /// Returns the time until then.
    fn rest(&self) -> Duration {
        self.due().saturating_sub(self.start.elapsed())
    }

    /// Ends the program, if possible from a thread that runs the kernel.
    fn end_program(&self) -> ! {
        lock(&self.workers).iter().for_each(OsThread::end_in_kernel);
        // The signals take a moment. After that, no thread was in the kernel, or the system could not signal it.
        std::thread::sleep(Duration::from_millis(500));
        eprintln!("error: kernel {} {}", self.kernel, self.fault());
        std::process::abort();
    }
}

impl Watchdog {
    fn begin(&'static self, clock: Arc<Clock>) {
        let mut launches = lock(&self.launches);
        let is_first = launches.iter().all(|other| clock.limit < other.rest());
        launches.push(clock);
        drop(launches);
        if !self.is_started.swap(true, Ordering::Relaxed) {
            // If no thread can be spawned, there is no limit.
            let _ = std::thread::Builder::new().name("simt-watchdog".to_owned()).spawn(|| self.watch());
        } else if is_first {
            self.changed.notify_one();
        }
    }

    fn end(&self, clock: &Arc<Clock>) {
        let mut launches = lock(&self.launches);
        launches.retain(|other| !Arc::ptr_eq(other, clock));
        if clock.has_expired() {
            EXPIRED.store(launches.iter().any(|clock| clock.has_expired()), Ordering::Relaxed);
        }
    }

    /// The loop of the watching thread.
    fn watch(&self) {
        let mut launches = lock(&self.launches);
        loop {
            for clock in launches.iter().filter(|clock| clock.rest().is_zero()) {
                if clock.has_expired.swap(true, Ordering::Relaxed) {
                    clock.end_program();
                }
                EXPIRED.store(true, Ordering::Relaxed);
            }
            let next = launches.iter().map(|clock| clock.rest()).min();
            launches = match next {
                None => self.changed.wait(launches).unwrap_or_else(PoisonError::into_inner),
                Some(next) => {
                    let woken = self.changed.wait_timeout(launches, next);
                    woken.unwrap_or_else(PoisonError::into_inner).0
                }
            };
        }
    }
}

/// On these systems an OS thread cannot be signalled.
#[cfg(not(all(target_os = "linux", not(miri))))]
#[derive(PartialEq)]
struct OsThread;

#[cfg(not(all(target_os = "linux", not(miri))))]
impl OsThread {
    fn current() -> Self {
        OsThread
    }

    fn end_in_kernel(&self) {}
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
