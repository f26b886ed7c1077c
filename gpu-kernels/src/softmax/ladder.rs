//! What a rung is to whoever runs it: a name, an idea, and kernels that are prepared for a shape, then launched.

use cuda_std::launch::{KernelMeta, LaunchConfig, LaunchError, Launcher, PtrMutArg, Residence, SliceArg};

/// One step of the ladder.
#[derive(Debug)]
pub struct Rung {
    /// The rung's name, which is that of its file; its kernels are named `softmax_` and this.
    pub name: &'static str,
    /// What it does, in a line.
    pub idea: &'static str,
    /// Its kernels, those for narrow rows first.
    pub variants: &'static [Variant],
}

/// A kernel of a rung.
#[derive(Debug)]
pub struct Variant {
    /// The kernel.
    pub meta: &'static KernelMeta,
    /// The width up to which the rung chooses this kernel.
    pub widest: usize,
    /// Grid and block for `rows` and `cols`, both at least 1, where the kernel can do them.
    pub(super) config: fn(u32, u32) -> Option<LaunchConfig>,
    pub(super) launch: Launch,
}

/// A typed launch with the types of the buffers erased.
pub(super) type Launch =
    unsafe fn(&dyn Launcher, LaunchConfig, Out<'_>, Inp<'_>, u32, u32) -> Result<(), LaunchError>;

/// A kernel and a shape that it accepts.
#[derive(Clone, Copy, Debug)]
pub struct Prepared {
    variant: &'static Variant,
    shape: [u32; 2],
    /// None: there are no elements, and so nothing to launch.
    config: Option<LaunchConfig>,
}

impl Rung {
    /// The rung's kernel for this shape, or none if it has none for it.
    pub fn prepare(&'static self, rows: usize, cols: usize) -> Option<Prepared> {
        self.variants.iter().filter(|variant| cols <= variant.widest).find_map(|v| v.prepare(rows, cols))
    }
}

impl Variant {
    /// This kernel for this shape, or none if it cannot do it.
    pub fn prepare(&'static self, rows: usize, cols: usize) -> Option<Prepared> {
        let [r, c] = [u32::try_from(rows).ok()?, u32::try_from(cols).ok()?];
        let config = if r == 0 || c == 0 { None } else { Some((self.config)(r, c)?) };
        Some(Prepared { variant: self, shape: [r, c], config })
    }
}

impl Prepared {
    /// The kernel.
    pub fn meta(&self) -> &'static KernelMeta {
        self.variant.meta
    }

    /// Grid and block; none where there are no elements.
    pub fn config(&self) -> Option<LaunchConfig> {
        self.config
    }

    /// Launches the kernel; without elements does nothing.
    ///
    /// # Errors
    /// The launch does not fit the device, a buffer lives elsewhere, or the kernel failed.
    ///
    /// # Safety
    /// - `out` and `inp` hold at least `rows * cols` elements each, of different memory.
    /// - Nobody else uses `out`, and both stay alive, until the launch has ended.
    pub unsafe fn launch(
        &self,
        on: &dyn Launcher,
        mut out: impl PtrMutArg<f32>,
        inp: impl SliceArg<f32>,
    ) -> Result<(), LaunchError> {
        let (Some(config), [rows, cols]) = (self.config, self.shape) else { return Ok(()) };
        // SAFETY: the caller's buffers, and the grid that the kernel's own module made for the shape.
        unsafe { (self.variant.launch)(on, config, Out(&mut out), Inp(&inp), rows, cols) }
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

/// A [`Variant`] from the kernel, the width up to which it is chosen, and its launch's extents.
macro_rules! variant {
    ($kernel:path, $widest:expr, $config:expr) => {{
        use $kernel as kernel;
        $crate::softmax::Variant {
            meta: kernel::META,
            widest: $widest,
            config: $config,
            launch: |on, config, out, inp, rows, cols| {
                // SAFETY: the caller of the function answers for the kernel's contract.
                unsafe { kernel::launch(on, config, out, inp, rows, cols) }
            },
        }
    }};
}
pub(super) use variant;
