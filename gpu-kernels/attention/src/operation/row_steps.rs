//! The steps of the warps of a block in [`super::row_tiles`]: each adds a tile of keys to the results.

use cuda_std::mma::{self, FragmentA, FragmentB, FragmentC, ldmatrix, ldmatrix_trans, mma_sync_tiles};
use cuda_std::shared::SharedPtr;
use cuda_std::wgmma::{Accumulator, Element16};
use cuda_std::{pipeline, thread};

use super::super::args::AttentionArgs;
use super::block_copies::BlockCopies;
use super::online::Online;
use super::part::{Part, pitch};
use super::row_mask::Mask;
use common_kernels::element::Number;

/// The named barrier of the steps: some warps may be in the loop with masks and others in the one without.
const STEP: u32 = 1;

/// What the warps of a block compute with, and where a lane finds it.
pub struct Block<
    'a,
    T,
    const SIZE: usize,
    const KEYS: usize,
    const M: usize,
    const STEPS: usize,
    const THREADS: usize,
    const STAGED: bool,
    const PAGED: bool,
> {
    /// The arguments.
    pub args: &'a AttentionArgs<T>,
    /// The rows and keys of the block.
    pub part: &'a Part,
    /// The keys that the rows of the warp see.
    pub mask: &'a Mask,
    /// The thread's copies.
    pub copies: BlockCopies<SIZE, THREADS, PAGED>,
    /// The thread's first vector of shared memory.
    pub to: SharedPtr<T>,
    /// The rows of shared memory that the lane gives to `ldmatrix`, as if K started it.
    pub q_rows: SharedPtr<T>,
    /// The same for K.
    pub k_rows: SharedPtr<T>,
    /// The same for V.
    pub v_rows: SharedPtr<T>,
    /// The queries, if they are in registers.
    pub queries: [[[u32; 4]; M]; STEPS],
    /// The factor of the logits as exponents of 2.
    pub factor: f32,
}

/// A tile of keys, and where the thread's next copies start.
struct Position<T> {
    tile: u32,
    /// The offset of the tile's buffers.
    stage: u32,
    k: *const T,
    v: *const T,
}

/// The results of a warp so far.
pub struct Sums<const M: usize, const O: usize> {
    /// Of the logits.
    pub rows: [Online; M],
    /// Of the values.
    pub out: [Accumulator<O>; M],
}

impl<
    T: Number + Element16 + mma::Element,
    const SIZE: usize,
    const KEYS: usize,
    const M: usize,
    const STEPS: usize,
    const THREADS: usize,
    const STAGED: bool,
    const PAGED: bool,
> Block<'_, T, SIZE, KEYS, M, STEPS, THREADS, STAGED, PAGED>
{
    /// Bytes of a buffer of K and one of V.
    const BUFFERS: u32 = Self::offset(2 * KEYS, 0);
    /// The offset of the first buffers: after Q.
    const FIRST: u32 = Self::offset(THREADS / 32 * 16 * M, 0);

    /// Returns the bytes from the start of a tile in shared memory to an element.
    #[inline(always)]
    const fn offset(row: usize, col: usize) -> u32 {
        (2 * (row * pitch(SIZE) + col)) as u32
    }

    /// Returns [`Online::is_inexact`] of any row, if the warp has rows that see keys.
    #[inline(always)]
    pub fn is_inexact<const O: usize>(&self, sums: &Sums<M, O>) -> bool {
        let (mut is_inexact, mut m) = (false, 0);
        while m < M {
            is_inexact |= sums.rows[m].is_inexact();
            m += 1;
        }
        is_inexact && self.mask.any[0] < self.mask.any[1]
    }

    /// Computes all tiles. Maxima are subtracted before the multiplication by the factor if `is_exact`.
    ///
    /// # Safety
    /// All threads of the block call this, after [`BlockCopies::start`], which returned where the next copies start.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub unsafe fn run<const O: usize, const S: usize>(
        &self,
        [k, v]: [*const T; 2],
        is_exact: bool,
    ) -> Sums<M, O> {
        let mut sums = Sums { rows: [Online::empty(is_exact); M], out: [Accumulator::<O>::ZERO; M] };
        let &Part { first, end, .. } = self.part;
        let mut at = Position { tile: first, stage: Self::FIRST, k, v };
        while at.tile < end {
            let [from, to] = self.mask.whole;
            let to = if is_exact || at.tile < from { 0 } else { to.min(end) };
            while at.tile < to {
                // SAFETY: all threads execute the same number of steps, and each row sees all of these keys.
                unsafe { self.step::<O, S, false>(&mut sums, &mut at, end, false) };
            }
            if at.tile < end {
                // SAFETY: all threads execute the same number of steps, and all lanes of the warp the same ones.
                unsafe {
                    if self.mask.sees(at.tile * KEYS as u32, KEYS as u32) {
                        self.step::<O, S, true>(&mut sums, &mut at, end, is_exact);
                    } else {
                        self.skip(&mut at, end);
                    }
                }
            }
        }
        pipeline::wait_all();
        sums
    }

    /// Returns the offset of the next tile's buffers.
    #[inline(always)]
    const fn other(stage: u32) -> u32 {
        if STAGED { Self::BUFFERS - stage } else { stage }
    }

    /// Starts the copies of a tile's keys. Rows for which `is_seen` is false become zeros.
    ///
    /// # Safety
    /// All threads of the block call this for one tile after the other, and no code uses the buffer before the copies are
    /// complete. The rows that are seen exist.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    unsafe fn copy_keys(&self, at: &mut Position<T>, tile: u32, stage: u32, is_seen: impl Fn(u32) -> bool) {
        let (to, strides) = (self.to.wrapping_byte_add(stage), &self.args.k_strides);
        let first = tile * KEYS as u32;
        // SAFETY: as the caller promises.
        at.k =
            unsafe { self.copies.keys::<T, KEYS>(self.args, self.part, to, at.k, strides, first, is_seen) };
    }

    /// Starts the copies of a tile's values, like [`Self::copy_keys`].
    ///
    /// # Safety
    /// Same as for [`Self::copy_keys`].
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    unsafe fn copy_values(&self, at: &mut Position<T>, tile: u32, stage: u32, is_seen: impl Fn(u32) -> bool) {
        let to = self.to.wrapping_byte_add(stage + Self::offset(KEYS, 0));
        let (strides, first) = (&self.args.v_strides, tile * KEYS as u32);
        // SAFETY: as the caller promises.
        at.v =
            unsafe { self.copies.keys::<T, KEYS>(self.args, self.part, to, at.v, strides, first, is_seen) };
    }

    /// Loads 16 columns of the warp's queries from shared memory.
    ///
    /// # Safety
    /// All lanes of the warp call this, and the queries have arrived.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub unsafe fn load_queries(&self, step: usize) -> [[u32; 4]; M] {
        // SAFETY: as the caller promises.
        core::array::from_fn(|m| unsafe {
            ldmatrix(self.q_rows.wrapping_byte_add(Self::offset(16 * m, 16 * step)))
        })
    }

    /// Waits for a tile's keys, and starts the copies of its values; if `STAGED`, of the next tile.
    ///
    /// # Safety
    /// Same as for [`Self::step`].
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    unsafe fn begin<const MASKED: bool>(&self, at: &mut Position<T>, end: u32) {
        let first = at.tile * KEYS as u32;
        // The keys have arrived, and no warp reads the last tile's values any more.
        pipeline::wait_all();
        // SAFETY: all threads execute this, some of them in the loop of the other steps, and then nothing uses the buffers
        // that are filled.
        unsafe {
            thread::sync_named_aligned(STEP, THREADS as u32);
            if STAGED {
                self.copy_next::<MASKED>(at, end);
            } else {
                let is_seen = |row| !MASKED || first + row < self.part.visible;
                self.copy_values(at, at.tile, at.stage, is_seen);
            }
        }
        pipeline::commit();
    }

    /// Waits for a tile's values, and starts the copies of the next one's keys, unless `STAGED`.
    ///
    /// # Safety
    /// Same as for [`Self::step`].
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    unsafe fn proceed<const MASKED: bool>(&self, at: &mut Position<T>, end: u32) {
        if STAGED {
            return;
        }
        // The values have arrived, and no warp reads the keys any more.
        pipeline::wait_all();
        // SAFETY: all threads execute this, as above, and then nothing uses the buffer of the keys.
        unsafe {
            thread::sync_named_aligned(STEP, THREADS as u32);
            self.copy_next::<MASKED>(at, end);
        }
        pipeline::commit();
    }

    /// Starts the copies of the next tile's keys; if `STAGED`, also of its values.
    ///
    /// # Safety
    /// Same as for [`Self::copy_keys`].
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    unsafe fn copy_next<const MASKED: bool>(&self, at: &mut Position<T>, end: u32) {
        let (tile, stage) = (at.tile + 1, Self::other(at.stage));
        let has_next = tile < end;
        let is_seen = |row| if MASKED { tile * KEYS as u32 + row < self.part.visible } else { has_next };
        // SAFETY: as the caller promises.
        unsafe {
            self.copy_keys(at, tile, stage, is_seen);
            if STAGED {
                self.copy_values(at, tile, stage, is_seen);
            }
        }
    }

    /// Takes part in a step whose keys no row of the warp sees.
    ///
    /// # Safety
    /// Same as for [`Self::step`].
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    unsafe fn skip(&self, at: &mut Position<T>, end: u32) {
        // SAFETY: all threads execute this.
        unsafe {
            self.begin::<true>(at, end);
            self.proceed::<true>(at, end);
        }
        at.tile += 1;
        at.stage = Self::other(at.stage);
    }

    /// Adds a tile to the sums, and starts the copies of the next one's keys. Every row sees all its keys unless `MASKED`,
    /// and then the block sees all or none of the next one's.
    ///
    /// # Safety
    /// All threads of the block call this with the same tile, after the copies of its keys were started.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    unsafe fn step<const O: usize, const S: usize, const MASKED: bool>(
        &self,
        sums: &mut Sums<M, O>,
        at: &mut Position<T>,
        end: u32,
        is_exact: bool,
    ) {
        let (tile, stage) = (at.tile, at.stage);
        // SAFETY: all threads execute this.
        unsafe { self.begin::<MASKED>(at, end) };
        let mut logits = [Accumulator::<S>::ZERO; M];
        let rows = self.k_rows.wrapping_byte_add(stage);
        let mut step = 0;
        while step < STEPS {
            // SAFETY: all lanes of the warp execute this. The queries and the keys have arrived.
            unsafe {
                let q = if STAGED { self.queries[step] } else { self.load_queries(step) };
                let q = q.map(FragmentA::from_registers);
                let mut i = 0;
                while i < KEYS / 16 {
                    let [a, b, c, d] = ldmatrix(rows.wrapping_byte_add(Self::offset(16 * i, 16 * step)));
                    multiply::<T, M, S>(&q, [[a, b], [c, d]], &mut logits, i);
                    i += 1;
                }
            }
            step += 1;
        }
        if MASKED {
            self.mask.apply::<T, M, S>(self.args, self.part, &mut logits, tile * KEYS as u32);
        }
        // SAFETY: all threads execute this, and all lanes of the warp.
        let raised = unsafe {
            self.proceed::<MASKED>(at, end);
            Online::raise(&mut sums.rows, &mut logits, self.factor, is_exact)
        };
        let mut m = 0;
        while m < M {
            sums.out[m].scale_rows(raised.factors[m]);
            m += 1;
        }
        let rows = self.v_rows.wrapping_byte_add(stage);
        let mut step = 0;
        while step < KEYS / 16 {
            // The tensor cores multiply these values while the warp computes the next weights.
            let weights = Online::weigh::<T, M, S>(&mut sums.rows, &logits, step, self.factor, &raised);
            let weights = weights.map(FragmentA::<T>::from_registers);
            let mut i = 0;
            while i < STEPS {
                // SAFETY: all lanes of the warp execute this, and the values have arrived.
                unsafe {
                    let [a, b, c, d] =
                        ldmatrix_trans(rows.wrapping_byte_add(Self::offset(16 * step, 16 * i)));
                    multiply(&weights, [[a, b], [c, d]], &mut sums.out, i);
                }
                i += 1;
            }
            step += 1;
        }
        at.tile += 1;
        at.stage = Self::other(stage);
    }
}

/// Adds the products of fragments with the two fragments at columns `16 * i` to the accumulators there.
///
/// # Safety
/// All lanes of the warp call this.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
unsafe fn multiply<T: mma::Element, const M: usize, const R: usize>(
    a: &[FragmentA<T>; M],
    b: [[u32; 2]; 2],
    to: &mut [Accumulator<R>; M],
    i: usize,
) {
    let pair = |at: &Accumulator<R>, i: usize| FragmentC([at.0[i], at.0[i + 1], at.0[i + 2], at.0[i + 3]]);
    let mut sums: [[FragmentC; 2]; M] =
        core::array::from_fn(|m| [pair(&to[m], 8 * i), pair(&to[m], 8 * i + 4)]);
    // SAFETY: all lanes execute this.
    unsafe { mma_sync_tiles(a, &b.map(FragmentB::<T>::from_registers), &mut sums) };
    let mut m = 0;
    while m < M {
        let mut j = 0;
        while j < 8 {
            to[m].0[8 * i + j] = sums[m][j / 4].0[j % 4];
            j += 1;
        }
        m += 1;
    }
}
