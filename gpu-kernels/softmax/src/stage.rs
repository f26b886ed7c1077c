//! The shared memory of blocks that hold a row there, and how they exchange a value each.

use cuda_std::barrier::Barrier;
use cuda_std::mem::u32x4;
use cuda_std::{cluster, thread};

use super::row::Part;

/// Pieces that a part is copied in.
const PIECES: usize = 4;

/// The largest number of blocks of a cluster.
const MOST_BLOCKS: usize = 16;

/// Returns the vectors of a piece of a part of `part_len` vectors. `BLOCK` threads copy and reduce a piece; each of them
/// takes `AT_ONCE` vectors at a time.
#[inline(always)]
pub fn piece_len<const BLOCK: usize, const AT_ONCE: usize>(part_len: usize) -> usize {
    part_len.div_ceil(PIECES).max(1).next_multiple_of(BLOCK * AT_ONCE)
}

/// Quads of shared memory for the barriers: one per piece, and one for the values.
const BARRIER_QUADS: usize = 4;

/// Quads of shared memory before the rows: the barriers, and one from each block.
const HEAD_QUADS: usize = BARRIER_QUADS + MOST_BLOCKS;

/// Returns the dynamic shared memory of a block that holds one of `blocks` parts of a row of `vectors` vectors, in each of
/// `matrices` matrices.
#[cfg(not(target_arch = "nvptx64"))]
pub const fn shared_bytes(vectors: usize, blocks: u32, matrices: u32) -> usize {
    16 * (HEAD_QUADS + matrices as usize * super::row::most_vectors(vectors, blocks))
}

/// The memory through which each block of a cluster sends a `V` to each of the others.
#[derive(Clone, Copy)]
pub struct Exchange<V> {
    /// The barrier at which the other blocks' values arrive.
    arrived: *mut Barrier,
    /// `[MOST_BLOCKS]`: the values of the cluster's blocks.
    values: *mut V,
    part: Part,
}

impl<V: Copy> Exchange<V> {
    /// Its size, in values of 8 bytes.
    pub const LEN: usize = 1 + MOST_BLOCKS;

    /// Initialises the exchange of a cluster of several blocks in the block's own memory: the barrier, then the values.
    ///
    /// # Safety
    /// All threads of the cluster call this, once, and then [`Self::swap`]. `shared` has [`Self::LEN`] values of 8 bytes.
    #[inline(always)]
    pub unsafe fn new(shared: *mut V, part: Part) -> Self {
        const { assert!(size_of::<V>() == size_of::<Barrier>()) };
        let exchange = Self { arrived: shared.cast(), values: shared.wrapping_add(1), part };
        // SAFETY: the caller's memory. All blocks initialise it before a barrier of the cluster: all threads arrive at it
        // here and wait in `swap`.
        unsafe {
            if thread::thread_idx_x() == 0 {
                Barrier::init(exchange.arrived, 1);
                Barrier::fence_init();
                exchange.expect();
            }
            cluster::arrive_relaxed();
        }
        exchange
    }

    /// Announces how many bytes will arrive.
    ///
    /// # Safety
    /// One thread calls this, once, after it has initialised the barrier.
    #[inline(always)]
    unsafe fn expect(&self) {
        // SAFETY: the caller's contract.
        unsafe { Barrier::arrive_expect_tx(self.arrived, size_of::<V>() as u32 * self.part.parts) };
    }

    /// Returns the value of block `tid % 16`, or `none` if the cluster has no such block. No thread waits for all threads of
    /// the cluster.
    ///
    /// # Safety
    /// All threads of the cluster call this, once; all threads of a block pass the same value.
    #[inline(always)]
    pub unsafe fn swap(&self, of_block: V, none: V) -> V {
        let (tid, Part { rank, parts }) = (thread::thread_idx_x(), self.part);
        // SAFETY: the wait ensures that the other blocks have initialised their barriers, and no block exits before it has
        // all values. Each block writes its own element in every block.
        unsafe {
            cluster::wait();
            if tid < parts {
                cluster::store_async(self.values.add(rank as usize), of_block, self.arrived, tid);
            }
            Barrier::wait_parity_cluster(self.arrived, 0);
            let block = tid % MOST_BLOCKS as u32;
            if block < parts { *self.values.add(block as usize) } else { none }
        }
    }
}

/// A block's shared memory; the blocks of a cluster send each other a `V`.
#[derive(Clone, Copy)]
pub struct Stage<V> {
    /// `[PIECES]`: the barriers at which the pieces arrive.
    pub pieces: *mut Barrier,
    /// Where the blocks of a cluster of several exchange a value.
    pub others: Exchange<V>,
    /// The vectors of the block's part, one matrix after the other.
    pub vectors: *mut u32x4,
}

impl<V: Copy> Stage<V> {
    /// Initialises the barriers, those of the pieces for `matrices` arrivals each, and arrives at the cluster's barrier.
    ///
    /// # Safety
    /// All threads of the cluster call this, once. `dynamic` has [`shared_bytes`]; a `V` is 4, 8 or 16 bytes, not padded.
    #[inline(always)]
    pub unsafe fn new(dynamic: *mut u32x4, part: Part, matrices: u32) -> Self {
        const { assert!(size_of::<V>() <= 16) };
        let pieces = dynamic.cast::<Barrier>();
        let values = dynamic.wrapping_add(BARRIER_QUADS).cast();
        let others = Exchange { arrived: pieces.wrapping_add(PIECES), values, part };
        // SAFETY: the caller's memory. The barriers are initialised before a barrier of the block, and by all blocks before
        // one of the cluster: all threads arrive at that here and wait for it in `swap`.
        unsafe {
            if thread::thread_idx_x() == 0 {
                for i in 0..PIECES {
                    Barrier::init(pieces.add(i), matrices);
                }
                Barrier::init(others.arrived, 1);
                Barrier::fence_init();
                if part.parts > 1 {
                    others.expect();
                }
            }
            thread::sync_threads_aligned();
            if part.parts > 1 {
                cluster::arrive_relaxed();
            }
        }
        Self { pieces, others, vectors: dynamic.wrapping_add(HEAD_QUADS) }
    }

    /// Calls `reduce` with the first vector and the length of each piece of a part of `len` vectors, once it has arrived.
    ///
    /// # Safety
    /// `Row::fetch` has begun to copy the part, in pieces of `piece` vectors.
    #[inline(always)]
    pub unsafe fn for_each_piece(&self, len: usize, piece: usize, mut reduce: impl FnMut(usize, usize)) {
        for i in 0..PIECES {
            let first = i * piece;
            if first >= len {
                break;
            }
            // SAFETY: the barrier of a piece; its first phase is for its copies.
            unsafe { Barrier::wait_parity(self.pieces.add(i), 0) };
            reduce(first, (len - first).min(piece));
        }
    }
}
