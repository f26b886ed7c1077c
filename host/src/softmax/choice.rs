//! Which kernels a shape gets, and how they are launched.

use cuda_std::launch::{KernelMeta, LaunchConfig, LaunchError, Launcher, Limits};
use gpu_kernels::softmax::forward::PREFETCHES_FIRST;
use gpu_kernels::softmax::operation::{Arguments, Forward, Memory, Split, Tier};

use super::{Options, SoftmaxError};
use crate::device::Device;

/// Rows of fewer elements are never cut in parts to keep more multiprocessors busy: a second launch costs more.
const LEAST_SPLIT: usize = 16_384;

/// The fewest elements of a part of a row: 16 bytes for each thread of its block, a few times.
const LEAST_PART: usize = 4096;

/// Blocks for each multiprocessor that a row is cut for, if the parts stay large enough.
const SPLIT_BLOCKS: usize = 2;

/// The compute capability from which a block prefetches the rows of a later one into L2.
const AHEAD_CAPABILITY: u32 = 90;

/// How many times the blocks must fill the device before it pays to ask ahead: else most rows are on their way anyhow.
const AHEAD_WAVES: usize = 3;

/// The fewest bytes of a block that are worth asking for.
const AHEAD_LEAST_BYTES: usize = 1024;

/// How many blocks ahead, for half a multiprocessor, by the bytes of a block up to which that holds, where the block
/// asks before it loads: what is asked for must still be in L2 when its block comes.
const AHEAD_PREFETCHING_FIRST: &[(usize, usize)] = &[(4 * 1024, 4), (usize::MAX, 2)];

/// The same where the block loads before it asks.
const AHEAD_LOADING_FIRST: &[(usize, usize)] = &[(32 * 1024, 4), (96 * 1024, 2), (usize::MAX, 1)];

/// What the choice depends on besides types and shape.
#[derive(Clone, Debug)]
#[doc(hidden)]
pub struct Target {
    /// What the device allows.
    pub limits: Limits,
    /// Its multiprocessors.
    pub multiprocessors: usize,
}

impl From<&Device> for Target {
    /// On the CPU it has no clusters: the executor runs them on one core, with a stack for each of up to 16384 threads,
    /// and the pair of kernels spreads over all cores.
    fn from(device: &Device) -> Self {
        let mut limits = device.limits().clone();
        if !device.is_cuda() {
            limits.max_cluster = 1;
        }
        Self { limits, multiprocessors: device.multiprocessors() }
    }
}

/// A matrix as a launch takes it.
#[derive(Clone, Copy, Debug)]
#[doc(hidden)]
pub struct Operand {
    /// The first element, and the bytes from there on.
    pub memory: Memory,
    /// Elements from a row to the next.
    pub stride: usize,
}

/// The kernels for a pair of types and a shape on a device, and the extents of their launches.
///
/// ```
/// use ferrowarp::device::Device;
/// use ferrowarp::softmax::{Options, Plan, SoftmaxError};
///
/// let plan = Plan::<f32>::new(&Device::cpu(), 64, 1000, &Options::new())?;
/// for kernel in plan.choice().kernels() {
///     println!("{}", kernel.name);
/// }
/// assert_eq!(plan.choice().shape(), [64, 1000]);
/// # Ok::<(), SoftmaxError>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Choice {
    forward: &'static Forward,
    rows: usize,
    cols: u32,
    /// None: there are no elements.
    kernels: Option<Kernels>,
    /// More rows are several launches.
    rows_per_launch: u32,
    ahead: u32,
}

#[derive(Clone, Copy, Debug)]
enum Kernels {
    /// A block for some rows.
    Rows(&'static Tier),
    /// So many blocks for a row.
    Cluster(&'static Tier, u32),
    /// So many blocks for a row, twice.
    Split(Split, u32),
}

impl Kernels {
    fn rows_per_block(self) -> u32 {
        match self {
            Kernels::Rows(tier) => tier.block / tier.threads,
            Kernels::Cluster(..) | Kernels::Split(..) => 1,
        }
    }

    fn blocks_per_row(self) -> u32 {
        match self {
            Kernels::Rows(_) => 1,
            Kernels::Cluster(_, blocks) => blocks,
            Kernels::Split(_, parts) => parts,
        }
    }

    /// Blocks for `rows` rows.
    fn blocks(self, rows: usize) -> usize {
        rows.div_ceil(self.rows_per_block() as usize).saturating_mul(self.blocks_per_row() as usize)
    }

    /// How many blocks, or clusters, ahead rows are prefetched, of which a block holds `bytes` bytes.
    fn ahead(self, target: &Target, rows: usize, bytes: usize) -> u32 {
        let (Kernels::Rows(tier) | Kernels::Cluster(tier, _)) = self else { return 0 };
        let prefetches_first = tier.threads <= PREFETCHES_FIRST && self.blocks_per_row() == 1;
        blocks_ahead(tier, target, [self.blocks(rows), bytes], prefetches_first) / self.blocks_per_row()
    }

    fn config(self, rows: u32) -> LaunchConfig {
        let grid = rows.div_ceil(self.rows_per_block()) * self.blocks_per_row();
        match self {
            Kernels::Rows(tier) => LaunchConfig::new(grid, tier.block),
            Kernels::Cluster(tier, blocks) => LaunchConfig::new(grid, tier.block).with_cluster(blocks),
            Kernels::Split(split, _) => LaunchConfig::new(grid, split.write.block),
        }
    }
}

impl Choice {
    /// The fastest kernels that are known for the shape.
    ///
    /// # Errors
    /// A row has more elements than the kernels can count.
    pub fn new(
        forward: &'static Forward,
        target: &Target,
        rows: usize,
        cols: usize,
    ) -> Result<Self, SoftmaxError> {
        let mut fitting = resident(forward, target, cols);
        let parts = parts(target, rows, cols);
        let split = Kernels::Split(forward.split, parts);
        let is_idle = |kernels: Kernels| {
            let blocks = kernels.blocks(rows);
            cols >= LEAST_SPLIT && blocks < target.multiprocessors / 2 && split.blocks(rows) > blocks
        };
        let kernels = fitting.next().filter(|&kernels| !is_idle(kernels)).unwrap_or(split);
        Self::of(kernels, forward, target, rows, cols)
    }

    /// All kernels that can do the shape, the chosen ones and slower ones; the pair with several numbers of parts.
    ///
    /// # Errors
    /// As for [`Self::new`].
    pub fn every(
        forward: &'static Forward,
        target: &Target,
        rows: usize,
        cols: usize,
    ) -> Result<Vec<Self>, SoftmaxError> {
        let mut parts = [1, 3, parts(target, rows, cols)].to_vec();
        parts.sort_unstable();
        parts.dedup();
        let split = parts.into_iter().map(|parts| Kernels::Split(forward.split, parts));
        let all = resident(forward, target, cols).chain(split);
        all.map(|kernels| Self::of(kernels, forward, target, rows, cols)).collect()
    }

    fn of(
        kernels: Kernels,
        forward: &'static Forward,
        target: &Target,
        rows: usize,
        cols: usize,
    ) -> Result<Self, SoftmaxError> {
        let cols_of_kernels = u32::try_from(cols).map_err(|_| SoftmaxError::TooWide { cols })?;
        let groups = (target.limits.max_grid.x / kernels.blocks_per_row()).max(1);
        let rows_per_launch = groups.saturating_mul(kernels.rows_per_block());
        let bytes = cols.saturating_mul(forward.from.size() * kernels.rows_per_block() as usize);
        Ok(Self {
            forward,
            rows,
            cols: cols_of_kernels,
            kernels: (rows > 0 && cols > 0).then_some(kernels),
            rows_per_launch,
            ahead: kernels.ahead(target, rows, bytes / kernels.blocks_per_row() as usize),
        })
    }

    /// Rows and columns that it is for.
    pub fn shape(&self) -> [usize; 2] {
        [self.rows, self.cols as usize]
    }

    /// What is launched, one after the other; nothing without elements.
    pub fn kernels(&self) -> impl Iterator<Item = &'static KernelMeta> + use<> {
        let [first, second] = match self.kernels {
            None => [None, None],
            Some(Kernels::Rows(tier) | Kernels::Cluster(tier, _)) => [Some(tier.meta), None],
            Some(Kernels::Split(split, _)) => [Some(split.reduce.meta), Some(split.write.meta)],
        };
        first.into_iter().chain(second)
    }

    /// Grid, block and cluster of each kernel, for the first [`Self::rows_per_launch`] rows; none without elements.
    pub fn config(&self) -> Option<LaunchConfig> {
        Some(self.kernels?.config(self.rows_of_launch(self.rows)))
    }

    /// The most rows of one launch; a matrix of more rows takes several, one after the other.
    pub fn rows_per_launch(&self) -> usize {
        self.rows_per_launch as usize
    }

    /// Parts of a row that are read and written by blocks of their own, in two launches; 1 where a row is not cut.
    pub fn parts(&self) -> usize {
        match self.kernels {
            Some(Kernels::Split(_, parts)) => parts as usize,
            _ => 1,
        }
    }

    /// How far ahead the blocks ask L2 for the rows of later ones, in blocks or clusters; 0: they do not.
    pub fn blocks_ahead(&self) -> usize {
        self.ahead as usize
    }

    /// Bytes of memory that the launches need for themselves, aligned to 8.
    pub fn workspace_bytes(&self) -> usize {
        match self.kernels {
            Some(Kernels::Split(_, parts)) => self.rows_of_launch(self.rows) as usize * parts as usize * 8,
            _ => 0,
        }
    }

    fn rows_of_launch(&self, left: usize) -> u32 {
        u32::try_from(left).unwrap_or(u32::MAX).min(self.rows_per_launch)
    }

    /// Launches the kernels; without elements nothing.
    ///
    /// # Errors
    /// A launch does not fit the device, memory lives elsewhere, or a kernel failed.
    ///
    /// # Safety
    /// - `out` and `inp` are matrices of the shape and of the pair's types, with a stride of at least its columns, in
    ///   memory that is valid for their rows; `workspace` has [`Self::workspace_bytes`], aligned to 8.
    /// - Nobody else uses `out`, `inp` and `workspace` until the launches have ended, except to read `inp`. `out` may
    ///   be `inp`, if the types and the strides are the same.
    #[doc(hidden)]
    pub unsafe fn launch(
        &self,
        on: &dyn Launcher,
        out: Operand,
        inp: Operand,
        options: &Options,
        workspace: Memory,
    ) -> Result<(), SoftmaxError> {
        options.check()?;
        let Some(kernels) = self.kernels else { return Ok(()) };
        let (mut first, mut rows) = (0, self.rows_of_launch(self.rows));
        let is_whole = inp.stride == self.cols as usize || kernels.rows_per_block() == 1;
        while rows > 0 {
            let arguments = Arguments {
                out: from_row(out, first, self.forward.to.size()),
                inp: from_row(inp, first, self.forward.from.size()),
                rows,
                cols: self.cols,
                out_stride: out.stride as u64,
                inp_stride: inp.stride as u64,
                scale: options.factor(),
                flags: options.flags(),
                ahead: if is_whole { self.ahead } else { 0 },
                pairs: workspace,
                parts: kernels.blocks_per_row(),
            };
            // SAFETY: the caller's matrices from a row on, and a grid for that many rows.
            unsafe { launch_once(kernels, on, arguments) }?;
            first += rows as usize;
            rows = self.rows_of_launch(self.rows - first);
        }
        Ok(())
    }
}

/// How many blocks ahead rows are prefetched, if there are `blocks` blocks of `bytes` bytes each, which prefetch
/// before they load or afterwards.
pub(super) fn blocks_ahead<A>(
    tier: &Tier<A>,
    target: &Target,
    [blocks, bytes]: [usize; 2],
    prefetches_first: bool,
) -> u32 {
    let at_once = tier.meta.min_blocks as usize * target.multiprocessors;
    let is_worth_it = target.limits.capability >= AHEAD_CAPABILITY
        && bytes >= AHEAD_LEAST_BYTES
        && blocks > AHEAD_WAVES * at_once;
    let table = if prefetches_first { AHEAD_PREFETCHING_FIRST } else { AHEAD_LOADING_FIRST };
    let halves = table.iter().find(|(most, _)| bytes <= *most).filter(|_| is_worth_it);
    halves.map_or(0, |(_, halves)| (halves * target.multiprocessors / 2) as u32)
}

/// # Safety
/// The kernels' contracts hold for the arguments.
unsafe fn launch_once(kernels: Kernels, on: &dyn Launcher, arguments: Arguments) -> Result<(), LaunchError> {
    let config = kernels.config(arguments.rows);
    // SAFETY: the caller's contract is the callees'.
    unsafe {
        match kernels {
            Kernels::Rows(tier) | Kernels::Cluster(tier, _) => (tier.launch)(on, config, arguments),
            Kernels::Split(split, _) => {
                (split.reduce.launch)(on, config, arguments)?;
                (split.write.launch)(on, config, arguments)
            }
        }
    }
}

/// The matrix's memory from this row on.
pub(super) fn from_row(matrix: Operand, row: usize, element: usize) -> Memory {
    let skipped = row * matrix.stride * element;
    Memory {
        pointer: matrix.memory.pointer.wrapping_byte_add(skipped),
        bytes: matrix.memory.bytes.map(|bytes| bytes - skipped),
        residence: matrix.memory.residence,
    }
}

/// The kernels that hold a row in registers, those of the fewest threads first, and those of clusters last.
fn resident(forward: &'static Forward, target: &Target, cols: usize) -> impl Iterator<Item = Kernels> {
    let vector = 16 / forward.from.size();
    // Up to a vector less lies beside the vectors, at either end.
    let holds =
        move |tier: &Tier, blocks: u32| cols / vector * vector <= tier.elements as usize * blocks as usize;
    let capability = target.limits.capability;
    let max_cluster = target.limits.max_cluster.min(target.limits.max_grid.x);
    let runs = move |tier: &&Tier| tier.meta.min_arch <= capability;
    let tiers = forward.tiers.iter().filter(runs).filter(move |tier| holds(tier, 1)).map(Kernels::Rows);
    let clusters = forward.clusters.iter().filter(runs).flat_map(move |tier| {
        let sizes =
            [2, 4, 8, 16].into_iter().filter(move |&blocks| blocks <= max_cluster && holds(tier, blocks));
        sizes.map(move |blocks| Kernels::Cluster(tier, blocks))
    });
    tiers.chain(clusters)
}

/// In how many parts the pair cuts each row, so that the device has enough blocks and no part is too small.
fn parts(target: &Target, rows: usize, cols: usize) -> u32 {
    let wanted = (SPLIT_BLOCKS * target.multiprocessors) / rows.max(1);
    let parts = wanted.min(cols / LEAST_PART).max(1);
    u32::try_from(parts).unwrap_or(u32::MAX).min(target.limits.max_grid.x)
}
