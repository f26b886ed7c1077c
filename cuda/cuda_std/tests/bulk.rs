//! Bulk copies to shared memory on the executor: when data arrives, wrong uses, and copies that are pending when a
//! block ends.

use cuda_std::barrier::Barrier;
use cuda_std::mem::f32x4;
use cuda_std::{bulk, shared_array, thread};

use crate::common::{all, block, check_panic, numbers, on, tid, tile_and_barrier};

#[test]
fn a_ring_of_tiles_is_filled_and_emptied() {
    let inp = numbers(20 * 16);
    on(1, 40).check(|| {
        let (ring, full, empty) =
            (shared_array![f32x4; 32], shared_array![Barrier; 2], shared_array![Barrier; 2]);
        let i = tid();
        // SAFETY: thread 39 fills a half of the ring when the 32 readers have emptied it.
        unsafe {
            if i < 2 {
                Barrier::init(full.add(i), 1);
                Barrier::init(empty.add(i), 32);
                Barrier::fence_init();
            }
            thread::sync_threads();
            for step in 0..20 {
                let (half, parity) = (step % 2, (step / 2 % 2) as u32);
                let (tile, full, empty) = (ring.add(16 * half), full.add(half), empty.add(half));
                if i == 39 {
                    Barrier::wait_parity(empty, 1 - parity);
                    Barrier::arrive_expect_tx(full, 256);
                    bulk::global_to_shared(tile, inp[16 * step..].as_ptr(), 16, full);
                } else if i < 32 {
                    Barrier::wait_parity(full, parity);
                    assert_eq!((*tile.add(i / 2)).x, (16 * step + i / 2) as f32);
                    Barrier::arrive(empty);
                }
            }
        }
    });
}

#[test]
fn several_copies_end_a_phase_together() {
    let inp = numbers(64);
    on(2, 33).check(|| {
        let ((tile, ready), i) = (tile_and_barrier(), tid());
        // SAFETY: each thread except the last copies two elements, and the last one expects all.
        unsafe {
            if i < 32 {
                bulk::global_to_shared(tile.add(2 * i), inp[2 * i..].as_ptr(), 2, ready);
            } else {
                Barrier::arrive_expect_tx(ready, 1024);
            }
            Barrier::wait_parity(ready, 0);
            (0..64).for_each(|at| assert_eq!((*tile.add(at)).w, at as f32));
        }
    });
}

#[test]
fn the_second_look_at_a_phase_finds_it_over() {
    let inp = numbers(1);
    on(1, 1).check(|| {
        let (tile, ready) = tile_and_barrier();
        // SAFETY: the thread reads what it has waited for.
        unsafe {
            bulk::global_to_shared(tile, inp.as_ptr(), 1, ready);
            assert!(!Barrier::test_wait_parity(ready, 0) && !Barrier::test_wait_parity(ready, 0));
            let token = Barrier::arrive_expect_tx(ready, 16);
            assert!(!Barrier::test_wait(ready, token));
            assert!(Barrier::test_wait(ready, token));
            assert_eq!((*tile).x, 0.0);
        }
    });
}

// It reads unwritten memory, which Miri reports.
#[cfg(not(miri))]
#[test]
fn nothing_comes_before_the_wait() {
    let inp = numbers(2);
    on(1, 2).check(|| {
        let (tile, ready) = tile_and_barrier();
        // SAFETY: the memory that is read too early exists, but is unwritten.
        unsafe {
            if tid() == 0 {
                *tile = f32x4::splat(7.0);
                Barrier::arrive_expect_tx(ready, 32);
                bulk::global_to_shared(tile, inp.as_ptr(), 2, ready);
                assert!(!Barrier::test_wait_parity(ready, 0));
                assert!((*tile).x.is_nan());
            }
            thread::sync_threads();
            assert!((*tile.add(1)).x.is_nan());
            thread::sync_threads();
            Barrier::wait_parity(ready, 0);
            assert_eq!((*tile.add(1)).x, 1.0);
        }
    });
}

/// The copy is expected and not waited for, or waited for and not expected.
#[test]
fn a_copy_that_is_not_waited_for_is_a_fault() {
    let inp = numbers(4);
    let line = line!() + 9;
    let kernel = |expects: bool| {
        let (tile, ready) = tile_and_barrier();
        // SAFETY: none; the copy is pending when the block ends.
        unsafe {
            if block() == 1 && tid() == 1 {
                if expects {
                    Barrier::expect_tx(ready, 64);
                }
                bulk::global_to_shared(tile, inp.as_ptr(), 4, ready);
                if !expects {
                    Barrier::arrive(ready);
                    Barrier::wait_parity(ready, 0);
                }
            }
        }
    };
    let expected = format!(
        "block (1, 0, 0), thread (1, 0, 0), at .. bulk.rs:{line}: bulk::global_to_shared of 64 bytes was on its way when \
         a block ended"
    );
    for (expects, executor) in
        [true, false].into_iter().flat_map(|expects| all().into_iter().map(move |on| (expects, on)))
    {
        on(3, 2).by([executor.clone()]).fails(&expected, || kernel(expects));
        // The next block sees nothing of it.
        on(3, 2).by([executor]).check(|| _ = tile_and_barrier());
    }
}

#[test]
fn bytes_that_do_not_come_are_reported() {
    let inp = numbers(4);
    on(1, 2).fails("lacks 0 arrivals and 32 bytes", || {
        let (tile, ready) = tile_and_barrier();
        // SAFETY: on the executor it is a fault that fewer bytes come than are expected.
        unsafe {
            if tid() == 0 {
                Barrier::arrive_expect_tx(ready, 96);
                bulk::global_to_shared(tile, inp.as_ptr(), 4, ready);
            }
            Barrier::wait_parity(ready, 0);
        }
    });
}

#[test]
fn misuse_is_reported() {
    let inp = numbers(65);
    let from = || inp.as_ptr();
    let odd = |pointer: *const f32x4| pointer.cast::<f32>().wrapping_add(1);
    // SAFETY: on the executor all of these are faults.
    unsafe {
        check_panic("bulk::global_to_shared() got the shared address 0x", |tile, ready| {
            bulk::global_to_shared(odd(tile).cast_mut(), from().cast(), 4, ready);
        });
        check_panic("bulk::global_to_shared() got the global address 0x", |tile, ready| {
            bulk::global_to_shared(tile.cast::<f32>(), odd(from()), 4, ready);
        });
        check_panic("bulk::global_to_shared() of 0 bytes; copy a multiple of 16", |tile, ready| {
            bulk::global_to_shared(tile, from(), 0, ready);
        });
        check_panic("bulk::global_to_shared() of 20 bytes; copy a multiple of 16", |tile, ready| {
            bulk::global_to_shared(tile.cast::<f32>(), from().cast(), 5, ready);
        });
        check_panic("are not all in the block's shared memory", |_, ready| {
            bulk::global_to_shared(from().cast_mut(), from(), 1, ready);
        });
        check_panic("of 1048576 bytes at 0x", |tile, ready| {
            bulk::global_to_shared(tile, from(), 1 << 16, ready);
        });
        check_panic("which is in shared memory; copy from global memory", |tile, ready| {
            bulk::global_to_shared(tile, tile.add(1), 1, ready);
        });
        check_panic("got a barrier at 0x", |tile, _| {
            bulk::global_to_shared(tile, from(), 1, from().cast_mut().cast());
        });
        check_panic(
            "counts at a barrier of memory that does not hold a barrier; call Barrier::init()",
            |tile, ready| {
                Barrier::inval(ready);
                bulk::global_to_shared(tile, from(), 1, ready);
            },
        );
    }
}
