//! The warpgroups that compute attention from what another one has copied.

use common_kernels::ring::WARPGROUP;
use cuda_std::mem::{store_shared, u32x4};
use cuda_std::wgmma::{Accumulator, Element16, FragmentA, Pending, Registers};
use cuda_std::{bulk, thread};

use super::super::args::{AttentionArgs, Keys, Tile, Tiles};
use super::super::panels::{COLS, ROW, bytes, fragments, multiply_columns, multiply_rows, store};
use super::mask::Mask;
use super::online::Online;
use super::turns::Turns;
use super::warpgroups::{QUERIES, Stages, first_key, first_tile, keys_of, next_tile};

/// Vectors of a panel's row.
const CHUNKS: u32 = (ROW / size_of::<u32x4>()) as u32;
/// The named barrier of all consumers; the turns and the stores use others.
const CLEARED: u32 = 7;

/// A warpgroup that computes 64 queries of each tile. All its threads call the methods together.
pub struct Consumer<
    'a,
    T,
    const SIZE: usize,
    const KEYS: usize,
    const CONSUMERS: usize,
    const RAGGED: bool,
    const S: usize,
    const O: usize,
    const FRAGMENTS: usize,
> {
    pub args: &'a AttentionArgs<T>,
    pub stages: Stages,
    pub number: u32,
    /// Its part of the result, on the way to global memory.
    pub panels: *mut u8,
    pub turns: Turns,
    pub rows: Online,
    pub logits: Accumulator<S>,
    /// The exponentials of the last logits, whose values are not added yet.
    pub weights: [FragmentA<T>; FRAGMENTS],
    /// The factors of the sums before these values.
    pub factors: [f32; 2],
    /// Whether these are the weights of the tile's first keys.
    pub has_first: bool,
}

impl<
    T: Element16,
    const SIZE: usize,
    const KEYS: usize,
    const CONSUMERS: usize,
    const RAGGED: bool,
    const S: usize,
    const O: usize,
    const FRAGMENTS: usize,
> Consumer<'_, T, SIZE, KEYS, CONSUMERS, RAGGED, S, O, FRAGMENTS>
where
    [f32; S]: Registers,
    [f32; O]: Registers,
{
    /// Computes and stores the tiles.
    #[inline(always)]
    pub fn run(mut self, mut tiles: Tiles) {
        if self.number == 0 {
            self.turns.begin();
        }
        let mut next = first_tile::<T, RAGGED>(&mut tiles, self.args);
        while let Some(tile) = next {
            next = next_tile::<T, SIZE, RAGGED>(&mut tiles, self.args);
            let mask = self.mask(&tile);
            let (mut out, totals) = self.compute(&tile, mask, next);
            // SAFETY: all threads of the warpgroup execute this, and only they use the panels.
            unsafe {
                let [[a, log_a], [b, log_b]] = totals.finish(self.args.scale);
                out.scale_rows([a, b]);
                self.args.store_logs(&tile, mask.query(), [log_a, log_b]);
                let at = [tile.head, mask.first, tile.batch];
                store::<T, SIZE, O>(&self.args.out_map, at, self.panels, &out, 1 + self.number);
            }
        }
        if thread::thread_idx_x().is_multiple_of(WARPGROUP) {
            bulk::wait_read::<0>();
        }
    }

    /// Returns the mask of the warpgroup's queries. Without queries it sees no more keys than the other warpgroups.
    #[inline(always)]
    fn mask(&self, tile: &Tile) -> Mask {
        let keys = Keys { count: tile.visible, ..keys_of::<T, RAGGED>(self.args, tile.batch) };
        Mask { keys, first: tile.row + QUERIES as u32 * self.number }
    }

    /// Returns the results of a tile, before the division by the sums of exponentials, and these sums. The last keys of the
    /// tile come with the first keys of the next.
    #[inline(always)]
    fn compute(&mut self, tile: &Tile, mask: Mask, next: Option<Tile>) -> (Accumulator<O>, Online) {
        let mut out = Accumulator::<O>::ZERO;
        let mut first = first_key::<KEYS>(tile);
        if !self.has_first {
            self.stages.q_ring.wait_full();
        }
        if first >= tile.visible {
            self.stages.q_ring.release_and_advance();
            self.has_first = false;
            return (out, Online::EMPTY);
        }
        if !self.has_first {
            self.stages.k_ring.wait_full();
            // SAFETY: all threads of the warpgroup execute this.
            self.logits = unsafe { self.start_logits().finish::<0>() };
            self.stages.k_ring.release_and_advance();
            self.rows = Online::EMPTY;
            self.exponentiate(Some((mask, first)));
            self.weights = fragments(&self.logits);
        }
        first += KEYS as u32;
        // Steps without a mask have their own loop, so that the code of the mask is out of their way.
        loop {
            while mask.hides_none(first, KEYS as u32) {
                out = self.step(out, None);
                first += KEYS as u32;
            }
            if first >= tile.visible {
                break;
            }
            out = self.step(out, Some((mask, first)));
            first += KEYS as u32;
        }
        let totals = self.rows;
        if RAGGED {
            self.clear_values(tile.visible - (first - KEYS as u32));
        }
        // The queries after the next may be copied.
        self.stages.q_ring.release_and_advance();
        let with_keys = next.filter(|next| first_key::<KEYS>(next) < next.visible);
        self.has_first = with_keys.is_some();
        if let Some(next) = with_keys {
            self.stages.q_ring.wait_full();
            self.rows = Online::EMPTY;
            out = self.step(out, Some((self.mask(&next), first_key::<KEYS>(&next))));
        } else {
            // SAFETY: all threads of the warpgroup execute this.
            out = unsafe { self.start_sums(out).finish::<0>() };
            self.stages.v_ring.release_and_advance();
        }
        (out, totals)
    }

    /// Computes the weights of the next keys while the tensor cores add the values of these keys to `out`. Some of the next
    /// keys may be hidden by a mask, which comes with the first of them.
    #[inline(always)]
    fn step(&mut self, mut out: Accumulator<O>, mask: Option<(Mask, u32)>) -> Accumulator<O> {
        self.stages.k_ring.wait_full();
        self.turns.wait();
        let logits = self.start_logits();
        let sums = self.start_sums(out);
        self.turns.pass();
        // SAFETY: all threads of the warpgroup execute this. Of the two groups, the later one writes the sums.
        self.logits = unsafe { logits.finish::<1>() };
        self.stages.k_ring.release_and_advance();
        if mask.is_some() && const { CONSUMERS == 3 || SIZE > 192 } {
            // There are no registers for the mask and for sums in flight.
            // SAFETY: all threads of the warpgroup execute this.
            out = unsafe { sums.finish::<0>() };
            self.exponentiate(mask);
        } else {
            self.exponentiate(mask);
            // SAFETY: all threads of the warpgroup execute this.
            out = unsafe { sums.finish::<0>() };
        }
        self.stages.v_ring.release_and_advance();
        self.weights = fragments(&self.logits);
        out
    }

    /// Starts the logits of the keys in the stage of K.
    #[inline(always)]
    fn start_logits(&self) -> Pending<S> {
        let Stages { q, k, q_ring, k_ring, .. } = self.stages;
        // SAFETY: all threads of the warpgroup execute this. The stages are full until all warps have released them.
        unsafe {
            let q =
                q.add((q_ring.stage() * CONSUMERS + self.number as usize) * const { bytes(QUERIES, SIZE) });
            let k = k.add(k_ring.stage() * const { bytes(KEYS, SIZE) });
            multiply_rows::<T, SIZE, KEYS, S>(self.logits, q, k)
        }
    }

    /// Scales the sums, and starts to add the values, once the stage of V is full.
    #[inline(always)]
    fn start_sums(&self, mut out: Accumulator<O>) -> Pending<O> {
        let Stages { v, v_ring, .. } = self.stages;
        out.scale_rows(self.factors);
        v_ring.wait_full();
        // SAFETY: all threads of the warpgroup execute this. The stage is full until all warps have released it.
        unsafe {
            let v = v.add(v_ring.stage() * const { bytes(KEYS, SIZE) });
            multiply_columns::<T, SIZE, KEYS, O, FRAGMENTS>(out, &self.weights, v)
        }
    }

    /// Replaces the rows of V from `from` on by zeros, once the stage of V is full: they may be anything after the last key of a
    /// batch entry, and a weight of 0 does not hide a NaN.
    #[inline(always)]
    fn clear_values(&self, from: u32) {
        let Stages { v, v_ring, .. } = self.stages;
        if from >= KEYS as u32 {
            return;
        }
        v_ring.wait_full();
        let all = CONSUMERS as u32 * WARPGROUP;
        let mut i = WARPGROUP * self.number + thread::thread_idx_x() % WARPGROUP + from * CHUNKS;
        // SAFETY: all consumers execute this, and each chunk of the stage is written by one thread, before any reads it.
        unsafe {
            let v = v.add(v_ring.stage() * const { bytes(KEYS, SIZE) });
            while i < KEYS as u32 * CHUNKS {
                let mut panel = 0;
                while panel < SIZE.div_ceil(COLS) {
                    let to = v.add(panel * KEYS * ROW + i as usize * size_of::<u32x4>());
                    store_shared(to.cast(), u32x4::default());
                    panel += 1;
                }
                i += all;
            }
            bulk::fence_shared();
            thread::sync_named_aligned(CLEARED, all);
        }
    }

    /// Masks the logits, and replaces them by exponentials.
    #[inline(always)]
    fn exponentiate(&mut self, mask: Option<(Mask, u32)>) {
        if let Some((mask, first)) = mask {
            mask.apply(&mut self.logits, first);
        }
        let factor = self.args.scale * core::f32::consts::LOG2_E;
        // SAFETY: all lanes of the warp execute this.
        self.factors = unsafe { self.rows.update(&mut self.logits, factor) };
    }
}
