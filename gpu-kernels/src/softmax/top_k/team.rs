//! The block, or the blocks of a cluster, that hold a row in shared memory.

use cuda_std::mem::{f32x2, u32x4};
use cuda_std::{cluster, thread};

use super::elements::{Elements, Summary};
use super::select::{Gathered, Scratch, select};
use crate::element::Element;
use crate::softmax::row::{NO_PAIR, Part, Row, exchange, merge};
use crate::softmax::stage::{Stage, piece_len};

/// A block's part of a row in its shared memory, and what the cluster knows of the row.
pub struct Team<T, const N: usize, const BLOCK: usize> {
    pub elements: Elements<T, N, BLOCK, 0>,
    pub part: Part,
    /// (max, sum) of the row.
    pub pair: f32x2,
    /// The thread's largest key.
    pub best: u64,
}

impl<T: Element<N>, const N: usize, const BLOCK: usize> Team<T, N, BLOCK> {
    /// Fetches the block's part of a row, which `row` gives, and reduces it.
    ///
    /// # Safety
    /// All threads of the cluster come here, once. `dynamic` has what a [`Stage`] needs, `shared` an element for each warp.
    #[inline(always)]
    pub unsafe fn fetch(
        dynamic: *mut u32x4,
        shared: *mut f32x2,
        scale: f32,
        row: impl FnOnce(Part) -> Row<T, T, BLOCK>,
    ) -> Self {
        let part = Part { rank: cluster::block_rank(), parts: cluster::num_blocks() };
        // SAFETY: the caller's memory. All threads come to all that follows.
        unsafe {
            let stage = Stage::<f32x2>::new(dynamic, part, 1);
            let row = row(part);
            let piece = piece_len::<BLOCK, 1>(row.part_len());
            Row::fetch::<N, 1>([row], [stage.vectors], piece, stage.pieces);
            let elements = Elements::new(row, stage.vectors);
            let mut mine = Summary::NONE;
            elements.for_edges(&mut |place, x, len| mine.add(place, x, len, scale));
            let tid = thread::thread_idx_x() as usize;
            stage.for_each_piece(row.part_len(), piece, |first, len| {
                // Pieces are whole rounds of the block's threads.
                for i in 0..len.div_ceil(BLOCK) {
                    let at = first + i * BLOCK;
                    if let Some(place) = row.vector::<N>(at / BLOCK) {
                        mine.add(place, T::unpack(*stage.vectors.add(at + tid)), N, scale);
                    }
                }
            });
            let mut pair = exchange::<BLOCK>(shared, merge::<32>(mine.pair, scale), scale);
            if part.parts > 1 {
                pair = merge::<16>(stage.others.swap(pair, NO_PAIR), scale);
            }
            Self { elements, part, pair, best: mine.best }
        }
    }

    /// The `k` largest keys of the row to `scratch.sorted` of the first block; whether this is that block.
    ///
    /// # Safety
    /// All threads of the cluster come here, once, with the same `k`, from 1 to [`super::MOST`]. The scratch is that of a
    /// cluster, at the same place in each block.
    #[inline(always)]
    pub unsafe fn select(&self, scratch: Scratch, k: usize) -> bool {
        let (tid, Part { rank, parts }) = (thread::thread_idx_x() as usize, self.part);
        // SAFETY: the caller's scratch. The other blocks have started, since they have exchanged their sums; each writes keys of its own
        // to the first one, which reads them after the barrier, and ends after all have.
        unsafe {
            select::<BLOCK>(scratch, &self.elements, self.best, self.elements.len(), k);
            if parts == 1 {
                return true;
            }
            let keys = cluster::map_shared(scratch.gathered, 0);
            for place in (tid..k).step_by(BLOCK) {
                *keys.add(rank as usize * k + place) = *scratch.sorted.add(place);
            }
            cluster::sync();
            if rank > 0 {
                return false;
            }
            let gathered = Gathered::<BLOCK> { keys: scratch.gathered, len: parts as usize * k };
            select::<BLOCK>(scratch, &gathered, gathered.best(), gathered.len, k);
            true
        }
    }
}
