//! Rows that the threads of a block or of a cluster draw from together.

use cuda_std::mem::{f32x2, u32x4};
use cuda_std::warp::{reduce_max_width, reduce_sum_width};
use cuda_std::{cluster, thread};

use super::args::SampleArgs;
use super::noise::Noise;
use crate::element::Element;
use crate::softmax::forward::exp;
use crate::softmax::row::{Part, exchange, merge};
use crate::softmax::top_k::elements::{Elements, Summary};
use crate::softmax::top_k::key::{column, key, value};
use crate::softmax::top_k::select::{Scratch, select};
use crate::softmax::top_k::team::Team;

/// The most blocks of a cluster.
const MOST_BLOCKS: usize = 16;

/// Quads of shared memory for [`Draw`]: those of the warps and those of the blocks, twice.
pub const fn quads<const BLOCK: usize>() -> usize {
    2 * (BLOCK.div_ceil(32) + MOST_BLOCKS)
}

/// The element of the largest sum of logit and noise, as far as a thread has seen any.
#[derive(Clone, Copy)]
pub(super) struct Winner {
    /// The key of that sum, 0 for none.
    pub key: u64,
    /// No smaller sum can win: the largest logit has at least this.
    least: f32,
}

impl Winner {
    pub const NONE: Self = Self { key: 0, least: Noise::LEAST };

    /// Whether an element can win that is by `difference` larger than the row's largest, times the scale.
    #[inline(always)]
    pub fn may_lose_to(&self, difference: f32) -> bool {
        difference + Noise::MOST >= self.least
    }

    #[inline(always)]
    pub fn compare(&mut self, difference: f32, word: u32, col: usize) {
        let sum = difference + Noise::of(word);
        if sum >= self.least {
            self.key = self.key.max(key(sum, col as u32));
            self.least = sum;
        }
    }
}

/// A row, and the threads that draw from it.
struct Draw<T, const N: usize, const BLOCK: usize, const VECTORS: usize> {
    args: SampleArgs<T>,
    index: usize,
    elements: Elements<T, N, BLOCK, VECTORS>,
    part: Part,
    pair: f32x2,
    /// [`quads`], of which the reductions take halves in turns, so that one need not wait for the last reader of the other.
    shared: *mut u32x4,
    turn: usize,
}

impl<T: Element<N>, const N: usize, const BLOCK: usize, const VECTORS: usize> Draw<T, N, BLOCK, VECTORS> {
    /// Quads of a reduction.
    const QUADS: usize = quads::<BLOCK>() / 2;

    /// The sum and the largest key of the block's threads.
    ///
    /// # Safety
    /// All threads of the block come here.
    #[inline(always)]
    unsafe fn reduce_block(&mut self, sum: f32, key: u64) -> (f32, u64) {
        let (tid, warps) = (thread::thread_idx_x() as usize, BLOCK / 32);
        self.turn ^= 1;
        let shared = self.shared.wrapping_add(self.turn * Self::QUADS);
        // SAFETY: the caller brings all threads; each warp has its own element, and reads after the barrier.
        unsafe {
            let of_warp = reduce_lanes::<32>(sum, key);
            if tid.is_multiple_of(32) {
                *shared.add(tid / 32) = packed(of_warp);
            }
            thread::sync_threads_aligned();
            let lane = tid % 32;
            let (sum, key) = if lane < warps { unpacked(*shared.add(lane)) } else { (0.0, 0) };
            reduce_lanes::<32>(sum, key)
        }
    }

    /// The sum and the largest key of all threads of the row.
    ///
    /// # Safety
    /// All of them come here.
    #[inline(always)]
    unsafe fn reduce(&mut self, sum: f32, key: u64) -> (f32, u64) {
        let (tid, Part { rank, parts }) = (thread::thread_idx_x(), self.part);
        // SAFETY: the caller brings all threads. The other blocks have started, since they have exchanged their sums; each writes an
        // element of its own in every block, which reads after the barrier, and none writes this half again before the next one.
        unsafe {
            let of_block = self.reduce_block(sum, key);
            if parts == 1 {
                return of_block;
            }
            let values = self.shared.wrapping_add(self.turn * Self::QUADS + BLOCK / 32);
            if tid < parts {
                *cluster::map_shared(values.add(rank as usize), tid) = packed(of_block);
            }
            cluster::sync();
            let block = tid % MOST_BLOCKS as u32;
            let (sum, key) = if block < parts { unpacked(*values.add(block as usize)) } else { (0.0, 0) };
            reduce_lanes::<{ MOST_BLOCKS as u32 }>(sum, key)
        }
    }

    /// The exponentials of this thread's elements whose keys are over `least`, summed up unless it is 0, and the winner of these.
    ///
    /// # Safety
    /// What is in shared memory is there.
    #[inline(always)]
    unsafe fn winner_above(&self, least: u64) -> (f32, u64) {
        let (args, noise, max) = (&self.args, self.args.noise(self.index), self.pair.x);
        let smallest = if least == 0 { f32::NEG_INFINITY } else { value(least) };
        let (mut sum, mut winner) = (0.0, Winner::NONE);
        // SAFETY: the caller's.
        unsafe {
            self.elements.for_each_by::<1>(|place, x, len| {
                let larger = x.into_iter().fold(f32::NEG_INFINITY, f32::max);
                if larger < smallest {
                    return;
                }
                let counts: [bool; N] =
                    core::array::from_fn(|j| j < len && key(x[j], (place + j) as u32) > least);
                if least > 0 {
                    for j in 0..N {
                        sum += if counts[j] { exp::<f32>(x[j] - max, args.scale) } else { 0.0 };
                    }
                }
                if winner.may_lose_to((larger - max) * args.scale) {
                    let words = noise.words::<N>(place);
                    for j in 0..N {
                        if counts[j] {
                            winner.compare((x[j] - max) * args.scale, words[j], place + j);
                        }
                    }
                }
            });
        }
        (sum, winner.key)
    }

    /// The key of the logit that is drawn, without `top_k`; `best` is the thread's largest.
    ///
    /// # Safety
    /// All threads of the row come here; its sum is a positive number.
    #[inline(always)]
    unsafe fn of_all(&mut self, best: u64) -> u64 {
        let (args, row) = (self.args, self.index);
        // SAFETY: the caller brings all threads, and all have the same sums and keys.
        unsafe {
            if args.is_greedy() {
                return self.reduce(0.0, best).1;
            }
            let (_, mine) = self.winner_above(0);
            let (_, mut winner) = self.reduce(0.0, mine);
            loop {
                let col = column(winner);
                let drawn = key(args.logit(row, col), col);
                if args.top_p >= 1.0 {
                    return drawn;
                }
                let (sum, mine) = self.winner_above(drawn);
                let (sum, next) = self.reduce(sum, mine);
                if sum < args.top_p * self.pair.y {
                    return drawn;
                }
                winner = next;
            }
        }
    }

    /// The key of the logit that is drawn from the sorted ones.
    ///
    /// # Safety
    /// All threads of one block come here, after [`select`]; the row's sum is a positive number.
    #[inline(always)]
    unsafe fn of_selected(&mut self, scratch: Scratch) -> u64 {
        let (place, k) = (thread::thread_idx_x() as usize, self.args.top_k as usize);
        let (args, max) = (self.args, self.pair.x);
        let weights = scratch.weights();
        // SAFETY: the caller brings all threads; each writes an element of its own, and reads others after the barrier.
        unsafe {
            let mine = if place < k { *scratch.sorted.add(place) } else { 0 };
            let difference = (value(mine) - max) * args.scale;
            if place < k {
                *weights.add(place) = if mine > 0 { exp::<f32>(difference, 1.0) } else { 0.0 };
            }
            thread::sync_threads_aligned();
            let (mut before, mut sum) = (0.0, 0.0);
            for other in 0..k {
                before = if other == place { sum } else { before };
                sum += *weights.add(other);
            }
            let mut winner = Winner::NONE;
            if mine > 0 && (args.top_p >= 1.0 || before < args.top_p * sum) {
                let col = column(mine) as usize;
                let word = args.noise(self.index).four((col / 4) as u32);
                let word = match col % 4 {
                    0 => word[0],
                    1 => word[1],
                    2 => word[2],
                    _ => word[3],
                };
                winner.compare(difference, word, col);
            }
            let (_, winner) = self.reduce_block(0.0, winner.key);
            let col = column(winner);
            key(args.logit(self.index, col), col)
        }
    }
}

/// The sum and the largest key of `LANES` neighbouring lanes.
///
/// # Safety
/// All lanes of the warp come here.
#[inline(always)]
unsafe fn reduce_lanes<const LANES: u32>(sum: f32, key: u64) -> (f32, u64) {
    // SAFETY: the caller brings all lanes.
    unsafe { (reduce_sum_width::<f32, LANES>(u32::MAX, sum), reduce_max_width::<u64, LANES>(u32::MAX, key)) }
}

#[inline(always)]
fn packed((sum, key): (f32, u64)) -> u32x4 {
    [sum.to_bits(), 0, key as u32, (key >> 32) as u32].into()
}

#[inline(always)]
fn unpacked(quad: u32x4) -> (f32, u64) {
    let [sum, _, low, high] = quad.to_array();
    (f32::from_bits(sum), u64::from(high) << 32 | u64::from(low))
}

/// A row of any width for each block.
///
/// # Safety
/// As for the kernels; `shared` has an element of the block's own for each warp, `team` has [`quads`], and the scratch is its own.
#[inline(always)]
pub(super) unsafe fn wide<T, const N: usize, const BLOCK: usize, const VECTORS: usize>(
    shared: *mut f32x2,
    team: *mut u32x4,
    scratch: Scratch,
    args: SampleArgs<T>,
) where
    T: Element<N>,
{
    let index = thread::block_idx_x() as usize;
    // SAFETY: the kernel's contract. All threads of the block come here and to all that follows.
    unsafe {
        let row = args.row::<N, BLOCK>(index, Part::ALL);
        let elements = Elements::<T, N, BLOCK, VECTORS>::new(row, core::ptr::null());
        args.prefetch(index, Part::ALL);
        let mut mine = Summary::NONE;
        elements.for_each(|place, x, len| mine.add(place, x, len, args.scale));
        let pair = exchange::<BLOCK>(shared, merge::<32>(mine.pair, args.scale), args.scale);
        let mut draw = Draw { args, index, elements, part: Part::ALL, pair, shared: team, turn: 0 };
        let mut key = 0;
        if pair.y > 0.0 {
            key = if args.top_k > 0 && !args.is_greedy() {
                select::<BLOCK>(scratch, &elements, mine.best, elements.len(), args.top_k as usize);
                draw.of_selected(scratch)
            } else {
                draw.of_all(mine.best)
            };
        }
        if thread::thread_idx_x() == 0 {
            args.write(index, key, pair);
        }
    }
}

/// A row for each block or cluster, in shared memory.
///
/// # Safety
/// As for the kernels; `dynamic` has what the launch must bring, `shared` an element for each warp, and `team` [`quads`].
#[inline(always)]
pub(super) unsafe fn in_shared<T, const N: usize, const BLOCK: usize>(
    dynamic: *mut u32x4,
    shared: *mut f32x2,
    team: *mut u32x4,
    args: SampleArgs<T>,
) where
    T: Element<N>,
{
    let index = (thread::block_idx_x() / cluster::num_blocks()) as usize;
    let scratch = Scratch::new::<BLOCK>(dynamic.cast());
    let dynamic = dynamic.wrapping_add(Scratch::bytes_of_cluster::<BLOCK>() as usize / 16);
    // SAFETY: the kernel's contract. All threads of the cluster come here and, as far as they agree on, to all that follows.
    unsafe {
        let row = Team::fetch(dynamic, shared, args.scale, |part| {
            args.prefetch(index, part);
            args.row::<N, BLOCK>(index, part)
        });
        let Team { elements, part, pair, best } = row;
        let mut draw = Draw { args, index, elements, part, pair, shared: team, turn: 0 };
        let mut key = 0;
        if pair.y > 0.0 {
            if args.top_k > 0 && !args.is_greedy() {
                if !row.select(scratch, args.top_k as usize) {
                    return;
                }
                key = draw.of_selected(scratch);
            } else {
                key = draw.of_all(best);
            }
        }
        if thread::thread_idx_x() == 0 && part.rank == 0 {
            args.write(index, key, pair);
        }
    }
}
