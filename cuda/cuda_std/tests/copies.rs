//! Asynchronous copies on the executor: wrong uses, and that the next thread sees no copies of the previous one.

use cuda_std::{pipeline, shared_array};

use crate::common::on;

#[test]
fn addresses_and_sizes_are_checked() {
    let inp = [0u64; 2];
    // SAFETY: on the executor these are faults.
    unsafe {
        let expected = "pipeline::memcpy_async() got the shared address 0x .. align it to the copy's 8 bytes";
        on(1, 1).fails(expected, || {
            let tile = shared_array![u64; 2].cast::<u8>().add(4);
            pipeline::memcpy_async(tile.cast::<u64>(), inp.as_ptr());
        });
        on(1, 1).fails("pipeline::memcpy_async_zfill() got the global address 0x", || {
            let tile = shared_array![u64; 2];
            pipeline::memcpy_async_zfill(tile.cast::<u32>(), inp.as_ptr().cast::<u8>().add(2).cast(), 0);
        });
        on(1, 1).fails("of 9 bytes into 8", || {
            pipeline::memcpy_async_zfill(shared_array![u64; 2], inp.as_ptr(), 9);
        });
    }
}

// It reads unwritten memory, which Miri reports.
#[cfg(not(miri))]
#[test]
fn a_thread_has_its_own_copies() {
    use crate::common::tid;
    // The threads run on one fiber, one after the other, and each leaves a copy that it does not wait for.
    let inp = [7u32; 64];
    on(2, 64).by([cuda_std::simt::Executor::new()]).check(|| {
        let (tile, i) = (shared_array![u32; 64], tid());
        pipeline::wait_all();
        // SAFETY: one element per thread.
        unsafe { pipeline::memcpy_async(tile.add(i), &inp[i]) };
        if i % 2 == 0 {
            pipeline::wait_all();
        }
        cuda_std::thread::sync_threads();
        for i in (0..64).take_while(|_| i == 0) {
            // SAFETY: all threads have copied their elements, or left them unwritten.
            let seen = unsafe { *tile.add(i) };
            assert_eq!(seen, if i % 2 == 0 { 7 } else { u32::MAX }, "{i}");
        }
    });
}
