//! Rows of any width, one thread per row.

use cuda_std::thread;

use super::args::TopKArgs;
use super::key::{key, value};
use super::select::MOST;
use crate::forward::exp;
use crate::serial::{WIDTH, load, max, sum};
use common_kernels::element::Number;

/// The largest keys of a row, in order.
pub struct Largest {
    keys: [u64; MOST],
    len: usize,
}

impl Largest {
    /// Returns the `k` largest of a row.
    ///
    /// # Safety
    /// The row has `cols` elements; `k` is from 1 to [`MOST`].
    #[inline(always)]
    pub unsafe fn of<T: Number>(row: *const T, cols: usize, k: usize) -> Self {
        let mut largest = Self { keys: [0; MOST], len: 0 };
        for start in (0..cols).step_by(WIDTH) {
            // SAFETY: the row has `cols` columns.
            let x = unsafe { load(row, start, cols, f32::NEG_INFINITY) };
            let smallest = if largest.len < k { f32::NEG_INFINITY } else { value(largest.keys[k - 1]) };
            if x.into_iter().fold(f32::NEG_INFINITY, f32::max) >= smallest {
                let count = WIDTH.min(cols - start);
                (0..count).for_each(|j| largest.add(key(x[j], (start + j) as u32), k));
            }
        }
        largest
    }

    /// Returns the keys found, the largest first.
    #[inline(always)]
    pub fn keys(&self) -> &[u64] {
        &self.keys[..self.len]
    }

    #[inline(always)]
    fn add(&mut self, key: u64, k: usize) {
        if self.len == k && key <= self.keys[k - 1] {
            return;
        }
        self.len = (self.len + 1).min(k);
        let mut place = self.len - 1;
        while place > 0 && self.keys[place - 1] < key {
            self.keys[place] = self.keys[place - 1];
            place -= 1;
        }
        self.keys[place] = key;
    }
}

/// Selects from this thread's row: reads it for its maximum, for the sum and for the largest elements.
///
/// # Safety
/// Same as for the kernels.
#[inline(always)]
pub(super) unsafe fn serial<T: Number>(args: TopKArgs<T>) {
    let (row, [rows, cols]) = (thread::index_1d() as usize, [args.rows as usize, args.cols as usize]);
    if row >= rows {
        return;
    }
    // SAFETY: the row lies in the matrices, and only this thread writes its results.
    unsafe {
        let x = args.logits.add(row * args.stride as usize);
        let max = max(x, cols);
        let exps = |start| load(x, start, cols, f32::NEG_INFINITY).map(|x| exp::<f32>(x - max, args.scale));
        let sum = sum(cols, exps);
        let largest = Largest::of(x, cols, args.k as usize);
        for place in 0..args.k as usize {
            let key = largest.keys().get(place).copied().unwrap_or(0);
            args.write(row, place, key, cuda_std::mem::f32x2::new(max, sum));
        }
    }
}
