//! A softmax that is prepared once and run often.

use bytemuck::Pod;
use cuda_std::launch::RawBuffer;
use gpu_kernels::softmax::forward::ForwardLaunch;

use super::{DeviceProfile, KernelChoice, Matrix, MatrixMut, Options, SoftmaxAs, SoftmaxError, check};
use crate::device::{Buffer, Device};

/// The softmax of `I` as `O` for one shape on one device, with its kernels chosen and their workspace allocated.
///
/// [`Self::run`] only launches, so it can be [recorded](Device::record) after a first run. Making a plan may allocate and
/// dropping it may free, so do neither in a recording. The graph keeps the plan's workspace.
///
/// ```
/// use ferrowarp::device::Device;
/// use ferrowarp::softmax::{MatrixMut, Options, Plan, SoftmaxError};
///
/// let device = Device::cpu();
/// let mut plan = Plan::<f32>::new(&device, 1, 2, &Options::new())?;
/// for logit in [0.0f32, 3.0] {
///     let mut row = device.upload(&[logit, logit])?;
///     plan.run_in_place(&mut MatrixMut::new(&mut row, 1, 2)?)?;
///     assert_eq!(row.to_vec()?, [0.5, 0.5]);
/// }
/// # Ok::<(), SoftmaxError>(())
/// ```
#[derive(Debug)]
pub struct Plan<I: 'static, O: 'static = I> {
    device: Device,
    choice: KernelChoice<I, O>,
    options: Options,
    /// 8-byte elements, for their alignment.
    workspace: Buffer<u64>,
}

impl<I: SoftmaxAs<O>, O: Pod> Plan<I, O> {
    /// Chooses the fastest known kernels for `rows` rows of `cols` elements.
    ///
    /// # Errors
    /// The scale is not in (0, 2^127], a row has 2^32 elements or more, or the workspace does not fit the device's memory.
    pub fn new(device: &Device, rows: usize, cols: usize, options: &Options) -> Result<Self, SoftmaxError> {
        let choice = KernelChoice::new(&DeviceProfile::from(device), rows, cols)?;
        Self::with_choice(device, choice, options)
    }

    /// Makes a plan for each choice of kernels that can do the shape, to compare them.
    ///
    /// # Errors
    /// Same as for [`Self::new`].
    pub fn every(
        device: &Device,
        rows: usize,
        cols: usize,
        options: &Options,
    ) -> Result<Vec<Self>, SoftmaxError> {
        let choices = KernelChoice::every(&DeviceProfile::from(device), rows, cols)?;
        choices.into_iter().map(|choice| Self::with_choice(device, choice, options)).collect()
    }

    fn with_choice(
        device: &Device,
        choice: KernelChoice<I, O>,
        options: &Options,
    ) -> Result<Self, SoftmaxError> {
        options.check()?;
        let [rows, cols] = choice.shape();
        let on_gpu = DeviceProfile::from(device)
            .gpu_instead_of()
            .map(|gpu| KernelChoice::<I, O>::new(&gpu, rows, cols));
        let bytes = on_gpu.transpose()?.map_or(0, |choice| choice.workspace_bytes());
        let workspace = device.alloc_unwritten(choice.workspace_bytes().max(bytes).div_ceil(8))?;
        Ok(Self { device: device.clone(), choice, options: *options, workspace })
    }

    /// The chosen kernels.
    pub fn kernel_choice(&self) -> &KernelChoice<I, O> {
        &self.choice
    }

    /// Writes the softmax of each row of `inp` into the same row of `out`. On a GPU the work is queued.
    ///
    /// # Errors
    /// A matrix has another shape than the plan or lives on another device; the device failed.
    pub fn run(&mut self, out: &mut MatrixMut<'_, O>, inp: &Matrix<'_, I>) -> Result<(), SoftmaxError> {
        check(&self.device, "output", self.choice.shape(), (out.shape(), out.device()))?;
        check(&self.device, "input", self.choice.shape(), (inp.shape(), inp.device()))?;
        // SAFETY: the matrices were checked against their views when they were created, and here against the plan. They do
        // not overlap, since one is borrowed exclusively.
        unsafe { self.launch([out.stride(), inp.stride()], out.raw(), inp.raw()) }
    }

    /// # Safety
    /// `out` and `inp` are matrices of the plan's shape on its device and may be the same; `out` is borrowed exclusively.
    unsafe fn launch(
        &mut self,
        strides: [usize; 2],
        out: RawBuffer<O>,
        inp: RawBuffer<I>,
    ) -> Result<(), SoftmaxError> {
        let pairs = RawBuffer::<u64>::written(&mut self.workspace).cast();
        let args = ForwardLaunch { pairs, ..ForwardLaunch::new(out, inp, strides) };
        // SAFETY: the caller's matrices; the workspace has the size that the choice needs. Later uses of all three wait for
        // the device, or are queued after this.
        unsafe { self.choice.launch(&self.device, args, &self.options) }
    }
}

impl<T: SoftmaxAs<T>> Plan<T, T> {
    /// Replaces each row of `matrix` with its softmax. On a GPU the work is queued.
    ///
    /// # Errors
    /// Same as for [`Self::run`].
    pub fn run_in_place(&mut self, matrix: &mut MatrixMut<'_, T>) -> Result<(), SoftmaxError> {
        check(&self.device, "matrix", self.choice.shape(), (matrix.shape(), matrix.device()))?;
        let (strides, elements) = ([matrix.stride(); 2], matrix.raw());
        // SAFETY: as in `run`; output and input are the same matrix.
        unsafe { self.launch(strides, elements, elements) }
    }
}
