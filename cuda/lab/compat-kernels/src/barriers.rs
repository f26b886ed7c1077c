//! Barriers in shared memory: a ring of buffers, a barrier of the block, phases of bytes.

use cuda_std::barrier::Barrier;
use cuda_std::prelude::*;

/// `out[64 * round + i]` = round * i: warps 2 and 3 write to a ring of two buffers that warps 0 and 1 read.
#[kernel(min_arch = 80)]
#[allow(improper_ctypes_definitions, clippy::missing_safety_doc)]
pub unsafe fn products_in_a_ring(out: *mut u32, rounds: u32) {
    let (ring, full, empty) = (shared_array![u32; 128], shared_array![Barrier; 2], shared_array![Barrier; 2]);
    let i = thread::thread_idx_x();
    if i < 2 {
        Barrier::init(full.add(i as usize), 64);
        Barrier::init(empty.add(i as usize), 64);
    }
    thread::sync_threads_aligned();
    for round in 0..rounds {
        let (buffer, parity) = ((round % 2) as usize, round / 2 % 2);
        if i >= 64 {
            // The phase before the first is complete.
            Barrier::wait_parity(empty.add(buffer), 1 - parity);
            *ring.add(64 * buffer + (i - 64) as usize) = round * (i - 64);
            Barrier::arrive(full.add(buffer));
        } else {
            Barrier::wait_parity(full.add(buffer), parity);
            // Another thread's element.
            let other = (63 - i) as usize;
            *out.add(64 * round as usize + other) = *ring.add(64 * buffer + other);
            Barrier::arrive(empty.add(buffer));
        }
    }
    thread::sync_threads_aligned();
    if i < 2 {
        Barrier::inval(full.add(i as usize));
        Barrier::inval(empty.add(i as usize));
    }
}

/// `out[i]` = `inp[i]` moved `steps` places along a circle of all threads, one place per step.
#[kernel(min_arch = 80)]
#[allow(improper_ctypes_definitions, clippy::missing_safety_doc)]
pub unsafe fn around_the_circle(inp: &[u32], out: *mut u32, steps: u32) {
    let (places, here) = (shared_array![u32; 2 * 96], shared_array![Barrier; 1]);
    let (i, n) = (thread::thread_idx_x() as usize, thread::block_dim_x() as usize);
    if i == 0 {
        Barrier::init(here, n as u32);
    }
    thread::sync_threads_aligned();
    let mut value = inp[i];
    for step in 0..steps as usize {
        *places.add(step % 2 * 96 + (i + 1) % n) = value;
        let token = Barrier::arrive(here);
        Barrier::wait(here, token);
        value = *places.add(step % 2 * 96 + i);
    }
    *out.add(i) = value;
}

/// One thread's view of a barrier for two arrivals, a bit for each look.
#[kernel(min_arch = 80)]
#[allow(improper_ctypes_definitions, clippy::missing_safety_doc)]
pub unsafe fn looks_at_phases(out: *mut u32) {
    let barrier = shared_array![Barrier; 1];
    Barrier::init(barrier, 2);
    let look = |parity| u32::from(Barrier::test_wait_parity(barrier, parity));
    let mut seen = look(0) | look(1) << 1;
    let first = Barrier::arrive(barrier);
    seen |= look(0) << 2 | u32::from(Barrier::test_wait(barrier, first)) << 3;
    let second = Barrier::arrive(barrier);
    seen |= look(0) << 4 | look(1) << 5;
    seen |= u32::from(Barrier::test_wait(barrier, first)) << 6;
    seen |= u32::from(Barrier::test_wait(barrier, second)) << 7;
    let third = Barrier::arrive(barrier);
    seen |= u32::from(Barrier::test_wait(barrier, third)) << 8;
    Barrier::arrive(barrier);
    Barrier::wait(barrier, third);
    *out = seen | look(1) << 9 | look(0) << 10;
}

/// The same for a barrier of one arrival and of bytes; some bytes arrive before they are expected.
#[kernel(min_arch = 90)]
#[allow(improper_ctypes_definitions, clippy::missing_safety_doc)]
pub unsafe fn looks_at_bytes(out: *mut u32) {
    let barrier = shared_array![Barrier; 1];
    Barrier::init(barrier, 1);
    let look = |parity| u32::from(Barrier::test_wait_parity(barrier, parity));
    Barrier::complete_tx(barrier, 30);
    Barrier::expect_tx(barrier, 40);
    let token = Barrier::arrive_expect_tx(barrier, 10);
    let mut seen = look(0);
    Barrier::complete_tx(barrier, 15);
    seen |= look(0) << 1;
    Barrier::complete_tx(barrier, 5);
    seen |= look(0) << 2 | u32::from(Barrier::test_wait(barrier, token)) << 3;
    Barrier::arrive(barrier);
    *out = seen | look(1) << 4;
}

/// Same as [`products_in_a_ring`](fn@products_in_a_ring), with numbered barriers: two for full buffers, two for empty ones.
#[kernel]
#[allow(improper_ctypes_definitions, clippy::missing_safety_doc)]
pub unsafe fn products_by_numbered_barriers(out: *mut u32, rounds: u32) {
    let (ring, i) = (shared_array![u32; 128], thread::thread_idx_x());
    for round in 0..rounds {
        let buffer = round % 2;
        let (full, empty) = (1 + buffer, 3 + buffer);
        if i >= 64 {
            if round >= 2 {
                thread::sync_named(empty, 128);
            }
            *ring.add((64 * buffer + i - 64) as usize) = round * (i - 64);
            thread::arrive_named_aligned(full, 128);
        } else {
            thread::sync_named_aligned(full, 128);
            // Another thread's element.
            let other = 63 - i;
            *out.add((64 * round + other) as usize) = *ring.add((64 * buffer + other) as usize);
            if round + 2 < rounds {
                thread::arrive_named(empty, 128);
            }
        }
    }
}
