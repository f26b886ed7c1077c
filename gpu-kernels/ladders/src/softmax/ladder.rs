//! A rung as its caller sees it: a name, an idea, and kernels that are prepared for a shape and then launched.

use cuda_std::launch::{
    Instance, KernelMeta, LaunchConfig, LaunchError, Launcher, Limits, PtrMutArg, RawBuffer, SliceArg,
};

use softmax_kernels::stage::shared_bytes;

use super::vectors::Vectors;

/// One step of the ladder.
#[derive(Debug)]
pub struct Rung {
    /// The rung's name, which is its file's; its kernels are named `softmax_` plus this name.
    pub name: &'static str,
    /// What the rung does, in one line.
    pub idea: &'static str,
    /// Its kernels, those for narrow rows first.
    pub kernels: &'static [Step],
    /// The two kernels that together take the shapes that none of `kernels` takes.
    pub pair: Option<[&'static Step; 2]>,
}

/// A kernel of a rung.
pub type Step = Instance<Arguments, Shapes>;

/// The shapes for which a rung chooses a kernel, and how it is launched.
#[derive(Clone, Copy, Debug)]
pub struct Shapes {
    /// The smallest width for which the rung chooses the kernel.
    pub narrowest: usize,
    /// The largest width for which the rung chooses the kernel.
    pub widest: usize,
    /// The rung chooses the kernel only if its grid has at least this many blocks.
    pub least_blocks: u64,
    /// Returns the elements of memory between the kernels of a pair, for `rows` and `cols`.
    pub(super) workspace_len: fn(u32, u32) -> usize,
    /// Returns the launch for `rows` and `cols`, both at least 1, or `None` if the kernel does not take them.
    pub(super) config: fn(u32, u32) -> Option<LaunchConfig>,
}

impl Shapes {
    /// All shapes, launched by `config`.
    pub(super) const fn all(config: fn(u32, u32) -> Option<LaunchConfig>) -> Self {
        Self { narrowest: 0, widest: usize::MAX, least_blocks: 0, workspace_len: |_, _| 0, config }
    }

    /// All shapes, one thread per element, all along x: the other axes of a grid end at 65535.
    pub(super) const fn thread_per_element<const BLOCK: usize>() -> Self {
        Self::all(|rows, cols| grid((u64::from(rows) * u64::from(cols)).div_ceil(BLOCK as u64), BLOCK))
    }

    /// All shapes, one block per row.
    pub(super) const fn block_per_row<const BLOCK: usize>() -> Self {
        Self::all(|rows, _| grid(rows.into(), BLOCK))
    }

    /// Rows that `THREADS` threads of a block hold in registers, `VECTORS` vectors each.
    pub(super) const fn resident<const THREADS: usize, const VECTORS: usize>() -> Self {
        let config = |rows: u32, cols: u32| {
            let is_held = cols as usize <= 4 * THREADS * VECTORS;
            let rows_per_block = Vectors::<THREADS>::ROWS_PER_BLOCK;
            grid(rows.div_ceil(rows_per_block as u32).into(), rows_per_block * THREADS).filter(|_| is_held)
        };
        Self { widest: 4 * THREADS * VECTORS, ..Self::all(config) }
    }

    /// Rows that a cluster of 2 to 16 blocks holds in registers, `VECTORS` vectors per thread. The rung chooses them for
    /// rows that are too wide for a block, up to `most` blocks per cluster. With few blocks in the grid, the pair uses the
    /// device better.
    pub(super) const fn cluster_per_row<const BLOCK: usize, const VECTORS: usize>(most: usize) -> Self {
        let config = |rows: u32, cols: u32| {
            let blocks = cols.div_ceil((4 * BLOCK * VECTORS) as u32).next_power_of_two().max(2);
            let config = grid(u64::from(rows) * u64::from(blocks), BLOCK)?.with_cluster(blocks);
            (blocks <= 16).then_some(config)
        };
        let widest = 4 * BLOCK * VECTORS * most;
        Self { narrowest: WIDE, widest, least_blocks: 64, ..Self::all(config) }
    }

    /// Rows that a block, or a cluster of up to 16 blocks, holds in shared memory: with the fewest blocks that still fit a
    /// multiprocessor three at a time, or with 16.
    pub(super) const fn staged<const BLOCK: usize>() -> Self {
        let config = |rows: u32, cols: u32| {
            let bytes = |blocks: u32| shared_bytes(cols as usize / 4, blocks, 1);
            let blocks = [1, 2, 4, 8].into_iter().find(|&blocks| bytes(blocks) <= A_THIRD).unwrap_or(16);
            let config = grid(u64::from(rows) * u64::from(blocks), BLOCK)?.with_cluster(blocks);
            (bytes(blocks) <= MOST_SHARED).then(|| config.with_shared_bytes(bytes(blocks) as u32))
        };
        Self { narrowest: WIDE, ..Self::all(config) }
    }
}

/// Dynamic shared memory of a block if three fit a multiprocessor of 228 KiB. It reserves 1 KiB for each, and each has a
/// little static memory.
const A_THIRD: usize = 74 * 1024;

/// The most dynamic shared memory of a block: 227 KiB, less the static memory.
const MOST_SHARED: usize = 226 * 1024;

/// The smallest number of columns for which several blocks share a row: 16384 still fit one block.
pub(super) const WIDE: usize = 16_385;

/// Returns `blocks` blocks of `threads` threads, or `None` if a grid cannot have that many.
pub(super) fn grid(blocks: u64, threads: usize) -> Option<LaunchConfig> {
    Some(LaunchConfig::new(i32::try_from(blocks).ok()?.cast_unsigned(), threads as u32))
}

/// The arguments of the kernels; each uses those it needs.
#[derive(Clone, Copy, Debug)]
pub struct Arguments {
    pub(super) out: RawBuffer<f32>,
    pub(super) inp: RawBuffer<f32>,
    pub(super) workspace: RawBuffer<f32>,
    pub(super) rows: u32,
    pub(super) cols: u32,
}

/// One of a rung's alternatives: a kernel, or a pair of them.
#[derive(Clone, Copy, Debug)]
pub struct Variant {
    first: Option<&'static Step>,
    /// The kernel that writes the result.
    last: &'static Step,
}

/// A variant, and a shape that it takes.
#[derive(Clone, Copy, Debug)]
pub struct Prepared {
    variant: Variant,
    shape: [u32; 2],
    /// The last step's launch. `None`: there are no elements, so there is nothing to launch.
    config: Option<LaunchConfig>,
}

impl Rung {
    /// Returns the rung's variants, those for narrow rows first.
    pub fn variants(&self) -> impl Iterator<Item = Variant> + use<> {
        let single = self.kernels.iter().map(|last| Variant { first: None, last });
        single.chain(self.pair.map(|[first, last]| Variant { first: Some(first), last }))
    }

    /// Returns the rung's variant for this shape on the newest devices, or `None` if none takes it.
    pub fn prepare(&self, rows: usize, cols: usize) -> Option<Prepared> {
        self.prepare_on(&Limits::default(), rows, cols)
    }

    /// Returns the rung's variant for this shape on a device with these limits, or `None` if none takes it.
    pub fn prepare_on(&self, limits: &Limits, rows: usize, cols: usize) -> Option<Prepared> {
        let suits =
            |way: &Variant| rows == 0 || cols == 0 || (way.last.narrowest..=way.last.widest).contains(&cols);
        let mut prepared = self.variants().filter(suits).filter_map(|variant| variant.prepare(rows, cols));
        prepared.find(|prepared| prepared.runs_on(limits) && prepared.has_blocks_enough())
    }
}

impl Variant {
    /// Prepares this variant for this shape, or returns `None` if it does not take it.
    pub fn prepare(self, rows: usize, cols: usize) -> Option<Prepared> {
        let shape @ [r, c] = [u32::try_from(rows).ok()?, u32::try_from(cols).ok()?];
        let config = match shape {
            [0, _] | [_, 0] => None,
            _ => Some((self.last.config)(r, c)?),
        };
        Some(Prepared { variant: self, shape, config })
    }

    /// Returns the kernels that it launches, in order.
    pub fn steps(self) -> impl Iterator<Item = &'static Step> {
        self.first.into_iter().chain([self.last])
    }

    /// Returns the kernel that writes the result, which is the last.
    pub fn meta(self) -> &'static KernelMeta {
        self.last.meta
    }
}

impl Prepared {
    /// Returns the kernel that writes the result.
    pub fn meta(&self) -> &'static KernelMeta {
        self.variant.meta()
    }

    /// Returns the launch of the kernel that writes the result, or `None` if there are no elements.
    pub fn config(&self) -> Option<LaunchConfig> {
        self.config
    }

    /// Returns the smallest number of elements of a launch's workspace; 0 if it needs none.
    pub fn workspace_len(&self) -> usize {
        let [rows, cols] = self.shape;
        self.config.map_or(0, |_| (self.variant.last.workspace_len)(rows, cols))
    }

    /// Returns whether a device with these limits can run the kernels.
    pub fn runs_on(&self, limits: &Limits) -> bool {
        self.variant.steps().all(|step| limits.runs(step.meta))
            && self.config.is_none_or(|config| {
                config.cluster <= limits.max_cluster && config.shared_bytes <= limits.max_dynamic_shared_bytes
            })
    }

    fn has_blocks_enough(&self) -> bool {
        self.config.is_none_or(|config| config.grid.volume() >= self.variant.last.least_blocks)
    }

    /// Launches the kernels, or nothing if there are no elements.
    ///
    /// # Errors
    /// A launch does not fit the device, a buffer is not the launcher's, or a kernel failed.
    ///
    /// # Safety
    /// - `out` and `inp` hold at least `rows * cols` elements each, and `workspace` [`Self::workspace_len`]; none overlap.
    /// - No other code uses `out` and `workspace`, and all three stay alive, until the launches have ended.
    pub unsafe fn launch(
        &self,
        on: &dyn Launcher,
        out: impl PtrMutArg<f32>,
        inp: impl SliceArg<f32>,
        workspace: impl PtrMutArg<f32>,
    ) -> Result<(), LaunchError> {
        let [rows, cols] = self.shape;
        let (out, inp, workspace) =
            (RawBuffer::written(out), RawBuffer::slice(inp), RawBuffer::written(workspace));
        for step in self.variant.steps() {
            // Both kernels of a pair have the same launch.
            let Some(config) = self.config else { return Ok(()) };
            // SAFETY: the caller's buffers, and the kernel's own grid for the shape.
            unsafe { (step.launch)(on, config, Arguments { out, inp, workspace, rows, cols }) }?;
        }
        Ok(())
    }
}
