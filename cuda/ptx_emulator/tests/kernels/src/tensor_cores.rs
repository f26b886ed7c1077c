//! Tensor copies, and products of a warpgroup.

use cuda_std::barrier::Barrier;
use cuda_std::half::bf16;
use cuda_std::prelude::*;
use cuda_std::tensor::{self, TensorMap};
use cuda_std::wgmma::{self, Accumulator, Panel};
use cuda_std::{bulk, cluster};

/// A tile of 8 rows of 16 numbers, aligned as tensor copies ask for.
#[derive(Clone, Copy)]
#[repr(C, align(128))]
pub struct Tile([f32; 128]);

/// Moves the tile at (`x`, `y`) of one matrix to (`y`, `x`) of another, with the sum of its coordinates added to each number.
///
/// # Safety
/// The maps are those of matrices with tiles of 8 rows and 16 columns, and the block has 128 threads.
#[kernel(min_arch = 90)]
pub unsafe fn move_a_tile(from: TensorMap, to: TensorMap, x: i32, y: i32) {
    let (tile, ready) = (shared_array![Tile; 1], shared_array![Barrier; 1]);
    let i = thread::thread_idx_x() as usize;
    // SAFETY: one thread copies the tile, each thread changes a number of its own, and the last copy is waited for.
    unsafe {
        if i == 0 {
            Barrier::init(ready, 1);
            Barrier::fence_init();
            Barrier::arrive_expect_tx(ready, 128 * 4);
            tensor::global_to_shared(tile, &from, [x, y], ready);
        }
        thread::sync_threads_aligned();
        Barrier::wait_parity(ready, 0);
        *tile.cast::<f32>().add(i) += (x + y) as f32;
        bulk::fence_shared();
        thread::sync_threads_aligned();
        if i == 0 {
            tensor::shared_to_global(&to, [y, x], tile);
            bulk::commit();
            bulk::wait::<0>();
        }
    }
}

/// `out[64, 128] = relu(A[64, 64] B[32, 64]^T) C[32, 128]`, with the first product as A of the second.
///
/// # Safety
/// The maps are those of matrices of these shapes, with tiles of 64 columns and all rows, swizzled by 128 bytes. `out` has 64 * 128
/// elements, and the block 128 threads.
#[kernel(arch = "90a", max_threads = 128)]
pub unsafe fn two_products(a: TensorMap, b: TensorMap, c: TensorMap, out: *mut f32) {
    let (pa, pb, pc) = (
        shared_array![Panel<bf16, 64>; 1],
        shared_array![Panel<bf16, 32>; 1],
        shared_array![Panel<bf16, 32>; 2],
    );
    let ready = shared_array![Barrier; 1];
    // SAFETY: one thread copies the operands, and all wait for them.
    unsafe {
        if thread::thread_idx_x() == 0 {
            Barrier::init(ready, 1);
            Barrier::fence_init();
            Barrier::arrive_expect_tx(ready, (64 + 32 + 64) * 128);
            tensor::global_to_shared(pa, &a, [0, 0], ready);
            tensor::global_to_shared(pb, &b, [0, 0], ready);
            tensor::global_to_shared(pc, &c, [0, 0], ready);
            tensor::global_to_shared(pc.add(1), &c, [64, 0], ready);
        }
        thread::sync_threads_aligned();
        Barrier::wait_parity(ready, 0);
        let mut first = Accumulator::<16>::ZERO.start();
        wgmma::fence();
        for step in 0..4 {
            first.multiply(Panel::k_major::<64>(pa, 0).step(step), Panel::k_major::<32>(pb, 0).step(step));
        }
        wgmma::commit();
        let mut first = first.finish::<0>();
        for value in &mut first.0 {
            *value = if *value > 0.0 { *value } else { 0.0 };
        }
        let (low, high) = (first.fragment::<bf16>(0), first.fragment::<bf16>(1));
        let mut second = Accumulator::<64>::ZERO.start();
        wgmma::fence();
        second.multiply(low, Panel::mn_major::<128>(pc));
        second.multiply(high, Panel::mn_major::<128>(pc).step(1));
        wgmma::commit();
        let second = second.finish::<0>();
        second.for_each(|row, column, value| *out.add(128 * row + column) = value);
    }
}

/// Block `i` of the cluster gives all blocks the tile of rows `64 * i`, and each writes the tile of every block to its own
/// part of `out`.
///
/// # Safety
/// The map is that of a matrix of 64 columns and 64 rows a block, with tiles of 64 rows, swizzled by 128 bytes. `out` has the
/// elements of the matrix for each block; clusters of two blocks of 128 threads.
#[kernel(min_arch = 90)]
pub unsafe fn share_tiles(map: TensorMap, out: *mut f32) {
    let (panels, ready) = (shared_array![Panel<bf16, 64>; 2], shared_array![Barrier; 1]);
    let (rank, thread) = (cluster::block_rank(), thread::thread_idx_x());
    // SAFETY: one thread of each block copies its tile, and all wait for all tiles.
    unsafe {
        if thread == 0 {
            Barrier::init(ready, 1);
            Barrier::fence_init();
            Barrier::arrive_expect_tx(ready, 2 * 64 * 128);
        }
        cluster::sync();
        if thread == 0 {
            tensor::global_to_shared_multicast(
                panels.add(rank as usize),
                &map,
                [0, 64 * rank as i32],
                ready,
                3,
            );
        }
        Barrier::wait_parity(ready, 0);
        for i in (thread..2 * 64 * 64).step_by(128) {
            let panel = panels.add(i as usize / 4096);
            let number = *Panel::element(panel, i / 64 % 64, i % 64);
            *out.add((rank * 2 * 4096 + i) as usize) = number.to_f32();
        }
        cluster::sync();
    }
}
