//! Copies that run while the threads compute, and the effect of a missing wait.

use cuda_std::mem::{f32x2, f32x4};
use cuda_std::pipeline;
use cuda_std::prelude::*;

/// `out[thread]` = sum of `inp[thread + 64 * i]`; the next rows of 64 are copied while one is added. `inp` has a multiple of
/// 256 elements.
#[kernel(min_arch = 80)]
#[allow(improper_ctypes_definitions, clippy::missing_safety_doc)]
pub unsafe fn sum_rows(inp: &[f32], out: *mut f32) {
    let tiles = shared_array![f32x4; 48];
    let (tid, steps) = (thread::thread_idx_x() as usize, inp.len() / 64);
    let start = |step: usize| {
        if step < steps && tid < 16 {
            let row = inp.as_ptr().add(64 * step).cast::<f32x4>();
            pipeline::memcpy_async_l2(tiles.add(step % 3 * 16 + tid), row.add(tid));
        }
        pipeline::commit();
    };
    start(0);
    start(1);
    let mut sum = 0.0;
    for step in 0..steps {
        pipeline::wait_prior::<1>();
        thread::sync_threads_aligned();
        start(step + 2);
        sum += *tiles.add(step % 3 * 16).cast::<f32>().add(tid);
    }
    *out.add(tid) = sum;
}

/// out = 4, 8, 16 and 16 bytes of the four parts of `inp`, then the first `bytes` of each of the same, filled with zeros.
#[kernel(min_arch = 80)]
#[allow(improper_ctypes_definitions, clippy::missing_safety_doc)]
pub unsafe fn copy_sizes(inp: &[f32x4], bytes: u32, out: *mut f32x4) {
    let tile = shared_array![f32x4; 8];
    for i in 0..8 {
        *tile.add(i) = f32x4 { x: -1.0, y: -1.0, z: -1.0, w: -1.0 };
    }
    let inp = inp.as_ptr();
    pipeline::memcpy_async(tile.cast::<f32>(), inp.cast());
    pipeline::memcpy_async(tile.add(1).cast::<f32x2>(), inp.add(1).cast());
    pipeline::memcpy_async(tile.add(2), inp.add(2));
    pipeline::memcpy_async_l2(tile.add(3), inp.add(3));
    pipeline::commit();
    pipeline::memcpy_async_zfill(tile.add(4).cast::<f32>(), inp.cast(), bytes.min(4));
    pipeline::memcpy_async_zfill(tile.add(5).cast::<f32x2>(), inp.add(1).cast(), bytes.min(8));
    pipeline::memcpy_async_zfill(tile.add(6), inp.add(2), bytes);
    pipeline::memcpy_async_l2_zfill(tile.add(7), inp.add(3), bytes);
    pipeline::wait_all();
    for i in 0..8 {
        *out.add(i) = *tile.add(i);
    }
}

/// Four numbers: read before the wait, from the group that was not waited for, from the group that was, and from a source
/// that changed before the wait.
#[kernel(min_arch = 80)]
#[allow(improper_ctypes_definitions, clippy::missing_safety_doc)]
pub unsafe fn read_at_wrong_times(inp: &[f32], changing: *mut f32, out: *mut f32) {
    let tile = shared_array![f32; 4];
    for i in 0..4 {
        *tile.add(i) = 0.0;
    }
    pipeline::memcpy_async(tile, inp.as_ptr());
    pipeline::memcpy_async(tile.add(2), inp.as_ptr());
    pipeline::memcpy_async(tile.add(3), changing);
    pipeline::commit();
    *changing = 9.0;
    *out = *tile;
    pipeline::memcpy_async(tile.add(1), inp.as_ptr());
    pipeline::commit();
    pipeline::wait_prior::<1>();
    *out.add(1) = *tile.add(1);
    *out.add(2) = *tile.add(2);
    *out.add(3) = *tile.add(3);
}
