//! Chooses the kernels for a shape, and launches them.

use cuda_std::launch::{KernelMeta, LaunchConfig, LaunchError, Launcher};
use ferrowarp_device::DeviceProfile;
use ferrowarp_device::error::{Error, Kind};
use softmax_kernels::forward::{ForwardArgs, ForwardLaunch, PREFETCHES_FIRST};
use softmax_kernels::operation::{Split, Spread, Variant};

use super::in_registers::{cluster_of_few_rows, narrow, of_a_block, of_clusters};
use super::options::{Softmax, SoftmaxAs};
use super::staged;
use crate::element::Element;
use crate::operation::early;

/// Rows of fewer elements are never cut into parts to keep more multiprocessors busy: a second launch costs more.
pub(super) const LEAST_SPLIT: usize = 16_384;

/// The fewest elements in a part of a row: a few times 16 bytes per thread of its block.
const LEAST_PART: usize = 4096;

/// Rows are cut for this many blocks per multiprocessor, if the parts stay large enough.
const SPLIT_BLOCKS: usize = 2;

/// Many rows with at least this many columns per byte of an element are held in shared memory rather than in registers: from
/// 32,768 columns of `bf16`, 65,536 of `f32`.
const STAGED_COLUMNS_A_BYTE: usize = 16_384;

/// The smallest compute capability at which a block prefetches a later block's rows into L2.
const PREFETCH_CAPABILITY: u32 = 90;

/// The blocks must fill the device this many times before a prefetch pays: with fewer, most rows are already in flight.
const PREFETCH_WAVES: usize = 3;

/// The fewest bytes per block that are worth a prefetch.
const PREFETCH_LEAST_BYTES: usize = 1024;

/// Pairs of the most bytes per block and the prefetch distance in blocks per two multiprocessors, for blocks that prefetch
/// before they load. Prefetched rows must still be in L2 when their block starts.
const PREFETCH_BEFORE_LOADS: &[(usize, usize)] = &[(4 * 1024, 4), (usize::MAX, 2)];

/// The same for blocks that load before they prefetch.
const PREFETCH_AFTER_LOADS: &[(usize, usize)] = &[(32 * 1024, 4), (96 * 1024, 2), (usize::MAX, 1)];

/// The kernels for a pair of types and a shape on a device, and their launch configurations.
///
/// ```
/// use ferrowarp::device::Device;
/// use ferrowarp::Error;
/// use ferrowarp::softmax::KernelChoice;
///
/// let choice = KernelChoice::<f32>::new(&(&Device::cpu()).into(), 64, 1000)?;
/// for kernel in choice.kernels() {
///     println!("{}", kernel.name);
/// }
/// assert_eq!(choice.shape(), [64, 1000]);
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct KernelChoice<I: 'static, O: 'static = I> {
    rows: usize,
    cols: u32,
    /// `None` if there are no elements.
    kernels: Option<Kernels<I, O>>,
    /// More rows need several launches.
    rows_per_launch: u32,
    prefetch_blocks: u32,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Kernels<I: 'static, O: 'static> {
    /// One block for some rows.
    Rows(&'static Variant<ForwardArgs<I, O>>),
    /// This many blocks for a row.
    Cluster(&'static Variant<ForwardArgs<I, O>>, u32),
    /// Some blocks for a row, which they hold in shared memory.
    Staged(Spread<ForwardArgs<I, O>>),
    /// This many blocks for a row, in each of two launches.
    Split(&'static Split<I, O>, u32),
}

impl<I: SoftmaxAs<O>, O: Element> Kernels<I, O> {
    fn rows_per_block(self) -> u32 {
        match self {
            Kernels::Rows(variant) => variant.rows_at_once(),
            Kernels::Cluster(..) | Kernels::Staged(..) | Kernels::Split(..) => 1,
        }
    }

    fn blocks_per_row(self) -> u32 {
        match self {
            Kernels::Rows(_) => 1,
            Kernels::Cluster(_, blocks) | Kernels::Staged(Spread { blocks, .. }) => blocks,
            Kernels::Split(_, parts) => parts,
        }
    }

    /// The number of blocks for `rows` rows.
    fn blocks(self, rows: usize) -> usize {
        rows.div_ceil(self.rows_per_block() as usize).saturating_mul(self.blocks_per_row() as usize)
    }

    /// The prefetch distance in blocks or clusters; a block has `bytes` bytes of rows.
    fn prefetch_blocks(self, profile: &DeviceProfile, rows: usize, bytes: usize) -> u32 {
        if let Kernels::Staged(Spread { blocks, .. }) = self {
            return staged::prefetch_blocks(profile, rows, blocks);
        }
        let (Kernels::Rows(variant) | Kernels::Cluster(variant, _)) = self else { return 0 };
        if variant.threads == 1 {
            return 0;
        }
        let prefetches_first = variant.threads <= PREFETCHES_FIRST && self.blocks_per_row() == 1;
        prefetch_blocks(variant, profile, [self.blocks(rows), bytes], prefetches_first)
            / self.blocks_per_row()
    }

    fn config(self, rows: u32, cols: usize) -> LaunchConfig {
        let grid = rows.div_ceil(self.rows_per_block()) * self.blocks_per_row();
        let config = match self {
            Kernels::Rows(variant) => LaunchConfig::new(grid, variant.block),
            Kernels::Cluster(variant, blocks) => LaunchConfig::new(grid, variant.block).with_cluster(blocks),
            Kernels::Staged(spread) => spread.config(rows, cols),
            Kernels::Split(split, _) => LaunchConfig::new(grid, split.write.block),
        };
        early(config, rows, cols * size_of::<I>())
    }

    /// The kernels that are launched, in order.
    fn variants(self) -> impl Iterator<Item = &'static Variant<ForwardArgs<I, O>>> {
        let (first, second) = match self {
            Kernels::Rows(variant)
            | Kernels::Cluster(variant, _)
            | Kernels::Staged(Spread { variant, .. }) => (variant, None),
            Kernels::Split(split, _) => (split.reduce, Some(split.write)),
        };
        [first].into_iter().chain(second)
    }
}

impl<I: SoftmaxAs<O>, O: Element> KernelChoice<I, O> {
    /// Chooses the fastest known kernels for the shape.
    ///
    /// # Errors
    /// A row has more elements than the kernels can count.
    pub fn new(profile: &DeviceProfile, rows: usize, cols: usize) -> Result<Self, Error> {
        Self::of_rows(profile, [rows, cols], cols.is_multiple_of(16 / size_of::<I>()))
    }

    /// Chooses them for rows that are whole vectors and start at multiples of 16 bytes, or for others.
    pub(super) fn of_rows(
        profile: &DeviceProfile,
        [rows, cols]: [usize; 2],
        is_whole: bool,
    ) -> Result<Self, Error> {
        counted("softmax", cols)?;
        let serial = profile.is_cpu.then_some(Kernels::Rows(I::FORWARD.serial));
        // A lane reads the elements of unaligned rows one by one: of few rows it should have few.
        let is_slow = |kernels: &Kernels<I, O>| {
            let has_lanes = matches!(kernels, Kernels::Rows(it) if it.threads < 32);
            !is_whole && has_lanes && kernels.blocks(rows) < profile.multiprocessors
        };
        let blocks = of_a_block(profile, cols).filter(|it| !is_slow(it));
        let mut fitting = serial.into_iter().chain(blocks).chain(of_clusters(profile, cols, true));
        let split = Kernels::Split(&I::FORWARD.split, parts(profile, rows, cols));
        let is_idle = |kernels: Kernels<I, O>| {
            let blocks = kernels.blocks(rows);
            cols >= LEAST_SPLIT && blocks < profile.multiprocessors / 2 && split.blocks(rows) > blocks
        };
        let in_shared = || {
            let mut spreads = Spread::staged(I::FORWARD.staged, &profile.limits, cols);
            let is_wide = !profile.is_cpu && cols >= STAGED_COLUMNS_A_BYTE * size_of::<I>();
            let is_busy = |it: &Spread<_>| rows.saturating_mul(it.blocks as usize) >= profile.multiprocessors;
            let is_good = |it: &Spread<_>| is_wide && staged::is_small(it, cols) && is_busy(it);
            spreads.find(is_good).map(Kernels::Staged)
        };
        // In this order: a few lanes for a narrow row, a cluster for few rows, shared memory for a wide row, registers of a
        // block or cluster, and the pair of kernels. On an H200, 4096 rows of 32,768 `bf16` take shared memory: they are not
        // narrow, there are enough rows for a block for each multiprocessor, and three fit its shared memory.
        let special = narrow(profile, rows, cols)
            .filter(|_| is_whole)
            .or_else(|| cluster_of_few_rows(profile, rows, cols))
            .or_else(in_shared);
        let others = || fitting.next().filter(|&kernels| !is_idle(kernels)).unwrap_or(split);
        Self::of(special.unwrap_or_else(others), profile, rows, cols)
    }

    /// Returns all kernels of the device that can do the shape, fast or slow; the pair with several numbers of parts.
    ///
    /// # Errors
    /// Same as for [`Self::new`].
    pub fn every(profile: &DeviceProfile, rows: usize, cols: usize) -> Result<Vec<Self>, Error> {
        counted("softmax", cols)?;
        let mut parts = [1, 3, parts(profile, rows, cols)].to_vec();
        parts.sort_unstable();
        parts.dedup();
        let split = parts.into_iter().map(|parts| Kernels::Split(&I::FORWARD.split, parts));
        let serial = Some(I::FORWARD.serial).filter(|variant| profile.limits.runs(variant.meta));
        let narrow = I::FORWARD.narrow.iter();
        let narrow = narrow.filter(|it| cols <= it.elements as usize && profile.limits.runs(it.meta));
        let all = of_a_block(profile, cols)
            .chain(narrow.map(Kernels::Rows))
            .chain(of_clusters(profile, cols, false))
            .chain(Spread::staged(I::FORWARD.staged, &profile.limits, cols).map(Kernels::Staged))
            .chain(serial.map(Kernels::Rows))
            .chain(split);
        all.map(|kernels| Self::of(kernels, profile, rows, cols)).collect()
    }

    fn of(kernels: Kernels<I, O>, profile: &DeviceProfile, rows: usize, cols: usize) -> Result<Self, Error> {
        let cols_of_kernels = counted("softmax", cols)?;
        let groups = (profile.limits.max_grid.x / kernels.blocks_per_row()).max(1);
        let rows_per_launch = groups.saturating_mul(kernels.rows_per_block());
        let bytes = cols.saturating_mul(size_of::<I>() * kernels.rows_per_block() as usize);
        let bytes_per_block = bytes / kernels.blocks_per_row() as usize;
        Ok(Self {
            rows,
            cols: cols_of_kernels,
            kernels: (rows > 0 && cols > 0).then_some(kernels),
            rows_per_launch,
            prefetch_blocks: kernels.prefetch_blocks(profile, rows, bytes_per_block),
        })
    }

    /// The rows and columns.
    pub fn shape(&self) -> [usize; 2] {
        [self.rows, self.cols as usize]
    }

    /// The kernels that are launched, in order; empty without elements.
    pub fn kernels(&self) -> impl Iterator<Item = &'static KernelMeta> + use<I, O> {
        self.kernels.into_iter().flat_map(Kernels::variants).map(|variant| variant.meta)
    }

    /// Grid, block and cluster of each kernel, for the first [`Self::rows_per_launch`] rows; `None` without elements.
    pub fn config(&self) -> Option<LaunchConfig> {
        Some(self.kernels?.config(self.rows_of_launch(self.rows), self.cols as usize))
    }

    /// The most rows of one launch. A matrix with more rows takes several launches.
    pub fn rows_per_launch(&self) -> usize {
        self.rows_per_launch as usize
    }

    /// The number of parts that a row is cut into, each with its own block, in two launches; 1 if rows are not cut.
    pub fn parts(&self) -> usize {
        match self.kernels {
            Some(Kernels::Split(_, parts)) => parts as usize,
            _ => 1,
        }
    }

    /// The prefetch distance: a block brings the rows of the block (or cluster) this many later into L2. 0 means no
    /// prefetch.
    pub fn prefetch_blocks(&self) -> usize {
        self.prefetch_blocks as usize
    }

    /// Bytes of workspace that the launches need, aligned to 8.
    pub fn workspace_bytes(&self) -> usize {
        match self.kernels {
            Some(Kernels::Split(_, parts)) => self.rows_of_launch(self.rows) as usize * parts as usize * 8,
            _ => 0,
        }
    }

    fn rows_of_launch(&self, left: usize) -> u32 {
        u32::try_from(left).unwrap_or(u32::MAX).min(self.rows_per_launch)
    }

    /// Launches the kernels. Without elements it does nothing.
    ///
    /// # Errors
    /// A launch does not fit the device, memory lives on another device, or a kernel failed.
    ///
    /// # Safety
    /// - The scale of `softmax` is in range.
    /// - `out` and `inp` are matrices of this shape with strides of at least its columns, in memory that is valid for all
    ///   rows; `pairs` has [`Self::workspace_bytes`] bytes. Other arguments are ignored.
    /// - No other code uses `out`, `inp` and `pairs` until the launches have ended, except to read `inp`. `out` may be
    ///   `inp`, if the types and the strides are the same.
    #[doc(hidden)]
    pub unsafe fn launch(
        &self,
        on: &dyn Launcher,
        args: ForwardLaunch<I, O>,
        softmax: &Softmax,
    ) -> Result<(), LaunchError> {
        let Some(kernels) = self.kernels else { return Ok(()) };
        let [out_stride, inp_stride] = [args.out_stride, args.inp_stride].map(|stride| stride as usize);
        let is_whole = inp_stride == self.cols as usize || kernels.rows_per_block() == 1;
        let (mut first, mut rows) = (0, self.rows_of_launch(self.rows));
        while rows > 0 {
            for variant in kernels.variants() {
                let args = ForwardLaunch {
                    out: args.out.skip(first * out_stride),
                    inp: args.inp.skip(first * inp_stride),
                    rows,
                    cols: self.cols,
                    parts: kernels.blocks_per_row(),
                    prefetch_blocks: if is_whole { self.prefetch_blocks } else { 0 },
                    scale: softmax.scale,
                    flags: softmax.flags(),
                    ..args
                };
                // SAFETY: the caller's matrices, starting at a row, and a grid for this many rows.
                unsafe { variant.launch(on, kernels.config(rows, self.cols as usize), args) }?;
            }
            first += rows as usize;
            rows = self.rows_of_launch(self.rows - first);
        }
        Ok(())
    }
}

/// Returns the columns as kernels count them.
pub(super) fn counted(operation: &'static str, cols: usize) -> Result<u32, Error> {
    let (value, most) = (cols, u32::MAX as usize);
    let too_large = Kind::TooLarge { what: "columns", value, most };
    u32::try_from(cols).map_err(|_| Error::from(too_large).of(operation, None))
}

/// The prefetch distance of `blocks` blocks of `bytes` bytes each, which prefetch before or after they load. 0 means none.
pub(super) fn prefetch_blocks<A>(
    variant: &Variant<A>,
    profile: &DeviceProfile,
    [blocks, bytes]: [usize; 2],
    prefetches_first: bool,
) -> u32 {
    let at_once = variant.meta.min_blocks as usize * profile.multiprocessors;
    let is_worth_it = profile.limits.capability >= PREFETCH_CAPABILITY
        && bytes >= PREFETCH_LEAST_BYTES
        && blocks > PREFETCH_WAVES * at_once;
    let table = if prefetches_first { PREFETCH_BEFORE_LOADS } else { PREFETCH_AFTER_LOADS };
    let halves = table.iter().find(|(most, _)| bytes <= *most).filter(|_| is_worth_it);
    halves.map_or(0, |(_, halves)| (halves * profile.multiprocessors / 2) as u32)
}

/// The number of parts into which a pair of kernels cuts each row: enough blocks for the device, but no part too small.
pub(crate) fn parts(profile: &DeviceProfile, rows: usize, cols: usize) -> u32 {
    let wanted = (SPLIT_BLOCKS * profile.multiprocessors) / rows.max(1);
    let parts = wanted.min(cols / LEAST_PART).max(1);
    u32::try_from(parts).unwrap_or(u32::MAX).min(profile.limits.max_grid.x)
}
