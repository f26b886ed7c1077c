//! Failing kernels whose live values call thread functions when they are dropped: the launch returns the first error.

use core::sync::atomic::{AtomicU32, Ordering};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Mutex;
use std::time::Duration;

use cuda_std::barrier::Barrier;
use cuda_std::half::f16;
use cuda_std::launch::LaunchConfig;
use cuda_std::mma::{self, FragmentA, FragmentB, FragmentC};
use cuda_std::simt::{Executor, Fault, FaultKind, Scheduler};
use cuda_std::warp::WarpReductionOp;
use cuda_std::{bulk, cluster, grid, misc, pipeline, shared, shared_array, thread, warp, wgmma};

use crate::common::tiles::{all, fault_of, fibers};

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
    let barrier = shared_array![Barrier; 1];
    let (tid, threads) = (thread::thread_idx_x(), thread::block_dim_x());
    if tid == 0 {
        // SAFETY: no other thread uses it before the barrier.
        unsafe { Barrier::init(barrier, 2) };
    }
    thread::sync_threads();
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

#[track_caller]
fn check(fault: &Fault, ends: Ends, of: &str) {
    let message = fault.to_string();
    let expected = match ends {
        Ends::Panics => "panicked: planted",
        Ends::Indexes => "index out of bounds: the len is 1",
        Ends::Returns => "thread::sync_threads is not reached by all threads",
    };
    assert!(message.contains(expected), "{of} {ends:?}: {message}");
}

fn configs() -> [(LaunchConfig, bool); 4] {
    let config = |blocks, threads| LaunchConfig::new(blocks, threads);
    [
        (config(1, 2), false),
        (config(3, 33), false),
        (config(4, 2).with_cluster(2), false),
        (config(2, 64), true),
    ]
}

fn run(
    executor: &Executor,
    (config, is_cooperative): (LaunchConfig, bool),
    kernel: impl Fn() + Sync,
) -> Fault {
    if !is_cooperative {
        return fault_of(executor, config, kernel);
    }
    match executor.run_cooperative("broken", config, kernel) {
        Err(cuda_std::launch::LaunchError::Fault(fault)) => *fault,
        other => panic!("expected a fault, got {other:?}"),
    }
}

#[test]
fn destructors_may_call_every_function_while_a_thread_is_unwound() {
    for executor in all() {
        for (&(name, call), config) in CALLS.iter().zip(configs().into_iter().cycle()) {
            for ends in [Ends::Panics, Ends::Indexes, Ends::Returns] {
                let words = [AtomicU32::new(0)];
                // SAFETY: on the executor every misuse is an error.
                let fault = run(&executor, config, || kernel(ends, &words, |memory| unsafe { call(memory) }));
                check(&fault, ends, name);
            }
        }
    }
}

#[test]
fn a_barrier_in_a_destructor_that_threads_also_reach_without_a_fault() {
    for executor in all() {
        for threads in [2, 5, 40] {
            let fault = fault_of(&executor, LaunchConfig::new(1, threads), || {
                let _guard = OnDrop(|| thread::sync_threads());
                if thread::thread_idx_x() == 0 {
                    thread::sync_threads();
                }
            });
            check(&fault, Ends::Returns, "guard");
        }
    }
}

#[test]
fn destructors_see_their_own_thread() {
    for executor in all() {
        for ends in [Ends::Panics, Ends::Returns] {
            let (words, dropped) = ([AtomicU32::new(0)], [const { AtomicU32::new(0) }; 40]);
            let fault = fault_of(&executor, LaunchConfig::new(1, 40), || {
                let tid = thread::thread_idx_x();
                let _guard = OnDrop(|| {
                    let here = (thread::thread_idx_x(), warp::lane_id(), thread::block_dim_x());
                    assert_eq!(here, (tid, tid % 32, 40));
                    dropped[tid as usize].fetch_add(1, Ordering::Relaxed);
                });
                kernel(ends, &words, |_| {});
            });
            check(&fault, ends, "identity");
            assert!(dropped.into_iter().all(|dropped| dropped.into_inner() == 1), "{executor:?}");
        }
    }
}

#[test]
fn a_kernel_that_catches_the_unwinding_fails_all_the_same() {
    for executor in all() {
        for config in configs() {
            for (ends, panics) in [Ends::Panics, Ends::Returns].into_iter().zip([false, true]) {
                let words = [AtomicU32::new(0)];
                let fault = run(&executor, config, || {
                    let own = catch_unwind(AssertUnwindSafe(|| kernel(ends, &words, |_| {})));
                    if thread::thread_idx_x() == thread::block_dim_x() - 1 {
                        return own.unwrap_or_else(|payload| resume_unwind(payload));
                    }
                    (0..3).for_each(|_| ignore(catch_unwind(thread::sync_threads)));
                    assert!(!panics, "a later panic");
                });
                check(&fault, ends, "catch");
            }
        }
    }
}

#[test]
fn a_kernel_that_always_catches_the_unwinding_is_abandoned() {
    for executor in fibers() {
        let fault = fault_of(&executor, LaunchConfig::new(2, 40), || {
            if thread::thread_idx_x() == 7 {
                return;
            }
            loop {
                let _ = catch_unwind(thread::sync_threads);
                thread::nanosleep(1);
            }
        });
        check(&fault, Ends::Returns, "loop");
        // The executor works on.
        executor.run("sound", LaunchConfig::new(2, 40), thread::sync_threads).unwrap();
    }
}

#[test]
#[cfg(not(miri))]
fn the_time_limit_is_reported_whatever_destructors_call() {
    const LIMIT: Duration = Duration::from_millis(20);
    for executor in
        [Executor::new(), Executor::new().with_seed(1), Executor::new().with_scheduler(Scheduler::Threads)]
    {
        let executor = executor.with_time_limit(LIMIT);
        for &(name, call) in CALLS {
            let words = [AtomicU32::new(0)];
            let fault = fault_of(&executor, LaunchConfig::new(1, 33), || {
                let memory = Memory { barrier: shared_array![Barrier; 1], word: words[0].as_ptr() };
                // SAFETY: on the executor every misuse is an error.
                let _guard = OnDrop(|| unsafe { call(memory) });
                while thread::thread_idx_x() == 3 {
                    thread::nanosleep(1);
                    cuda_std::atomic::AtomicU32::new(0).load(Ordering::Relaxed);
                }
                thread::sync_threads();
            });
            assert_eq!(fault.kind, FaultKind::TimedOut { limit: LIMIT }, "{name}: {fault}");
        }
    }
}

#[test]
fn the_message_is_that_of_the_first_panic() {
    for executor in all() {
        let fault = fault_of(&executor, LaunchConfig::new(1, 1), || {
            let _guard = OnDrop(|| ignore(catch_unwind(|| panic!("in a destructor"))));
            panic!("the first");
        });
        let location = fault.location.clone().expect("a location");
        assert!(fault.to_string().contains("panicked: the first") && location.line == line!() - 3, "{fault}");
    }
}

/// A launch by a thread that unwinds runs like any other one.
#[test]
fn destructors_of_the_host_launch_kernels() {
    for executor in all() {
        let sums = Mutex::new(Vec::new());
        let unwound = catch_unwind(AssertUnwindSafe(|| {
            let _guard = OnDrop(|| {
                let sum = AtomicU32::new(0);
                let launched = executor.run("sum", LaunchConfig::new(2, 64), || {
                    sum.fetch_add(thread::sync_threads_count(1), Ordering::Relaxed);
                });
                sums.lock()
                    .unwrap_or_else(|error| error.into_inner())
                    .push((launched.is_ok(), sum.into_inner()));
            });
            resume_unwind(Box::new(()));
        }));
        assert!(unwound.is_err());
        assert_eq!(sums.into_inner().unwrap(), [(true, 2 * 64 * 64)]);
    }
}
