//! Rows of any width, each of one thread.

use cuda_std::mem::f32x2;
use cuda_std::thread;

use super::args::SampleArgs;
use super::draw::Winner;
use crate::element::Number;
use crate::softmax::forward::exp;
use crate::softmax::serial::{WIDTH, load, max, sum};
use crate::softmax::top_k::key::{column, key, value};
use crate::softmax::top_k::serial::Largest;

/// This thread's row, read for its maximum, for the sum, and for the draw.
///
/// # Safety
/// As for the kernels.
#[inline(always)]
pub(super) unsafe fn serial<T: Number>(args: SampleArgs<T>) {
    let (row, [rows, cols]) = (thread::index_1d() as usize, [args.rows as usize, args.cols as usize]);
    if row >= rows {
        return;
    }
    // SAFETY: the row is one of the matrix, and this thread alone writes its results.
    unsafe {
        let x = args.logits.add(row * args.stride as usize);
        let max = max(x, cols);
        let exps = |start| load(x, start, cols, f32::NEG_INFINITY).map(|x| exp::<f32>(x - max, args.scale));
        let pair = f32x2::new(max, sum(cols, exps));
        let drawn = match (pair.y > 0.0, args.is_greedy(), args.top_k) {
            (false, ..) => 0,
            (_, true, _) => Largest::of(x, cols, 1).keys()[0],
            (_, _, 0) => of_all(&args, row, pair),
            (_, _, k) => of_selected(&args, row, Largest::of(x, cols, k as usize).keys(), max),
        };
        args.write(row, drawn, pair);
    }
}

/// The key of the logit that is drawn from all.
///
/// # Safety
/// The row is one of the matrix, and its sum a positive number.
#[inline(always)]
unsafe fn of_all<T: Number>(args: &SampleArgs<T>, row: usize, pair: f32x2) -> u64 {
    // SAFETY: the caller's row.
    unsafe {
        let (_, mut winner) = winner_above(args, row, pair.x, 0);
        loop {
            let drawn = key(args.logit(row, column(winner)), column(winner));
            if args.top_p >= 1.0 {
                return drawn;
            }
            let (sum, next) = winner_above(args, row, pair.x, drawn);
            if sum < args.top_p * pair.y {
                return drawn;
            }
            winner = next;
        }
    }
}

/// The exponentials of the row's elements whose keys are over `least`, summed up unless it is 0, and the winner of these.
///
/// # Safety
/// As for [`of_all`].
#[inline(always)]
unsafe fn winner_above<T: Number>(args: &SampleArgs<T>, row: usize, max: f32, least: u64) -> (f32, u64) {
    let (cols, noise) = (args.cols as usize, args.noise(row));
    let smallest = if least == 0 { f32::NEG_INFINITY } else { value(least) };
    let (mut sum, mut winner) = (0.0f64, Winner::NONE);
    for start in (0..cols).step_by(WIDTH) {
        // SAFETY: the caller's row.
        let x = unsafe { load(args.logits.add(row * args.stride as usize), start, cols, f32::NEG_INFINITY) };
        let larger = x.into_iter().fold(f32::NEG_INFINITY, f32::max);
        if larger < smallest {
            continue;
        }
        let counts = |j: usize| start + j < cols && key(x[j], (start + j) as u32) > least;
        if least > 0 {
            let terms = (0..WIDTH).filter(|&j| counts(j)).map(|j| exp::<f32>(x[j] - max, args.scale));
            sum += terms.map(f64::from).sum::<f64>();
        }
        if winner.may_lose_to((larger - max) * args.scale) {
            let words = noise.words::<WIDTH>(start);
            for j in (0..WIDTH).filter(|&j| counts(j)) {
                let difference = (x[j] - max) * args.scale;
                if winner.may_lose_to(difference) {
                    winner.compare(difference, words[j], start + j);
                }
            }
        }
    }
    (sum as f32, winner.key)
}

/// The key of the logit that is drawn from these, the largest first.
#[inline(always)]
fn of_selected<T: Number>(args: &SampleArgs<T>, row: usize, keys: &[u64], max: f32) -> u64 {
    let (noise, scaled) = (args.noise(row), |key: u64| (value(key) - max) * args.scale);
    let all = keys.iter().fold(0.0, |sum, &key| sum + exp::<f32>(scaled(key), 1.0));
    let (mut before, mut winner, mut drawn) = (0.0, Winner::NONE, 0);
    for &key in keys {
        if args.top_p < 1.0 && before >= args.top_p * all {
            break;
        }
        let (col, last) = (column(key) as usize, winner.key);
        winner.compare(scaled(key), noise.four((col / 4) as u32)[col % 4], col);
        drawn = if winner.key > last { key } else { drawn };
        before += exp::<f32>(scaled(key), 1.0);
    }
    drawn
}
