//! What the rungs of `wgmma` share: a block's shared memory, its copies, and the multiplications of its stages.

use cuda_std::barrier::Barrier;
use cuda_std::half::bf16;
use cuda_std::wgmma::{Accumulator, FragmentA, Panel, Pending};

use super::ladder::{LadderArgs, SIZE, Tile};
use attention_kernels::panels::{COLS, copy, multiply_columns, multiply_rows};
use common_kernels::ring::{Ring, init_once};

/// Queries of a warpgroup.
pub const QUERIES: usize = 64;
/// Keys of a tile.
pub const KEYS: usize = 128;
/// Accumulators of a thread, of the logits and of the results.
pub const LOGITS: usize = KEYS / 2;
pub const RESULTS: usize = SIZE / 2;
/// Stages of K, and of V.
const STAGES: usize = 2;
/// Bytes of a stage of K or V, and of a warpgroup's queries.
const BYTES: usize = KEYS * 2 * SIZE;
pub const QUERY_BYTES: usize = QUERIES * 2 * SIZE;

/// Rows in the layout that `wgmma` reads: panels of 64 columns.
type Rows<const COUNT: usize> = [Panel<bf16, COUNT>; SIZE / COLS];

/// The shared memory of a block: the queries of its warpgroups, stages of K and V, outgoing results, and barriers.
#[repr(C)]
pub struct Shared<const WARPGROUPS: usize, const OUT: usize = 0> {
    q: [Rows<QUERIES>; WARPGROUPS],
    k: [Rows<KEYS>; STAGES],
    v: [Rows<KEYS>; STAGES],
    pub out: [Rows<QUERIES>; OUT],
    q_barriers: [Barrier; Ring::<1>::BARRIERS],
    k_barriers: [Barrier; Ring::<STAGES>::BARRIERS],
    v_barriers: [Barrier; Ring::<STAGES>::BARRIERS],
}

/// The queries and stages of a block. Stages of K and V are filled in the same order.
#[derive(Clone, Copy)]
pub struct Stages<const WARPGROUPS: usize> {
    q: *mut u8,
    k: *mut u8,
    v: *mut u8,
    pub q_ring: Ring<1>,
    pub k_ring: Ring<STAGES>,
    pub v_ring: Ring<STAGES>,
}

impl<const WARPGROUPS: usize> Stages<WARPGROUPS> {
    /// Initialises the barriers of the block.
    ///
    /// # Safety
    /// All threads of the block call this, with its shared memory. One of them copies to the stages. All threads of each of
    /// the `WARPGROUPS` warpgroups call the other methods together.
    #[inline(always)]
    pub unsafe fn init<const OUT: usize>(shared: *mut Shared<WARPGROUPS, OUT>) -> Self {
        // SAFETY: the barriers are the block's, and all threads execute this.
        unsafe {
            let q_ring = Ring::new((&raw mut (*shared).q_barriers).cast());
            let k_ring = Ring::new((&raw mut (*shared).k_barriers).cast());
            let v_ring = Ring::new((&raw mut (*shared).v_barriers).cast());
            init_once(|| {
                q_ring.init(4 * WARPGROUPS as u32);
                k_ring.init(4 * WARPGROUPS as u32);
                v_ring.init(4 * WARPGROUPS as u32);
            });
            let (q, k) = ((&raw mut (*shared).q).cast(), (&raw mut (*shared).k).cast());
            Self { q, k, v: (&raw mut (*shared).v).cast(), q_ring, k_ring, v_ring }
        }
    }

    /// Starts the copies of the tile's queries, once those before have been read.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub fn copy_queries(&mut self, args: &LadderArgs, tile: Tile) {
        let full = self.q_ring.fill((WARPGROUPS * QUERY_BYTES) as u32);
        for warpgroup in 0..WARPGROUPS {
            let at = [tile.head, tile.query + (warpgroup * QUERIES) as u32, tile.batch];
            // SAFETY: the queries have room in shared memory, and nothing reads or writes it now.
            unsafe {
                copy::<SIZE, QUERIES, QUERIES>(self.q.add(warpgroup * QUERY_BYTES), &args.q_map, at, full)
            };
        }
        self.q_ring.advance();
    }

    /// Starts the copies of tile `step` of the keys and values, once the stages have been read.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub fn copy_keys(&self, args: &LadderArgs, tile: Tile, step: u32) {
        let at = [tile.head, step * KEYS as u32, tile.batch];
        // SAFETY: the stages lie in shared memory, and are empty once `fill` returns.
        unsafe {
            let full = self.k_ring.fill(BYTES as u32);
            copy::<SIZE, KEYS, KEYS>(self.k.add(self.k_ring.stage() * BYTES), &args.k_map, at, full);
            let full = self.v_ring.fill(BYTES as u32);
            copy::<SIZE, KEYS, KEYS>(self.v.add(self.v_ring.stage() * BYTES), &args.v_map, at, full);
        }
    }

    /// Goes to the next stages of K and V.
    #[inline(always)]
    pub fn advance(&mut self) {
        self.k_ring.advance();
        self.v_ring.advance();
    }

    /// Starts the logits of a warpgroup's queries and the keys in the stage of K, in these registers.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub fn start_logits(&self, registers: Accumulator<LOGITS>, warpgroup: u32) -> Pending<LOGITS> {
        // SAFETY: all threads of the warpgroup execute this. The rows are complete until all warps have released them.
        unsafe {
            let q = self.q.add(warpgroup as usize * QUERY_BYTES);
            let k = self.k.add(self.k_ring.stage() * BYTES);
            multiply_rows::<bf16, SIZE, KEYS, LOGITS>(registers, q, k)
        }
    }

    /// Starts to add the weighted values in the stage of V.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub fn start_values(
        &self,
        out: Accumulator<RESULTS>,
        weights: &[FragmentA<bf16>; KEYS / 16],
    ) -> Pending<RESULTS> {
        // SAFETY: all threads of the warpgroup execute this. The rows are complete until all warps have released them.
        unsafe {
            let v = self.v.add(self.v_ring.stage() * BYTES);
            multiply_columns::<bf16, SIZE, KEYS, RESULTS, { KEYS / 16 }>(out, weights, v)
        }
    }
}
