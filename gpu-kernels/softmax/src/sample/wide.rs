//! Rows of any width, one block or cluster per row. Its warps read a chunk at a time and keep only its sum.

use cuda_std::mem::{f32x2, u32x4};
use cuda_std::warp::{reduce_max_width, reduce_sum_width};
use cuda_std::{GpuFloat as _, cluster, thread};

use super::args::SampleArgs;
use super::in_chunk::{Above, InChunk};
use super::noise::Noise;
use crate::chunk::{CHUNK, Line, lane};
use crate::row::{NO_PAIR, Part};
use crate::top_k::key::{column, key, value};
use common_kernels::element::Element;

/// The largest number of blocks of a cluster.
const MOST_BLOCKS: usize = 16;

/// Returns the quads of shared memory for a row's [`Draw`]: those of the warps and of the blocks, twice.
pub const fn quads<const BLOCK: usize>() -> usize {
    2 * (BLOCK.div_ceil(32) + MOST_BLOCKS)
}

/// The known part of a row: the (max, sum) of the elements of some chunks, and the chunk that is drawn from them. Its height
/// is the logarithm of its sum plus its noise, relative to the largest element.
#[derive(Clone, Copy)]
struct Seen {
    pair: f32x2,
    height: f32,
    chunk: u32,
}

impl Seen {
    const NONE: Self = Self { pair: NO_PAIR, height: f32::NEG_INFINITY, chunk: u32::MAX };

    fn packed(self) -> u32x4 {
        [self.pair.x.to_bits(), self.pair.y.to_bits(), self.height.to_bits(), self.chunk].into()
    }

    fn unpacked(quad: u32x4) -> Self {
        let [max, sum, height, chunk] = quad.to_array();
        let pair = f32x2::new(f32::from_bits(max), f32::from_bits(sum));
        Self { pair, height: f32::from_bits(height), chunk }
    }

    /// Merges the values of `LANES` neighbouring lanes, which have seen different chunks.
    ///
    /// # Safety
    /// All lanes of the warp call this.
    #[inline(always)]
    unsafe fn merged<const LANES: u32>(self, scale: f32) -> Self {
        let Self { pair: f32x2 { x: max_lane, y: sum_lane }, height, chunk } = self;
        // SAFETY: all lanes execute this.
        unsafe {
            let max = reduce_max_width::<f32, LANES>(u32::MAX, max_lane);
            let below = (max_lane - max) * scale;
            let sum = reduce_sum_width::<f32, LANES>(u32::MAX, sum_lane * below.exp());
            let best = reduce_max_width::<u64, LANES>(u32::MAX, key(height + below, chunk));
            Self { pair: f32x2::new(max, sum), height: value(best), chunk: column(best) }
        }
    }
}

/// A row, and the threads that draw from it.
struct Draw<T, const BLOCK: usize, const CLUSTER: bool> {
    args: SampleArgs<T>,
    line: Line<T>,
    noise: Noise,
    part: Part,
    /// [`quads`]; the rounds use its halves in turns, so that a round need not wait for the last reader of the round before.
    shared: *mut u32x4,
}

impl<T, const BLOCK: usize, const CLUSTER: bool> Draw<T, BLOCK, CLUSTER> {
    const WARPS: usize = BLOCK / 32;

    /// Returns a chunk that the warp reads in a round.
    #[inline(always)]
    fn chunk<const N: usize, const VECTORS: usize>(
        &self,
        chunk: u32,
        (above, max_of_row): (Above, f32),
    ) -> InChunk<'_, T, VECTORS>
    where
        T: Element<N>,
    {
        let first = chunk as usize * CHUNK;
        InChunk { line: &self.line, first, x_reg: self.line.load::<N, VECTORS>(first), above, max_of_row }
    }

    /// Returns what the warp has seen of its chunks in a round.
    ///
    /// # Safety
    /// All lanes of the warp call this.
    #[inline(always)]
    unsafe fn seen_by_warp<const N: usize, const VECTORS: usize>(
        &self,
        above: (Above, f32),
        round: u32,
    ) -> Seen
    where
        T: Element<N>,
    {
        let (lane, scale, factor) = (lane(), self.args.scale, self.args.factor());
        let step = self.part.parts * Self::WARPS as u32;
        let mut chunk = self.part.rank * Self::WARPS as u32 + thread::thread_idx_x() / 32;
        let mut mine = Seen::NONE;
        while chunk < self.line.chunks() {
            // Each lane keeps the sum of one chunk and computes its noise, for up to 32 chunks at once.
            let mut next = Seen::NONE;
            for i in 0..32 {
                if chunk >= self.line.chunks() {
                    break;
                }
                // SAFETY: all lanes execute this.
                let pair = unsafe { self.chunk::<N, VECTORS>(chunk, above).pair::<N>(factor) };
                if i == lane {
                    next = Seen { pair, chunk, ..next };
                }
                chunk += step;
            }
            // A chunk with only -inf is never drawn, though its largest element counts as the smallest number.
            if next.pair.y > 0.0 {
                next.height = if self.args.is_greedy() {
                    0.0
                } else {
                    next.pair.y.ln() + Noise::of(self.noise.words(next.chunk, round)[0])
                };
            }
            let max = mine.pair.x.max(next.pair.x);
            let [below, next_below] = [mine, next].map(|it| (it.pair.x - max) * scale);
            let sum = mine.pair.y * below.exp() + next.pair.y * next_below.exp();
            let [height, next_height] = [mine.height + below, next.height + next_below];
            // Of equal ones, the first, which has the smaller number.
            let is_next = next_height > height;
            mine.height = if is_next { next_height } else { height };
            mine.chunk = if is_next { next.chunk } else { mine.chunk };
            mine.pair = f32x2::new(max, sum);
        }
        // SAFETY: all lanes execute this.
        unsafe { mine.merged::<32>(scale) }
    }

    /// Returns what all threads of the row have seen of it in a round.
    ///
    /// # Safety
    /// All threads of the row call this, once per round.
    #[inline(always)]
    unsafe fn seen<const N: usize, const VECTORS: usize>(&self, above: (Above, f32), round: u32) -> Seen
    where
        T: Element<N>,
    {
        let (tid, Part { rank, parts }, scale) = (thread::thread_idx_x(), self.part, self.args.scale);
        let shared = self.shared.wrapping_add((round % 2) as usize * (quads::<BLOCK>() / 2));
        // SAFETY: all threads execute this. Each warp has its own element, and reads after the
        // barrier. Each block writes its own element in every block, and each block reads after the cluster's barrier.
        unsafe {
            let of_warp = self.seen_by_warp::<N, VECTORS>(above, round);
            if tid.is_multiple_of(32) {
                *shared.add(tid as usize / 32) = of_warp.packed();
            }
            thread::sync_threads_aligned();
            let mut known = Seen::NONE;
            if lane() < Self::WARPS {
                known = Seen::unpacked(*shared.add(lane()));
            }
            let of_block = known.merged::<32>(scale);
            // The constant comes first, so that no cluster instruction remains for GPUs without clusters.
            if !CLUSTER || parts == 1 {
                return of_block;
            }
            let blocks = shared.wrapping_add(Self::WARPS);
            if round == 0 {
                cluster::wait();
            }
            if tid < parts {
                *cluster::map_shared(blocks.add(rank as usize), tid) = of_block.packed();
            }
            cluster::sync();
            let mut known = Seen::NONE;
            if lane() < parts as usize {
                known = Seen::unpacked(*blocks.add(lane()));
            }
            known.merged::<32>(scale)
        }
    }

    /// Returns the token that a chunk gives in a round.
    ///
    /// # Safety
    /// All lanes of the warp call this; the chunk's sum is positive.
    #[inline(always)]
    unsafe fn token<const N: usize, const VECTORS: usize>(
        &self,
        chunk: u32,
        above: (Above, f32),
        round: u32,
    ) -> u32
    where
        T: Element<N>,
    {
        let factor = self.args.factor();
        // SAFETY: all lanes execute this.
        unsafe {
            let of_chunk = self.chunk::<N, VECTORS>(chunk, above);
            let sums = of_chunk.sums::<N>(factor);
            if self.args.is_greedy() {
                return of_chunk.first_of_largest::<N>(sums.0.x);
            }
            let [_, word] = self.noise.words(chunk, round);
            of_chunk.token_at::<N>(Noise::uniform(word), sums, factor)
        }
    }
}

/// Samples one row per block or, with `CLUSTER`, per cluster.
///
/// # Safety
/// Same as for the kernels; `shared` belongs to the block and has [`quads`].
#[inline(always)]
pub(super) unsafe fn wide<T, const N: usize, const BLOCK: usize, const VECTORS: usize, const CLUSTER: bool>(
    shared: *mut u32x4,
    args: SampleArgs<T>,
) where
    T: Element<N>,
{
    let part = match CLUSTER {
        true => Part { rank: cluster::block_rank(), parts: cluster::num_blocks() },
        false => Part::ALL,
    };
    let index = (thread::block_idx_x() / part.parts) as usize;
    // SAFETY: the kernel's contract. All threads of the cluster execute all this, as they have seen the same.
    unsafe {
        if CLUSTER {
            // The wait is before the first write to another block.
            cluster::arrive_relaxed();
        }
        let draw = Draw::<T, BLOCK, CLUSTER> {
            args,
            line: args.line::<N>(index),
            noise: args.noise(index),
            part,
            shared,
        };
        let all = draw.seen::<N, VECTORS>((Above::NOTHING, f32::MIN), 0);
        let is_first = part.rank == 0 && thread::thread_idx_x() < 32;
        let is_cut = args.top_p < 1.0 && !args.is_greedy();
        let (mut token, mut seen, mut round) = (0, all, 0);
        let mut above = (Above::NOTHING, all.pair.x);
        if all.pair.y > 0.0 && (is_first || is_cut) {
            loop {
                token = draw.token::<N, VECTORS>(seen.chunk, above, round);
                if !is_cut {
                    break;
                }
                above.0 = Above(key(draw.line.element(token), token));
                round += 1;
                seen = draw.seen::<N, VECTORS>(above, round);
                if seen.pair.y * ((seen.pair.x - all.pair.x) * args.scale).exp() < args.top_p * all.pair.y {
                    break;
                }
            }
        }
        if is_first && lane() == 0 {
            args.write(index, token, all.pair);
        }
    }
}
