//! The faults that the executor finds in a kernel, and their messages.

use std::sync::atomic::{AtomicU32, Ordering};

use cuda_std::launch::{Dim3, LaunchConfig, LaunchError, Limits};
use cuda_std::shared::dynamic_shared_mem;
use cuda_std::simt::{Executor, Fault, FaultKind, Instead, Scheduler};
use cuda_std::{cluster, kernel, mem, shared_array, thread, warp};

/// The largest alignment of an element in shared memory.
#[repr(C, align(1024))]
struct Tile([u8; 1024]);

/// Runs `kernel` on 2 blocks of `threads` threads, and returns the fault it must end with.
fn fault_of(threads: u32, kernel: impl Fn() + Sync) -> Fault {
    match Executor::new().without_seed().run("broken", LaunchConfig::new(2, threads), kernel) {
        Err(LaunchError::Fault(fault)) => *fault,
        other => panic!("expected a fault, got {other:?}"),
    }
}

fn thread_x(x: u32) -> Dim3 {
    Dim3::new(x, 0, 0)
}

#[test]
fn a_panic_is_an_error_with_kernel_message_place_and_line() {
    let line = line!() + 3;
    let fault = fault_of(64, || {
        if thread::block_idx_x() == 1 && thread::thread_idx_x() == 37 {
            panic!("the sum is {}", 5);
        }
    });
    assert_eq!(fault.kernel, "broken");
    assert_eq!((fault.place.block, fault.place.thread), (thread_x(1), Some(thread_x(37))));
    assert_eq!(fault.kind, FaultKind::Panic { message: "the sum is 5".into() });
    let location = fault.location.clone().expect("a location");
    assert!(location.file.ends_with("faults.rs"), "{location}");
    assert_eq!(location.line, line);
    let text = fault.to_string();
    let expected = format!(
        "kernel broken failed in block (1, 0, 0), thread (37, 0, 0), at {location}: panicked: the sum is 5"
    );
    assert_eq!(text, expected);
}

#[test]
fn a_bounds_check_is_an_error_and_other_threads_are_unwound() {
    struct CountDrops<'a>(&'a AtomicU32);
    impl Drop for CountDrops<'_> {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }
    let (data, drops) = ([1.0f32; 8], AtomicU32::new(0));
    let kernel = || {
        let _count = CountDrops(&drops);
        if thread::thread_idx_x() == 9 {
            std::hint::black_box(data[thread::thread_idx_x() as usize]);
        }
        // SAFETY: all threads reach the barrier, except the one that fails before it.
        unsafe { thread::sync_threads_aligned() };
    };
    let result = Executor::new().without_seed().run("indexing", LaunchConfig::new(1, 16), kernel);
    let Err(LaunchError::Fault(fault)) = result else { panic!("expected a fault, got {result:?}") };
    assert!(fault.to_string().contains("index out of bounds: the len is 8 but the index is 9"), "{fault}");
    // Threads 0 to 8 wait at the barrier and are unwound, 9 fails, the rest never start.
    assert_eq!(drops.into_inner(), 10);
}

#[test]
fn a_barrier_that_a_returned_thread_misses() {
    let line = line!() + 4;
    let fault = fault_of(64, || {
        if thread::thread_idx_x() < 40 {
            // SAFETY: none; the test is about the threads that do not reach this.
            unsafe { thread::sync_threads_aligned() };
        }
    });
    let FaultKind::BarrierNotReached { barrier, missing, instead } = &fault.kind else { panic!("{fault}") };
    assert!(barrier.contains("sync_threads"), "{barrier}");
    assert_eq!((*missing, instead), (thread_x(40), &Instead::Returned));
    assert_eq!(fault.place.thread, Some(thread_x(0)));
    assert_eq!(fault.location.as_ref().map(|at| at.line), Some(line));
}

#[test]
#[expect(clippy::if_same_then_else, reason = "the two barriers are what is tested")]
fn barriers_in_two_branches_are_not_one_barrier() {
    let first = line!() + 4;
    let fault = fault_of(32, || {
        if thread::thread_idx_x() < 16 {
            // SAFETY: none, as above.
            unsafe { thread::sync_threads_aligned() };
        } else {
            // SAFETY: none, as above.
            unsafe { thread::sync_threads_aligned() };
        }
    });
    let FaultKind::BarrierNotReached { missing, instead, .. } = &fault.kind else { panic!("{fault}") };
    assert_eq!(*missing, thread_x(16));
    let Instead::WaitsIn { at, .. } = instead else { panic!("{fault}") };
    assert_eq!((fault.location.as_ref().map(|at| at.line), at.line), (Some(first), first + 3));
}

#[test]
fn a_mask_that_names_a_lane_that_has_returned() {
    let fault = fault_of(32, || {
        if thread::thread_idx_x() != 5 {
            // SAFETY: none; lane 5 is missing.
            unsafe { warp::sync_warp(u32::MAX) };
        }
    });
    let FaultKind::LaneNotTakingPart { mask, lane, instead, .. } = &fault.kind else { panic!("{fault}") };
    assert_eq!((*mask, *lane, instead), (u32::MAX, 5, &Instead::Returned));
}

#[test]
fn a_mask_that_names_lanes_the_block_does_not_have() {
    let fault = fault_of(48, || {
        // SAFETY: none; the second warp has 16 lanes.
        unsafe { warp::warp_vote_any(u32::MAX, true) };
    });
    let FaultKind::LaneNotTakingPart { lane, instead, .. } = &fault.kind else { panic!("{fault}") };
    assert_eq!((*lane, instead), (16, &Instead::DoesNotExist));
    assert_eq!(fault.place.thread, Some(thread_x(32)));
}

#[test]
fn a_shuffle_among_lanes_that_wait_at_a_barrier() {
    let fault = fault_of(32, || {
        // SAFETY: none; lane 3 goes to the barrier instead.
        unsafe {
            if thread::thread_idx_x() == 3 {
                thread::sync_threads_aligned();
            } else {
                warp::warp_shuffle_xor(u32::MAX, 1u32, 1, 32);
            }
        }
    });
    let FaultKind::LaneNotTakingPart { lane, instead, .. } = &fault.kind else { panic!("{fault}") };
    assert_eq!(*lane, 3);
    let Instead::WaitsIn { operation, .. } = instead else { panic!("{fault}") };
    assert!(operation.contains("sync_threads"), "{operation}");
}

#[test]
fn a_caller_outside_its_own_mask() {
    let fault = fault_of(32, || {
        // SAFETY: none; the upper lanes are not in the mask.
        unsafe { warp::sync_warp(0xffff) };
    });
    let FaultKind::CallerNotInMask { mask, lane, .. } = &fault.kind else { panic!("{fault}") };
    assert_eq!((*mask, *lane), (0xffff, 16));
}

#[test]
fn lanes_with_different_operations_do_not_meet() {
    let fault = fault_of(32, || {
        // SAFETY: none; odd and even lanes request different operations.
        unsafe {
            if thread::thread_idx_x().is_multiple_of(2) {
                warp::warp_vote_all(u32::MAX, true);
            } else {
                warp::warp_vote_any(u32::MAX, true);
            }
        }
    });
    assert!(matches!(fault.kind, FaultKind::LaneNotTakingPart { lane: 1, .. }), "{fault}");
}

#[test]
fn static_shared_memory_over_the_limit() {
    let fault = fault_of(32, || {
        std::hint::black_box(shared_array![f32; 8 * 1024]);
        std::hint::black_box(shared_array![f32; 8 * 1024]);
    });
    assert_eq!(fault.kind, FaultKind::SharedOverLimit { got: 64 * 1024, max: 48 * 1024 });
}

#[test]
#[cfg_attr(miri, ignore = "Miri ends the program itself")]
fn a_write_one_beyond_a_shared_array() {
    for scheduler in [Scheduler::Coroutines, Scheduler::Threads] {
        let line = line!() + 2;
        let kernel = || {
            let array = shared_array![f32; 5];
            let tid = thread::thread_idx_x() as usize;
            let by = usize::from(thread::block_idx_x() == 1);
            // SAFETY: one element per thread; in block 1 the guard takes the last one.
            unsafe { *array.add(tid + by) = -1.0 };
        };
        let cpu = Executor::new().without_seed().with_scheduler(scheduler);
        let result = cpu.run("one_beyond", LaunchConfig::new(2, 5), kernel);
        let Err(LaunchError::Fault(fault)) = result else { panic!("expected a fault, got {result:?}") };
        assert_eq!(fault.kind, FaultKind::BeyondShared { byte: 20, bytes: 20, is_dynamic: false });
        let location = fault.location.as_ref().expect("a location");
        assert!(location.file.ends_with("faults.rs") && location.line == line, "{location}");
        assert_eq!(
            fault.to_string(),
            format!(
                "kernel one_beyond failed in block (1, 0, 0), at {location}: a thread wrote to byte 20 of this \
                 shared_array!, which has 20 bytes; compare the index with the length first"
            )
        );
    }
}

#[test]
#[cfg_attr(miri, ignore = "Miri ends the program itself")]
fn a_write_beyond_shared_memory_of_a_cluster_and_beyond_dynamic_shared_memory() {
    let wrong = |config: LaunchConfig, kernel: &(dyn Fn() + Sync)| match Executor::new()
        .run("beyond", config, kernel)
    {
        Err(LaunchError::Fault(fault)) => (fault.place.block.x, fault.kind),
        other => panic!("expected a fault, got {other:?}"),
    };
    // Both blocks write beyond the array of the second.
    let found = wrong(LaunchConfig::new(2, 1).with_cluster(2), &|| {
        let array = shared_array![u8; 3];
        // SAFETY: the guard takes the write.
        unsafe {
            cluster::sync();
            *cluster::map_shared(array, 1).add(3) = 9;
            cluster::sync();
        }
    });
    assert_eq!(found, (1, FaultKind::BeyondShared { byte: 3, bytes: 3, is_dynamic: false }));
    for bytes in [0, 8] {
        let found = wrong(LaunchConfig::new(1, 1).with_shared_bytes(bytes), &|| {
            // SAFETY: the guard takes the write.
            unsafe { *dynamic_shared_mem::<u8>().add(bytes as usize) = 9 };
        });
        let bytes = bytes as usize;
        assert_eq!(found, (0, FaultKind::BeyondShared { byte: bytes, bytes, is_dynamic: true }));
    }
}

#[test]
fn guards_do_not_count_against_the_limit() {
    let kernel = || {
        let arrays = [
            (shared_array![u8; 1].addr(), 1),
            (shared_array![[mem::f32x4; 64]; 20].addr(), 16),
            (shared_array![Tile; 7].addr(), 1024),
            (shared_array![u8; 16].addr(), 1),
            (shared_array![Tile; 19].addr(), 1024),
        ];
        assert!(arrays.iter().all(|(address, align)| address.is_multiple_of(*align)));
    };
    Executor::new().run("full", LaunchConfig::new(3, 2), kernel).unwrap();
}

#[test]
fn launches_over_the_limits_are_refused() {
    let cpu = Executor::new();
    let refused = |config: LaunchConfig| cpu.run("never", config, || unreachable!()).unwrap_err().to_string();
    assert_eq!(
        refused(LaunchConfig::new(1, 1025)),
        "launch of never failed: the block (1025, 1, 1) is over the device's limit of (1024, 1024, 64)"
    );
    assert_eq!(
        refused(LaunchConfig::new(1, (64, 32))),
        "launch of never failed: the block (64, 32, 1) has 2048 threads, at most 1024 are allowed; launch smaller blocks"
    );
    assert_eq!(
        refused(LaunchConfig::new((1, 65536), 32)),
        "launch of never failed: the grid (1, 65536, 1) is over the device's limit of (2147483647, 65535, 65535)"
    );
    assert_eq!(
        refused(LaunchConfig::new(0, 32)),
        "launch of never failed: the grid (0, 1, 1) is empty; every axis must be at least 1"
    );
    assert_eq!(
        refused(LaunchConfig::new(1, 32).with_shared_bytes(1 << 20)),
        "launch of never failed: 1048576 bytes of shared memory per block, at most 232448 are allowed; use less, or \
         launch smaller blocks"
    );
    let small = cpu.clone().with_limits(Limits { max_threads_per_block: 32, ..Limits::default() });
    assert!(small.run("never", LaunchConfig::new(1, 33), || unreachable!()).is_err());
}

#[kernel(max_threads = 96)]
unsafe fn bounded(out: *mut u32) {
    // SAFETY: the launch below passes an element, and all threads write the same value.
    unsafe { AtomicU32::from_ptr(out).store(1, Ordering::Relaxed) };
}

#[test]
fn a_block_over_the_kernels_own_bounds_is_refused() {
    let (cpu, mut out) = (Executor::new(), [0]);
    // SAFETY: `out` is an element.
    unsafe { bounded::launch(&cpu, LaunchConfig::new(1, 96), &mut out) }.unwrap();
    assert_eq!(out, [1]);
    // SAFETY: as above.
    let error = unsafe { bounded::launch(&cpu, LaunchConfig::new(1, 97), &mut out) }.unwrap_err();
    assert_eq!(
        error.to_string(),
        "launch of bounded failed: the block (97, 1, 1) has 97 threads, at most 96 are allowed; launch smaller blocks"
    );
}

#[kernel(arch = "90a")]
unsafe fn hopper_alone(out: *mut u32) {
    // SAFETY: the launches below pass `out` is an element.
    unsafe { AtomicU32::from_ptr(out).store(1, Ordering::Relaxed) };
}

#[test]
fn a_kernel_for_one_architecture_runs_there_and_on_the_cpu() {
    let (cpu, mut out) = (Executor::new(), [0]);
    // SAFETY: `out` is an element.
    unsafe { hopper_alone::launch(&cpu, LaunchConfig::new(1, 1), &mut out) }.unwrap();
    assert_eq!(out, [1]);
    assert_eq!((hopper_alone::META.min_arch, hopper_alone::META.arch_specific), (90, true));
    let runs = |capability| Limits { capability, runs_cpu_only: false, ..Limits::default() };
    let runs = |capability| runs(capability).runs(hopper_alone::META);
    assert_eq!([75, 89, 90, 91, 100, 120].map(runs), [false, false, true, false, false, false]);
    let gpu = Limits { capability: 100, ..Limits::default() };
    // SAFETY: the launch is refused.
    let error = unsafe { hopper_alone::launch(&cpu.with_limits(gpu), LaunchConfig::new(1, 1), &mut out) };
    assert_eq!(
        error.unwrap_err().to_string(),
        "launch of hopper_alone failed: it is compiled for compute_90a, which only devices of compute capability 9.0 \
         run, and the device has 10.0; choose a kernel for other devices"
    );
}

#[kernel(cpu_only, min_arch = 90)]
unsafe fn here_alone(out: *mut u32) {
    // SAFETY: the launches below pass `out` is an element.
    unsafe { AtomicU32::from_ptr(out).store(1, Ordering::Relaxed) };
}

#[test]
fn a_kernel_for_the_cpu_is_refused_by_what_stands_for_a_gpu() {
    let (cpu, mut out) = (Executor::new(), [0]);
    // SAFETY: `out` is an element.
    unsafe { here_alone::launch(&cpu, LaunchConfig::new(1, 1), &mut out) }.unwrap();
    assert_eq!(out, [1]);
    let gpu = Limits { runs_cpu_only: false, capability: 75, ..Limits::default() };
    assert!(cpu.limits().runs(here_alone::META) && !gpu.runs(here_alone::META) && gpu.runs(bounded::META));
    // SAFETY: the launch is refused.
    let error =
        unsafe { here_alone::launch(&cpu.with_limits(gpu), LaunchConfig::new(1, 1), &mut out) }.unwrap_err();
    assert_eq!(
        error.to_string(),
        "launch of here_alone failed: it is a kernel for the CPU executor only and has no PTX; launch it on the CPU, \
         or launch another kernel"
    );
}

#[test]
fn the_executor_works_on_after_a_fault() {
    for _ in 0..3 {
        fault_of(64, || {
            if thread::thread_idx_x() == 63 {
                panic!("the last thread, while all others wait");
            }
            // SAFETY: none, as above.
            unsafe { thread::sync_threads_aligned() };
        });
        let count = AtomicU32::new(0);
        let kernel = || {
            // SAFETY: all threads reach the barrier.
            unsafe { thread::sync_threads_aligned() };
            count.fetch_add(1, Ordering::Relaxed);
        };
        Executor::new().run("sound", LaunchConfig::new(4, 64), kernel).unwrap();
        assert_eq!(count.into_inner(), 256);
    }
}

#[test]
fn device_functions_outside_a_launch_say_so() {
    let panic = std::panic::catch_unwind(thread::thread_idx_x).unwrap_err();
    let text = panic.downcast_ref::<String>().expect("a message");
    assert!(text.contains("thread_idx_x") && text.contains("outside a kernel"), "{text}");
}

#[test]
fn uninitialised_shared_memory_is_poison() {
    let seen = std::sync::Mutex::new(Vec::new());
    let kernel = || {
        let shared = shared_array![f32; 4];
        // SAFETY: the array is the block's; one thread reads and writes it.
        unsafe {
            seen.lock().unwrap().push(*shared.add(1));
            *shared.add(1) = 1.0;
        }
    };
    Executor::new().run("reads", LaunchConfig::new(3, 1), kernel).unwrap();
    assert!(seen.into_inner().unwrap().iter().all(|value| value.is_nan()));
}
