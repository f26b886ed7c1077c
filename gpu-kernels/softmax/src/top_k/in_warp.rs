//! Rows of up to a chunk, one warp per row, which reads it once and a few of its vectors again.

use core::sync::atomic::Ordering;

use cuda_std::atomic::BlockAtomicU32;
use cuda_std::mem::f32x2;
use cuda_std::thread;
use cuda_std::warp::{reduce_max, reduce_sum, sync_warp};

use super::key::{Key, key, ordered};
use super::select::{Selection, bound, sort_gathered};
use crate::chunk::{Line, exp, lane, largest};
use crate::forward::sum_of;
use common_kernels::element::Element;

/// Keys that a warp gathers at once.
const ROOM: usize = 256;

/// Groups of a lane's elements; the lane remembers their maxima.
const MAXIMA: usize = 8;

/// Words of shared memory of a warp: its keys and their number.
pub const WORDS: usize = ROOM + 1;

/// Selects the largest elements of a block's rows, one row per warp, with keys of type `K`.
///
/// # Safety
/// Same as for the kernels; `buffers` belongs to the block and has [`WORDS`] elements for each warp.
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
    let buffer = buffers.wrapping_add(warp * WORDS);
    let count = buffer.wrapping_add(ROOM).cast::<u32>();
    let (k, factor) = (args.k(), args.scale() * core::f32::consts::LOG2_E);
    // SAFETY: the kernel's contract; all lanes of the warp execute this and everything below. They synchronise between one
    // lane's write to the buffer and another's read.
    unsafe {
        let (logits, stride) = args.logits();
        let line = Line::new::<N>(logits, stride, args.shape(), row);
        let x_reg = line.load::<N, VECTORS>(0);
        let max = reduce_max(largest::<T, N>(&x_reg).max(f32::MIN));
        let (mut sum, mut maxima) = (0.0, [f32::NEG_INFINITY; MAXIMA]);
        for i in 0..VECTORS {
            let x = T::unpack(x_reg[i]);
            sum += sum_of(x.map(|x| exp(x - max, factor)));
            for j in 0..N {
                let of = &mut maxima[(N * i + j) * MAXIMA / (N * VECTORS)];
                *of = of.max(x[j]);
            }
        }
        let pair = f32x2::new(max, reduce_sum(sum));

        // At least `k` elements reach this bound: one of each group whose maximum does.
        let mut least = u64::from(bound(maxima.map(ordered), k)) << 32;
        loop {
            if lane() == 0 {
                *count = 0;
            }
            sync_warp(u32::MAX);
            // Only vectors that may reach the bound are read again: those of groups whose maximum does.
            let mut left = 0;
            for i in 0..MAXIMA {
                left |= u32::from(ordered(maxima[i]) >= (least >> 32) as u32) << (i * VECTORS / MAXIMA);
            }
            while left > 0 {
                let first = 32 * N * left.trailing_zeros() as usize;
                left &= left - 1;
                let [x] = line.load::<N, 1>(first);
                let x = T::unpack(x);
                for j in 0..N {
                    let col = Line::<T>::column::<N>(first, 0, j);
                    if col < line.cols() && key(x[j], col as u32) >= least {
                        let place = BlockAtomicU32::from_ptr(count).fetch_add(1, Ordering::Relaxed) as usize;
                        if place < ROOM {
                            *buffer.cast::<K>().add(place) = K::gathered(x[j], col as u32);
                        }
                    }
                }
            }
            sync_warp(u32::MAX);
            let found = *count as usize;
            sort_gathered::<K>(buffer, found.min(ROOM), k, K::compared);
            if found <= ROOM {
                break;
            }
            // The `k`th of those that found room is a higher bound.
            least = *buffer.add(k - 1);
            sync_warp(u32::MAX);
        }
        args.finish(row, buffer, pair);
    }
}
