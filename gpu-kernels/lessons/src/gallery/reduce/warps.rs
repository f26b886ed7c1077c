//! Sums by shuffles: the lanes of a warp add up their registers without memory and without a barrier.
//!
//! * `shuffle`: five `shfl.sync.bfly` compute the sum of a warp. Only one number per warp goes through shared memory, after
//!   one barrier instead of eight. The sums of the blocks still need another launch, and each thread of many blocks has
//!   little to do.
//! * `grid_stride`: no more blocks than the device runs at once; each thread adds up elements a whole grid apart. The last
//!   block to end adds up the sums of all. A counter tells it that it is the last, and it sees the others' sums because its
//!   addition to the counter acquires what theirs released. The order of all additions depends only on the grid, so two runs
//!   on one device agree bit for bit.
//! * `vec4`: each thread has four loads of 16 bytes in flight before it uses the first. The compiler also unrolls the loop
//!   above by four, but with loads of 4 bytes, and not when fewer than four are left.
//!
//! Requires: blocks of 256 threads; for `vec4` an array at a multiple of 16 bytes. The kernels use at most 32 registers, so
//! 8 blocks fit a multiprocessor.
//@ ptx(reduce_shuffle): shfl.sync.bfly == 8, bar.sync == 1, ld.global.b32 == 2, .local == 0
//@ ptx(reduce_grid_stride): bar.sync == 3, atom >= 1, .v4 == 0, .local == 0
//@ ptx(reduce_vec4): bar.sync == 3, atom >= 1, ld.global.nc.v4 == 7, .local == 0

use crate::gallery::last_block::{BLOCK, Partials, WARPS, block_sum, sum_of_blocks};
use cuda_std::hint::opaque;
use cuda_std::mem::{f32x4, load_global_nc};
use cuda_std::{kernel, shared_array, thread};

/// Computes `out[b]`, the sum of the 512 elements of `inp` from `512 * b` on.
///
/// Launched with one block of 256 threads along x for each element of `out`.
///
/// # Safety
/// The launch is as described; `inp` holds `len` elements, and no other code uses the elements of `out`.
#[kernel(max_threads = 256, args = super::Arguments, facts: super::Reduction = super::Reduction::Passes(512))]
pub unsafe fn reduce_shuffle(out: *mut f32, inp: *const f32, len: u32) {
    let sums_shared = shared_array![f32; WARPS];
    let (block, tid) = (thread::block_idx_x() as usize, thread::thread_idx_x() as usize);
    let first = 2 * block * BLOCK + tid;
    // SAFETY: every load lies in the array; all threads of the block call the sum.
    unsafe {
        let element = |i: usize| if i < len as usize { *inp.add(i) } else { 0.0 };
        let sum = block_sum(sums_shared, element(first) + element(first + BLOCK));
        if tid == 0 {
            *out.add(block) = sum;
        }
    }
}

/// Computes `*out`, the sum of `inp`.
///
/// Launched with blocks of 256 threads along x, as many as fit the device at once.
///
/// # Safety
/// The launch is as described; `inp` holds `len` elements and `partials` one for each block. No other code uses `partials`,
/// `out` or `arrived`, which holds 0 before and after.
#[kernel(
    max_threads = 256,
    min_blocks = 8,
    args = super::Arguments,
    facts: super::Reduction = super::Reduction::Resident(256),
)]
pub unsafe fn reduce_grid_stride(
    out: *mut f32,
    inp: *const f32,
    partials: *mut f32,
    arrived: *mut u32,
    len: u32,
) {
    let (sums_shared, all_shared) = (shared_array![f32; WARPS], shared_array![f32; WARPS]);
    let is_last = shared_array![bool; 1];
    let step = thread::grid_dim_x() as usize * BLOCK;
    let mut sum = 0.0;
    let mut i = thread::index_1d() as usize;
    while i < len as usize {
        // SAFETY: the loop condition.
        sum += unsafe { *inp.add(i) };
        i += step;
    }
    // SAFETY: all threads of all blocks execute this, and own what they use.
    unsafe {
        let of_block = block_sum(sums_shared, sum);
        sum_of_blocks((all_shared, is_last), out, Partials { sums: partials, arrived }, of_block);
    }
}

/// Like [`reduce_grid_stride`](fn@reduce_grid_stride), with 16 bytes per load and four loads at once.
///
/// # Safety
/// Same as for [`reduce_grid_stride`](fn@reduce_grid_stride); `inp` begins at a multiple of 16 bytes, and no
/// code writes it.
#[kernel(
    max_threads = 256,
    min_blocks = 8,
    args = super::Arguments,
    facts: super::Reduction = super::Reduction::Resident(1024),
)]
pub unsafe fn reduce_vec4(out: *mut f32, inp: *const f32, partials: *mut f32, arrived: *mut u32, len: u32) {
    const IN_FLIGHT: usize = 4;
    let (sums_shared, all_shared) = (shared_array![f32; WARPS], shared_array![f32; WARPS]);
    let is_last = shared_array![bool; 1];
    let step = thread::grid_dim_x() as usize * BLOCK;
    let (vectors, x) = (len as usize / 4, inp.cast::<f32x4>());
    // SAFETY: `v` is below `vectors`.
    let load = |v: usize| unsafe { load_global_nc(x.add(v)) }.to_array();
    let add = |sums: &mut [f32; 4], x: [f32; 4]| (0..4).for_each(|i| sums[i] += x[i]);

    let mut sums = [0.0; 4];
    let mut v = thread::index_1d() as usize;
    // The first threads take the elements after the last vector, at most three.
    if 4 * vectors + v < len as usize {
        // SAFETY: checked just before.
        sums[0] = unsafe { *inp.add(4 * vectors + v) };
    }
    while v + (IN_FLIGHT - 1) * step < vectors {
        let x_reg: [_; IN_FLIGHT] = core::array::from_fn(|i| load(v + i * step));
        x_reg.into_iter().for_each(|x| add(&mut sums, x));
        v = opaque(v + IN_FLIGHT * step);
    }
    // Fewer loads are left than are in flight at once.
    let x_reg: [_; IN_FLIGHT] =
        core::array::from_fn(|i| if v + i * step < vectors { load(v + i * step) } else { [0.0; 4] });
    x_reg.into_iter().for_each(|x| add(&mut sums, x));

    // SAFETY: all threads of all blocks execute this, and own what they use.
    unsafe {
        let of_block = block_sum(sums_shared, (sums[0] + sums[1]) + (sums[2] + sums[3]));
        sum_of_blocks((all_shared, is_last), out, Partials { sums: partials, arrived }, of_block);
    }
}
