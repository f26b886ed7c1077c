//! What a rung is to whoever runs it: a name, an idea, and kernels that are prepared for a shape, then launched.

use cuda_std::launch::{
    KernelMeta, LaunchConfig, LaunchError, Launcher, Limits, PtrMutArg, Residence, SliceArg,
};

/// One step of the ladder.
#[derive(Debug)]
pub struct Rung {
    /// The rung's name, which is that of its file; its kernels are named `softmax_` and this.
    pub name: &'static str,
    /// What it does, in a line.
    pub idea: &'static str,
    /// Its ways, those for narrow rows first.
    pub variants: &'static [Variant],
}

/// A way of a rung: a kernel, or a pair of them.
#[derive(Debug)]
pub struct Variant {
    /// What it launches, one after the other.
    pub steps: &'static [Step],
    /// The widths from which and up to which the rung chooses it.
    pub narrowest: usize,
    /// See `narrowest`.
    pub widest: usize,
    /// The rung chooses it only where its grid has at least this many blocks.
    pub least_blocks: u64,
    /// Elements of memory that the first kernel fills for the second, for `rows` and `cols`.
    pub(super) workspace_len: fn(u32, u32) -> usize,
}

/// A kernel of a rung.
#[derive(Debug)]
pub struct Step {
    /// The kernel.
    pub meta: &'static KernelMeta,
    /// Grid and block for `rows` and `cols`, both at least 1, where the kernel can do them.
    pub(super) config: fn(u32, u32) -> Option<LaunchConfig>,
    pub(super) launch: Launch,
}

/// A typed launch with the types of the buffers erased.
pub(super) type Launch = unsafe fn(&dyn Launcher, LaunchConfig, Arguments<'_>) -> Result<(), LaunchError>;

/// What the kernels take, each what it needs of it.
pub(super) struct Arguments<'a> {
    pub out: Out<'a>,
    pub inp: Inp<'a>,
    pub workspace: Out<'a>,
    pub shape: [u32; 2],
}

/// A way and a shape that it accepts.
#[derive(Clone, Copy, Debug)]
pub struct Prepared {
    variant: &'static Variant,
    shape: [u32; 2],
    /// Of the first step and the last, which may be the same. None: there are no elements, and so nothing to launch.
    configs: Option<[LaunchConfig; 2]>,
}

impl Rung {
    /// The rung's way for this shape on the newest devices, or none if it has none for it.
    pub fn prepare(&'static self, rows: usize, cols: usize) -> Option<Prepared> {
        self.prepare_on(&Limits::default(), rows, cols)
    }

    /// The rung's way for this shape on a device with these limits, or none if it has none for it.
    pub fn prepare_on(&'static self, limits: &Limits, rows: usize, cols: usize) -> Option<Prepared> {
        let suits = |way: &&Variant| rows == 0 || cols == 0 || (way.narrowest..=way.widest).contains(&cols);
        let suitable = self.variants.iter().filter(suits);
        let mut prepared = suitable.filter_map(|variant| variant.prepare(rows, cols));
        prepared.find(|prepared| prepared.runs_on(limits) && prepared.has_blocks_enough())
    }
}

impl Variant {
    /// This way for this shape, or none if it cannot do it.
    pub fn prepare(&'static self, rows: usize, cols: usize) -> Option<Prepared> {
        let [r, c] = [u32::try_from(rows).ok()?, u32::try_from(cols).ok()?];
        let config = |step: Option<&Step>| (step?.config)(r, c);
        let configs = match (r, c) {
            (0, _) | (_, 0) => None,
            _ => Some([config(self.steps.first())?, config(self.steps.last())?]),
        };
        Some(Prepared { variant: self, shape: [r, c], configs })
    }

    /// The kernel that writes the result, which is the last.
    pub const fn meta(&self) -> &'static KernelMeta {
        self.steps[self.steps.len() - 1].meta
    }
}

impl Prepared {
    /// The kernel that writes the result.
    pub fn meta(&self) -> &'static KernelMeta {
        self.variant.meta()
    }

    /// Grid and block of the kernel that writes the result; none where there are no elements.
    pub fn config(&self) -> Option<LaunchConfig> {
        self.configs.map(|[_, last]| last)
    }

    /// How many elements the workspace of a launch has at least; 0 where none is needed.
    pub fn workspace_len(&self) -> usize {
        let [rows, cols] = self.shape;
        self.configs.map_or(0, |_| (self.variant.workspace_len)(rows, cols))
    }

    /// Whether a device with these limits has what the kernels use.
    pub fn runs_on(&self, limits: &Limits) -> bool {
        self.variant.steps.iter().all(|step| step.meta.min_arch <= limits.capability)
            && self.configs.is_none_or(|all| all.iter().all(|config| config.cluster <= limits.max_cluster))
    }

    fn has_blocks_enough(&self) -> bool {
        self.config().is_none_or(|config| config.grid.volume() >= self.variant.least_blocks)
    }

    /// Launches the kernels; without elements does nothing.
    ///
    /// # Errors
    /// A launch does not fit the device, a buffer lives elsewhere, or a kernel failed.
    ///
    /// # Safety
    /// - `out` and `inp` hold at least `rows * cols` elements each, `workspace` [`Self::workspace_len`], all of
    ///   different memory.
    /// - Nobody else uses `out` and `workspace`, and all three stay alive, until the launches have ended.
    pub unsafe fn launch(
        &self,
        on: &dyn Launcher,
        mut out: impl PtrMutArg<f32>,
        inp: impl SliceArg<f32>,
        mut workspace: impl PtrMutArg<f32>,
    ) -> Result<(), LaunchError> {
        let Some(configs) = self.configs else { return Ok(()) };
        for (step, config) in self.variant.steps.iter().zip(configs) {
            let (out, workspace) = (Out(&mut out), Out(&mut workspace));
            // SAFETY: the caller's buffers, and the grid that the kernel's own module made for the shape.
            unsafe {
                (step.launch)(on, config, Arguments { out, inp: Inp(&inp), workspace, shape: self.shape })
            }?;
        }
        Ok(())
    }
}

/// A buffer that a kernel writes.
pub(super) struct Out<'a>(&'a mut dyn PtrMutArg<f32>);

/// A buffer that a kernel reads.
pub(super) struct Inp<'a>(&'a dyn SliceArg<f32>);

// SAFETY: all answers are those of the argument inside.
unsafe impl PtrMutArg<f32> for Out<'_> {
    fn as_raw_mut_ptr(&mut self) -> *mut f32 {
        self.0.as_raw_mut_ptr()
    }
    fn residence(&self) -> Residence {
        self.0.residence()
    }
    fn byte_len(&self) -> Option<usize> {
        self.0.byte_len()
    }
}

// SAFETY: as above.
unsafe impl SliceArg<f32> for Inp<'_> {
    fn as_raw_slice(&self) -> (*const f32, usize) {
        self.0.as_raw_slice()
    }
    fn residence(&self) -> Residence {
        self.0.residence()
    }
}

/// A [`Variant`] from its kernel, the width up to which it is chosen, and its launch's extents.
macro_rules! variant {
    ($kernel:path, $widest:expr, $config:expr) => {
        $crate::softmax::Variant {
            steps: &[$crate::softmax::ladder::step!($kernel, $config, out, inp)],
            narrowest: 0,
            widest: $widest,
            least_blocks: 0,
            workspace_len: |_, _| 0,
        }
    };
}
pub(super) use variant;

/// A [`Step`] from its kernel, its launch's extents, and those of the buffers that the kernel takes.
macro_rules! step {
    ($kernel:path, $config:expr, $($buffer:ident),*) => {{
        use $kernel as kernel;
        $crate::softmax::Step {
            meta: kernel::META,
            config: $config,
            launch: |on, config, arguments| {
                let [rows, cols] = arguments.shape;
                // SAFETY: the caller of the function answers for the kernel's contract.
                unsafe { kernel::launch(on, config, $(arguments.$buffer,)* rows, cols) }
            },
        }
    }};
}
pub(super) use step;
