//! Multiplications of matrices that never change, on tensor cores.
//!
//! Row `r` of A and column `r` of B have the elements `tensor_element(r, k)`. An iteration multiplies them again and adds them
//! to the same accumulators, so that nothing but the multiplications takes time.
//@ ptx(peaks_mma_sync, compute_80+): mma.sync.aligned.m16n8k16 == 32, .local == 0
//@ ptx(peaks_wgmma_registers, peaks_wgmma_shared, compute_90a): wgmma.mma_async.sync.aligned.m64n128k16 == 4, .local == 0

use cuda_std::half::bf16;
use cuda_std::hint::opaque;
use cuda_std::mma::{self, FragmentB, FragmentC, mma_sync};
use cuda_std::wgmma::{self, Accumulator, FragmentA, OperandA, Panel};
use cuda_std::{bulk, kernel, shared_array, thread};

#[cfg(not(target_arch = "nvptx64"))]
use super::{Chains, What};

/// Accumulators of a warp in [`peaks_mma_sync`](fn@peaks_mma_sync).
const TILES: usize = 8;
/// Multiplications of each in an iteration.
const STEPS: usize = 4;
/// Rows of A, and columns of B, of a warpgroup.
const ROWS: usize = 64;
const COLS: usize = 128;

/// Element `k` of row `row` of A, or of column `row` of B: an integer from -3 to 3.
#[inline(always)]
pub fn tensor_element(row: u32, k: u32) -> f32 {
    ((5 * row + 3 * (k % 16)) % 7) as f32 - 3.0
}

/// Computes `out[i]`, the sum of thread `i`'s accumulators after `4 * turns` multiplications of 16 rows of A with 8 times 8
/// columns of B.
///
/// Launched with blocks of 256 threads along x.
///
/// # Safety
/// The launch is as described; `out` holds an element for each thread, and no other code uses it.
#[kernel(
    max_threads = 256,
    min_arch = 80,
    args = super::Arguments,
    facts: Chains = Chains { what: What::MmaSync, chains: TILES, steps: STEPS },
)]
pub unsafe fn peaks_mma_sync(out: *mut f32, turns: u32) {
    let element = |row: usize, k: usize| bf16::from_f32(tensor_element(row as u32, k as u32));
    let a = mma::FragmentA::from_fn(element);
    let b: [FragmentB<bf16>; TILES] =
        core::array::from_fn(|j| FragmentB::from_fn(|k, col| element(8 * j + col, k)));
    let mut sums = [FragmentC::ZERO; TILES];
    let mut turn = 0;
    while turn < turns as usize {
        for _ in 0..STEPS {
            for j in 0..TILES {
                // SAFETY: all lanes of the warp execute this.
                sums[j] = unsafe { mma_sync(a, b[j], sums[j]) };
            }
        }
        turn = opaque(turn + 1);
    }
    let sum = sums.into_iter().flat_map(|FragmentC(of)| of).sum::<f32>();
    // SAFETY: only this thread writes the element.
    unsafe { *out.add(thread::index_1d() as usize) = sum };
}

/// Computes `out[i]`, the sum of thread `i`'s accumulators after `4 * turns` multiplications of 64 rows of A with 128 columns of
/// B by each warpgroup. A is in registers.
///
/// Launched with blocks of 256 threads along x.
///
/// # Safety
/// Same as for [`peaks_mma_sync`](fn@peaks_mma_sync).
#[kernel(
    max_threads = 256,
    arch = "90a",
    args = super::Arguments,
    facts: Chains = Chains { what: What::Wgmma, chains: 1, steps: STEPS },
)]
pub unsafe fn peaks_wgmma_registers(out: *mut f32, turns: u32) {
    let warp = thread::thread_idx_x() as usize / 32 % 4;
    let a =
        mma::FragmentA::from_fn(|row, k| bf16::from_f32(tensor_element((16 * warp + row) as u32, k as u32)));
    let a = FragmentA::from(a);
    // SAFETY: all threads execute this.
    unsafe { multiply(out, turns, |_| a) };
}

/// Like [`peaks_wgmma_registers`](fn@peaks_wgmma_registers), with A in shared memory, as B.
///
/// # Safety
/// Same as for [`peaks_mma_sync`](fn@peaks_mma_sync).
#[kernel(
    max_threads = 256,
    arch = "90a",
    args = super::Arguments,
    facts: Chains = Chains { what: What::Wgmma, chains: 1, steps: STEPS },
)]
pub unsafe fn peaks_wgmma_shared(out: *mut f32, turns: u32) {
    let panel = shared_array![Panel<bf16, ROWS>; 1];
    // SAFETY: the panel is the block's, and all threads execute this.
    unsafe {
        fill(panel);
        multiply(out, turns, |step| Panel::k_major::<ROWS>(panel, 0).step(step));
    }
}

/// Multiplies A by B, which it writes to shared memory, and sums up the accumulators.
///
/// # Safety
/// All threads of the block execute this. `out` holds an element for each. A is in registers, or was written before.
#[inline(always)]
unsafe fn multiply<A: OperandA<bf16>>(out: *mut f32, turns: u32, a: impl Fn(u32) -> A) {
    let panel = shared_array![Panel<bf16, COLS>; 1];
    // SAFETY: the panels are the block's, and are not written after the barrier. All threads execute this.
    let sums = unsafe {
        fill(panel);
        bulk::fence_shared();
        thread::sync_threads_aligned();
        let b = Panel::k_major::<COLS>(panel, 0);
        let mut pending = Accumulator::<{ COLS / 2 }>::ZERO.start();
        wgmma::fence();
        let mut turn = 0;
        while turn < turns as usize {
            for step in 0..STEPS as u32 {
                pending.multiply(a(step), b.step(step));
            }
            wgmma::commit();
            wgmma::wait::<1>();
            turn = opaque(turn + 1);
        }
        pending.finish::<0>()
    };
    let mut sum = 0.0;
    sums.for_each(|_, _, value| sum += value);
    // SAFETY: only this thread writes the element.
    unsafe { *out.add(thread::index_1d() as usize) = sum };
}

/// Writes a panel.
///
/// # Safety
/// The panel is the block's, all threads of the block execute this, and none reads it before a barrier.
#[inline(always)]
unsafe fn fill<const COUNT: usize>(panel: *mut Panel<bf16, COUNT>) {
    let mut i = thread::thread_idx_x();
    while i < 64 * COUNT as u32 {
        // SAFETY: the row and the column lie in the panel, and each thread writes its own elements.
        unsafe { *Panel::element(panel, i / 64, i % 64) = bf16::from_f32(tensor_element(i / 64, i % 64)) };
        i += 256;
    }
}
