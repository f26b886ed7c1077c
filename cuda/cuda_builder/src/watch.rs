//! The current work of a build, so that no step is silent for long and each tool knows its time limit.

use std::cell::RefCell;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::jobs::lock;
use crate::progress::{Progress, ProgressFn};

/// The longest silence of a build.
pub(crate) const QUIET: Duration = Duration::from_secs(20);

thread_local! {
    /// The work of this thread.
    static CURRENT: RefCell<Option<Arc<Task>>> = const { RefCell::new(None) };
}

/// A piece of work on one thread.
struct Task {
    /// Such as `the kernel sum`.
    what: String,
    /// The optimisation level, if there is one.
    opt_level: Option<u8>,
    /// The time limit of each tool, if it is not the default.
    limit: Option<Duration>,
    /// The running tool, and its start.
    stage: Mutex<(String, Instant)>,
}

/// All work of a build.
#[derive(Default)]
pub(crate) struct Watch {
    tasks: Mutex<Vec<Arc<Task>>>,
    done: AtomicUsize,
}

/// Records the tool that this thread runs from now on.
pub(crate) fn stage(tool: &str) {
    CURRENT.with_borrow(|current| {
        if let Some(task) = current {
            let level = task.opt_level.map(|level| format!(" at level {level}")).unwrap_or_default();
            *lock(&task.stage) = (format!("{tool}{level}"), Instant::now());
        }
    });
}

/// The time limit of this thread's tools, if it is not the default.
pub(crate) fn limit() -> Option<Duration> {
    CURRENT.with_borrow(|current| current.as_ref()?.limit)
}

impl Watch {
    /// Runs `work` on `what`; the first stage is `stage`.
    pub fn during<T>(&self, what: String, stage: &str, work: impl FnOnce() -> T) -> T {
        self.task(Task { what, opt_level: None, limit: None, stage: begun(stage) }, work)
    }

    /// Compiles `what` at a level, with a time limit for each tool.
    pub fn compiling<T>(&self, what: String, level: u8, limit: Duration, work: impl FnOnce() -> T) -> T {
        let stage = begun("the builder");
        self.task(Task { what, opt_level: Some(level), limit: Some(limit), stage }, work)
    }

    fn task<T>(&self, task: Task, work: impl FnOnce() -> T) -> T {
        let task = Arc::new(task);
        lock(&self.tasks).push(Arc::clone(&task));
        let before = CURRENT.replace(Some(Arc::clone(&task)));
        let result = work();
        CURRENT.set(before);
        lock(&self.tasks).retain(|other| !Arc::ptr_eq(other, &task));
        result
    }

    /// Counts a part that has been compiled.
    pub fn count(&self) {
        self.done.fetch_add(1, Ordering::Relaxed);
    }

    /// Runs `work`. Whenever nothing was reported for `quiet`, it reports the running work to `progress`. With `is_growing`,
    /// that time doubles after each report.
    pub fn speaking<T>(
        &self,
        progress: &ProgressFn<'_>,
        (quiet, is_growing): (Duration, bool),
        work: impl FnOnce() -> T,
    ) -> T {
        let (ended, end) = mpsc::channel::<()>();
        std::thread::scope(|scope| {
            // Without it, nothing is reported.
            let _ = std::thread::Builder::new().spawn_scoped(scope, move || {
                let mut quiet = quiet;
                while end.recv_timeout(quiet) == Err(RecvTimeoutError::Timeout) {
                    progress(self.now());
                    quiet = if is_growing { quiet * 2 } else { quiet };
                }
            });
            // Ends the thread, even if `work` panics.
            let _ended = ended;
            work()
        })
    }

    /// The work that has been running longest.
    fn now(&self) -> Progress {
        let done = self.done.load(Ordering::Relaxed);
        let tasks = lock(&self.tasks);
        let stages = tasks.iter().map(|task| {
            let (stage, since) = lock(&task.stage).clone();
            (since.elapsed(), stage, task.what.clone())
        });
        match stages.max() {
            Some((elapsed, stage, what)) => Progress::Working { stage, what, elapsed, done },
            None => {
                let (stage, what) = ("the builder".to_owned(), "finding the sources and tools".to_owned());
                Progress::Working { stage, what, elapsed: Duration::ZERO, done }
            }
        }
    }
}

fn begun(stage: &str) -> Mutex<(String, Instant)> {
    Mutex::new((stage.to_owned(), Instant::now()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The reports during `work`.
    fn said(is_growing: bool, work: impl FnOnce(&Watch)) -> Vec<String> {
        let said = Mutex::new(Vec::new());
        let watch = Watch::default();
        let progress = |event: Progress| lock(&said).push(event.to_string());
        watch.speaking(&progress, (Duration::from_millis(40), is_growing), || work(&watch));
        said.into_inner().unwrap()
    }

    fn sleep(millis: u64) {
        std::thread::sleep(Duration::from_millis(millis));
    }

    #[test]
    fn what_takes_long_is_named_with_its_kernel_and_tool() {
        let said = said(false, |watch| {
            watch.count();
            watch.compiling("the kernel slow".to_owned(), 3, Duration::from_secs(1), || {
                assert_eq!(limit(), Some(Duration::from_secs(1)));
                stage("libNVVM");
                sleep(300);
            });
        });
        assert!(said.len() >= 2, "{said:?}");
        let text = &said[0];
        assert!(text.starts_with("libNVVM at level 3 has been working on the kernel slow for 0 s"), "{text}");
        assert!(text.ends_with("(parts compiled so far: 1)"), "{text}");
        assert_eq!(limit(), None);
    }

    #[test]
    fn short_work_is_silent() {
        assert!(said(false, |watch| watch.during("k".to_owned(), "rustc", || {})).is_empty());
    }

    #[test]
    fn the_time_between_two_lines_can_grow() {
        let growing = said(true, |watch| watch.during("k".to_owned(), "rustc", || sleep(400))).len();
        assert!((1..=3).contains(&growing), "{growing}");
    }
}
