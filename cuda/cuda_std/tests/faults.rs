//! The faults that the executor finds in a kernel, and their messages.

use std::sync::atomic::{AtomicU32, Ordering};

use cuda_std::launch::{LaunchConfig, Limits};
use cuda_std::shared::dynamic_shared_mem;
use cuda_std::simt::{Executor, FaultKind};
use cuda_std::{cluster, kernel, mem, shared_array, thread, warp};

use crate::common::{Launch, all, block, executors, on, tid};

/// The largest alignment of an element in shared memory.
#[repr(C, align(1024))]
struct Tile([u8; 1024]);

/// A launch of 2 blocks in the fixed order, by fibers and by OS threads.
fn in_order(threads: u32) -> Launch {
    on(2, threads).by(executors(0))
}

#[test]
fn a_panic_is_an_error_with_kernel_message_place_and_line() {
    let line = line!() + 3;
    let faults = in_order(64).faults(|| {
        if block() == 1 && tid() == 37 {
            panic!("the sum is {}", 5);
        }
        // All others wait, which is not the fault.
        thread::sync_threads();
    });
    for fault in faults {
        let text = format!(
            "kernel test failed in block (1, 0, 0), thread (37, 0, 0), at {}:{line}: panicked: the sum is 5",
            file!()
        );
        assert_eq!(fault.to_string(), text);
        assert_eq!(fault.kind, FaultKind::Panic { message: "the sum is 5".into() });
    }
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
    let expected = "index out of bounds: the len is 8 but the index is 9";
    on(1, 16).by([Executor::new().without_seed()]).fails(expected, || {
        let _count = CountDrops(&drops);
        if tid() == 9 {
            std::hint::black_box(data[tid()]);
        }
        thread::sync_threads();
    });
    // Threads 0 to 8 wait at the barrier and are unwound, 9 fails, the rest never start.
    assert_eq!(drops.into_inner(), 10);
}

#[test]
fn a_barrier_that_a_returned_thread_misses() {
    let expected = format!(
        "thread (0, 0, 0), at .. faults.rs:{}: thread::sync_threads_aligned is not .. thread (40, 0, 0) has returned",
        line!() + 5
    );
    on(2, 64).fails(&expected, || {
        if tid() < 40 {
            // SAFETY: none; the test is about the threads that do not reach this.
            unsafe { thread::sync_threads_aligned() };
        }
    });
}

#[test]
#[expect(clippy::if_same_then_else, reason = "the two barriers are what is tested")]
fn barriers_in_two_branches_are_not_one_barrier() {
    let line = line!() + 5;
    let expected = format!("faults.rs:{line}: .. thread (16, 0, 0) waits in .. faults.rs:{};", line + 3);
    in_order(32).fails(&expected, || {
        if tid() < 16 {
            // SAFETY: none; the two barriers are not the same.
            unsafe { thread::sync_threads_aligned() };
        } else {
            // SAFETY: none; the two barriers are not the same.
            unsafe { thread::sync_threads_aligned() };
        }
    });
}

#[test]
fn warp_operations_whose_masks_are_wrong() {
    // SAFETY: none; in each some lane is missing.
    unsafe {
        on(2, 32).fails("warp::sync_warp has the mask 0xffffffff, but lane 5 has returned", || {
            if tid() != 5 {
                warp::sync_warp(u32::MAX);
            }
        });
        // The second warp has 16 lanes.
        in_order(48).fails("thread (32, 0, 0) .. but lane 16 does not exist in this block", || {
            warp::warp_vote_any(u32::MAX, true);
        });
        in_order(32).fails("but lane 3 waits in thread::sync_threads", || {
            if tid() == 3 {
                thread::sync_threads_aligned();
            } else {
                warp::warp_shuffle_xor(u32::MAX, 1u32, 1, 32);
            }
        });
        let alone = in_order(32).by([Executor::new().without_seed()]);
        alone.fails("was called by lane 16, which its mask 0x0000ffff leaves out", || {
            warp::sync_warp(0xffff);
        });
        // Odd and even lanes request different operations.
        in_order(32).fails("but lane 1 waits in", || {
            if tid().is_multiple_of(2) {
                warp::warp_vote_all(u32::MAX, true);
            } else {
                warp::warp_vote_any(u32::MAX, true);
            }
        });
    }
}

#[test]
fn static_shared_memory_over_the_limit() {
    for fault in in_order(32).faults(|| {
        std::hint::black_box(shared_array![f32; 8 * 1024]);
        std::hint::black_box(shared_array![f32; 8 * 1024]);
    }) {
        assert_eq!(fault.kind, FaultKind::SharedOverLimit { got: 64 * 1024, max: 48 * 1024 });
    }
}

#[test]
#[cfg_attr(miri, ignore = "Miri ends the program itself")]
fn a_write_one_beyond_a_shared_array() {
    let expected = format!(
        "kernel test failed in block (1, 0, 0), at .. faults.rs:{}: a thread wrote to byte 20 of this shared_array!, which \
         has 20 bytes; compare the index with the length first",
        line!() + 3
    );
    in_order(5).fails(&expected, || {
        let array = shared_array![f32; 5];
        // SAFETY: one element per thread; in block 1 the guard takes the last one.
        unsafe { *array.add(tid() + usize::from(block() == 1)) = -1.0 };
    });
}

#[test]
#[cfg_attr(miri, ignore = "Miri ends the program itself")]
fn a_write_beyond_shared_memory_of_a_cluster_and_beyond_dynamic_shared_memory() {
    // Both blocks write beyond the array of the second.
    on(2, 1).cluster(2).by([Executor::new()]).fails(
        "block (1, 0, 0) .. byte 3 of this shared_array!, which has 3",
        || {
            let array = shared_array![u8; 3];
            // SAFETY: the guard takes the write.
            unsafe {
                cluster::sync();
                *cluster::map_shared(array, 1).add(3) = 9;
                cluster::sync();
            }
        },
    );
    for bytes in [0, 8] {
        // SAFETY: the guard takes the write.
        let kernel = || unsafe { *dynamic_shared_mem::<u8>().add(bytes) = 9 };
        for fault in on(1, 1).shared_bytes(bytes as u32).faults(kernel) {
            assert_eq!(fault.kind, FaultKind::BeyondShared { byte: bytes, bytes, is_dynamic: true });
        }
    }
}

#[test]
fn guards_do_not_count_against_the_limit() {
    on(3, 2).check(|| {
        let arrays = [
            (shared_array![u8; 1].addr(), 1),
            (shared_array![[mem::f32x4; 64]; 20].addr(), 16),
            (shared_array![Tile; 7].addr(), 1024),
            (shared_array![u8; 16].addr(), 1),
            (shared_array![Tile; 19].addr(), 1024),
        ];
        assert!(arrays.iter().all(|(address, align)| address.is_multiple_of(*align)));
    });
}

#[test]
fn launches_over_the_limits_are_refused() {
    let cpu = Executor::new();
    let small = cpu.clone().with_limits(Limits { max_threads_per_block: 32, ..Limits::default() });
    for (config, expected) in [
        (LaunchConfig::new(1, 1025), "the block (1025, 1, 1) is over the device's limit of (1024, 1024, 64)"),
        (
            LaunchConfig::new(1, (64, 32)),
            "the block (64, 32, 1) has 2048 threads, at most 1024 are allowed; launch smaller blocks",
        ),
        (
            LaunchConfig::new((1, 65536), 32),
            "the grid (1, 65536, 1) is over the device's limit of (2147483647, 65535, 65535)",
        ),
        (LaunchConfig::new(0, 32), "the grid (0, 1, 1) is empty; every axis must be at least 1"),
        (
            LaunchConfig::new(1, 32).with_shared_bytes(1 << 20),
            "1048576 bytes of shared memory per block, at most 232448 are allowed; use less, or launch smaller blocks",
        ),
    ] {
        let refused = cpu.run("never", config, || unreachable!()).unwrap_err().to_string();
        assert_eq!(refused, format!("launch of never failed: {expected}"));
    }
    assert!(small.run("never", LaunchConfig::new(1, 33), || unreachable!()).is_err());
}

/// Writes 1.
unsafe fn write(out: *mut u32) {
    // SAFETY: each launch passes an element, and all threads write the same value.
    unsafe { AtomicU32::from_ptr(out).store(1, Ordering::Relaxed) };
}

#[kernel(max_threads = 96)]
unsafe fn bounded(out: *mut u32) {
    // SAFETY: the launches pass an element.
    unsafe { write(out) };
}

#[kernel(arch = "90a")]
unsafe fn hopper_alone(out: *mut u32) {
    // SAFETY: the launches pass an element.
    unsafe { write(out) };
}

#[kernel(cpu_only, min_arch = 90)]
unsafe fn here_alone(out: *mut u32) {
    // SAFETY: the launches pass an element.
    unsafe { write(out) };
}

/// Launches the kernel on the CPU, where it writes, and where it is refused with the message.
macro_rules! check_refused {
    ($kernel:ident, $threads:literal, $on:expr, $refused:literal, $message:literal) => {{
        let mut out = [0];
        // SAFETY: `out` is an element.
        unsafe { $kernel::launch(&Executor::new(), LaunchConfig::new(1, $threads), &mut out) }.unwrap();
        assert_eq!(out, [1]);
        // SAFETY: the launch is refused.
        let error = unsafe { $kernel::launch(&$on, LaunchConfig::new(1, $refused), &mut out) }.unwrap_err();
        assert_eq!(error.to_string(), concat!("launch of ", stringify!($kernel), " failed: ", $message));
    }};
}

/// The CPU with the limits of a GPU.
fn gpu(capability: u32) -> Limits {
    Limits { capability, runs_cpu_only: false, ..Limits::default() }
}

#[test]
fn a_block_over_the_kernels_own_bounds_is_refused() {
    check_refused!(
        bounded,
        96,
        Executor::new(),
        97,
        "the block (97, 1, 1) has 97 threads, at most 96 are allowed; launch smaller blocks"
    );
}

#[test]
fn a_kernel_for_one_architecture_runs_there_and_on_the_cpu() {
    check_refused!(
        hopper_alone,
        1,
        Executor::new().with_limits(gpu(100)),
        1,
        "it is compiled for compute_90a, which only devices of compute capability 9.0 run, and the device has 10.0; choose a \
         kernel for other devices"
    );
    assert_eq!((hopper_alone::META.min_arch, hopper_alone::META.arch_specific), (90, true));
    let runs = |capability| gpu(capability).runs(hopper_alone::META);
    assert_eq!([75, 89, 90, 91, 100, 120].map(runs), [false, false, true, false, false, false]);
}

#[test]
fn a_kernel_for_the_cpu_is_refused_by_what_stands_for_a_gpu() {
    check_refused!(
        here_alone,
        1,
        Executor::new().with_limits(gpu(75)),
        1,
        "it is a kernel for the CPU executor only and has no PTX; launch it on the CPU, or launch another kernel"
    );
    let cpu = Executor::new();
    assert!(
        cpu.limits().runs(here_alone::META) && !gpu(75).runs(here_alone::META) && gpu(75).runs(bounded::META)
    );
}

#[test]
fn the_executor_works_on_after_a_fault() {
    for executor in all().into_iter().chain(all()) {
        on(2, 64).by([executor.clone()]).fails("the last thread, while all others wait", || {
            assert!(tid() != 63, "the last thread, while all others wait");
            thread::sync_threads();
        });
        let count = AtomicU32::new(0);
        on(4, 64).by([executor]).check(|| {
            thread::sync_threads();
            count.fetch_add(1, Ordering::Relaxed);
        });
        assert_eq!(count.into_inner(), 256);
    }
}

#[test]
fn uninitialised_shared_memory_is_poison() {
    let kernel = || {
        let shared = shared_array![f32; 4];
        // SAFETY: the array is the block's; one thread reads and writes it.
        unsafe {
            assert!((*shared.add(1)).is_nan());
            *shared.add(1) = 1.0;
        }
    };
    // Miri reports the read.
    on(3, 1).by(executors(8).into_iter().take(if cfg!(miri) { 0 } else { 10 })).check(kernel);
}
