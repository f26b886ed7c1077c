//! Matrices that a warpgroup multiplies, from panels that tensor copies or threads fill.

use cuda_std::barrier::Barrier;
use cuda_std::half::bf16;
use cuda_std::launch::{LaunchConfig, LaunchError};
use cuda_std::mem::f32x4;
use cuda_std::simt::Executor;
use cuda_std::tensor::{self, Swizzle, TensorMap, TensorMapSpec};
use cuda_std::wgmma::{self, Accumulator, Panel};
use cuda_std::{shared_array, thread};

use crate::tid;

/// Columns of a panel, of which 16 are multiplied, and of both panels.
const COLUMNS: usize = 64;
const K: usize = 2 * COLUMNS;

/// Bytes of the panels of A, 64 rows, and of B, 8 rows.
pub const BYTES: u32 = (64 + 8) * 128;

/// An element of A (64 rows) or B (8 rows, `matrix` 1).
fn number(matrix: usize, row: usize, k: usize) -> f32 {
    ((row * 3 + k / 8 * 5 + matrix) % 7) as f32
}

/// Launches the kernel on a warpgroup that multiplies, and a warp whose first thread copies.
pub fn run(
    on: &Executor,
    name: &'static str,
    swizzle: Swizzle,
    kernel: fn(&TensorMap, &TensorMap),
) -> Result<(), LaunchError> {
    // A row is 256 bytes. A tensor begins at a multiple of 16 bytes.
    let (mut a, mut b) = ([[f32x4::default(); 16]; 64], [[f32x4::default(); 16]; 8]);
    let map = |memory: &mut [[f32x4; 16]], matrix: usize, swizzle| {
        let (rows, first) = (memory.len(), memory.as_mut_ptr().cast::<bf16>());
        let elements = unsafe { core::slice::from_raw_parts_mut(first, rows * K) };
        for (i, element) in elements.iter_mut().enumerate() {
            *element = bf16::from_f32(number(matrix, i / K, i % K));
        }
        let spec = TensorMapSpec::new::<bf16>([K as u64, rows as u64], [COLUMNS as u32, rows as u32]);
        spec.with_swizzle(swizzle).encode_for_cpu(elements).expect("the matrix has this size")
    };
    let (map_a, map_b) = (map(&mut a, 0, swizzle), map(&mut b, 1, Swizzle::Bytes128));
    on.run(name, LaunchConfig::new(1, 160), || kernel(&map_a, &map_b))
}

/// Multiplies two panels, one after the other in the same stage, and checks the sums. The barrier expects `bytes`. If it
/// releases early, the stage is free before the multiplication that reads it has completed.
pub fn multiply(a: &TensorMap, b: &TensorMap, bytes: u32, releases_early: bool) {
    let (panel_a, panel_b) = (shared_array![Panel<bf16, 64>; 1], shared_array![Panel<bf16, 8>; 1]);
    let barriers = shared_array![Barrier; 2];
    let (full, free) = (barriers, barriers.wrapping_add(1));
    unsafe {
        if tid() == 0 {
            Barrier::init(full, 1);
            Barrier::init(free, 1);
            Barrier::fence_init();
        }
        thread::sync_threads();
        if tid() == 128 {
            for i in 0..2 {
                if i > 0 {
                    Barrier::wait_parity(free, 0);
                }
                Barrier::arrive_expect_tx(full, bytes);
                tensor::global_to_shared(panel_a, a, [i * COLUMNS as i32, 0], full);
                tensor::global_to_shared(panel_b, b, [i * COLUMNS as i32, 0], full);
            }
        }
        if tid() >= 128 {
            return;
        }
        let mut sums = Accumulator::<4>::ZERO.start();
        wgmma::fence();
        for i in 0..2 {
            Barrier::wait_parity(full, i);
            sums.multiply(Panel::k_major::<64>(panel_a, 0), Panel::k_major::<8>(panel_b, 0));
            wgmma::commit();
            if !releases_early {
                wgmma::wait::<0>();
            }
            if i == 0 && tid() == 0 {
                Barrier::arrive(free);
            }
        }
        check(sums.finish::<0>(), 2);
    }
}

/// Panics if the sums over this number of panels are not right.
fn check(sums: Accumulator<4>, panels: usize) {
    sums.for_each(|row, column, sum| {
        let ks = (0..panels).flat_map(|panel| (0..16).map(move |k| panel * COLUMNS + k));
        let right: f32 = ks.map(|k| number(0, row, k) * number(1, column, k)).sum();
        assert_eq!(sum, right, "at row {row} and column {column}");
    });
}

/// Multiplies operands that threads write and then fence with `fence`.
pub fn multiply_written(fence: fn()) {
    let (panel_a, panel_b) = (shared_array![Panel<bf16, 64>; 1], shared_array![Panel<bf16, 8>; 1]);
    unsafe {
        for i in (tid()..72 * 16).step_by(128) {
            let (row, k) = (i / 16, i % 16);
            let (element, x) = if row < 64 {
                (Panel::element(panel_a, row as u32, k as u32), number(0, row, k))
            } else {
                (Panel::element(panel_b, row as u32 - 64, k as u32), number(1, row - 64, k))
            };
            *element = bf16::from_f32(x);
        }
        fence();
        thread::sync_threads();
        let mut sums = Accumulator::<4>::ZERO.start();
        wgmma::fence();
        sums.multiply(Panel::k_major::<64>(panel_a, 0), Panel::k_major::<8>(panel_b, 0));
        wgmma::commit();
        check(sums.finish::<0>(), 1);
    }
}
