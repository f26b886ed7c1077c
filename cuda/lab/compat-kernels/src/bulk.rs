//! Bulk copies: rings of tiles, and the effect of a missing wait.

use cuda_std::barrier::Barrier;
use cuda_std::bulk;
use cuda_std::mem::f32x4;
use cuda_std::prelude::*;

/// `out[thread]` = sum of `inp[thread + 64 * i]`; the last of 96 threads copies rows of 64 to a ring of two.
#[kernel(min_arch = 90)]
#[allow(improper_ctypes_definitions, clippy::missing_safety_doc)]
pub unsafe fn sum_rows_in_bulk(inp: &[f32], out: *mut f32) {
    let (ring, full, empty) =
        (shared_array![f32x4; 32], shared_array![Barrier; 2], shared_array![Barrier; 2]);
    let (tid, steps) = (thread::thread_idx_x() as usize, inp.len() / 64);
    if tid < 2 {
        Barrier::init(full.add(tid), 1);
        Barrier::init(empty.add(tid), 64);
        Barrier::fence_init();
    }
    thread::sync_threads_aligned();
    let mut sum = 0.0;
    for step in 0..steps {
        let (half, parity) = (step % 2, (step / 2 % 2) as u32);
        if tid == 95 {
            // The phase before the first is complete.
            Barrier::wait_parity(empty.add(half), 1 - parity);
            Barrier::arrive_expect_tx(full.add(half), 256);
            let row = inp.as_ptr().add(64 * step).cast::<f32x4>();
            bulk::global_to_shared(ring.add(16 * half), row, 16, full.add(half));
        } else if tid < 64 {
            Barrier::wait_parity(full.add(half), parity);
            sum += *ring.cast::<f32>().add(64 * half + tid);
            Barrier::arrive(empty.add(half));
        }
    }
    if tid < 64 {
        *out.add(tid) = sum;
    }
}

/// Three numbers: two that are read too early (before the wait, and after a look in vain), and the first of them after a
/// loop of looks.
#[kernel(min_arch = 90)]
#[allow(improper_ctypes_definitions, clippy::missing_safety_doc)]
pub unsafe fn read_a_bulk_copy_too_early(inp: &[f32x4], out: *mut f32) {
    let (tile, ready) = (shared_array![f32x4; 2], shared_array![Barrier; 1]);
    *tile = f32x4::default();
    *tile.add(1) = f32x4::default();
    Barrier::init(ready, 1);
    Barrier::fence_init();
    let token = Barrier::arrive_expect_tx(ready, 32);
    bulk::global_to_shared(tile, inp.as_ptr(), 2, ready);
    *out = (*tile).x;
    let looked = Barrier::test_wait(ready, token);
    *out.add(1) = (*tile.add(1)).x;
    while !Barrier::test_wait(ready, token) {}
    *out.add(2) = (*tile).x + (*tile.add(1)).x;
    *out.add(3) = if looked { 1.0 } else { 0.0 };
}

/// `out` = the squares of its indices, one tile of 32 per step, through a ring of two that a thread of 64 copies out.
#[kernel(min_arch = 90)]
#[allow(improper_ctypes_definitions, clippy::missing_safety_doc)]
pub unsafe fn squares_in_bulk(out: *mut u32, steps: u32) {
    // In units of 16 bytes, the alignment of a bulk copy.
    let ring = shared_array![f32x4; 16].cast::<u32>();
    let tid = thread::thread_idx_x();
    for step in 0..steps {
        let tile = ring.add(32 * (step as usize % 2));
        if tid >= 32 {
            let at = 32 * step + tid - 32;
            *tile.add(tid as usize - 32) = at * at;
            bulk::fence_shared();
        }
        thread::sync_threads_aligned();
        if tid == 0 {
            bulk::shared_to_global(out.add(32 * step as usize), tile, 32);
            bulk::commit();
            // The other tile may be written again.
            bulk::wait_read::<1>();
        }
        thread::sync_threads_aligned();
    }
    bulk::wait_read::<0>();
}

/// Copies 16 numbers out and in again; one of them is read before the wait.
#[kernel(min_arch = 90)]
#[allow(improper_ctypes_definitions, clippy::missing_safety_doc)]
pub unsafe fn there_and_back_in_bulk(between: *mut f32x4, out: *mut f32) {
    let (tile, ready) = (shared_array![f32x4; 4], shared_array![Barrier; 1]);
    for i in 0..4 {
        *tile.add(i) = f32x4::splat(i as f32);
    }
    bulk::fence_shared();
    bulk::shared_to_global(between, tile, 4);
    bulk::commit();
    bulk::wait_read::<0>();
    *out = (*between.add(3)).x;
    bulk::wait::<0>();
    *out.add(1) = (*between.add(3)).x;
    Barrier::init(ready, 1);
    bulk::fence_shared();
    Barrier::arrive_expect_tx(ready, 64);
    bulk::global_to_shared(tile, between, 4, ready);
    Barrier::wait_parity(ready, 0);
    *out.add(2) = (*tile.add(3)).w;
}
