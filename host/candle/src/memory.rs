//! candle's memory and streams, as operands and queues of ours.

use std::fmt::Display;
use std::sync::OnceLock;
#[cfg(feature = "cuda")]
use std::sync::{Arc, Mutex, PoisonError};

#[cfg(feature = "cuda")]
use candle_core::cuda_backend::{
    CudaDType,
    cudarc::driver::{
        CudaSlice, CudaStream, DevicePtr, DevicePtrMut, DeviceRepr, SyncOnDrop, ValidAsZeroBits,
    },
};
use candle_core::{CpuStorage, DType, Error, Layout, Result, Shape, Storage, Tensor, WithDType};
#[cfg(feature = "cuda")]
use candle_core::{CudaDevice, CudaStorage};
use ferrowarp::bytemuck::Pod;
use ferrowarp::device::{BufferView, BufferViewMut, Device, Stream};
use ferrowarp::{TensorView, TensorViewMut};

/// An error of ours as candle's.
pub(crate) fn ours(error: impl Display + Send + Sync + 'static) -> Error {
    Error::wrap(error)
}

/// The error that a device of candle's has no operations of ours.
fn elsewhere(storage: &Storage) -> Error {
    let place = storage.device().location();
    ours(format!("ferrowarp has no kernels for tensors on {place:?}; move them to the CPU or a CUDA device"))
}

#[cfg(feature = "cuda")]
pub(crate) trait OnCuda: CudaDType + DeviceRepr + ValidAsZeroBits {}
#[cfg(feature = "cuda")]
impl<T: CudaDType + DeviceRepr + ValidAsZeroBits> OnCuda for T {}
#[cfg(not(feature = "cuda"))]
pub(crate) trait OnCuda {}
#[cfg(not(feature = "cuda"))]
impl<T> OnCuda for T {}

/// The elements of a tensor for both libraries.
pub(crate) trait Number: Pod + WithDType + OnCuda {}
impl<T: Pod + WithDType + OnCuda> Number for T {}

/// Where an operation on candle's tensors is queued: the CPU, or a stream of candle's.
pub(crate) struct Queue {
    pub stream: Stream,
    /// candle's stream, which lives as long as ours.
    #[cfg(feature = "cuda")]
    theirs: Option<Arc<CudaStream>>,
}

impl Queue {
    fn cpu() -> Self {
        static CPU: OnceLock<Device> = OnceLock::new();
        Self {
            stream: CPU.get_or_init(Device::cpu).default_stream(),
            #[cfg(feature = "cuda")]
            theirs: None,
        }
    }

    #[cfg(feature = "cuda")]
    fn cuda(theirs: Arc<CudaStream>) -> Result<Self> {
        let device = gpu(theirs.context().ordinal())?;
        // SAFETY: candle and `Device::cuda` use the primary context, and the queue keeps the stream alive. Scratch memory is dropped
        // within a call. candle orders all work on its memory.
        let stream = unsafe { Stream::borrow_raw(&device, theirs.cu_stream().cast()) }.map_err(ours)?;
        Ok(Self { stream, theirs: Some(theirs) })
    }

    #[cfg(feature = "cuda")]
    fn theirs(&self) -> Result<&CudaStream> {
        self.theirs.as_deref().ok_or_else(|| ours("a tensor is on a CUDA device and another one on the CPU"))
    }
}

/// The GPU with this ordinal, which the first call opens.
#[cfg(feature = "cuda")]
fn gpu(ordinal: usize) -> Result<Device> {
    static GPUS: Mutex<Vec<(usize, Device)>> = Mutex::new(Vec::new());
    let mut gpus = GPUS.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((_, device)) = gpus.iter().find(|(known, _)| *known == ordinal) {
        return Ok(device.clone());
    }
    let device = Device::cuda(ordinal as u32).map_err(ours)?;
    gpus.push((ordinal, device.clone()));
    Ok(device)
}

/// The memory of a tensor of candle's.
#[derive(Clone, Copy)]
pub(crate) enum Memory<'a> {
    Cpu(&'a CpuStorage),
    #[cfg(feature = "cuda")]
    Cuda(&'a CudaStorage),
}

/// A tensor of candle's.
#[derive(Clone, Copy)]
pub(crate) struct Operand<'a> {
    pub memory: Memory<'a>,
    pub layout: &'a Layout,
}

/// Memory that is in use, so that other streams of candle's wait for what is queued.
pub(crate) type Used<'a> = Option<In<'a>>;
#[cfg(feature = "cuda")]
type In<'a> = SyncOnDrop<'a>;
#[cfg(not(feature = "cuda"))]
type In<'a> = &'a ();

/// An input of an operation.
pub(crate) struct View<'a, T: Pod> {
    pub view: TensorView<'a, T>,
    pub used: Used<'a>,
}

/// An output of an operation.
pub(crate) struct ViewMut<'a, T: Pod> {
    pub view: TensorViewMut<'a, T>,
    pub used: Used<'a>,
}

impl<'a> Operand<'a> {
    /// Calls `run` with these tensors.
    pub fn with<R, const N: usize>(
        tensors: [&Tensor; N],
        run: impl FnOnce([Operand<'_>; N]) -> Result<R>,
    ) -> Result<R> {
        let held = tensors.map(Tensor::storage_and_layout);
        let mut operands = Vec::with_capacity(N);
        for (storage, layout) in &held {
            let memory = match &**storage {
                Storage::Cpu(storage) => Memory::Cpu(storage),
                #[cfg(feature = "cuda")]
                Storage::Cuda(storage) => Memory::Cuda(storage),
                other => return Err(elsewhere(other)),
            };
            operands.push(Operand { memory, layout });
        }
        run(operands.try_into().unwrap_or_else(|_| unreachable!("there are N tensors")))
    }

    /// The type of the elements.
    pub fn dtype(&self) -> DType {
        use candle_core::backend::BackendStorage as _;
        match self.memory {
            Memory::Cpu(storage) => storage.dtype(),
            #[cfg(feature = "cuda")]
            Memory::Cuda(storage) => storage.dtype(),
        }
    }

    /// Where candle computes with this tensor.
    pub fn queue(&self) -> Result<Queue> {
        match self.memory {
            Memory::Cpu(_) => Ok(Queue::cpu()),
            #[cfg(feature = "cuda")]
            Memory::Cuda(storage) => Queue::cuda(storage.device.cuda_stream()),
        }
    }

    /// The elements from the first one on, with this shape and these strides.
    pub fn view<'b, T: Number, const RANK: usize>(
        &'b self,
        queue: &'b Queue,
        shape: [usize; RANK],
        strides: [usize; RANK],
    ) -> Result<View<'b, T>>
    where
        ferrowarp::Shape: From<[usize; RANK]>,
    {
        let (device, first) = (queue.stream.device(), self.layout.start_offset());
        let (buffer, used) = match self.memory {
            Memory::Cpu(storage) => {
                let elements = storage.as_slice::<T>()?.get(first..).unwrap_or(&[]);
                // SAFETY: the elements are borrowed, and the CPU's work has ended when a call returns.
                (unsafe { BufferView::from_raw(device, elements.as_ptr(), elements.len()) }, None)
            }
            #[cfg(feature = "cuda")]
            Memory::Cuda(storage) => {
                let (slice, stream) = (storage.as_cuda_slice::<T>()?, queue.theirs()?);
                let (address, used) = slice.device_ptr(stream);
                let first = first.min(slice.len());
                let pointer = std::ptr::with_exposed_provenance::<T>(address as usize).wrapping_add(first);
                // SAFETY: candle allocated as many elements. It writes and frees them in the order of the stream.
                (unsafe { BufferView::from_raw(device, pointer, slice.len() - first) }, Some(used))
            }
        };
        let view = TensorView::with_strides(buffer, shape, strides).map_err(ours)?;
        Ok(View { view, used })
    }

    /// The extents of a tensor with this number of axes.
    pub fn extents<const RANK: usize>(&self, what: &str) -> Result<[usize; RANK]> {
        let dims = self.layout.dims();
        let extents = dims.try_into();
        extents.map_err(|_| ours(format!("the {what} has the shape {dims:?}; it needs {RANK} axes")))
    }

    /// The tensor as it is, with this number of axes.
    pub fn axes<'b, T: Number, const RANK: usize>(
        &'b self,
        queue: &'b Queue,
        what: &str,
    ) -> Result<View<'b, T>>
    where
        ferrowarp::Shape: From<[usize; RANK]>,
    {
        let mut strides = [0; RANK];
        let extents = self.extents(what)?;
        strides.copy_from_slice(self.layout.stride());
        self.view(queue, extents, strides)
    }

    /// All elements of a tensor without gaps, in this shape.
    pub fn dense<'b, T: Number, const RANK: usize>(
        &'b self,
        queue: &'b Queue,
        shape: [usize; RANK],
    ) -> Result<View<'b, T>>
    where
        ferrowarp::Shape: From<[usize; RANK]>,
    {
        self.view(queue, shape, dense_strides(shape))
    }

    /// [`Self::output`] if it is wanted.
    pub fn output_if<T: Number>(&self, is_wanted: bool, len: usize) -> Result<Option<Output<T>>> {
        is_wanted.then(|| self.output(len)).transpose()
    }

    /// New memory for `len` elements next to this tensor; zeros if the tensor has no elements, because no kernel writes then.
    pub fn output<T: Number>(&self, len: usize) -> Result<Output<T>> {
        match self.memory {
            Memory::Cpu(_) => Ok(Output::Cpu(vec![T::zeroed(); len])),
            #[cfg(feature = "cuda")]
            Memory::Cuda(storage) => {
                // The driver allocates no empty memory.
                let (device, len) = (storage.device.clone(), len.max(1));
                let slice = match self.layout.shape().elem_count() {
                    0 => device.alloc_zeros(len)?,
                    // SAFETY: a kernel writes all elements.
                    _ => unsafe { device.alloc(len)? },
                };
                Ok(Output::Cuda(slice, device))
            }
        }
    }
}

/// Memory that candle allocated for a result.
pub(crate) enum Output<T> {
    Cpu(Vec<T>),
    #[cfg(feature = "cuda")]
    Cuda(CudaSlice<T>, CudaDevice),
}

impl<T: Number> Output<T> {
    /// The elements, in this shape.
    pub fn view<'a, const RANK: usize>(
        &'a mut self,
        queue: &'a Queue,
        shape: [usize; RANK],
    ) -> Result<ViewMut<'a, T>>
    where
        ferrowarp::Shape: From<[usize; RANK]>,
    {
        let device = queue.stream.device();
        let (buffer, used) = match self {
            Self::Cpu(elements) => {
                // SAFETY: the elements are borrowed exclusively, and the CPU's work has ended when a call returns.
                (unsafe { BufferViewMut::from_raw(device, elements.as_mut_ptr(), elements.len()) }, None)
            }
            #[cfg(feature = "cuda")]
            Self::Cuda(slice, _) => {
                let (len, stream) = (slice.len(), queue.theirs()?);
                let (address, used) = slice.device_ptr_mut(stream);
                let pointer = std::ptr::with_exposed_provenance_mut::<T>(address as usize);
                // SAFETY: candle allocated as many elements, for us. It uses and frees them in the order of the stream.
                (unsafe { BufferViewMut::from_raw(device, pointer, len) }, Some(used))
            }
        };
        let view = TensorViewMut::with_strides(buffer, shape, dense_strides(shape)).map_err(ours)?;
        Ok(ViewMut { view, used })
    }

    /// The memory for candle.
    pub fn storage(self) -> Storage {
        match self {
            Self::Cpu(elements) => Storage::Cpu(T::to_cpu_storage_owned(elements)),
            #[cfg(feature = "cuda")]
            Self::Cuda(slice, device) => Storage::Cuda(CudaStorage::wrap_cuda_slice(slice, device)),
        }
    }

    /// A tensor without a history.
    pub fn tensor(self, shape: impl Into<Shape>) -> Tensor {
        Tensor::from_storage(self.storage(), shape, candle_core::op::BackpropOp::none(), false)
    }
}

/// The elements of an output that is not always wanted, in this shape.
pub(crate) fn optional<'a, T: Number, const RANK: usize>(
    output: &'a mut Option<Output<T>>,
    queue: &'a Queue,
    shape: [usize; RANK],
) -> Result<(Option<TensorViewMut<'a, T>>, Used<'a>)>
where
    ferrowarp::Shape: From<[usize; RANK]>,
{
    match output {
        Some(output) => output.view(queue, shape).map(|ViewMut { view, used }| (Some(view), used)),
        None => Ok((None, None)),
    }
}

/// The strides of a tensor without gaps.
fn dense_strides<const RANK: usize>(shape: [usize; RANK]) -> [usize; RANK] {
    let mut strides = [1; RANK];
    for axis in (1..RANK).rev() {
        strides[axis - 1] = strides[axis] * shape[axis];
    }
    strides
}
