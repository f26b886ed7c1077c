//! The sums of a row that the blocks of a cluster share.

use cuda_std::barrier::Barrier;
use cuda_std::mem::f32x2;
use cuda_std::{cluster, shared_array, thread};

use super::row::lanes_sums;

/// The largest number of blocks of a cluster.
pub(super) const MOST_BLOCKS: usize = 16;

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
        // SAFETY: the caller's promise.
        unsafe { self.send_of_warp(turn, lanes_sums::<32, 2>(x)) };
    }

    /// Sends a pair of the warp to all blocks.
    ///
    /// # Safety
    /// Same as for [`Self::send`].
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub unsafe fn send_of_warp(self, turn: usize, [a, b]: [f32; 2]) {
        let (tid, warps) = (thread::thread_idx_x(), thread::block_dim_x() / 32);
        // SAFETY: a warp writes its own element in each block. All have read what was there: each warp read
        // it before it sent the sums in between, which this one has received.
        unsafe {
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
        // SAFETY: the caller's promise.
        unsafe {
            let of_warps = self.wait(turn);
            self.fold(of_warps, |_, pair| pair)
        }
    }

    /// Waits for the pairs of all warps. Returns where they are.
    ///
    /// # Safety
    /// Same as for [`Self::receive`].
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub unsafe fn wait(self, turn: usize) -> *const f32x2 {
        // SAFETY: the barrier's phase ends when the sums of all warps have arrived.
        unsafe {
            Barrier::wait_parity_cluster(self.arrived.add(turn % 2), turn as u32 / 2 % 2);
            if thread::thread_idx_x() == 0 {
                self.expect(turn + 2);
            }
            self.of_warps.add(turn % 2 * Self::EACH)
        }
    }

    /// Adds up what `f` returns for each warp of the cluster and its pair, in a fixed order. All threads get the result.
    ///
    /// # Safety
    /// All threads of the warp call this. [`wait`](Self::wait) has returned `of_warps`.
    #[inline(always)]
    pub unsafe fn fold(self, of_warps: *const f32x2, f: impl Fn(u32, [f32; 2]) -> [f32; 2]) -> [f32; 2] {
        let (lane, count) = (thread::thread_idx_x() % 32, Self::warps());
        let mut sums = [0.0; 2];
        for i in 0..Self::EACH as u32 / 32 {
            let warp = 32 * i + lane;
            if warp < count {
                // SAFETY: the warp's pair has arrived.
                let f32x2 { x, y } = unsafe { *of_warps.add(warp as usize) };
                let [a, b] = f(warp, [x, y]);
                sums = [sums[0] + a, sums[1] + b];
            }
        }
        // SAFETY: all lanes execute this.
        unsafe { lanes_sums::<32, 2>(sums) }
    }
}
