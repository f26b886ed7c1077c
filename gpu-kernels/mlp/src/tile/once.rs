//! A tile whose terms all fit a slab: one round of loads, a part of which may begin before the launch ahead has ended.

use cuda_std::hint::opaque;
use cuda_std::mem::f32x4;
use cuda_std::thread;

use super::Tile;
use crate::matrix::{OperandA, OperandB};
use crate::slab::{Slabs, Terms as _};

impl<const BM: usize, const BN: usize, const TM: usize, const TN: usize, const BK: usize, const GROUPS: usize>
    Tile<BM, BN, TM, TN, BK, GROUPS>
{
    /// Calls `write(i, row, col, sums)` for the tile's outputs from this row and column on. Each quad comes once, in one
    /// thread, as the thread's number `i`; quads outside the result come too. [`Self::place_of`] returns their positions.
    ///
    /// Calls `wait` before it reads anything except A; if A is not `is_early`, also before it reads A.
    ///
    /// # Safety
    /// All threads of the block, which is one-dimensional, call this with the same arguments. `shared` belongs to the block,
    /// with [`shared_vectors`](crate::slab::shared_vectors) vectors. The operands have the same k, from 1 to `BK`
    /// terms.
    #[inline(always)]
    pub unsafe fn once<const QUADS_A: usize, const QUADS_B: usize, const QUADS: usize>(
        shared: *mut f32x4,
        [row0, col0]: [usize; 2],
        (a, is_early): (OperandA, bool),
        b: OperandB,
        wait: impl Fn(),
        mut write: impl FnMut(usize, usize, usize, f32x4),
    ) {
        const { assert!(QUADS_A * 4 * Self::THREADS == BM * BK && QUADS_B * 4 * Self::THREADS == BK * BN) };
        const { assert!(QUADS * 4 * Self::THREADS == BM * BN && BK.is_multiple_of(4 * GROUPS)) };
        let (tid, sums) = (thread::thread_idx_x() as usize, shared.cast::<f32>());
        let slabs = Self::slabs::<Self>(sums, a, b);
        if !is_early {
            wait();
        }
        let from_a = Self::quads_of_a::<QUADS_A>(a, tid, row0);
        if is_early {
            wait();
        }
        let from_b = Self::quads_of_b::<QUADS_B>(b, tid, col0);
        let mut acc = Self::ZERO;
        // SAFETY: each thread writes its own elements of the slabs, which are read between the first two barriers, and its
        // own sums in its group's array. All threads reach the barriers.
        unsafe {
            Self::store_a(sums, a, tid, Self::PAD, &from_a);
            Self::store_b(slabs.at_b.cast_mut(), b, tid, Self::PAD, &from_b);
            thread::sync_threads_aligned();
            Self::add_all(&mut acc, &slabs, tid);
            thread::sync_threads_aligned();
            Self::store(&acc, sums.add(tid / Self::GROUP * (BM * BN)), &slabs, tid);
            thread::sync_threads_aligned();
            for i in 0..QUADS {
                let [row, col] = Self::place_of(tid, i);
                write(i, row0 + row, col0 + col, Self::sum_groups(shared, tid + i * Self::THREADS));
            }
        }
    }

    /// Like [`Self::add`] for all terms, of which the last may be zeros: no load waits for a branch, and some are in flight
    /// while the thread multiplies.
    ///
    /// # Safety
    /// Same as for [`Self::add`].
    #[inline(always)]
    unsafe fn add_all(acc: &mut [[f32; TN]; TM], slabs: &Slabs, tid: usize) {
        const AT_ONCE: usize = 2;
        const { assert!((BK / 4).is_multiple_of(GROUPS * AT_ONCE)) };
        let place = Self::place(slabs.a, tid);
        let (mut done, group) = (0, tid / Self::GROUP);
        while done < BK / 4 / GROUPS {
            // SAFETY: the terms lie in the slabs.
            let mut add = |done: usize| unsafe { Self::add_quad(acc, slabs, place, group + done * GROUPS) };
            // Written out: the compiler does not unroll a loop of two.
            add(done);
            add(done + 1);
            done = opaque(done + AT_ONCE);
        }
    }

    /// Returns the row and column in the tile of a thread's quad number `i`.
    #[inline(always)]
    pub fn place_of(tid: usize, i: usize) -> [usize; 2] {
        let quad = tid + i * Self::THREADS;
        [quad / (BN / 4), quad % (BN / 4) * 4]
    }

    /// Like [`Self::load_a`] from the first term on, with loads that do not wait for each other.
    #[inline(always)]
    fn quads_of_a<const QUADS: usize>(a: OperandA, tid: usize, row0: usize) -> [f32x4; QUADS] {
        let quad = |i: usize| tid + i * Self::THREADS;
        match a {
            OperandA::RowMajor(a) => a.quads(|i| (row0 + quad(i) / (BK / 4), quad(i) % (BK / 4) * 4)),
            OperandA::Transposed(a) => a.quads(|i| (quad(i) / (BM / 4), row0 + quad(i) % (BM / 4) * 4)),
        }
    }

    /// Like [`Self::load_b`], with loads that do not wait for each other.
    #[inline(always)]
    fn quads_of_b<const QUADS: usize>(b: OperandB, tid: usize, col0: usize) -> [f32x4; QUADS] {
        let quad = |i: usize| tid + i * Self::THREADS;
        match b {
            OperandB::RowMajor(b) => b.quads(|i| (quad(i) / (BN / 4), col0 + quad(i) % (BN / 4) * 4)),
            OperandB::Transposed(b) => b.quads(|i| (col0 + quad(i) % BN, quad(i) / BN * 4)),
        }
    }
}
