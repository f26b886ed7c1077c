//! Numbered barriers for a part of the block on the executor: which threads go on, and wrong uses.

use cuda_std::{cluster, shared_array, thread};

use crate::common::{on, tid};

/// Warp 0 fills a ring of two for warp 1. Each arrives at the barriers that the other one waits at.
#[test]
fn a_ring_is_filled_and_emptied() {
    let (blocks, steps) = if cfg!(miri) { (1, 3) } else { (3, 6) };
    on(blocks, 96).check(|| {
        let (ring, i) = (shared_array![u32; 64], thread::thread_idx_x());
        for step in 0..steps {
            let (stage, number) = (ring.wrapping_add(32 * (step as usize % 2)), step % 2);
            let (full, empty) = (1 + number, 3 + number);
            // SAFETY: both warps reach each barrier in turns, 64 threads together.
            unsafe {
                if i < 32 {
                    if step >= 2 {
                        thread::sync_named(empty, 64);
                    }
                    *stage.add(i as usize) = step * i;
                    thread::arrive_named(full, 64);
                } else if i < 64 {
                    thread::sync_named_aligned(full, 64);
                    assert_eq!(*stage.add(63 - i as usize), step * (63 - i));
                    if step + 2 < steps {
                        thread::arrive_named_aligned(empty, 64);
                    }
                }
            }
        }
    });
}

/// A warp waits once, while others pass the barrier two more times before it goes on.
#[test]
fn a_round_that_is_over_stays_over() {
    on(1, 96).check(|| {
        let sum = shared_array![u32; 3];
        for round in 0..if tid() < 64 { 3 } else { 1 } {
            // SAFETY: two warps reach each round of the barrier, and all three the first one.
            unsafe {
                if tid() == 0 {
                    *sum.add(round) = round as u32;
                }
                thread::sync_named(7, if round == 0 { 96 } else { 64 });
                assert_eq!(*sum.add(round), round as u32);
            }
        }
    });
}

#[test]
fn blocks_have_barriers_of_their_own() {
    on(4, 32).cluster(2).check(|| {
        // SAFETY: all threads of each block reach its barrier and the cluster's.
        unsafe {
            if cluster::block_rank() == 0 {
                thread::sync_named(1, 32);
            }
            cluster::sync();
        }
    });
    // Arrivals of a block do not count for the next one.
    // SAFETY: the barrier expects more threads than arrive, and none waits.
    on(5, 32).check(|| unsafe { thread::arrive_named(1, 64) });
    // SAFETY: all threads reach this.
    on(5, 32).check(|| unsafe { thread::sync_named(1, 32) });
}

#[test]
fn misuse_is_reported() {
    // SAFETY: on the executor all of these are faults.
    unsafe {
        let expected = "thread::sync_named waits for 64 threads, but only 32 have arrived and no other can";
        on(1, 64).fails(expected, || {
            if tid() < 32 {
                thread::sync_named(2, 64);
            }
        });
        on(1, 32)
            .fails("thread::sync_named() of barrier 0; a block has 1 to 15", || thread::sync_named(0, 32));
        on(1, 32).fails("thread::arrive_named() of barrier 16", || thread::arrive_named(16, 32));
        on(1, 32).fails("thread::sync_named_aligned() of 40 threads; they are whole warps", || {
            thread::sync_named_aligned(1, 40);
        });
        on(1, 32).fails("thread::sync_named() of 32 threads, but others wait for 64", || {
            thread::arrive_named(1, 64);
            thread::sync_named(1, 32);
        });
    }
}
