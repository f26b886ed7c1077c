//! The compute threads of the programs: one per core, or only the calling thread if the system allows no more.

use rayon::{ThreadPool, ThreadPoolBuilder};

/// Runs `work`. Within it, rayon's functions divide their work among threads.
///
/// There is at most one thread per core, whatever `RAYON_NUM_THREADS` requests. If threads cannot be started, such as under
/// a process limit, the calling thread does all the work.
pub fn install<R: Send>(work: impl FnOnce() -> R + Send) -> R {
    if rayon::current_thread_index().is_some() {
        return work();
    }
    let asked = std::env::var("RAYON_NUM_THREADS").ok().and_then(|threads| threads.parse().ok());
    let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get());
    let threads = asked.filter(|&threads| threads > 0).unwrap_or(cores).min(cores);
    match ThreadPoolBuilder::new().num_threads(threads).build().ok().or_else(alone) {
        Some(pool) => pool.install(work),
        // Rayon's own pool is the last resort; it may be able to start by now.
        None => work(),
    }
}

/// Makes a pool of only the calling thread, which stays part of it.
fn alone() -> Option<ThreadPool> {
    ThreadPoolBuilder::new().num_threads(1).use_current_thread().build().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_is_shared_among_no_more_threads_than_cores() {
        let cores = std::thread::available_parallelism().unwrap().get();
        assert!(install(rayon::current_num_threads) <= cores);
        assert_eq!(install(|| install(|| rayon::join(|| 1, || 2))), (1, 2));
    }

    #[test]
    fn the_calling_thread_can_be_all_there_is() {
        let work = || {
            let sums = alone().unwrap().install(|| rayon::join(|| 1, || 2));
            (sums, install(|| rayon::join(|| 3, rayon::current_num_threads)))
        };
        assert_eq!(std::thread::spawn(work).join().unwrap(), ((1, 2), (3, 1)));
    }
}
