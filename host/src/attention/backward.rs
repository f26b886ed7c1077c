//! The gradients of attention.

use attention_kernels::backward::args::{BackwardLaunch, PADDED};
use attention_kernels::backward::{BackwardShape, delta_config, serial::MOST, serial_config};
use cuda_std::launch::{KernelMeta, RawBuffer};
use cuda_std::tensor::TensorMap;

use super::maps::map;
use super::operation::{MOST_POSITIONS, MULTIPLE, check_device, check_heads, check_scale, extent};
use super::tensor::Layout;
use super::types::Mask;
use super::{AttentionError, Causal, Real, Tensor, TensorMut};
use crate::DeviceProfile;
use crate::device::{BufferView, Device, Queue};

/// The operands and results of a forward attention.
///
/// ```
/// use ferrowarp::{attention::{AttentionError, Forward, Tensor}, bf16, device::Device};
///
/// let device = Device::cpu();
/// let (buffer, log_sum_exp) = (device.alloc_zeroed::<bf16>(8)?, device.alloc_zeroed::<f32>(1)?);
/// let tensor = Tensor::new(&buffer, [1, 1, 1, 8])?;
/// let forward = Forward { q: tensor, k: tensor, v: tensor, out: tensor, log_sum_exp: (&log_sum_exp).into() };
/// assert_eq!(forward.q.shape(), [1, 1, 1, 8]);
/// # Ok::<(), AttentionError>(())
/// ```
#[derive(Clone, Copy)]
pub struct Forward<'a, T> {
    /// The queries, `[batch, queries, heads, head size]`.
    pub q: Tensor<'a, T>,
    /// The keys, `[batch, keys, key heads, head size]`.
    pub k: Tensor<'a, T>,
    /// The values, in the shape of the keys.
    pub v: Tensor<'a, T>,
    /// The result, in the shape of the queries.
    pub out: Tensor<'a, T>,
    /// The output of [`Attention::log_sum_exp`](super::Attention::log_sum_exp).
    pub log_sum_exp: BufferView<'a, f32>,
}

/// The output gradients. The head size is a multiple of 8.
///
/// ```
/// use ferrowarp::attention::{AttentionError, Gradients, TensorMut};
/// use ferrowarp::bf16;
/// use ferrowarp::device::Device;
///
/// let device = Device::cpu();
/// let shape = [1, 1, 1, 8];
/// let (mut q, mut k, mut v) = (device.alloc_zeroed::<bf16>(8)?, device.alloc_zeroed(8)?, device.alloc_zeroed(8)?);
/// let gradients = Gradients {
///     q: TensorMut::new(&mut q, shape)?,
///     k: TensorMut::new(&mut k, shape)?,
///     v: TensorMut::new(&mut v, shape)?,
/// };
/// assert_eq!(gradients.k.shape(), shape);
/// # Ok::<(), AttentionError>(())
/// ```
pub struct Gradients<'a, T> {
    /// The gradient of the queries, in their shape.
    pub q: TensorMut<'a, T>,
    /// The gradient of the keys, in their shape.
    pub k: TensorMut<'a, T>,
    /// The gradient of the values, in their shape.
    pub v: TensorMut<'a, T>,
}

/// The gradients of an attention with respect to its queries, keys and values; [`run`](Self::run) computes them.
///
/// ```
/// use ferrowarp::attention::{Attention, AttentionError, Backward, Forward, Gradients, Tensor, TensorMut};
/// use ferrowarp::bf16;
/// use ferrowarp::device::Device;
///
/// let device = Device::cpu();
/// let constant = |value| device.upload(&[bf16::from_f32(value); 16]);
/// let shape = [1, 2, 1, 8];
/// let (q, k, v, d_out) = (constant(1.0)?, constant(0.0)?, constant(2.0)?, constant(1.0)?);
/// let (q, k, v) = (Tensor::new(&q, shape)?, Tensor::new(&k, shape)?, Tensor::new(&v, shape)?);
/// let (mut out, mut log_sum_exp) = (device.alloc_zeroed(16)?, device.alloc_zeroed(2)?);
/// let forward = Attention::new(TensorMut::new(&mut out, shape)?, q, k, v);
/// forward.log_sum_exp(&mut log_sum_exp).run(&device)?;
///
/// let (mut dq, mut dk, mut dv) = (device.alloc_zeroed(16)?, device.alloc_zeroed(16)?, device.alloc_zeroed(16)?);
/// let gradients = Gradients {
///     q: TensorMut::new(&mut dq, shape)?,
///     k: TensorMut::new(&mut dk, shape)?,
///     v: TensorMut::new(&mut dv, shape)?,
/// };
/// let out = Tensor::new(&out, shape)?;
/// let forward = Forward { q, k, v, out, log_sum_exp: (&log_sum_exp).into() };
/// Backward::new(gradients, Tensor::new(&d_out, shape)?, forward).run(&device)?;
/// // Both queries weight both values equally.
/// assert_eq!(dv.to_vec()?, [bf16::ONE; 16]);
/// # Ok::<(), AttentionError>(())
/// ```
pub struct Backward<'a, T> {
    gradients: Gradients<'a, T>,
    d_out: Tensor<'a, T>,
    forward: Forward<'a, T>,
    scale: f32,
    mask: Mask,
}

/// The kernels that can compute gradients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[doc(hidden)]
pub enum BackwardBy {
    /// The kernels for a CPU.
    Serial,
    /// The kernels with `wgmma`.
    Warpgroups {
        /// The index of the head size in `T::KEYS`.
        size: usize,
    },
}

impl BackwardBy {
    /// Returns every choice for a head size, the fastest first. Rows are aligned if they start and end at 16 bytes.
    pub fn every<T: Real>(profile: &DeviceProfile, head_size: u32, is_aligned: bool) -> Vec<Self> {
        let size = T::KEYS.iter().position(|kernel| kernel.head_size >= head_size).filter(|_| is_aligned);
        let warpgroups = size.map(|size| Self::Warpgroups { size });
        let serial = Some(Self::Serial).filter(|_| head_size as usize <= MOST);
        let all = if profile.is_cpu { [serial, warpgroups] } else { [warpgroups, serial] };
        let runs = |by: &Self| by.kernels::<T>().iter().all(|kernel| profile.limits.runs(kernel));
        all.into_iter().flatten().filter(runs).collect()
    }

    /// Returns the kernels that are launched, in order.
    pub fn kernels<T: Real>(self) -> Vec<&'static KernelMeta> {
        match self {
            Self::Serial => vec![T::SERIAL_QUERIES.meta, T::SERIAL_KEYS.meta],
            Self::Warpgroups { size } => vec![T::DELTA.meta, T::KEYS[size].meta, T::QUERIES[size].meta],
        }
    }
}

/// The extents of a problem.
#[derive(Clone, Copy)]
struct Extents {
    queries: u32,
    keys: u32,
    heads: u32,
    key_heads: u32,
    batch: u32,
    head_size: u32,
}

impl<'a, T: Real> Backward<'a, T> {
    /// Prepares the gradients, given the gradient `d_out` of the result, without a mask and with a scale of 1 / sqrt(head
    /// size).
    pub fn new(gradients: Gradients<'a, T>, d_out: Tensor<'a, T>, forward: Forward<'a, T>) -> Self {
        let scale = 1.0 / (forward.q.shape()[3].max(1) as f32).sqrt();
        Self { gradients, d_out, forward, scale, mask: Mask::default() }
    }

    /// Sets the causal mask of the forward attention.
    pub fn causal(mut self, causal: Causal) -> Self {
        self.mask.causal = Some(causal);
        self
    }

    /// Sets the sliding window of the forward attention.
    pub fn sliding_window(mut self, keys: usize) -> Self {
        self.mask.window = Some(keys);
        self
    }

    /// Sets the factor of the logits in the forward attention, greater than 0 and at most 2^64.
    pub fn scale(mut self, scale: f32) -> Self {
        self.scale = scale;
        self
    }

    /// Computes the gradients. On a GPU the work is queued.
    ///
    /// # Errors
    /// The shapes do not match, the head size is not a multiple of 8 or is larger than 128, the scale is out of range, a
    /// sliding window is empty or has no causal mask, an extent is too large, a tensor's address or strides are not
    /// multiples of 16 bytes, the device has no kernel, a tensor lives on another device, or the device failed.
    pub fn run(mut self, queue: &impl Queue) -> Result<(), AttentionError> {
        let device = queue.device();
        let (profile, head_size) = (DeviceProfile::from(device), self.forward.q.shape()[3]);
        let of = |profile: &_| BackwardBy::every::<T>(profile, head_size as u32, true).first().copied();
        let most = T::KEYS[T::KEYS.len() - 1].head_size;
        if head_size > most as usize {
            return Err(AttentionError::HeadSize { head_size, most });
        } else if !head_size.is_multiple_of(MULTIPLE as usize) {
            return Err(AttentionError::HeadSizeMultiple { head_size, multiple: MULTIPLE });
        }
        self.checked(device).and_then(|_| self.check_alignment())?;
        let lacks = AttentionError::NoKernel { capability: profile.limits.capability, needs: "9.0 alone" };
        let by = of(&profile).or_else(|| of(&profile.with_absent_kernels()?)).ok_or(lacks)?;
        self.run_by(queue, by)
    }

    /// Runs it with these kernels, to compare kernels.
    #[doc(hidden)]
    pub fn run_by(mut self, queue: &impl Queue, by: BackwardBy) -> Result<(), AttentionError> {
        let device = queue.device();
        let extents = self.checked(device)?;
        let Extents { queries, keys, heads, key_heads, batch, head_size } = extents;
        if head_size == 0 {
            return Err(AttentionError::HeadSize { head_size: 0, most: MOST as u32 });
        }
        let has_queries = [queries, heads, batch].iter().all(|&extent| extent > 0);
        let has_keys = [keys, key_heads, batch].iter().all(|&extent| extent > 0);
        let rows = u64::from(queries.next_multiple_of(PADDED)) * u64::from(heads) * u64::from(batch);
        let mut stats = queue.alloc_unwritten::<f32>(2 * rows as usize)?;
        let args = self.args(&extents, RawBuffer::written(&mut stats));
        let counted = |blocks: u64| extent("tiles of all heads", blocks as usize, i32::MAX as usize);
        // SAFETY: shapes, strides and devices were checked, the outputs are borrowed exclusively, and the maps describe the
        // tensors. There is memory for the statistics. Later uses wait for the device or are queued after this.
        unsafe {
            match by {
                BackwardBy::Serial => {
                    if has_queries {
                        let (config, blocks) = serial_config(queries, heads, batch);
                        counted(blocks)?;
                        T::SERIAL_QUERIES.launch(queue, config, BackwardLaunch { ..args })?;
                    }
                    if has_keys {
                        let (config, blocks) = serial_config(keys, key_heads, batch);
                        counted(blocks)?;
                        T::SERIAL_KEYS.launch(queue, config, args)?;
                    }
                }
                BackwardBy::Warpgroups { size } => {
                    self.check_alignment()?;
                    if !has_queries && !has_keys {
                        return Ok(());
                    }
                    let args = self.with_maps(device, args)?;
                    if has_queries {
                        let (config, blocks) = delta_config(rows);
                        counted(blocks)?;
                        T::DELTA.launch(queue, config, BackwardLaunch { ..args })?;
                    }
                    if has_keys {
                        let kernel = T::KEYS[size];
                        let blocks = counted(kernel.blocks(keys, key_heads, batch))?;
                        kernel.launch(queue, kernel.config(blocks), BackwardLaunch { ..args })?;
                    }
                    if has_queries {
                        let kernel = T::QUERIES[size];
                        let blocks = counted(kernel.blocks(queries, heads, batch))?;
                        kernel.launch(queue, kernel.config(blocks), args)?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Checks everything that does not depend on the kernels, and returns the extents.
    fn checked(&mut self, device: &Device) -> Result<Extents, AttentionError> {
        let Self { gradients, d_out, forward, .. } = self;
        let [batch, queries, heads, size] = forward.q.shape();
        let [_, keys, key_heads, _] = forward.k.shape();
        let (of_queries, of_keys) = (forward.q.shape(), [batch, keys, key_heads, size]);
        for (what, at, got, expected) in [
            ("query tensor", forward.q.device(), forward.q.shape(), of_queries),
            ("key tensor", forward.k.device(), forward.k.shape(), of_keys),
            ("value tensor", forward.v.device(), forward.v.shape(), of_keys),
            ("result", forward.out.device(), forward.out.shape(), of_queries),
            ("gradient of the result", d_out.device(), d_out.shape(), of_queries),
            ("gradient of the queries", gradients.q.device(), gradients.q.shape(), of_queries),
            ("gradient of the keys", gradients.k.device(), gradients.k.shape(), of_keys),
            ("gradient of the values", gradients.v.device(), gradients.v.shape(), of_keys),
        ] {
            if got != expected {
                return Err(AttentionError::ShapesDiffer { what, got, expected });
            }
            check_device(device, what, at)?;
        }
        check_heads(heads, key_heads)?;
        check_scale(self.scale)?;
        self.mask.check()?;
        let (len, expected) =
            (forward.log_sum_exp.len(), batch.saturating_mul(heads).saturating_mul(queries));
        if len != expected {
            return Err(AttentionError::LogSumExpLength { len, expected });
        }
        check_device(device, "log-sum-exp", forward.log_sum_exp.device())?;
        // The padded rows are counted in 32 bits.
        let rows = queries.saturating_add(PADDED as usize).saturating_mul(heads).saturating_mul(batch);
        extent("queries of all heads in the batch", rows, i32::MAX as usize)?;
        Ok(Extents {
            queries: extent("queries", queries, MOST_POSITIONS)?,
            keys: extent("keys", keys, MOST_POSITIONS)?,
            heads: extent("heads", heads, i32::MAX as usize)?,
            key_heads: extent("key heads", key_heads, i32::MAX as usize)?,
            batch: extent("batch", batch, i32::MAX as usize)?,
            head_size: extent("head size", size, i32::MAX as usize)?,
        })
    }

    /// Checks that tensor copies can read and write the tensors.
    fn check_alignment(&mut self) -> Result<(), AttentionError> {
        let Self { gradients, d_out, forward, .. } = self;
        for (what, raw, layout) in [
            ("query tensor", forward.q.raw(), forward.q.layout),
            ("key tensor", forward.k.raw(), forward.k.layout),
            ("value tensor", forward.v.raw(), forward.v.layout),
            ("result", forward.out.raw(), forward.out.layout),
            ("gradient of the result", d_out.raw(), d_out.layout),
            ("gradient of the queries", gradients.q.raw(), gradients.q.layout),
            ("gradient of the keys", gradients.k.raw(), gradients.k.layout),
            ("gradient of the values", gradients.v.raw(), gradients.v.layout),
        ] {
            if !layout.is_empty() && !layout.is_aligned(raw.pointer) {
                return Err(AttentionError::NotAligned { what, strides: layout.strides });
            }
        }
        Ok(())
    }

    /// Returns the launch arguments, without maps.
    fn args(&mut self, extents: &Extents, stats: RawBuffer<f32>) -> BackwardLaunch<T> {
        let &Extents { queries, keys, heads, key_heads, batch, head_size } = extents;
        let Self { gradients, d_out, forward, .. } = self;
        let no_map = TensorMap::from_words([0; 16]);
        BackwardLaunch {
            q_map: no_map,
            k_map: no_map,
            v_map: no_map,
            d_out_map: no_map,
            dq_map: no_map,
            dk_map: no_map,
            dv_map: no_map,
            dq: gradients.q.raw(),
            dk: gradients.k.raw(),
            dv: gradients.v.raw(),
            q: forward.q.raw(),
            k: forward.k.raw(),
            v: forward.v.raw(),
            out: forward.out.raw(),
            d_out: d_out.raw(),
            log_sum_exp: RawBuffer::read(forward.log_sum_exp),
            stats,
            dq_strides: gradients.q.layout.strides(),
            dk_strides: gradients.k.layout.strides(),
            dv_strides: gradients.v.layout.strides(),
            q_strides: forward.q.layout.strides(),
            k_strides: forward.k.layout.strides(),
            v_strides: forward.v.layout.strides(),
            out_strides: forward.out.layout.strides(),
            d_out_strides: d_out.layout.strides(),
            batch,
            queries,
            keys,
            heads,
            key_heads,
            group: heads / key_heads.max(1),
            head_size,
            diagonal: self.mask.diagonal(queries, keys),
            window: self.mask.window(),
            scale: self.scale,
        }
    }

    /// Adds the maps of the tensors to the arguments.
    fn with_maps(
        &self,
        device: &Device,
        args: BackwardLaunch<T>,
    ) -> Result<BackwardLaunch<T>, AttentionError> {
        let Self { gradients, d_out, forward, .. } = self;
        let of = |buffer, layout: &Layout| map(device, buffer, layout, BackwardShape::BOX_ROWS);
        // If there are no queries or no keys, their maps are unused and may describe other tensors.
        let any =
            if forward.q.layout.is_empty() { (args.k, forward.k.layout) } else { (args.q, forward.q.layout) };
        let of =
            |buffer, layout: Layout| if layout.is_empty() { of(any.0, &any.1) } else { of(buffer, &layout) };
        Ok(BackwardLaunch {
            q_map: of(args.q, forward.q.layout)?,
            k_map: of(args.k, forward.k.layout)?,
            v_map: of(args.v, forward.v.layout)?,
            d_out_map: of(args.d_out, d_out.layout)?,
            dq_map: of(args.dq, gradients.q.layout)?,
            dk_map: of(args.dk, gradients.k.layout)?,
            dv_map: of(args.dv, gradients.v.layout)?,
            ..args
        })
    }
}
