//! Matrices that a warpgroup multiplies, from panels that tensor copies or threads fill.

use cuda_std::barrier::Barrier;
use cuda_std::half::bf16;
use cuda_std::tensor::{self, TensorMap};
use cuda_std::wgmma::{self, Accumulator, Panel};
use cuda_std::{bulk, kernel, shared_array, thread};

use crate::tid;

/// Threads of a block: a warpgroup that multiplies, and a warp whose first thread copies.
pub const THREADS: usize = 160;

/// Columns of a panel, of which 16 are multiplied, and of both panels.
pub const COLUMNS: usize = 64;
pub const K: usize = 2 * COLUMNS;

/// Bytes of the panels of A, 64 rows, and of B, 8 rows.
const BYTES: u32 = (64 + 8) * 128;

/// An element of A (64 rows) or B (8 rows, `matrix` 1).
pub fn number(matrix: usize, row: usize, k: usize) -> f32 {
    ((row * 3 + k / 8 * 5 + matrix) % 7) as f32
}

/// What a kernel does about the panels.
#[derive(Clone, Copy)]
struct Does {
    /// Bytes that the barrier expects.
    bytes: u32,
    /// Whether the stage is free before the multiplication that reads it has completed.
    releases_early: bool,
}

/// As it is right.
const SOUND: Does = Does { bytes: BYTES, releases_early: false };

/// Multiplies two panels, one after the other in the same stage, and checks the sums.
///
/// # Safety
/// The maps are those of A and B.
#[inline(always)]
unsafe fn multiply(a: &TensorMap, b: &TensorMap, does: Does) {
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
                Barrier::arrive_expect_tx(full, does.bytes);
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
            if !does.releases_early {
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

/// Waits for each multiplication before the stage is free.
///
/// # Safety
/// Same as for `multiply`.
#[kernel(arch = "90a")]
pub unsafe fn sound_multiplication(a: TensorMap, b: TensorMap) {
    unsafe { multiply(&a, &b, SOUND) };
}

/// The stage is free while a multiplication may read it.
///
/// # Safety
/// Same as for `multiply`; the body has a bug.
#[kernel(arch = "90a")]
pub unsafe fn stage_released_early(a: TensorMap, b: TensorMap) {
    unsafe { multiply(&a, &b, Does { releases_early: true, ..SOUND }) };
}

/// The barrier expects the bytes of A alone.
///
/// # Safety
/// Same as for `multiply`.
#[kernel(arch = "90a")]
pub unsafe fn tile_not_expected(a: TensorMap, b: TensorMap) {
    unsafe { multiply(&a, &b, Does { bytes: 64 * 128, ..SOUND }) };
}

/// The map of A has another swizzle than the panel.
///
/// # Safety
/// Same as for `multiply`.
#[kernel(arch = "90a")]
pub unsafe fn wrong_swizzle(a: TensorMap, b: TensorMap) {
    unsafe { multiply(&a, &b, SOUND) };
}

/// Threads write the operands, and none fences them for the multiplication.
///
/// # Safety
/// A warpgroup.
#[kernel(arch = "90a")]
pub unsafe fn operands_not_fenced() {
    unsafe { multiply_written(|| ()) };
}

/// Threads write the operands, and fence them.
///
/// # Safety
/// Same as for `operands_not_fenced`.
#[kernel(arch = "90a")]
pub unsafe fn sound_written_operands() {
    unsafe { multiply_written(bulk::fence_shared) };
}

/// # Safety
/// A warpgroup.
#[inline(always)]
unsafe fn multiply_written(fence: fn()) {
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
