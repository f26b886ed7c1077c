//! Multiplications with few rows, by `wgmma` (compute capability 9.0, `compute_90a`).
//!
//! Their time is the time to read B. `wgmma` has 64 rows, so the roles are swapped here: the rows of a tile are 128 columns
//! of B, and its columns are the rows of A; a multiplication takes as few as 8 of them. Tensor copies fill a ring of stages,
//! and two blocks on a multiprocessor keep 200 KiB in flight, which hides the latency of memory.
//!
//! With few tiles the blocks of a cluster split the terms. Each block adds up its share of the sums, which it reads from the
//! shared memory of the others, in the order of the splits. A second launch would take a third of the time.
//!
//! The instances are the tuning table: rows of A, and stages.
//@ ptx(matmul_bf16_kk_16x128w, compute_90a): wgmma.mma_async.sync.aligned.m64n16k16 == 4, barrier.cluster.arrive >= 2, .local == 0
//@ ptx(matmul_f16_kn_64x128w, compute_90a): wgmma.mma_async.sync.aligned.m64n64k16 == 4, .local == 0

use cuda_std::barrier::Barrier;
use cuda_std::half::{bf16, f16};
use cuda_std::mem::{f32x4, load_shared};
use cuda_std::shared::dynamic_shared_mem_aligned;
use cuda_std::wgmma::{self, Accumulator, Panel, Registers};
use cuda_std::{cluster, kernel, tensor, thread};

use super::super::args::{MatmulArgs, begin};
use super::super::epilogue::Columns;
#[cfg(not(target_arch = "nvptx64"))]
use super::FewRowsShape;
use super::warpgroup_operand::{WarpgroupOperand, is_in_registers};
use super::warpgroup_work::{PANEL_ROW, ROWS, copy, terms};
use common_kernels::element::Output;
use common_kernels::ring::{Ring, WARPGROUP};

/// Threads of a block: two warpgroups that multiply, and a warp that copies.
pub(super) const THREADS: u32 = 2 * WARPGROUP + 32;
const _: () = assert!(THREADS == 288);
/// `f32` from the sums of one row of A to those of the next: the four threads of a warp with different rows write to
/// different banks.
const PITCH: usize = ROWS + 4;

/// Returns the bytes of the stages and their barriers, after the first multiple of 1024. At the end, `sums` partial sums of
/// each result replace the stages.
pub(super) const fn shared_bytes(rows: usize, stages: usize, sums: usize) -> usize {
    assert!(sums * rows * PITCH * 4 <= stages * (ROWS + rows) * PANEL_ROW, "the sums fit the stages");
    stages * ((ROWS + rows) * PANEL_ROW + 2 * size_of::<Barrier>())
}

/// Multiplies the arguments' matrices, through the maps of A and B. A map has the rows of the stored matrix, and the batch
/// as its third dimension. `facts` states its boxes. With `args.folded`, A is the copy by
/// [`matmul_fold`](fn@super::align::matmul_fold), a row of the map of B has a group of rows, and each block takes one of them from
/// all groups: there is a split for each row of a group.
///
/// Launched with one cluster of `args.splits` blocks, at most 8, per tile along x, and per matrix of the batch along z.
///
/// # Safety
/// The launch is as described. The matrices match their shapes, pitches, batches and maps, and no other code uses `out`. The
/// flags match the addresses and pitches.
#[kernel(
    with(REGISTERS = A_ROWS / 2),
    max_threads = 288,
    min_blocks = 2,
    arch = "90a",
    args,
    facts: FewRowsShape = FewRowsShape::new(A_ROWS, B_K, BYTES, shared_bytes(A_ROWS, STAGES, 1)),
    instances(
        for T in [bf16, f16], BYTES = 2 {
            matmul_{T}_kk_16x128w = <1, 16, 6>;
            matmul_{T}_kn_16x128w = <0, 16, 6>;
            matmul_{T}_kk_32x128w = <1, 32, 5>;
            matmul_{T}_kn_32x128w = <0, 32, 5>;
            matmul_{T}_kk_64x128w = <1, 64, 4>;
            matmul_{T}_kn_64x128w = <0, 64, 4>;
        }
        T = f32, BYTES = 4 {
            matmul_f32_kk_16x128w = <1, 16, 6>;
            matmul_f32_kn_16x128w = <0, 16, 6>;
            matmul_f32_kk_32x128w = <1, 32, 5>;
            matmul_f32_kn_32x128w = <0, 32, 5>;
            matmul_f32_kk_64x128w = <1, 64, 4>;
            matmul_f32_kn_64x128w = <0, 64, 4>;
        }
    ),
)]
pub unsafe fn matmul_few_rows<
    T: WarpgroupOperand,
    const B_K: usize,
    const A_ROWS: usize,
    const STAGES: usize,
    const BYTES: usize,
    const REGISTERS: usize,
>(
    args: MatmulArgs<T>,
) where
    [f32; REGISTERS]: Registers,
{
    let tid = thread::thread_idx_x();
    let consumer = tid / WARPGROUP;
    // SAFETY: all threads of the block create the part. Copies to a stage wait for its `empty`, multiplications for its
    // `full`. All threads of a warpgroup reach its collectives. The stages become sums after all threads are done with them.
    unsafe {
        let part = Part::<STAGES>::new::<T>(&args, A_ROWS);
        let mut sums = Accumulator::<REGISTERS>::ZERO;
        if consumer == 2 {
            part.copy_stages::<T, B_K>(&args);
        } else {
            let mut ring = part.ring;
            let mut pending = sums.start();
            let (mut before, mut k) = (0, part.terms[0]);
            while k < part.terms[1] {
                ring.wait_full();
                T::multiply::<B_K, 1, A_ROWS, REGISTERS>(
                    &mut pending,
                    true,
                    part.b(ring.stage()),
                    part.a(ring.stage()),
                    64 * consumer,
                );
                wgmma::commit();
                if const { is_in_registers(BYTES, 1, B_K) } {
                    wgmma::wait::<0>();
                    ring.release();
                } else {
                    wgmma::wait::<1>();
                    if k > part.terms[0] {
                        ring.release_stage(before);
                    }
                    before = ring.stage();
                }
                ring.advance();
                k += const { terms(BYTES) as u32 };
            }
            sums = pending.finish::<0>();
        }
        thread::sync_threads_aligned();
        if consumer < 2 {
            sums.for_each(|r, c, sum| {
                *part.sum(0, c, (64 * consumer + T::row::<B_K, 1>(r as u32)) as usize) = sum;
            });
        }
        part.add_up::<T>(&args);
    }
}

/// Rows of B in a group: as many as 16 bytes have elements.
pub(super) const fn group<T>() -> u32 {
    16 / size_of::<T>() as u32
}

/// Returns the number of columns before the first one of the tile in what a block copies of folded rows: copies start at
/// multiples of 16 bytes.
#[inline(always)]
fn shift<T>(args: &MatmulArgs<T>, block: u32) -> u32 {
    block * args.b_pitch as u32 % const { group::<T>() }
}

/// A block's part of a tile: some of its terms, and their stages.
pub(super) struct Part<const STAGES: usize> {
    shared: *mut u8,
    /// The ring of the stages, at the first one.
    pub ring: Ring<STAGES>,
    /// The first term, and the end.
    pub terms: [u32; 2],
    a_rows: usize,
    /// Columns of a tile.
    cols: u32,
    /// The first row and column.
    at: [u32; 2],
    /// Where B starts in its map.
    of_b: [u32; 2],
    batch: u32,
    rank: u32,
    splits: u32,
}

impl<const STAGES: usize> Part<STAGES> {
    /// Returns the calling block's part, with `a_rows` rows of A. Initialises its barriers.
    ///
    /// # Safety
    /// All threads of a block of such a kernel call this once, with the kernel's arguments.
    #[inline(always)]
    pub unsafe fn new<T>(args: &MatmulArgs<T>, a_rows: usize) -> Self {
        let shared = dynamic_shared_mem_aligned::<Panel<u16, 8>>().cast::<u8>();
        let barriers = shared.wrapping_add(STAGES * (ROWS + a_rows) * PANEL_ROW).cast::<Barrier>();
        let depth = const { terms(size_of::<T>()) as u32 };
        let (rank, splits) = (cluster::block_rank(), cluster::num_blocks());
        let (tile, batch) = (thread::block_idx_x() / splits, thread::block_idx_z());
        let down = args.m.div_ceil(a_rows as u32);
        // SAFETY: there is a tile, so there are rows. It keeps a panic out of the kernel.
        unsafe { core::hint::assert_unchecked(down != 0) };
        let is_folded = args.folded > 0;
        let cols = if is_folded { ROWS as u32 - group::<T>() } else { ROWS as u32 };
        let at = [tile % down * a_rows as u32, tile / down * cols];
        let each = if is_folded { args.folded } else { args.k.div_ceil(depth).div_ceil(splits) * depth };
        let k = if is_folded { args.folded * splits } else { args.k };
        let first = (rank * each).min(k);
        let of_b = match is_folded {
            true => [at[1] + rank * args.b_pitch as u32 - shift(args, rank), 0],
            false => [at[1], first],
        };
        // SAFETY: the barriers are the block's. All threads execute this; one fills the ring, and 8 warps read its stages.
        let ring = unsafe { Ring::init_only(barriers, 8) };
        begin();
        let terms = [first, k.min(first + each)];
        Self { shared, ring, terms, a_rows, cols, at, of_b, batch, rank, splits }
    }

    /// Returns the columns of B in a stage.
    #[inline(always)]
    pub fn b(&self, stage: usize) -> *mut u8 {
        self.shared.wrapping_add(stage * ROWS * PANEL_ROW)
    }

    /// Returns the rows of A in a stage.
    #[inline(always)]
    pub fn a(&self, stage: usize) -> *mut u8 {
        self.shared.wrapping_add((STAGES * ROWS + stage * self.a_rows) * PANEL_ROW)
    }

    /// Fills stage after stage.
    ///
    /// # Safety
    /// The copying warp, the last of the block, calls this, and all consumers use each stage.
    #[inline(always)]
    pub unsafe fn copy_stages<T, const B_K: usize>(&self, args: &MatmulArgs<T>) {
        if thread::thread_idx_x() != 2 * WARPGROUP {
            return;
        }
        tensor::prefetch(&args.a_map);
        tensor::prefetch(&args.b_map);
        let batch_a = if args.a_batch == 0 { 0 } else { self.batch as i32 };
        let batch_b = if args.b_batch == 0 { 0 } else { self.batch as i32 };
        let bytes = ((ROWS + self.a_rows) * PANEL_ROW) as u32;
        let (row, [col, mut k_of_b]) = (self.at[0], self.of_b);
        let mut ring = self.ring;
        let mut k = self.terms[0];
        while k < self.terms[1] {
            let full = ring.fill(bytes);
            // SAFETY: the stage is empty, and expects the bytes of both operands.
            unsafe {
                copy::<T, B_K>(self.b(ring.stage()), &args.b_map, [col, k_of_b], batch_b, ROWS as u32, full);
                copy::<T, 1>(self.a(ring.stage()), &args.a_map, [row, k], batch_a, 0, full);
            }
            ring.advance();
            k += const { terms(size_of::<T>()) as u32 };
            k_of_b += const { terms(size_of::<T>()) as u32 };
        }
    }

    /// Returns the address of one of several sums of a row of A and a column of B, of which [`add_up`](Self::add_up) adds the first.
    #[inline(always)]
    pub fn sum(&self, which: u32, row: usize, col: usize) -> *mut f32 {
        self.shared.cast::<f32>().wrapping_add((which as usize * self.a_rows + row) * PITCH + col)
    }

    /// Returns the number of rows that the tile has.
    #[inline(always)]
    pub fn rows<T>(&self, args: &MatmulArgs<T>) -> u32 {
        (args.m - self.at[0]).min(self.a_rows as u32)
    }

    /// Adds up the first sums of all blocks, and writes this block's share of the results.
    ///
    /// # Safety
    /// All threads of the cluster call this, after they have written their sums, and return right afterwards.
    #[inline(always)]
    pub unsafe fn add_up<T: Output<4>>(&self, args: &MatmulArgs<T>) {
        let [row, col] = self.at;
        // SAFETY: between the barriers the sums of every block are complete and unchanged; after the second no thread reads
        // another block's. One thread stores each result.
        unsafe {
            if self.splits == 1 {
                thread::sync_threads_aligned();
            } else {
                cluster::sync();
            }
            let rows = self.rows(args) as usize;
            let share = (rows * ROWS / 4).div_ceil(self.splits as usize);
            let mut i = share * self.rank as usize + thread::thread_idx_x() as usize;
            let end = (share * (self.rank as usize + 1)).min(rows * ROWS / 4);
            // A thread's columns are the same in all its rows.
            const { assert!((THREADS as usize).is_multiple_of(ROWS / 4)) };
            let c = i % (ROWS / 4) * 4;
            let columns = Columns::new(args, self.batch, col + c as u32);
            while i < end && c < self.cols as usize {
                let r = i / (ROWS / 4);
                let mut total = [0.0f32; 4];
                for block in 0..self.splits {
                    let c = if args.folded > 0 { c + shift(args, block) as usize } else { c };
                    let sum = self.sum(0, r, c);
                    let four = if self.splits == 1 {
                        load_shared::<f32x4>(sum.cast()).to_array()
                    } else if args.folded > 0 {
                        [0, 1, 2, 3].map(|j| *cluster::map_shared(sum.add(j), block))
                    } else {
                        (*cluster::map_shared(sum.cast::<f32x4>(), block)).to_array()
                    };
                    for j in 0..4 {
                        total[j] += four[j];
                    }
                }
                columns.store(row + r as u32, total);
                i += THREADS as usize;
            }
            // No block exits while another one reads its sums.
            if self.splits > 1 {
                cluster::arrive_relaxed();
                cluster::wait();
            }
        }
    }
}
