//! A matrix multiplication in tiles, one block of threads per tile: `sum over k of a[m][k] * b[k][n]`.
//!
//! The simple version has one thread per (m, n). Here
//!
//! 1. a block computes `BM` x `BN` outputs, each thread `TM` x `TN` of them in registers, so that a value read from shared
//!    memory serves `TM` or `TN` multiply-adds;
//! 2. the block walks along k in slabs of `BK`; the next slab is in flight from global memory to registers while the block
//!    multiplies this one;
//! 3. `GROUPS` groups of threads share the terms of a slab, because the few tiles of a small result would leave most of a
//!    multiprocessor idle; at the end their sums are added, in order;
//! 4. with `CLUSTER` the blocks of a cluster share k in the same way, and each finishes a part of the tile's outputs.
//!
//! Edges are padded with zeros in shared memory, so the multiplication itself has no edges. Every sum has a fixed order.

use cuda_std::mem::f32x4;
use cuda_std::{GpuFloat as _, cluster, thread};

use super::matrix::{OperandA, OperandB};
use super::slab::{Slabs, Terms, pitch, slab_a};

mod once;

/// A tile of `BM` x `BN` outputs; see [the module](self).
#[derive(Clone, Copy)]
pub struct Tile<
    const BM: usize,
    const BN: usize,
    const TM: usize,
    const TN: usize,
    const BK: usize,
    const GROUPS: usize,
>;

impl<const BM: usize, const BN: usize, const TM: usize, const TN: usize, const BK: usize, const GROUPS: usize>
    Tile<BM, BN, TM, TN, BK, GROUPS>
{
    /// Threads that share the outputs.
    const GROUP: usize = (BM / TM) * (BN / TN);
    /// Threads of the block.
    const THREADS: usize = Self::GROUP * GROUPS;

    /// Computes the tile with these numbers down and across the result. Calls `write(row, col, sums)` for the sums of up to
    /// four neighbouring columns: once for each output in the tile, in one thread. `T` is this type, or another with groups
    /// of the same size.
    ///
    /// # Safety
    /// All threads of the block (of the cluster, with `CLUSTER`), which is one-dimensional, call this with the same
    /// arguments. `shared` belongs to the block, with [`shared_vectors`](super::slab::shared_vectors) vectors. The operands
    /// have the same k.
    #[inline(always)]
    pub unsafe fn product<T: Terms, const QUADS_A: usize, const QUADS_B: usize, const CLUSTER: bool>(
        shared: *mut f32x4,
        [tile_row, tile_col]: [usize; 2],
        a: OperandA,
        b: OperandB,
        mut write: impl FnMut(usize, usize, &[f32]),
    ) {
        const { assert!(QUADS_A * 4 * Self::THREADS == BM * BK && QUADS_B * 4 * Self::THREADS == BK * BN) };
        const { assert!(TM.is_multiple_of(4) && TN.is_multiple_of(4) && BK.is_multiple_of(4 * GROUPS)) };
        let (rank, blocks) = match CLUSTER {
            true => (cluster::block_rank() as usize, cluster::num_blocks() as usize),
            false => (0, 1),
        };
        let (row0, col0) = (tile_row * BM, tile_col * BN);
        let (rows, cols) = (a.rows() + usize::from(a.has_ones()), b.cols());
        let mine = b.depth().div_ceil(blocks).next_multiple_of(4);
        let (start, end) = (rank * mine, (rank + 1) * mine);
        let (a, b) = (a.of_depth(start, end), b.of_depth(start, end));
        let sums = shared.cast::<f32>();
        let slabs = Self::slabs::<T>(sums, a, b);
        // SAFETY: all threads of the block execute this with the same operands.
        let acc = unsafe { Self::multiply::<T, QUADS_A, QUADS_B>(sums, [row0, col0], &slabs) };

        let tid = thread::thread_idx_x() as usize;
        // SAFETY: the barrier at the end of `multiply` ensures that the slabs are no longer read. Each group has its own
        // array of sums, and each thread its part of it. All threads reach the barriers.
        unsafe {
            T::store(&acc, sums.add(tid / Self::GROUP * (BM * BN)), &slabs, tid);
            thread::sync_threads_aligned();
            if CLUSTER {
                // The groups' sums become the block's, for the other blocks to read.
                let mut quad = tid;
                while quad < BM * BN / 4 {
                    *shared.add(quad) = Self::sum_groups(shared, quad);
                    quad += Self::THREADS;
                }
                cluster::sync();
            }
            let mut quad = rank * Self::THREADS + tid;
            while quad < BM * BN / 4 {
                let sum = match CLUSTER {
                    true => Self::sum_blocks(shared, quad, blocks),
                    false => Self::sum_groups(shared, quad),
                };
                let (row, col) = (row0 + quad / (BN / 4), col0 + quad % (BN / 4) * 4);
                if row < rows && col < cols {
                    let sum = sum.to_array();
                    // The common case has no branch inside, so that all four go at once.
                    if col + 4 <= cols {
                        write(row, col, &sum);
                    } else {
                        (0..4).filter(|j| col + j < cols).for_each(|j| write(row, col + j, &sum[j..=j]));
                    }
                }
                quad += blocks * Self::THREADS;
            }
            if CLUSTER {
                // No block exits while another reads its sums.
                cluster::sync();
            }
        }
    }

    /// Returns the sum over the groups of four neighbouring outputs.
    #[inline(always)]
    unsafe fn sum_groups(shared: *const f32x4, quad: usize) -> f32x4 {
        // SAFETY: each group has an array of sums.
        unsafe {
            let first = *shared.add(quad);
            (1..GROUPS).fold(first, |sum, group| add(sum, *shared.add(group * (BM * BN / 4) + quad)))
        }
    }

    /// Returns the sum over the blocks of a cluster of four neighbouring outputs.
    #[inline(always)]
    unsafe fn sum_blocks(shared: *mut f32x4, quad: usize, blocks: usize) -> f32x4 {
        let of = |block: usize| {
            // SAFETY: all blocks have reached the cluster's barrier after they wrote their sums.
            unsafe { *cluster::map_shared(shared.add(quad), block as u32) }
        };
        (1..blocks).fold(of(0), |sum, block| add(sum, of(block)))
    }

    /// Returns the first row of a thread in its tile, the distance to the next, and its first column.
    ///
    /// A slab along k is read one column at a time, by threads of different rows: neighbouring rows, in different banks. A
    /// slab along m is read in runs: each thread's rows are consecutive.
    #[inline(always)]
    fn place(a: OperandA, tid: usize) -> (usize, usize, usize) {
        let tid = tid % Self::GROUP;
        let (tx, ty) = (tid % (BN / TN), tid / (BN / TN));
        match a {
            OperandA::RowMajor(_) => (ty, BM / TM, tx * TN),
            OperandA::Transposed(_) => (ty * TM, 1, tx * TN),
        }
    }

    /// Returns the slabs in shared memory.
    #[inline(always)]
    fn slabs<T: Terms>(shared: *mut f32, a: OperandA, b: OperandB) -> Slabs {
        let (pitch_m, pitch_k) = match a {
            OperandA::RowMajor(_) => (pitch(BK), 1),
            OperandA::Transposed(_) => (1, BM + T::PAD),
        };
        Slabs { a, b, at_a: shared, pitch_m, pitch_k, at_b: shared.wrapping_add(slab_a(BM, BK, T::PAD)) }
    }

    /// Returns the calling thread's sums over its group's share of k. When it returns, all threads are done with the slabs.
    ///
    /// # Safety
    /// Same as for [`Self::product`].
    #[inline(always)]
    unsafe fn multiply<T: Terms, const QUADS_A: usize, const QUADS_B: usize>(
        shared: *mut f32,
        [row0, col0]: [usize; 2],
        slabs: &Slabs,
    ) -> T::Sums {
        let tid = thread::thread_idx_x() as usize;
        let (a, b) = (slabs.a, slabs.b);
        let depth = b.depth();
        let load =
            |k0| (Self::load_a::<QUADS_A>(a, tid, row0, k0), Self::load_b::<QUADS_B>(b, tid, col0, k0));
        let mut acc = T::ZERO;
        let (mut k0, mut staged) = (0, load(0));
        while k0 < depth {
            // SAFETY: each thread writes its own elements of the slabs, which are read between the two barriers.
            unsafe {
                Self::store_a(shared, a, tid, T::PAD, &staged.0);
                Self::store_b(slabs.at_b.cast_mut(), b, tid, T::PAD, &staged.1);
                thread::sync_threads_aligned();
                if k0 + BK < depth {
                    staged = load(k0 + BK);
                }
                T::add(&mut acc, slabs, tid, (depth - k0).min(BK).div_ceil(4));
                thread::sync_threads_aligned();
            }
            k0 += BK;
        }
        acc
    }

    /// Adds four terms to each sum, of rows of A that run along k.
    #[inline(always)]
    unsafe fn four_along_k(acc: &mut [[f32; TN]; TM], a: *const f32, row_step: usize, b: *const f32) {
        // SAFETY: the four terms and the thread's rows and columns lie in the slabs, each quad at a multiple of 16 bytes.
        unsafe {
            let a: [[f32; 4]; TM] = core::array::from_fn(|i| quad(a.add(i * row_step)));
            for k in 0..4 {
                let b = Self::columns(b.add(k * BN));
                for i in 0..TM {
                    for j in 0..TN {
                        acc[i][j] = a[i][k].mul_add(b[j], acc[i][j]);
                    }
                }
            }
        }
    }

    /// Adds four terms to each sum, of rows of A that are adjacent.
    #[inline(always)]
    unsafe fn four_along_m(acc: &mut [[f32; TN]; TM], a: *const f32, b: *const f32) {
        for k in 0..4 {
            // SAFETY: as above.
            let (a, b): ([f32; TM], _) = unsafe {
                let a = a.add(k * BM);
                (core::array::from_fn(|i| quad(a.add(i / 4 * 4))[i % 4]), Self::columns(b.add(k * BN)))
            };
            for i in 0..TM {
                for j in 0..TN {
                    acc[i][j] = a[i].mul_add(b[j], acc[i][j]);
                }
            }
        }
    }

    /// Returns the thread's elements of a row of B.
    #[inline(always)]
    unsafe fn columns(b: *const f32) -> [f32; TN] {
        // SAFETY: the row has them, each quad at a multiple of 16 bytes.
        core::array::from_fn(|j| unsafe { quad(b.add(j / 4 * 4))[j % 4] })
    }

    /// Loads this thread's part of a slab of A.
    #[inline(always)]
    fn load_a<const QUADS: usize>(a: OperandA, tid: usize, row0: usize, k0: usize) -> [f32x4; QUADS] {
        core::array::from_fn(|i| {
            let quad = tid + i * Self::THREADS;
            match a {
                OperandA::RowMajor(a) => a.quad(row0 + quad / (BK / 4), k0 + quad % (BK / 4) * 4),
                OperandA::Transposed(a) => a.quad(k0 + quad / (BM / 4), row0 + quad % (BM / 4) * 4),
            }
        })
    }

    /// Loads this thread's part of a slab of B.
    #[inline(always)]
    fn load_b<const QUADS: usize>(b: OperandB, tid: usize, col0: usize, k0: usize) -> [f32x4; QUADS] {
        core::array::from_fn(|i| {
            let quad = tid + i * Self::THREADS;
            match b {
                OperandB::RowMajor(b) => b.quad(k0 + quad / (BN / 4), col0 + quad % (BN / 4) * 4),
                // Neighbouring threads take neighbouring columns of the slab, so their stores have no bank conflicts.
                OperandB::Transposed(b) => b.quad(col0 + quad % BN, k0 + quad / BN * 4),
            }
        })
    }

    /// Writes the result of [`Self::load_a`].
    #[inline(always)]
    unsafe fn store_a(slab: *mut f32, a: OperandA, tid: usize, pad: usize, quads: &[f32x4]) {
        for (i, &values) in quads.iter().enumerate() {
            let quad = tid + i * Self::THREADS;
            let at = match a {
                OperandA::RowMajor(_) => quad / (BK / 4) * pitch(BK) + quad % (BK / 4) * 4,
                OperandA::Transposed(_) => quad / (BM / 4) * (BM + pad) + quad % (BM / 4) * 4,
            };
            // SAFETY: the offset lies in the slab, which has BM rows of the pitch, or BK rows of BM and the padding; pitch
            // and column are multiples of four.
            unsafe { *slab.add(at).cast() = values };
        }
    }

    /// Writes the result of [`Self::load_b`]: `[BK, BN]` in both cases, with the padding after each row.
    #[inline(always)]
    unsafe fn store_b(slab: *mut f32, b: OperandB, tid: usize, pad: usize, quads: &[f32x4]) {
        for (i, &values) in quads.iter().enumerate() {
            let quad = tid + i * Self::THREADS;
            // SAFETY: the offsets lie in the slab; n < BN and k + 3 < BK.
            unsafe {
                match b {
                    OperandB::RowMajor(_) => {
                        *slab.add(quad / (BN / 4) * (BN + pad) + quad % (BN / 4) * 4).cast() = values
                    }
                    OperandB::Transposed(_) => {
                        let column = slab.add(quad / BN * 4 * (BN + pad) + quad % BN);
                        values
                            .to_array()
                            .into_iter()
                            .enumerate()
                            .for_each(|(k, x)| *column.add(k * (BN + pad)) = x);
                    }
                }
            }
        }
    }
}

impl<const BM: usize, const BN: usize, const TM: usize, const TN: usize, const BK: usize, const GROUPS: usize>
    Tile<BM, BN, TM, TN, BK, GROUPS>
{
    /// Adds four terms, number `quad` of the slabs, to the sums of the outputs of [`Self::place`].
    ///
    /// # Safety
    /// The terms lie in the slabs.
    #[inline(always)]
    unsafe fn add_quad(
        acc: &mut [[f32; TN]; TM],
        slabs: &Slabs,
        (row, row_step, col): (usize, usize, usize),
        quad: usize,
    ) {
        // SAFETY: the caller's contract.
        unsafe {
            let from_a = slabs.at_a.add(row * slabs.pitch_m + 4 * quad * slabs.pitch_k);
            let from_b = slabs.at_b.add(4 * quad * BN + col);
            match slabs.a {
                OperandA::RowMajor(_) => Self::four_along_k(acc, from_a, row_step * slabs.pitch_m, from_b),
                OperandA::Transposed(_) => Self::four_along_m(acc, from_a, from_b),
            }
        }
    }
}

/// Each thread multiplies for its own outputs.
impl<const BM: usize, const BN: usize, const TM: usize, const TN: usize, const BK: usize, const GROUPS: usize>
    Terms for Tile<BM, BN, TM, TN, BK, GROUPS>
{
    type Sums = [[f32; TN]; TM];
    const ZERO: Self::Sums = [[0.0; TN]; TM];
    const PAD: usize = 0;

    #[inline(always)]
    unsafe fn add(acc: &mut Self::Sums, slabs: &Slabs, tid: usize, quads: usize) {
        let place = Self::place(slabs.a, tid);
        let mut quad = tid / Self::GROUP;
        while quad < quads {
            // SAFETY: the terms lie in the slabs.
            unsafe { Self::add_quad(acc, slabs, place, quad) };
            quad += GROUPS;
        }
    }

    #[inline(always)]
    unsafe fn store(acc: &Self::Sums, to: *mut f32, slabs: &Slabs, tid: usize) {
        let (row, row_step, col) = Self::place(slabs.a, tid);
        for i in 0..TM {
            for j in (0..TN).step_by(4) {
                let [x, y, z, w] = core::array::from_fn(|n| acc[i][j + n]);
                // SAFETY: the quad is one of the thread's outputs.
                unsafe { *to.add((row + i * row_step) * BN + col + j).cast() = f32x4::new(x, y, z, w) };
            }
        }
    }
}

/// Loads four neighbours from shared memory.
///
/// # Safety
/// They start at a multiple of 16 bytes.
#[inline(always)]
unsafe fn quad(ptr: *const f32) -> [f32; 4] {
    // SAFETY: `ptr` is aligned, and points to four elements.
    unsafe { *ptr.cast::<f32x4>() }.to_array()
}

#[inline(always)]
fn add(a: f32x4, b: f32x4) -> f32x4 {
    f32x4::new(a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w)
}
