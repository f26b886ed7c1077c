//! Bulk copies to global memory on the executor: when they are performed, and wrong uses.

use cuda_std::mem::f32x4;
use cuda_std::{bulk, shared_array, thread};

use crate::common::{Out, block, check_panic, numbers, on, tid};

#[test]
fn what_is_copied_out_comes_with_the_wait_or_the_end() {
    let after: Vec<f32x4> = (0..32).map(|i| f32x4::splat(i as f32 + 0.5)).collect();
    let kernel = |to: &Out<f32x4>| {
        let tile = shared_array![f32x4; 16];
        let (i, at) = (tid(), 16 * block());
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
    on(2, 16).writes(&numbers(32), kernel, &after);
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

// Miri detects races, not changes.
#[cfg(not(miri))]
#[test]
fn a_source_that_changes_before_the_wait_is_reported() {
    let mut out = numbers(1);
    let to = Out(out.as_mut_ptr());
    let changes = "finds that shared memory has changed which bulk::shared_to_global() at";
    for name in ["wait_read", "wait"] {
        check_panic(&format!("bulk::{name}() {changes}"), |tile, _| {
            // SAFETY: on the executor a fault.
            unsafe {
                *tile = f32x4::splat(1.0);
                bulk::fence_shared();
                bulk::shared_to_global(to.at(0), tile, 1);
                bulk::commit();
                *tile = f32x4::splat(2.0);
            }
            if name == "wait" { bulk::wait::<0>() } else { bulk::wait_read::<0>() }
        });
    }
}

#[test]
fn a_thread_that_returns_before_its_source_is_read_is_a_fault() {
    let mut out = numbers(8);
    let to = Out(out.as_mut_ptr());
    let expected = "thread (1, 0, 0) .. bulk::shared_to_global of 16 bytes was reading shared memory when its thread \
                    returned; call bulk::commit() and bulk::wait_read::<0>() before";
    for commits in [true, false] {
        on(1, 2).fails(expected, || {
            let (tile, i) = (shared_array![f32x4; 8], tid());
            // SAFETY: none; the copy is not waited for.
            unsafe {
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
    }
}
