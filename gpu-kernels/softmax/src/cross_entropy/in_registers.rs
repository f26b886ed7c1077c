//! Rows that stay in registers.

use cuda_std::GpuFloat as _;
use cuda_std::mem::{f32x2, u32x4};
use cuda_std::warp::{reduce_max_width, reduce_sum_width};

use super::args::{CrossEntropyArgs, Gradient};
use super::first_max::{first_of, first_of_row};
use crate::forward::{exp, sum_of};
use crate::row::{Row, exchange};
use common_kernels::element::Element;

/// If at least this many threads share a row, they look at its target first and read the row only if it is needed.
const LEAST_THREADS_THAT_ASK: usize = 1024;

/// What a thread holds of a row: vectors, and up to two single elements.
struct Held<T, const N: usize, const THREADS: usize, const VECTORS: usize> {
    row: Row<T, T, THREADS>,
    x_reg: [u32x4; VECTORS],
    edge_reg: [f32; 2],
}

impl<T: Element<N>, const N: usize, const THREADS: usize, const VECTORS: usize> Held<T, N, THREADS, VECTORS> {
    /// Loads this thread's elements, or -inf for all of them.
    #[inline(always)]
    fn load(row: Row<T, T, THREADS>, is_needed: bool) -> Self {
        let source = if is_needed { row } else { row.empty() };
        let x_reg = source.load::<N, VECTORS>(0, T::NEG_INFINITY);
        Self { row, x_reg, edge_reg: source.load_edges::<N>(f32::NEG_INFINITY) }
    }

    /// Returns the largest element, at least the smallest number, so that threads with only -inf add 0 and not NaN.
    #[inline(always)]
    fn max(&self) -> f32 {
        let max = self.x_reg.iter().fold(T::MIN, |max, &x| T::larger(max, x));
        T::unpack(max).into_iter().fold(self.edge_reg[0].max(self.edge_reg[1]), f32::max)
    }

    /// The column of the first element that equals `max`.
    #[inline(always)]
    fn first(&self, max: f32) -> u32 {
        let mut first = u32::MAX;
        for i in 0..VECTORS {
            if let Some(place) = self.row.vector::<N>(i) {
                first = first.min(first_of(T::unpack(self.x_reg[i]), max, place));
            }
        }
        let places = self.row.edges::<N>();
        for i in 0..2 {
            first = first.min(first_of([self.edge_reg[i]], max, places[i]));
        }
        first
    }

    /// Returns the exponentials of the vectors relative to `max`, and the sum of the exponentials of all elements.
    #[inline(always)]
    fn exps(&self, max: f32) -> ([[f32; N]; VECTORS], f32) {
        let (mut sum, mut y_reg) = (0.0, [[0.0; N]; VECTORS]);
        if self.row.has_edges::<N>() {
            let [first, second] = self.edge_reg.map(|x| exp::<T>(x - max, 1.0));
            sum = first + second;
        }
        for i in 0..VECTORS {
            // With four elements per vector there is time to check for vectors.
            if N > 4 || self.row.has_vectors(i) {
                y_reg[i] = T::unpack(self.x_reg[i]).map(|x| exp::<T>(x - max, 1.0));
                sum += sum_of(y_reg[i]);
            }
        }
        (y_reg, sum)
    }

    /// Writes the gradient of this thread's elements, whose vectors have the exponentials `y_reg` relative to `max_warp`.
    ///
    /// # Safety
    /// No other code uses what is written.
    #[inline(always)]
    unsafe fn write(
        &self,
        gradient: Gradient,
        logit: f32,
        y_reg: [[f32; N]; VECTORS],
        [max_warp, max]: [f32; 2],
    ) {
        // Rescales from the warp's maximum to the row's.
        let of_warp = gradient.times((max_warp - max).exp());
        for i in 0..VECTORS {
            if let Some(to) = self.row.output::<N>(i) {
                let gradients = if gradient.is_zero() { [0.0; N] } else { of_warp.of_others(y_reg[i]) };
                // SAFETY: the vector is aligned and lies in the row.
                unsafe { T::store(to, gradients) };
            }
        }
        // SAFETY: each element of the gradient belongs to one thread.
        unsafe {
            gradient.finish::<T, N, THREADS>(&self.row, (self.edge_reg, logit), |x| exp::<T>(x - max, 1.0))
        };
    }
}

/// Computes the cross entropy of rows in registers: each of `THREADS` threads holds `VECTORS` vectors.
///
/// # Safety
/// Same as for the kernels; `shared` and `first_shared` belong to the block and have an element per warp each.
#[inline(always)]
pub(super) unsafe fn in_registers<
    T,
    const N: usize,
    const BLOCK: usize,
    const THREADS: usize,
    const LANES: u32,
    const VECTORS: usize,
>(
    shared: *mut f32x2,
    first_shared: *mut u32,
    args: CrossEntropyArgs<T>,
) where
    T: Element<N>,
{
    // SAFETY: the kernel's contract; after the last row nothing is read.
    let (index, held, target, logit) = unsafe {
        let (index, row) = args.row::<N, BLOCK, THREADS>();
        // Short rows do not wait for their target, which would show that some of them need not be read.
        let (held, target) = if THREADS < LEAST_THREADS_THAT_ASK {
            (Held::<T, N, THREADS, VECTORS>::load(row, true), args.target(index))
        } else {
            let target = args.target(index);
            (Held::load(row, args.needs_logits(target)), target)
        };
        // All threads read it before any of them writes the gradient over it.
        let logit = if index < args.rows as usize { args.logit(index, target) } else { f32::NAN };
        (index, held, target, logit)
    };
    // SAFETY: all threads of the block execute this.
    unsafe { args.prefetch(BLOCK / THREADS) };

    // SAFETY: all threads of the block execute this and everything below.
    let max_warp = unsafe { reduce_max_width::<f32, LANES>(u32::MAX, held.max()) };
    // Before the exponentials replace the elements.
    let first = if args.wants_correct() { held.first(max_warp) } else { u32::MAX };
    let (y_reg, sum) = held.exps(max_warp);
    // SAFETY: all lanes execute this.
    let mut pair = f32x2::new(max_warp, unsafe { reduce_sum_width::<f32, LANES>(u32::MAX, sum) });
    if THREADS > 32 {
        // SAFETY: all threads execute this.
        pair = unsafe { exchange::<THREADS>(shared, pair, 1.0) };
    }
    let mut first = if max_warp == pair.x { first } else { u32::MAX };
    if args.wants_correct() {
        // SAFETY: all threads execute this; the condition is the same in the whole grid.
        first = unsafe { first_of_row::<THREADS, LANES>(first_shared, first) };
    }

    // SAFETY: one thread writes the row's results, and each writes the gradient of its own elements.
    unsafe {
        if args.is_first::<THREADS>(index) {
            args.write_results(index, target, logit, pair, first);
        }
        if args.wants_gradient() {
            held.write(args.gradient(index, target, pair.y), logit, y_reg, [max_warp, pair.x]);
        }
    }
}
