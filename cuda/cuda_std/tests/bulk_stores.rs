//! Bulk copies to global memory on the executor: when they are made, and what is wrong with their use.

use crate::common::tiles::{all, check_panic, fault_of, numbers};
use cuda_std::launch::LaunchConfig;
use cuda_std::mem::f32x4;
use cuda_std::simt::FaultKind;
use cuda_std::{bulk, shared_array, thread};

/// A pointer to memory that all threads of a kernel may write to.
struct Out(*mut f32x4);

// SAFETY: no two threads write to one place.
unsafe impl Sync for Out {}

impl Out {
    fn at(&self, at: usize) -> *mut f32x4 {
        self.0.wrapping_add(at)
    }
}

#[test]
fn what_is_copied_out_comes_with_the_wait_or_the_end() {
    for executor in all() {
        let mut out = numbers(32);
        let to = Out(out.as_mut_ptr());
        let kernel = || {
            let tile = shared_array![f32x4; 16];
            let (i, at) = (thread::thread_idx_x() as usize, 16 * thread::block_idx_x() as usize);
            // SAFETY: the first thread copies what all have written.
            unsafe {
                *tile.add(i) = f32x4::splat((at + i) as f32 + 0.5);
                bulk::fence_shared();
                thread::sync_threads();
                if i == 0 {
                    bulk::shared_to_global(to.at(at), tile, 8);
                    bulk::commit();
                    bulk::shared_to_global(to.at(at + 8), tile.add(8), 8);
                    bulk::commit();
                    bulk::wait_read::<1>();
                    *tile = f32x4::splat(-1.0);
                    bulk::wait::<1>();
                    assert_eq!((*to.at(at)).x, at as f32 + 0.5);
                    bulk::wait_read::<0>();
                    *tile.add(8) = f32x4::splat(-1.0);
                }
            }
        };
        executor.run("out", LaunchConfig::new(2, 16), kernel).unwrap();
        assert!(out.iter().enumerate().all(|(i, x)| x.z == i as f32 + 0.5), "{out:?}");
    }
}

#[test]
fn wrong_copies_to_global_memory_are_reported() {
    let mut out = numbers(2);
    let to = Out(out.as_mut_ptr());
    // SAFETY: on the executor all of these are faults.
    unsafe {
        check_panic("bulk::shared_to_global() got the global address 0x", |tile, _| {
            bulk::shared_to_global(to.at(0).cast::<f32>().add(1), tile.cast(), 4);
        });
        check_panic("bulk::shared_to_global() got the shared address 0x", |tile, _| {
            bulk::shared_to_global(to.at(0).cast::<f32>(), tile.cast::<f32>().add(1), 4);
        });
        check_panic("bulk::shared_to_global() of 0 bytes", |tile, _| {
            bulk::shared_to_global(to.at(0), tile, 0);
        });
        check_panic("are not all in the block's shared memory", |_, _| {
            bulk::shared_to_global(to.at(0), to.at(1), 1);
        });
        check_panic("which is in shared memory; copy to global memory", |tile, _| {
            bulk::shared_to_global(tile, tile.add(1), 1);
        });
        check_panic("bulk::shared_to_global() of what no thread has fenced", |tile, _| {
            *tile = f32x4::splat(1.0);
            bulk::shared_to_global(to.at(0), tile, 1);
        });
    }
}

// Miri knows races, and not what has changed.
#[cfg(not(miri))]
#[test]
fn a_source_that_changes_before_the_wait_is_reported() {
    let mut out = numbers(1);
    let to = Out(out.as_mut_ptr());
    let wrong = |tile: *mut f32x4| {
        // SAFETY: on the executor a fault.
        unsafe {
            *tile = f32x4::splat(1.0);
            bulk::fence_shared();
            bulk::shared_to_global(to.at(0), tile, 1);
            bulk::commit();
            *tile = f32x4::splat(2.0);
        }
    };
    check_panic(
        "bulk::wait_read() finds that shared memory has changed which bulk::shared_to_global() at",
        |tile, _| {
            wrong(tile);
            bulk::wait_read::<0>();
        },
    );
    check_panic("bulk::wait() finds that shared memory has changed", |tile, _| {
        wrong(tile);
        bulk::wait::<0>();
    });
}

#[test]
fn a_thread_that_returns_before_its_source_is_read_is_a_fault() {
    let mut out = numbers(8);
    let to = Out(out.as_mut_ptr());
    for (executor, commits) in
        all().into_iter().flat_map(|executor| [(executor.clone(), true), (executor, false)])
    {
        let fault = fault_of(&executor, LaunchConfig::new(1, 2), || {
            let tile = shared_array![f32x4; 8];
            // SAFETY: none; the copy is not waited for.
            unsafe {
                let i = thread::thread_idx_x() as usize;
                *tile.add(i) = f32x4::splat(1.0);
                bulk::fence_shared();
                if i == 1 {
                    bulk::shared_to_global(to.at(0), tile.add(1), 1);
                    if commits {
                        bulk::commit();
                        bulk::wait_read::<1>();
                    } else {
                        bulk::wait::<0>();
                    }
                }
            }
        });
        assert_eq!(
            fault.kind,
            FaultKind::StoreNotWaitedFor { operation: "bulk::shared_to_global", bytes: 16 },
            "{fault}"
        );
        assert_eq!(fault.place.thread.unwrap().x, 1);
        assert!(
            fault.location.as_ref().is_some_and(|at| at.file.ends_with("tests/bulk_stores.rs")),
            "{fault}"
        );
        assert!(
            fault.to_string().contains("call bulk::commit() and bulk::wait_read::<0>() before"),
            "{fault}"
        );
    }
}
