//! Failing kernels whose live values call thread functions when they are dropped: the launch returns the first error.

use core::sync::atomic::{AtomicU32, Ordering};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::time::Duration;

use cuda_std::barrier::Barrier;
use cuda_std::half::f16;
use cuda_std::mma::{self, FragmentA, FragmentB, FragmentC};
use cuda_std::simt::{Executor, FaultKind};
use cuda_std::warp::WarpReductionOp;
use cuda_std::{bulk, cluster, grid, misc, pipeline, shared, shared_array, thread, warp, wgmma};

use crate::common::{Launch, all, barrier_for, executors, fibers, on};

/// Calls the function when it is dropped.
struct OnDrop<F: Fn()>(F);

impl<F: Fn()> Drop for OnDrop<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

/// What a kernel's values call.
#[derive(Clone, Copy)]
struct Memory {
    /// A barrier in shared memory for two arrivals, which no thread has arrived at.
    barrier: *mut Barrier,
    /// A word that is 0.
    word: *mut u32,
}

type Call = (&'static str, unsafe fn(Memory));

/// Ignores a result.
fn ignore<T>(_: T) {}

/// Every function that waits for other threads, or that checks what other threads or earlier calls have done.
#[expect(clippy::undocumented_unsafe_blocks, reason = "on the executor every misuse is an error")]
const CALLS: &[Call] = &[
    ("sync_threads", |_| thread::sync_threads()),
    ("sync_threads_aligned", |_| unsafe { thread::sync_threads_aligned() }),
    ("sync_threads_count", |_| ignore(thread::sync_threads_count(1))),
    ("sync_named", |_| unsafe { thread::sync_named(3, 64) }),
    ("arrive_named", |_| unsafe {
        thread::arrive_named(3, 64);
        thread::arrive_named(3, 32);
    }),
    ("nanosleep", |_| thread::nanosleep(10)),
    ("sync_warp", |_| unsafe { warp::sync_warp(u32::MAX) }),
    ("sync_warp without the caller", |_| unsafe { warp::sync_warp(0) }),
    ("vote", |_| ignore(unsafe { warp::warp_vote_ballot(u32::MAX, true) })),
    ("match", |_| ignore(unsafe { warp::warp_match_any(u32::MAX, 1) })),
    ("shuffle", |_| ignore(unsafe { warp::warp_shuffle_idx(u32::MAX, 1, 0, 32) })),
    ("reduce", |_| ignore(unsafe { warp::warp_reduce(u32::MAX, 1, WarpReductionOp::Add) })),
    ("sum", |_| ignore(unsafe { warp::reduce_sum(1.0f32) })),
    ("mma_sync", |_| unsafe {
        let (a, b) = (FragmentA::<f16>::from_registers([0; 4]), FragmentB::from_registers([0; 2]));
        mma::mma_sync(a, b, FragmentC::from_fn(|_, _| 1.0));
    }),
    ("ldmatrix", |_| ignore(unsafe { mma::ldmatrix::<1, u128>(shared_array![u128; 8]) })),
    ("Barrier::wait_parity", |memory| unsafe { Barrier::wait_parity(memory.barrier, 0) }),
    ("Barrier::arrive", |memory| unsafe {
        (0..3).for_each(|_| ignore(Barrier::arrive(memory.barrier)));
        Barrier::wait(memory.barrier, Barrier::arrive(memory.barrier));
    }),
    ("Barrier::arrive_remote", |memory| unsafe { Barrier::arrive_remote(memory.barrier, 0) }),
    ("pipeline", |_| {
        pipeline::commit();
        pipeline::wait_all();
    }),
    ("bulk", |_| {
        bulk::commit();
        bulk::wait::<0>();
    }),
    ("wgmma", |_| unsafe {
        wgmma::fence();
        wgmma::commit();
        wgmma::wait::<0>();
    }),
    ("wgmma of accumulators", |_| {
        ignore(wgmma::Accumulator::<16>::ZERO.start());
    }),
    ("cluster sync", |_| unsafe { cluster::sync() }),
    ("cluster wait", |_| unsafe { cluster::wait() }),
    ("cluster arrive", |_| unsafe {
        cluster::arrive();
        cluster::arrive();
    }),
    ("map_shared", |memory| unsafe {
        (0..17).for_each(|rank| _ = cluster::map_shared(memory.barrier, rank).cast::<u32>().read_volatile());
    }),
    ("grid sync", |memory| unsafe { grid::sync(memory.word) }),
    ("wait_until", |memory| {
        ignore(unsafe { grid::wait_until(memory.word, Ordering::Acquire, |word| word == 7) })
    }),
    ("shared_array", |_| unsafe { shared_array![u32; 15_000].write_volatile(1) }),
    ("identity", |_| {
        let all = [thread::thread_idx_x(), thread::index_1d(), thread::block_dim_x(), thread::grid_dim_x()];
        let _ = (all, warp::lane_id(), warp::activemask(), cluster::block_rank(), misc::multiprocessor());
        let _ = shared::dynamic_shared_mem::<u32>();
    }),
];

/// How the thread at fault ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ends {
    Panics,
    /// It indexes out of bounds.
    Indexes,
    /// It returns before a barrier, and has called nothing.
    Returns,
}

/// A kernel: the last thread ends early, and the others wait at a barrier. `call` is called while they are unwound.
fn kernel(ends: Ends, words: &[AtomicU32], call: impl Fn(Memory)) {
    let barrier = barrier_for(2);
    let (tid, threads) = (thread::thread_idx_x(), thread::block_dim_x());
    if ends == Ends::Returns && tid == threads - 1 {
        return;
    }
    let memory = Memory { barrier, word: words[0].as_ptr() };
    let _guards = (OnDrop(|| call(memory)), OnDrop(|| call(memory)));
    match ends {
        Ends::Panics if tid == threads - 1 => panic!("planted"),
        Ends::Indexes if tid == threads - 1 => {
            std::hint::black_box(words[tid as usize + 1].load(Ordering::Relaxed));
        }
        _ => thread::sync_threads(),
    }
}

/// The message about a thread that ends like this.
fn message(ends: Ends) -> &'static str {
    match ends {
        Ends::Panics => "panicked: planted",
        Ends::Indexes => "index out of bounds: the len is 1",
        Ends::Returns => "thread::sync_threads is not reached by all threads",
    }
}

fn launches() -> [Launch; 4] {
    [on(1, 2), on(3, 33), on(4, 2).cluster(2), on(2, 64).cooperative()]
}

#[test]
fn destructors_may_call_every_function_while_a_thread_is_unwound() {
    for (&(_, call), launch) in CALLS.iter().zip(launches().into_iter().cycle()) {
        for ends in [Ends::Panics, Ends::Indexes, Ends::Returns] {
            let words = [AtomicU32::new(0)];
            // SAFETY: on the executor every misuse is an error.
            launch.fails(message(ends), || kernel(ends, &words, |memory| unsafe { call(memory) }));
        }
    }
}

#[test]
fn a_barrier_in_a_destructor_that_threads_also_reach_without_a_fault() {
    for threads in [2, 5, 40] {
        on(1, threads).fails(message(Ends::Returns), || {
            let _guard = OnDrop(|| thread::sync_threads());
            if thread::thread_idx_x() == 0 {
                thread::sync_threads();
            }
        });
    }
}

#[test]
fn destructors_see_their_own_thread() {
    for executor in all() {
        for ends in [Ends::Panics, Ends::Returns] {
            let (words, dropped) = ([AtomicU32::new(0)], [const { AtomicU32::new(0) }; 40]);
            on(1, 40).by([executor.clone()]).fails(message(ends), || {
                let tid = thread::thread_idx_x();
                let _guard = OnDrop(|| {
                    let here = (thread::thread_idx_x(), warp::lane_id(), thread::block_dim_x());
                    assert_eq!(here, (tid, tid % 32, 40));
                    dropped[tid as usize].fetch_add(1, Ordering::Relaxed);
                });
                kernel(ends, &words, |_| {});
            });
            assert!(dropped.into_iter().all(|dropped| dropped.into_inner() == 1), "{executor:?}");
        }
    }
}

#[test]
fn a_kernel_that_catches_the_unwinding_fails_all_the_same() {
    for launch in launches() {
        for (ends, panics) in [(Ends::Panics, false), (Ends::Returns, true)] {
            let words = [AtomicU32::new(0)];
            launch.fails(message(ends), || {
                let own = catch_unwind(AssertUnwindSafe(|| kernel(ends, &words, |_| {})));
                if thread::thread_idx_x() == thread::block_dim_x() - 1 {
                    return own.unwrap_or_else(|payload| resume_unwind(payload));
                }
                (0..3).for_each(|_| ignore(catch_unwind(thread::sync_threads)));
                assert!(!panics, "a later panic");
            });
        }
    }
}

#[test]
fn a_kernel_that_always_catches_the_unwinding_is_abandoned() {
    for executor in fibers() {
        on(2, 40).by([executor.clone()]).fails(message(Ends::Returns), || {
            while thread::thread_idx_x() != 7 {
                let _ = catch_unwind(|| thread::sync_threads());
                thread::nanosleep(1);
            }
        });
        // The executor works on.
        on(2, 40).by([executor]).check(thread::sync_threads);
    }
}

#[test]
#[cfg(not(miri))]
fn the_time_limit_is_reported_whatever_destructors_call() {
    const LIMIT: Duration = Duration::from_millis(20);
    let limited = |executor: Executor| executor.with_time_limit(LIMIT);
    let executors = executors(1).into_iter().map(limited).collect::<Vec<_>>();
    for &(name, call) in CALLS {
        let words = [AtomicU32::new(0)];
        let faults = on(1, 33).by(executors.clone()).faults(|| {
            let memory = Memory { barrier: shared_array![Barrier; 1], word: words[0].as_ptr() };
            // SAFETY: on the executor every misuse is an error.
            let _guard = OnDrop(|| unsafe { call(memory) });
            while thread::thread_idx_x() == 3 {
                thread::nanosleep(1);
                cuda_std::atomic::AtomicU32::new(0).load(Ordering::Relaxed);
            }
            thread::sync_threads();
        });
        for fault in faults {
            assert_eq!(fault.kind, FaultKind::TimedOut { limit: LIMIT }, "{name}: {fault}");
        }
    }
}

#[test]
fn the_message_is_that_of_the_first_panic() {
    on(1, 1).fails(&format!("unwinding.rs:{}: panicked: the first", line!() + 2), || {
        let _guard = OnDrop(|| ignore(catch_unwind(|| panic!("in a destructor"))));
        panic!("the first");
    });
}

/// A launch by a thread that unwinds runs like any other one.
#[test]
fn destructors_of_the_host_launch_kernels() {
    for executor in all() {
        let sum = AtomicU32::new(0);
        let unwound = catch_unwind(AssertUnwindSafe(|| {
            let _guard = OnDrop(|| {
                on(2, 64).by([executor.clone()]).check(|| {
                    sum.fetch_add(thread::sync_threads_count(1), Ordering::Relaxed);
                });
            });
            resume_unwind(Box::new(()));
        }));
        assert!(unwound.is_err());
        assert_eq!(sum.into_inner(), 2 * 64 * 64);
    }
}
