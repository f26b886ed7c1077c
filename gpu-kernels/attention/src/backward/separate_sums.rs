//! The gradients of a warpgroup's rows, which [`super::separate`] adds up over tiles of 64 rows.

use core::sync::atomic::Ordering;

use cuda_std::atomic::AtomicU32;
use cuda_std::fastmath::ex2_approx_ftz;
use cuda_std::hint::opaque;
use cuda_std::wgmma::{Accumulator, Element16, Pending, Registers};
use cuda_std::{GpuFloat, bulk, grid, thread};

use super::super::panels::{ROWS, fragments, multiply_columns, multiply_rows, store};
use super::args::KeyTile;
use super::separate::{Block, CONSUMERS, DQ, DV, Part, Steps, TILE, tiles_of_part};
use super::warpgroup_sums::{each, hide, hides_none};
use common_kernels::ring::{Ring, WARPGROUP};

impl<
    T: Element16,
    const SIZE: usize,
    const FIRST: usize,
    const STAGES: usize,
    const O: usize,
    const WHAT: u32,
> Block<'_, T, SIZE, FIRST, STAGES, O, WHAT>
where
    [f32; O]: Registers,
{
    /// Computes the gradients of a consumer's rows.
    ///
    /// # Safety
    /// All threads of the consumer call this.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub(super) unsafe fn consume(self, consumer: usize) {
        let (args, KeyTile { first, head, batch }) = (self.args, self.tile);
        let own = first + (consumer * ROWS) as u32;
        let (mut steps, of_own) = (self.steps(first, TILE), self.steps(own, ROWS as u32));
        let thread = thread::thread_idx_x() % WARPGROUP;
        let mut numbers = [[0.0; 2]; 2];
        grid::wait_for_dependencies();
        if !Self::OF_KEYS {
            let mut i = 0;
            while i < 4 {
                let row = Accumulator::<O>::position(thread, i / 2 * 2).0;
                // SAFETY: the statistics are padded.
                numbers[i % 2][i / 2] =
                    unsafe { *args.stats.add(args.stat_index(batch, head, own) + row + i % 2 * ROWS) };
                i += 1;
            }
        }
        let (first, second) = (self.first_ring(), self.second_ring());
        let (zero, logits) = (Accumulator::ZERO, Accumulator::ZERO);
        let mut sums = Sums { block: self, consumer, first, second, numbers, logits, of_ds: zero, dv: zero };
        if steps.left > 0 {
            self.own_ring(false).wait_full();
            if Self::HAS_DS {
                self.own_ring(true).wait_full();
            }
        }
        // SAFETY: all threads of the warpgroup execute this. The rows stay as they are until it stores results.
        unsafe {
            loop {
                // Tiles of which only the other consumer's rows need something.
                while steps.left > 0 && !(of_own.first..of_own.end).contains(&steps.at) {
                    sums.first.wait_full();
                    sums.second.wait_full();
                    sums.first.release_and_advance();
                    sums.second.release_and_advance();
                    steps.advance();
                }
                if steps.left == 0 {
                    break;
                }
                let is_all = of_own.first == steps.first && of_own.end == steps.end;
                let mut left = if is_all { steps.left } else { steps.left.min(of_own.end - steps.at) };
                sums.logits = sums.start_logits().finish::<0>();
                while left > 1 {
                    sums.add_tile::<false>(self.masked(own, &steps));
                    steps.advance();
                    left -= 1;
                }
                sums.add_tile::<true>(self.masked(own, &steps));
                steps.advance();
            }
            // Computed again, the place takes no registers meanwhile.
            sums.block = Self::new(args, self.start, opaque(thread::block_idx_x()));
            if sums.block.part.count > 1 && !sums.add_parts() {
                return;
            }
            let KeyTile { first, head, batch } = sums.block.tile;
            let (at, barrier) = ([head, first + (consumer * ROWS) as u32, batch], 1 + consumer as u32);
            if Self::HAS_DS {
                let map = if Self::OF_KEYS { &args.dk_map } else { &args.dq_map };
                sums.of_ds.scale_rows([args.scale; 2]);
                store::<T, SIZE, O>(map, at, self.own(false, consumer), &sums.of_ds, barrier);
            }
            if Self::HAS_DV {
                let rows = self.own(Self::HAS_DS, consumer);
                store::<T, SIZE, O>(&args.dv_map, at, rows, &sums.dv, barrier);
            }
        }
        if thread == 0 {
            bulk::wait_read::<0>();
        }
    }

    /// Returns the first key and query of a tile if a query may not see all of its keys.
    #[inline(always)]
    fn masked(self, own: u32, steps: &Steps) -> Option<[u32; 2]> {
        let [key, query] = if Self::OF_KEYS { [own, steps.position()] } else { [steps.position(), own] };
        (!hides_none(self.args, key, query, ROWS as u32)).then_some([key, query])
    }
}

/// The sums of a warpgroup. All its threads call the methods together.
struct Sums<
    'a,
    T,
    const SIZE: usize,
    const FIRST: usize,
    const STAGES: usize,
    const O: usize,
    const WHAT: u32,
> {
    block: Block<'a, T, SIZE, FIRST, STAGES, O, WHAT>,
    consumer: usize,
    first: Ring<FIRST>,
    second: Ring<STAGES>,
    /// Of queries, the statistics of the thread's two rows.
    numbers: [[f32; 2]; 2],
    /// The logits of the next tile.
    logits: Accumulator<32>,
    /// dQ or dK.
    of_ds: Accumulator<O>,
    dv: Accumulator<O>,
}

impl<
    T: Element16,
    const SIZE: usize,
    const FIRST: usize,
    const STAGES: usize,
    const O: usize,
    const WHAT: u32,
> Sums<'_, T, SIZE, FIRST, STAGES, O, WHAT>
where
    [f32; O]: Registers,
{
    const HAS_DV: bool = WHAT & DV != 0;
    const HAS_DS: bool = WHAT != DV;

    /// Adds up the sums of all parts in order, if those of the others are complete; otherwise returns false.
    ///
    /// # Safety
    /// All threads of the warpgroup call this, after all of its multiplications.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    unsafe fn add_parts(&mut self) -> bool {
        let (args, Part { of, number, count }) = (self.block.args, self.block.part);
        let (thread, consumer) = (thread::thread_idx_x() % WARPGROUP, self.consumer);
        let first = (thread::block_idx_x() - number) as usize;
        let at = |part: u32, which: usize, i: usize| {
            let tile =
                ((first + part as usize) * CONSUMERS + consumer) * const { tiles_of_part(SIZE) } + which;
            args.sums.wrapping_add(tile * ROWS * SIZE + i * WARPGROUP as usize + thread as usize)
        };
        let is_last = self.block.own(false, consumer).cast::<bool>();
        // SAFETY: all threads of the warpgroup execute this. Each writes elements of its own. The addition of the last part
        // has acquired those of all parts, and its threads read after the barrier.
        unsafe {
            let mut i = 0;
            while i < O {
                if Self::HAS_DS {
                    *at(number, 0, i) = self.of_ds.0[i];
                }
                if Self::HAS_DV {
                    *at(number, usize::from(Self::HAS_DS), i) = self.dv.0[i];
                }
                i += 1;
            }
            thread::sync_named_aligned(1 + consumer as u32, WARPGROUP);
            if thread == 0 {
                let arrived = AtomicU32::from_ptr(args.turns.add(of as usize * CONSUMERS + consumer));
                *is_last = arrived.fetch_add(1, Ordering::AcqRel) == count - 1;
            }
            thread::sync_named_aligned(1 + consumer as u32, WARPGROUP);
            if !*is_last {
                return false;
            }
            (self.of_ds, self.dv) = (Accumulator::ZERO, Accumulator::ZERO);
            let mut part = 0;
            while part < count {
                let mut i = 0;
                while i < O {
                    if Self::HAS_DS {
                        self.of_ds.0[i] += *at(part, 0, i);
                    }
                    if Self::HAS_DV {
                        self.dv.0[i] += *at(part, usize::from(Self::HAS_DS), i);
                    }
                    i += 1;
                }
                part += 1;
            }
        }
        true
    }

    /// Starts to compute the logits of the rows in the first ring, once they are there.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    unsafe fn start_logits(&self) -> Pending<32> {
        self.first.wait_full();
        // Else the compiler keeps an operand for each multiplication in registers.
        let own = self.block.own(false, opaque(self.consumer));
        let rows = self.block.first(self.first.stage());
        // SAFETY: all threads of the warpgroup execute this. The stage is full until all warps have released it.
        unsafe { multiply_rows::<T, SIZE, ROWS, 32>(Accumulator::ZERO, own, rows) }
    }

    /// Replaces the elements of a tile by `f` of them and of the statistics of their queries.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    unsafe fn each(
        &self,
        which: usize,
        stage: usize,
        tile: &mut Accumulator<32>,
        mut f: impl FnMut(f32, f32) -> f32,
    ) {
        if WHAT == DQ {
            tile.map_rows(|row, x| f(x, self.numbers[which][row]));
        } else {
            // SAFETY: the stage has these statistics.
            unsafe { each(self.block.stats(stage).add(which * ROWS), tile, f) };
        }
    }

    /// Adds a tile of 64 rows, which starts at a key and a query if a query may not see all keys. The logits of the next ones
    /// start before the sums are done.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    unsafe fn add_tile<const IS_LAST: bool>(&mut self, masked: Option<[u32; 2]>) {
        let (args, first, second) = (self.block.args, self.first, self.second);
        let factor = args.scale * core::f32::consts::LOG2_E;
        let rows = [self.block.first(first.stage()), self.block.second(second.stage())];
        // SAFETY: all threads of the warpgroup execute this. The stages are full until all warps have released them.
        unsafe {
            second.wait_full();
            let own = self.block.own(true, opaque(self.consumer));
            let products =
                Self::HAS_DS.then(|| multiply_rows::<T, SIZE, ROWS, 32>(Accumulator::ZERO, own, rows[1]));
            let mut p = self.logits;
            if let Some([key, query]) = masked {
                hide(args, &mut p, [key, query], WHAT != DQ);
            }
            self.each(0, first.stage(), &mut p, |x, log| ex2_approx_ftz(x.mul_add(factor, -log)));
            let dv = Self::HAS_DV
                .then(|| multiply_columns::<T, SIZE, ROWS, O, 4>(self.dv, &fragments(&p), rows[1]));
            let of_ds = products.map(|products| {
                let mut ds = if Self::HAS_DV { products.finish::<1>() } else { products.finish::<0>() };
                if !Self::HAS_DV {
                    second.release();
                }
                let mut i = 0;
                self.each(1, first.stage(), &mut ds, |x, delta| {
                    i += 1;
                    p.0[i - 1] * (x - delta)
                });
                multiply_columns::<T, SIZE, ROWS, O, 4>(self.of_ds, &fragments(&ds), rows[0])
            });
            self.first.advance();
            self.second.advance();
            let logits = (!IS_LAST).then(|| self.start_logits());
            if let Some(dv) = dv {
                self.dv = match (Self::HAS_DS, IS_LAST) {
                    (true, false) => dv.finish::<2>(),
                    (false, true) => dv.finish::<0>(),
                    _ => dv.finish::<1>(),
                };
                second.release();
            }
            if let Some(of_ds) = of_ds {
                self.of_ds = if IS_LAST { of_ds.finish::<0>() } else { of_ds.finish::<1>() };
            }
            first.release();
            if let Some(logits) = logits {
                self.logits = logits.finish::<0>();
            }
        }
    }
}
