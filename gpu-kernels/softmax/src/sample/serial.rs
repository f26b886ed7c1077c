//! Rows of any width, one thread per row.

use cuda_std::mem::f32x2;
use cuda_std::{GpuFloat as _, thread};

use super::args::SampleArgs;
use super::in_chunk::Above;
use super::noise::Noise;
use crate::chunk::{CHUNK, exp};
use crate::serial::{WIDTH, load};
use crate::top_k::key::{column, key, value};
use crate::top_k::serial::Largest;
use common_kernels::element::Number;

/// Samples a token of this thread's row: reads it for the sums of its chunks, and for the draw.
///
/// # Safety
/// Same as for the kernels.
#[inline(always)]
pub(super) unsafe fn serial<T: Number>(args: SampleArgs<T>) {
    let (row, [rows, cols]) = (thread::index_1d() as usize, [args.rows as usize, args.cols as usize]);
    if row >= rows {
        return;
    }
    // SAFETY: the row lies in the matrix, and only this thread writes its results.
    unsafe {
        let x = args.logits.add(row * args.stride as usize);
        let all = seen(&args, row, Above::NOTHING, 0);
        let token = match (all.pair.y > 0.0, args.is_greedy(), args.top_k) {
            (false, ..) => 0,
            (_, true, _) => column(Largest::of(x, cols, 1).keys()[0]),
            (_, _, 0) => of_all(&args, row, all),
            (_, _, k) => of_selected(&args, row, Largest::of(x, cols, k as usize).keys(), all.pair.x),
        };
        args.write(row, token, all.pair);
    }
}

/// A round: the (max, sum) of its elements, and the number and the (max, sum) of the chunk that is drawn from them.
#[derive(Clone, Copy)]
struct Seen {
    pair: f32x2,
    chunk: usize,
    of_chunk: f32x2,
}

/// Returns the sums and the chunk of a round.
///
/// # Safety
/// The row lies in the matrix.
unsafe fn seen<T: Number>(args: &SampleArgs<T>, row: usize, above: Above, round: u32) -> Seen {
    let (scale, noise) = (args.scale, args.noise(row));
    let none = f32x2::new(f32::MIN, 0.0);
    let mut seen = Seen { pair: none, chunk: 0, of_chunk: none };
    let mut height = f32::NEG_INFINITY;
    for chunk in 0..(args.cols as usize).div_ceil(CHUNK) {
        // SAFETY: the row exists.
        let of_chunk = unsafe { sums(args, row, chunk, above) };
        let max = seen.pair.x.max(of_chunk.x);
        let [below, next_below] = [seen.pair, of_chunk].map(|it| (it.x - max) * scale);
        let next_height = match of_chunk.y > 0.0 {
            true => of_chunk.y.ln() + Noise::of(noise.words(chunk as u32, round)[0]) + next_below,
            false => f32::NEG_INFINITY,
        };
        height += below;
        if next_height > height {
            (height, seen.chunk, seen.of_chunk) = (next_height, chunk, of_chunk);
        }
        let sum = seen.pair.y * below.exp() + of_chunk.y * next_below.exp();
        seen.pair = f32x2::new(max, sum);
    }
    seen
}

/// Returns the (max, sum) of a chunk.
///
/// # Safety
/// The row lies in the matrix.
unsafe fn sums<T: Number>(args: &SampleArgs<T>, row: usize, chunk: usize, above: Above) -> f32x2 {
    let mut max = [f32::MIN; WIDTH];
    // SAFETY: the row exists.
    unsafe { for_each(args, row, chunk, above, |_, x| max = core::array::from_fn(|j| max[j].max(x[j]))) };
    let max = max.into_iter().fold(f32::MIN, f32::max);
    let (mut sum, factor) = ([0.0; WIDTH], args.factor());
    // SAFETY: the row exists.
    unsafe {
        for_each(args, row, chunk, above, |_, x| {
            sum = core::array::from_fn(|j| sum[j] + exp(x[j] - max, factor));
        });
    }
    f32x2::new(max, sum.into_iter().fold(0.0, |sum, x| sum + x))
}

/// Calls `each` with the first column and the elements of each group of a chunk.
///
/// # Safety
/// The row lies in the matrix.
#[inline(always)]
unsafe fn for_each<T: Number>(
    args: &SampleArgs<T>,
    row: usize,
    chunk: usize,
    above: Above,
    mut each: impl FnMut(usize, [f32; WIDTH]),
) {
    let cols = args.cols as usize;
    for start in (chunk * CHUNK..cols.min((chunk + 1) * CHUNK)).step_by(WIDTH) {
        // SAFETY: the row exists.
        let x = unsafe { load(args.logits.add(row * args.stride as usize), start, cols, f32::NEG_INFINITY) };
        each(
            start,
            if above.is_nothing() { x } else { core::array::from_fn(|j| above.masked(x[j], start + j)) },
        );
    }
}

/// Returns the token that is drawn from all logits.
///
/// # Safety
/// The row lies in the matrix, and its sum is positive.
unsafe fn of_all<T: Number>(args: &SampleArgs<T>, row: usize, all: Seen) -> u32 {
    let (mut last, mut above, mut round, factor) = (all, Above::NOTHING, 0, args.factor());
    loop {
        let [_, word] = args.noise(row).words(last.chunk as u32, round);
        let part = Noise::uniform(word) * last.of_chunk.y;
        let (mut before, mut token) = (0.0, 0);
        // SAFETY: the row exists.
        unsafe {
            for_each(args, row, last.chunk, above, |start, x| {
                for j in 0..WIDTH {
                    let weight = exp(x[j] - last.of_chunk.x, factor);
                    token = if weight > 0.0 && before <= part { (start + j) as u32 } else { token };
                    before += weight;
                }
            });
            if args.top_p >= 1.0 {
                return token;
            }
            above = Above(key(args.logit(row, token), token));
            round += 1;
            last = seen(args, row, above, round);
        }
        if last.pair.y * ((last.pair.x - all.pair.x) * args.scale).exp() < args.top_p * all.pair.y {
            return token;
        }
    }
}

/// Returns the token that is drawn from these logits, which are sorted with the largest first.
fn of_selected<T: Number>(args: &SampleArgs<T>, row: usize, keys: &[u64], max: f32) -> u32 {
    let weight = |key: u64| exp(value(key) - max, args.factor());
    let all = keys.iter().fold(0.0, |sum, &key| sum + weight(key));
    let is_left = |before: f32| args.top_p >= 1.0 || before < args.top_p * all;
    let mut left = 0.0;
    for &key in keys {
        left += if is_left(left) { weight(key) } else { 0.0 };
    }
    let [_, word] = args.noise(row).words(0, 0);
    let part = Noise::uniform(word) * left;
    let (mut before, mut token) = (0.0, column(keys[0]));
    for &key in keys {
        if !is_left(before) {
            break;
        }
        token = if weight(key) > 0.0 && before <= part { column(key) } else { token };
        before += weight(key);
    }
    token
}
