//! Bulk copies to shared memory on the executor: what comes and when, what is wrong with their use, and what is left when a
//! block ends.

use crate::common::tiles::{all, check_panic, fault_of, numbers, tile_and_barrier};
use cuda_std::barrier::Barrier;
use cuda_std::launch::LaunchConfig;
use cuda_std::mem::f32x4;
use cuda_std::simt::FaultKind;
use cuda_std::{bulk, shared_array, thread};

#[test]
fn a_ring_of_tiles_is_filled_and_emptied() {
    let inp = numbers(20 * 16);
    for executor in all() {
        executor
            .run("ring", LaunchConfig::new(1, 40), || {
                let (ring, full, empty) =
                    (shared_array![f32x4; 32], shared_array![Barrier; 2], shared_array![Barrier; 2]);
                let i = thread::thread_idx_x() as usize;
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
                        if i == 39 {
                            Barrier::wait_parity(empty.add(half), 1 - parity);
                            Barrier::arrive_expect_tx(full.add(half), 256);
                            bulk::global_to_shared(
                                ring.add(16 * half),
                                inp[16 * step..].as_ptr(),
                                16,
                                full.add(half),
                            );
                        } else if i < 32 {
                            Barrier::wait_parity(full.add(half), parity);
                            assert_eq!((*ring.add(16 * half + i / 2)).x, (16 * step + i / 2) as f32);
                            Barrier::arrive(empty.add(half));
                        }
                    }
                }
            })
            .unwrap();
    }
}

#[test]
fn several_copies_end_a_phase_together() {
    let inp = numbers(64);
    for executor in all() {
        executor
            .run("several", LaunchConfig::new(2, 33), || {
                let (tile, ready) = tile_and_barrier();
                let i = thread::thread_idx_x() as usize;
                // SAFETY: each thread but the last copies two elements, and the last one expects all.
                unsafe {
                    if i < 32 {
                        bulk::global_to_shared(tile.add(2 * i), inp[2 * i..].as_ptr(), 2, ready);
                    } else {
                        Barrier::arrive_expect_tx(ready, 1024);
                    }
                    Barrier::wait_parity(ready, 0);
                    (0..64).for_each(|at| assert_eq!((*tile.add(at)).w, at as f32));
                }
            })
            .unwrap();
    }
}

#[test]
fn the_second_look_at_a_phase_finds_it_over() {
    let inp = numbers(1);
    for executor in all() {
        executor
            .run("look", LaunchConfig::new(1, 1), || {
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
            })
            .unwrap();
    }
}

// It looks at what nobody wrote, which Miri reports.
#[cfg(not(miri))]
#[test]
fn nothing_comes_before_the_wait() {
    let inp = numbers(2);
    for executor in all() {
        executor
            .run("early", LaunchConfig::new(1, 2), || {
                let (tile, ready) = tile_and_barrier();
                // SAFETY: what is read too early is there, and holds what nobody wrote.
                unsafe {
                    if thread::thread_idx_x() == 0 {
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
            })
            .unwrap();
    }
}

#[test]
fn a_copy_that_nobody_waits_for_is_a_fault() {
    let inp = numbers(4);
    // It is expected and not waited for, or waited for and not expected.
    for (executor, expects) in
        all().into_iter().flat_map(|executor| [(executor.clone(), true), (executor, false)])
    {
        let line = line!() + 9;
        let fault = fault_of(&executor, LaunchConfig::new(3, 2), || {
            let (tile, ready) = tile_and_barrier();
            // SAFETY: none; the copy is on its way when the block ends.
            unsafe {
                if thread::block_idx_x() == 1 && thread::thread_idx_x() == 1 {
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
        });
        assert_eq!(
            fault.kind,
            FaultKind::CopyNotWaitedFor { operation: "bulk::global_to_shared", bytes: 64 },
            "{fault}"
        );
        assert_eq!((fault.place.block.x, fault.place.thread.unwrap().x), (1, 1));
        assert!(fault.location.as_ref().is_some_and(|at| at.file.ends_with("bulk.rs") && at.line == line));
        assert!(fault.to_string().contains("of 64 bytes was on its way when a block ended"), "{fault}");
        // Nothing of it is left for the next block.
        executor.run("none", LaunchConfig::new(3, 2), || _ = tile_and_barrier()).unwrap();
    }
}

#[test]
fn bytes_that_do_not_come_are_told() {
    let inp = numbers(4);
    for executor in all() {
        let fault = fault_of(&executor, LaunchConfig::new(1, 2), || {
            let (tile, ready) = tile_and_barrier();
            // SAFETY: on the executor it is a fault that fewer bytes come than are expected.
            unsafe {
                if thread::thread_idx_x() == 0 {
                    Barrier::arrive_expect_tx(ready, 96);
                    bulk::global_to_shared(tile, inp.as_ptr(), 4, ready);
                }
                Barrier::wait_parity(ready, 0);
            }
        });
        let FaultKind::PhaseNotCompleted { arrivals: 0, bytes: 32, .. } = fault.kind else {
            panic!("{fault}")
        };
    }
}

#[test]
fn misuse_is_reported() {
    let inp = numbers(65);
    let from = inp.as_ptr();
    // SAFETY: on the executor all of these are faults.
    unsafe {
        let odd = |pointer: *const f32x4| pointer.cast::<f32>().add(1);
        let from = SendPointer(from);
        check_panic("bulk::global_to_shared() got the shared address 0x", |tile, ready| {
            bulk::global_to_shared(odd(tile).cast_mut(), from.get().cast(), 4, ready);
        });
        check_panic("bulk::global_to_shared() got the global address 0x", |tile, ready| {
            bulk::global_to_shared(tile.cast::<f32>(), odd(from.get()), 4, ready);
        });
        check_panic("bulk::global_to_shared() of 0 bytes; copy a multiple of 16", |tile, ready| {
            bulk::global_to_shared(tile, from.get(), 0, ready);
        });
        check_panic("bulk::global_to_shared() of 20 bytes; copy a multiple of 16", |tile, ready| {
            bulk::global_to_shared(tile.cast::<f32>(), from.get().cast(), 5, ready);
        });
        check_panic("are not all in the block's shared memory", |_, ready| {
            bulk::global_to_shared(from.get().cast_mut(), from.get(), 1, ready);
        });
        check_panic("of 1048576 bytes at 0x", |tile, ready| {
            bulk::global_to_shared(tile, from.get(), 1 << 16, ready);
        });
        check_panic("which is in shared memory; copy from global memory", |tile, ready| {
            bulk::global_to_shared(tile, tile.add(1), 1, ready);
        });
        check_panic("got a barrier at 0x", |tile, _| {
            bulk::global_to_shared(tile, from.get(), 1, from.get().cast_mut().cast());
        });
        check_panic(
            "counts at a barrier of memory that does not hold a barrier; call Barrier::init()",
            |tile, ready| {
                Barrier::inval(ready);
                bulk::global_to_shared(tile, from.get(), 1, ready);
            },
        );
    }
}

/// A pointer that all threads of a kernel may read through.
#[derive(Clone, Copy)]
struct SendPointer(*const f32x4);

// SAFETY: nobody writes what it points to.
unsafe impl Sync for SendPointer {}

impl SendPointer {
    fn get(&self) -> *const f32x4 {
        self.0
    }
}
