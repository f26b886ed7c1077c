//! Rows of up to a chunk, each of a warp, which holds it in registers.

use core::marker::PhantomData;

use cuda_std::mem::{f32x2, u32x4};
use cuda_std::thread;
use cuda_std::warp::{reduce_max, reduce_sum, sync_warp, warp_shuffle_idx, warp_shuffle_up};

use super::key::{Key, number, ordered};
use super::select::{Selection, bound, sort_gathered};
use crate::element::{Element, Number};
use crate::softmax::chunk::{Line, exp, lane, largest};
use crate::softmax::forward::sum_of;

/// Keys that a warp gathers at once.
pub const ROOM: usize = 256;

/// The largest elements of a block's rows, of which each warp has one, with keys of type `K`.
///
/// # Safety
/// As for the kernels; `buffers` has [`ROOM`] elements of the block's own for each warp.
#[inline(always)]
pub unsafe fn in_warp<T, K, A, const N: usize, const BLOCK: usize, const VECTORS: usize>(
    buffers: *mut u64,
    args: A,
) where
    T: Element<N>,
    K: Key,
    A: Selection<T>,
{
    let warp = thread::thread_idx_x() as usize / 32;
    let row = thread::block_idx_x() as usize * (BLOCK / 32) + warp;
    if row >= args.shape()[0] as usize {
        return;
    }
    let buffer = buffers.wrapping_add(warp * ROOM);
    let (k, factor) = (args.k(), args.scale() * core::f32::consts::LOG2_E);
    // SAFETY: the kernel's contract; all lanes of the warp come here and to all that follows. Between what one lane writes to the
    // buffer and another reads they wait for each other.
    unsafe {
        let (logits, stride) = args.logits();
        let line = Line::new::<N>(logits, stride, args.shape(), row);
        let x_reg = line.load::<N, VECTORS>(0);
        let maxima = x_reg.map(|x| largest::<T, N>(&[x]));
        let max = reduce_max(maxima.into_iter().fold(f32::MIN, f32::max));
        let sums = x_reg.map(|x| sum_of(T::unpack(x).map(|x| exp(x - max, factor))));
        let pair = f32x2::new(max, reduce_sum(sums.into_iter().fold(0.0, |sum, x| sum + x)));

        // At least `k` elements are as large as this: one of each vector whose largest is.
        let has_bound = 32 * VECTORS >= k;
        let least = if has_bound { number(bound(maxima.map(ordered), k)) } else { f32::NEG_INFINITY };
        let held = Held::<T, K, VECTORS> { x_reg, matrix: PhantomData, buffer: buffer.cast() };
        let all = |_: f32, col: usize| col < line.cols();
        let mut found = match least > f32::NEG_INFINITY {
            true => held.gather::<N>(|x, _| x >= least),
            false => held.gather::<N>(all),
        };
        loop {
            sort_gathered::<K>(buffer, found.min(ROOM), k, K::compared);
            if found <= ROOM {
                break;
            }
            // Of those that found room the `k`th is a higher bound.
            let least = *buffer.add(k - 1);
            sync_warp(u32::MAX);
            let reaches = |x, col: usize| K::gathered(x, col as u32).compared().whole() >= least;
            found = held.gather::<N>(|x, col| all(x, col) && reaches(x, col));
        }
        args.finish(row, buffer, pair);
    }
}

/// The elements of a row, and where some of them are gathered.
struct Held<T, K, const VECTORS: usize> {
    x_reg: [u32x4; VECTORS],
    matrix: PhantomData<T>,
    buffer: *mut K,
}

impl<T: Number, K: Key, const VECTORS: usize> Held<T, K, VECTORS> {
    /// Gathers the elements that are left, as many as there is room for; how many are left.
    ///
    /// # Safety
    /// All lanes of the warp come here, and none still reads the buffer.
    #[inline(always)]
    unsafe fn gather<const N: usize>(&self, is_left: impl Fn(f32, usize) -> bool) -> usize
    where
        T: Element<N>,
    {
        let mut count = 0;
        self.for_each::<N>(|x, col| count += u32::from(is_left(x, col)));
        // SAFETY: the caller brings all lanes; each lane has places of its own.
        unsafe {
            let (mut place, all) = places(count);
            self.for_each::<N>(|x, col| {
                if is_left(x, col) {
                    if (place as usize) < ROOM {
                        *self.buffer.add(place as usize) = K::gathered(x, col as u32);
                    }
                    place += 1;
                }
            });
            sync_warp(u32::MAX);
            all as usize
        }
    }

    #[inline(always)]
    fn for_each<const N: usize>(&self, mut each: impl FnMut(f32, usize))
    where
        T: Element<N>,
    {
        for i in 0..VECTORS {
            let x = T::unpack(self.x_reg[i]);
            for j in 0..N {
                each(x[j], Line::<T>::column::<N>(0, i, j));
            }
        }
    }
}

/// The sum of the counts of the lanes before this one, and of all.
///
/// # Safety
/// All lanes of the warp come here.
#[inline(always)]
unsafe fn places(count: u32) -> (u32, u32) {
    let (lane, mut sum) = (lane(), count);
    let mut distance = 1;
    // SAFETY: the caller brings all lanes.
    unsafe {
        while distance < 32 {
            let (lower, _) = warp_shuffle_up(u32::MAX, sum, distance, 32);
            sum += if lane >= distance as usize { lower } else { 0 };
            distance *= 2;
        }
        (sum - count, warp_shuffle_idx(u32::MAX, sum, 31, 32).0)
    }
}
