//! Asynchronous copies on the executor: wrong uses, and that the next thread sees no copies of the previous one.

use cuda_std::launch::{LaunchConfig, LaunchError};
use cuda_std::simt::{Executor, Scheduler};
#[cfg(not(miri))]
use cuda_std::thread;
use cuda_std::{pipeline, shared_array};

fn message_of(executor: &Executor, kernel: impl Fn() + Sync) -> String {
    match executor.run("broken", LaunchConfig::new(1, 1), kernel) {
        Err(LaunchError::Fault(fault)) => fault.to_string(),
        other => panic!("expected a fault, got {other:?}"),
    }
}

#[test]
fn addresses_and_sizes_are_checked() {
    let inp = [0u64; 2];
    for executor in [Executor::new(), Executor::new().with_scheduler(Scheduler::Threads)] {
        // SAFETY: on the executor these are faults.
        let message = message_of(&executor, || unsafe {
            let tile = shared_array![u64; 2].cast::<u8>().add(4);
            pipeline::memcpy_async(tile.cast::<u64>(), inp.as_ptr());
        });
        assert!(message.contains("pipeline::memcpy_async() got the shared address 0x"), "{message}");
        assert!(message.contains("align it to the copy's 8 bytes"), "{message}");
        // SAFETY: as above.
        let message = message_of(&executor, || unsafe {
            let tile = shared_array![u64; 2];
            pipeline::memcpy_async_zfill(tile.cast::<u32>(), inp.as_ptr().cast::<u8>().add(2).cast(), 0);
        });
        assert!(message.contains("pipeline::memcpy_async_zfill() got the global address 0x"), "{message}");
        // SAFETY: as above.
        let message = message_of(&executor, || unsafe {
            pipeline::memcpy_async_zfill(shared_array![u64; 2], inp.as_ptr(), 9);
        });
        assert!(message.contains("of 9 bytes into 8"), "{message}");
    }
}

// It reads unwritten memory, which Miri reports.
#[cfg(not(miri))]
#[test]
fn a_thread_has_its_own_copies() {
    // The threads run on one fiber, one after the other, and each leaves a copy that it does not wait for.
    let inp = [7u32; 64];
    let kernel = || {
        let (tile, i) = (shared_array![u32; 64], thread::thread_idx_x() as usize);
        pipeline::wait_all();
        // SAFETY: one element per thread.
        unsafe { pipeline::memcpy_async(tile.add(i), &inp[i]) };
        if i % 2 == 0 {
            pipeline::wait_all();
        }
        thread::sync_threads();
        if i == 0 {
            for i in 0..64 {
                // SAFETY: all threads have copied their elements, or left them unwritten.
                let seen = unsafe { *tile.add(i) };
                assert_eq!(seen, if i % 2 == 0 { 7 } else { u32::MAX }, "{i}");
            }
        }
    };
    Executor::new().run("own", LaunchConfig::new(2, 64), kernel).unwrap();
}
