//! Two-step work on all cores: a few first steps run one after the other, and each adds many second steps.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// The open jobs and the results.
struct State<J, R, E> {
    open: Vec<J>,
    /// Whether first steps may still add jobs.
    is_filling: bool,
    done: Vec<R>,
    error: Option<E>,
}

/// Runs `first` for every number below `count`, one after the other, because only one can run cargo at a time. Runs `second`
/// for all the jobs that these return, on all cores. Returns all results, in no order.
///
/// # Errors
/// The first error; jobs that are running then are waited for.
pub(crate) fn run<J: Send, R: Send, E: Send>(
    count: usize,
    first: impl Fn(usize) -> Result<Vec<J>, E> + Sync,
    second: impl Fn(J) -> Result<R, E> + Sync,
) -> Result<Vec<R>, E> {
    let cores = std::thread::available_parallelism().map_or(1, |n| n.get());
    let state = Mutex::new(State { open: Vec::new(), is_filling: true, done: Vec::new(), error: None });
    let changed = Condvar::new();
    let work = || {
        while let Some(job) = next(&state, &changed) {
            let result = second(job);
            let mut state = lock(&state);
            match result {
                Ok(result) => state.done.push(result),
                Err(error) => drop(state.error.get_or_insert(error)),
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..cores {
            // Without it, fewer threads do the work.
            let _ = std::thread::Builder::new().spawn_scoped(scope, work);
        }
        for n in 0..count {
            if lock(&state).error.is_some() {
                break;
            }
            let result = first(n);
            let mut state = lock(&state);
            match result {
                // Jobs are taken from the end, so the first architecture is done first.
                Ok(jobs) => drop(state.open.splice(0..0, jobs.into_iter().rev())),
                Err(error) => drop(state.error.get_or_insert(error)),
            }
            changed.notify_all();
        }
        lock(&state).is_filling = false;
        changed.notify_all();
        work();
    });
    let state = state.into_inner().unwrap_or_else(PoisonError::into_inner);
    match state.error {
        Some(error) => Err(error),
        None => Ok(state.done),
    }
}

/// Waits for a job; `None` when all are done or one has failed.
fn next<J, R, E>(state: &Mutex<State<J, R, E>>, changed: &Condvar) -> Option<J> {
    let mut state = lock(state);
    loop {
        if state.error.is_some() {
            return None;
        }
        if let Some(job) = state.open.pop() {
            return Some(job);
        }
        if !state.is_filling {
            return None;
        }
        state = changed.wait(state).unwrap_or_else(PoisonError::into_inner);
    }
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_is_done_once() {
        let first = |n: usize| Ok::<_, String>((0..n * 10).map(|i| (n, i)).collect());
        let mut done = run(4, first, |(n, i)| Ok(n * 100 + i)).unwrap();
        done.sort();
        let expected: Vec<usize> = (0..4).flat_map(|n| (0..n * 10).map(move |i| n * 100 + i)).collect();
        assert_eq!(done, expected);
        assert!(run(0, first, |_| Ok(0)).unwrap().is_empty());
    }

    #[test]
    fn an_error_of_either_step_ends_the_work() {
        let failing = |n: usize| if n == 1 { Err("first") } else { Ok(vec![n; 5]) };
        assert_eq!(run(3, failing, Ok).unwrap_err(), "first");
        let error = run(3, |n| Ok(vec![n; 5]), |n| if n == 2 { Err("second") } else { Ok(n) });
        assert_eq!(error.unwrap_err(), "second");
    }
}
