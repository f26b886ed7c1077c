//! Bulk copies: rings of tiles, and what goes wrong without a wait.

use cuda_std::barrier::Barrier;
use cuda_std::bulk;
use cuda_std::mem::f32x4;
use cuda_std::prelude::*;

/// `out[thread]` = sum of `inp[thread + 64 * i]`; the last of 96 threads copies rows of 64 into a ring of two for the others.
#[kernel(min_arch = 90)]
#[allow(improper_ctypes_definitions, clippy::missing_safety_doc)]
pub unsafe fn sum_rows_in_bulk(inp: &[f32], out: *mut f32) {
    let (ring, full, empty) =
        (shared_array![f32x4; 32], shared_array![Barrier; 2], shared_array![Barrier; 2]);
    let (tid, steps) = (thread::thread_idx_x() as usize, inp.len() / 64);
    if tid < 2 {
        Barrier::init(full.add(tid), 1);
        Barrier::init(empty.add(tid), 64);
    }
    thread::sync_threads_aligned();
    let mut sum = 0.0;
    for step in 0..steps {
        let (half, parity) = (step % 2, (step / 2 % 2) as u32);
        if tid == 95 {
            // The phase before the first is over.
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

/// Three numbers: two that are read at the wrong time, before the wait and after a look in vain, and the first of them after
/// a loop of looks.
#[kernel(min_arch = 90)]
#[allow(improper_ctypes_definitions, clippy::missing_safety_doc)]
pub unsafe fn read_a_bulk_copy_too_early(inp: &[f32x4], out: *mut f32) {
    let (tile, ready) = (shared_array![f32x4; 2], shared_array![Barrier; 1]);
    *tile = f32x4::default();
    *tile.add(1) = f32x4::default();
    Barrier::init(ready, 1);
    let token = Barrier::arrive_expect_tx(ready, 32);
    bulk::global_to_shared(tile, inp.as_ptr(), 2, ready);
    *out = (*tile).x;
    let looked = Barrier::test_wait(ready, token);
    *out.add(1) = (*tile.add(1)).x;
    while !Barrier::test_wait(ready, token) {}
    *out.add(2) = (*tile).x + (*tile.add(1)).x;
    *out.add(3) = if looked { 1.0 } else { 0.0 };
}
