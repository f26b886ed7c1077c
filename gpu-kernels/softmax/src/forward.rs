//! Softmax and log-softmax for any type, stride and alignment: rungs k8 and k9, generalised.
//!
//! 8 lanes up to 32 warps, or a cluster of blocks, hold a row as exponentials in registers: one read, one write, and one
//! exponential per element. Warps exchange one (max, sum) each, after one barrier. If there are enough rows, a block
//! prefetches a later block's rows into L2 before it waits for its own.
//! Requires: `cols` at most 4 (`f32`) or 8 (16 bits) times the row's vectors; a block of the kernel's threads.

use cuda_std::fastmath::ex2_approx_ftz;
#[cfg(not(target_arch = "nvptx64"))]
use cuda_std::launch::RawBuffer;
use cuda_std::mem::f32x2;
use cuda_std::warp::{reduce_max_width, reduce_sum_width};
use cuda_std::{GpuFloat, KernelArgs, cluster, thread};

use super::row::{NO_PAIR, Part, Row, exchange, merge, prefetch_rows, row_or_empty};
use super::stage::Exchange;
use common_kernels::element::{Element, Number, Output};

/// A flag of the kernels: the logarithm of the softmax.
pub const LOG: u32 = 1;
/// A flag of the kernels: a row with only -inf gives 0 (its logarithm -inf), not NaN.
pub const ZERO_MASKED: u32 = 2;

/// Up to this many threads per row, and without a cluster, a block prefetches later rows before it loads its own. With more
/// threads it prefetches afterwards: it needs the registers, and its own long rows must come first.
pub const PREFETCHES_FIRST: u32 = 256;

/// The arguments of the forward kernels. Strides are in elements.
///
/// Rows and columns lie between fields of 8 bytes: a load that merges them with another field costs registers.
#[derive(Clone, Copy, Debug, KernelArgs)]
#[repr(C)]
pub struct ForwardArgs<I, O> {
    /// `[rows, cols]`, written.
    pub out: *mut O,
    /// `[rows, cols]`.
    pub inp: *const I,
    /// Rows of both.
    pub rows: u32,
    /// Distance from one row of `out` to the next.
    pub out_stride: u64,
    /// Distance from one row of `inp` to the next.
    pub inp_stride: u64,
    /// Columns of both.
    pub cols: u32,
    /// The (max, sum) of each part of each row, `[rows, parts]`; passed between the kernels of the pair, which alone use it.
    pub pairs: *mut f32x2,
    /// Parts of a row in the pair of kernels.
    pub parts: u32,
    /// Prefetch distance: block (or cluster) `b` loads the rows of block `b + prefetch_blocks` into L2. 0: no prefetch.
    pub prefetch_blocks: u32,
    /// Factor of the elements of `inp`: positive and finite.
    pub scale: f32,
    /// [`LOG`], [`ZERO_MASKED`].
    pub flags: u32,
}

#[cfg(not(target_arch = "nvptx64"))]
impl<I, O> ForwardLaunch<I, O> {
    /// Returns the arguments for the plain softmax of 0 rows. The code that launches the kernel sets the rows, the columns
    /// and all other options.
    pub const fn new(out: RawBuffer<O>, inp: RawBuffer<I>, [out_stride, inp_stride]: [usize; 2]) -> Self {
        Self {
            out,
            inp,
            rows: 0,
            out_stride: out_stride as u64,
            inp_stride: inp_stride as u64,
            cols: 0,
            pairs: RawBuffer::NULL,
            parts: 1,
            prefetch_blocks: 0,
            scale: 1.0,
            flags: 0,
        }
    }
}

impl<I: Number, O: Number> ForwardArgs<I, O> {
    #[inline(always)]
    pub(super) fn is_log(&self) -> bool {
        self.flags & LOG != 0
    }

    /// Returns the exponential of `x * scale`, which is at most 0.
    #[inline(always)]
    pub(super) fn exp(&self, x: f32) -> f32 {
        exp::<O>(x, self.scale)
    }

    /// Returns (a, b): the result is `a * exp(x - max) + b`, or for logarithms `a * (x - max) + b`.
    #[inline(always)]
    pub(super) fn factors(&self, sum: f32) -> (f32, f32) {
        let is_masked = self.flags & ZERO_MASKED != 0 && sum == 0.0;
        if self.is_log() {
            (1.0, if is_masked { 0.0 } else { -sum.ln() })
        } else {
            (if is_masked { 0.0 } else { 1.0 / sum }, 0.0)
        }
    }

    /// Returns row number `row`, or the block's part of it; after the last row, an empty one.
    ///
    /// # Safety
    /// Same as for the kernels.
    #[inline(always)]
    pub(super) unsafe fn row<const N: usize, const THREADS: usize>(
        &self,
        row: usize,
        part: Part,
    ) -> Row<I, O, THREADS>
    where
        I: Element<N>,
        O: Output<N>,
    {
        let [row, cols] = row_or_empty(row, [self.rows, self.cols]);
        // SAFETY: the row lies in the matrices, or is empty.
        unsafe {
            let inp = self.inp.add(row * self.inp_stride as usize);
            Row::new::<N>(self.out.add(row * self.out_stride as usize), inp, cols, part)
        }
    }
}

/// Returns the exponential of `x * scale`, which is at most 0. `f32` outputs get full `f32` accuracy; others get one
/// instruction, which flushes results below 2^-126 to 0.
#[inline(always)]
pub(super) fn exp<O>(x: f32, scale: f32) -> f32 {
    if size_of::<O>() == size_of::<f32>() {
        GpuFloat::exp(x * scale)
    } else {
        ex2_approx_ftz(x * (scale * core::f32::consts::LOG2_E))
    }
}

/// Returns the sum of a vector's elements, by pairs.
#[inline(always)]
pub(super) fn sum_of<const N: usize>(x: [f32; N]) -> f32 {
    let four = |i: usize| (x[i] + x[i + 1]) + (x[i + 2] + x[i + 3]);
    if N == 8 { four(0) + four(4) } else { four(0) }
}

/// Computes the softmax of the block's `BLOCK / THREADS` rows, or with `CLUSTER` of its part of the cluster's row.
///
/// # Safety
/// Same as for the kernels; `shared` belongs to the block and has an element per warp, and with `CLUSTER` [`Exchange::LEN`]
/// more.
#[inline(always)]
pub(super) unsafe fn softmax<
    I,
    O,
    const N: usize,
    const BLOCK: usize,
    const THREADS: usize,
    const LANES: u32,
    const VECTORS: usize,
    const CLUSTER: bool,
>(
    shared: *mut f32x2,
    args: ForwardArgs<I, O>,
) where
    I: Element<N>,
    O: Output<N>,
{
    let (block, group) = (thread::block_idx_x() as usize, thread::thread_idx_x() as usize / THREADS);
    let part = match CLUSTER {
        true => Part { rank: cluster::block_rank(), parts: cluster::num_blocks() },
        false => Part::ALL,
    };
    // SAFETY: all threads of the cluster get here, and to `swap`; the memory is the kernel's.
    let others = CLUSTER.then(|| unsafe { Exchange::new(shared.add(BLOCK / 32), part) });
    let first = block / part.parts as usize * (BLOCK / THREADS);
    // SAFETY: the block has such rows.
    let row = unsafe { args.row::<N, THREADS>(first + group, part) };
    let prefetch = || {
        if args.prefetch_blocks > 0 {
            let later = first + args.prefetch_blocks as usize * (BLOCK / THREADS);
            let (rows, shape) = ([later, BLOCK / THREADS], [args.rows, args.cols]);
            // SAFETY: the rows exist.
            unsafe { prefetch_rows(args.inp, args.inp_stride, shape, rows, part) };
        }
    };
    let prefetches_first = THREADS <= PREFETCHES_FIRST as usize && !CLUSTER;
    if prefetches_first {
        prefetch();
    }
    let x_reg = row.load::<N, VECTORS>(0, I::NEG_INFINITY);
    let edge_reg = row.load_edges::<N>(f32::NEG_INFINITY);
    if !prefetches_first {
        prefetch();
    }

    let max = x_reg.iter().fold(I::MIN, |max, &x| I::larger(max, x));
    let max = I::unpack(max).into_iter().fold(edge_reg[0].max(edge_reg[1]), f32::max);
    // SAFETY: all threads of the block execute this and everything below.
    let max_warp = unsafe { reduce_max_width::<f32, LANES>(u32::MAX, max) };
    let [first, second] = edge_reg.map(|x| args.exp(x - max_warp));
    let mut sum = first + second;
    let mut y_reg = [[0.0; N]; VECTORS];
    for i in 0..VECTORS {
        // With four elements per vector there is time to check for vectors.
        if N > 4 || row.has_vectors(i) {
            let x = I::unpack(x_reg[i]).map(|x| x - max_warp);
            let y = x.map(|x| args.exp(x));
            sum += sum_of(y);
            y_reg[i] = if args.is_log() { x.map(|x| x * args.scale) } else { y };
        }
    }
    // SAFETY: all lanes execute this.
    let mut pair = f32x2::new(max_warp, unsafe { reduce_sum_width::<f32, LANES>(u32::MAX, sum) });
    if THREADS > 32 {
        // SAFETY: all threads execute this.
        pair = unsafe { exchange::<THREADS>(shared, pair, args.scale) };
    }
    if let Some(others) = others {
        // SAFETY: all threads of the cluster execute this.
        pair = unsafe { merge::<16>(others.swap(pair, NO_PAIR), args.scale) };
    }

    let f32x2 { x: max, y: sum } = pair;
    let (a, b) = args.factors(sum);
    // Rescales from the warp's maximum to the row's.
    let (a_warp, b_warp) = if args.is_log() {
        (a, b + (max_warp - max) * args.scale)
    } else {
        (a * ((max_warp - max) * args.scale).exp(), b)
    };
    for i in 0..VECTORS {
        if let Some(to) = row.output::<N>(i) {
            // SAFETY: the vector is aligned and lies in the row, and only this thread writes it.
            unsafe { O::store(to, y_reg[i].map(|y| y.mul_add(a_warp, b_warp))) };
        }
    }
    let finish = |x: f32| {
        let x = x - max;
        if args.is_log() { x * args.scale + b } else { args.exp(x) * a }
    };
    // SAFETY: only this thread writes these elements.
    unsafe { row.store_edges::<N>(edge_reg.map(finish)) };
}
