//! The sums of a row that the blocks of a cluster share.

use cuda_std::barrier::Barrier;
use cuda_std::mem::f32x2;
use cuda_std::{cluster, shared_array, thread};

use super::row::lanes_sums;

/// The largest number of blocks of a cluster that every GPU with clusters supports.
pub(super) const MOST_BLOCKS: usize = 8;

/// Warps of the largest block of a cluster whose blocks exchange sums.
const MOST_WARPS: usize = 16;

/// The sums of the warps of a cluster, for two rows: blocks work on something else while the sums are on their way.
#[derive(Clone, Copy)]
pub(super) struct Exchange {
    /// Each block has the sums of all warps.
    of_warps: *mut f32x2,
    /// Count the bytes of the sums that have arrived.
    arrived: *mut Barrier,
    turns: usize,
}

impl Exchange {
    /// The sums of a row.
    const EACH: usize = MOST_BLOCKS * MOST_WARPS;

    /// Prepares the exchange of the sums of `turns` rows among several blocks, and arrives at the cluster's barrier.
    ///
    /// # Safety
    /// All threads of the cluster call this once, with the same `turns`, and wait at the cluster's barrier afterwards.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub unsafe fn new(turns: usize) -> Self {
        let of_warps = shared_array![f32x2; 2 * Exchange::EACH].cast();
        let exchange = Self { of_warps, arrived: shared_array![Barrier; 2].cast(), turns };
        // SAFETY: the block's own memory. The cluster's barrier orders this before all uses.
        unsafe {
            if thread::thread_idx_x() == 0 {
                Barrier::init(exchange.arrived, 1);
                Barrier::init(exchange.arrived.add(1), 1);
                Barrier::fence_init();
                exchange.expect(0);
                exchange.expect(1);
            }
            cluster::arrive_relaxed();
        }
        exchange
    }

    /// Announces the sums of a turn, if there is such a turn.
    ///
    /// # Safety
    /// One thread calls this for each turn, after the sums of the turn before the last have arrived.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    unsafe fn expect(self, turn: usize) {
        if turn < self.turns {
            // SAFETY: the barrier's phase before has ended, and only this thread announces the sums of the turn.
            unsafe { Barrier::arrive_expect_tx(self.arrived.add(turn % 2), 8 * Self::warps()) };
        }
    }

    /// Returns the number of warps of the cluster.
    #[inline(always)]
    fn warps() -> u32 {
        cluster::num_blocks() * (thread::block_dim_x() / 32)
    }

    /// Adds up the sums of the warp's threads, and sends them to all blocks.
    ///
    /// # Safety
    /// All threads of the cluster call this for every turn, in order, and [`receive`](Self::receive) the turn before last
    /// first.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub unsafe fn send(self, turn: usize, x: [f32; 2]) {
        let (tid, warps) = (thread::thread_idx_x(), thread::block_dim_x() / 32);
        // SAFETY: a warp writes its own element in each block. All have read what was there: each warp read
        // it before it sent the sums in between, which this one has received.
        unsafe {
            let [a, b] = lanes_sums::<32, 2>(x);
            if tid % 32 < cluster::num_blocks() {
                let at = turn % 2 * Self::EACH + (cluster::block_rank() * warps + tid / 32) as usize;
                let (to, arrived) = (self.of_warps.add(at), self.arrived.add(turn % 2));
                cluster::store_async(to, f32x2::new(a, b), arrived, tid % 32);
            }
        }
    }

    /// Waits for the sums of all warps, and adds them up, in a fixed order. All threads get the result.
    ///
    /// # Safety
    /// All threads of the cluster call this for every turn, after [`send`](Self::send).
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub unsafe fn receive(self, turn: usize) -> [f32; 2] {
        let (tid, count) = (thread::thread_idx_x(), Self::warps());
        let mut sums = [0.0; 2];
        // SAFETY: the barrier's phase ends when the sums of all warps have arrived.
        unsafe {
            Barrier::wait_parity_cluster(self.arrived.add(turn % 2), turn as u32 / 2 % 2);
            if tid == 0 {
                self.expect(turn + 2);
            }
            for i in 0..Self::EACH as u32 / 32 {
                let at = 32 * i + tid % 32;
                if at < count {
                    let of_warp = *self.of_warps.add(turn % 2 * Self::EACH + at as usize);
                    sums = [sums[0] + of_warp.x, sums[1] + of_warp.y];
                }
            }
            lanes_sums::<32, 2>(sums)
        }
    }
}
