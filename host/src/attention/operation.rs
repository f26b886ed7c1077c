//! Attention with its options.

use cuda_std::launch::RawBuffer;
use cuda_std::tensor::TensorMap;
use gpu_kernels::attention::args::AttentionLaunch;
use gpu_kernels::attention::operation::serial_config;

use super::kernel_choice::Kernel;
use super::maps::with_maps;
use super::tensor::raw_mut;
use super::{AttentionError, Causal, KernelChoice, Problem, Real, Tensor, TensorMut};
use crate::device::{BufferViewMut, Device};
use crate::softmax::DeviceProfile;

/// The largest length.
const MOST_POSITIONS: usize = 1 << 29;
/// The most queries of a head with a causal mask whose tiles the blocks share evenly.
const MOST_IN_TURNS: u32 = 2048;
/// The most blocks of a grid.
const MOST_BLOCKS: u64 = i32::MAX as u64;

/// `out = softmax(scale Q K^T + mask) V`: what is to be computed, before [`run`](Self::run) computes it.
///
/// ```
/// use ferrowarp::attention::{Attention, AttentionError, Tensor, TensorMut};
/// use ferrowarp::device::Device;
/// use ferrowarp::f16;
///
/// let device = Device::cpu();
/// // 3 queries of 4 heads, which share one head of 2 keys.
/// let q = device.upload(&[f16::ONE; 3 * 4 * 8])?;
/// let (k, v) = (device.upload(&[f16::ZERO; 2 * 8])?, device.upload(&[f16::ONE; 2 * 8])?);
/// let mut out = device.alloc_zeroed::<f16>(3 * 4 * 8)?;
/// let mut log_sum_exp = device.alloc_zeroed::<f32>(4 * 3)?;
/// Attention::new(
///     TensorMut::new(&mut out, [1, 3, 4, 8])?,
///     Tensor::new(&q, [1, 3, 4, 8])?,
///     Tensor::new(&k, [1, 2, 1, 8])?,
///     Tensor::new(&v, [1, 2, 1, 8])?,
/// )
/// .scale(0.5)
/// .log_sum_exp(&mut log_sum_exp)
/// .run(&device)?;
/// assert_eq!(out.to_vec()?, [f16::ONE; 3 * 4 * 8]);
/// assert!(log_sum_exp.to_vec()?.iter().all(|x| (x - 2f32.ln()).abs() < 1e-6));
/// # Ok::<(), AttentionError>(())
/// ```
pub struct Attention<'a, T> {
    out: TensorMut<'a, T>,
    q: Tensor<'a, T>,
    k: Tensor<'a, T>,
    v: Tensor<'a, T>,
    log_sum_exp: Option<BufferViewMut<'a, f32>>,
    scale: f32,
    causal: Option<Causal>,
}

impl<'a, T: Real> Attention<'a, T> {
    /// Attention without a mask, and with a scale of 1 / sqrt(head size). `out` and Q are
    /// `[batch, queries, heads, head size]`, K and V are `[batch, keys, key heads, head size]`. The heads are a multiple of the key
    /// heads: neighbouring heads of Q share a head of K and V.
    pub fn new(out: TensorMut<'a, T>, q: Tensor<'a, T>, k: Tensor<'a, T>, v: Tensor<'a, T>) -> Self {
        let scale = 1.0 / (q.shape()[3].max(1) as f32).sqrt();
        Self { out, q, k, v, log_sum_exp: None, scale, causal: None }
    }

    /// Hides the keys that come after a query.
    pub fn causal(mut self, causal: Causal) -> Self {
        self.causal = Some(causal);
        self
    }

    /// Multiplies the logits by `scale`, greater than 0 and at most 2^64.
    pub fn scale(mut self, scale: f32) -> Self {
        self.scale = scale;
        self
    }

    /// Also writes the natural logarithm of the sum of `exp(scale * logit)` over the keys that a query sees, dense
    /// `[batch, heads, queries]`. For a query that sees none it is -inf.
    pub fn log_sum_exp(mut self, log_sum_exp: impl Into<BufferViewMut<'a, f32>>) -> Self {
        self.log_sum_exp = Some(log_sum_exp.into());
        self
    }

    /// Computes it. On a GPU it is queued. Without queries nothing is written.
    ///
    /// # Errors
    /// The shapes do not fit each other, the scale is out of range, an extent is too large, the device has no kernel for the
    /// head size or the strides, a tensor lives on another device, or the device failed.
    pub fn run(self, device: &Device) -> Result<(), AttentionError> {
        let problem = self.checked(device)?;
        let choice = KernelChoice::new(&DeviceProfile::from(device), &problem)?;
        self.launch(device, &problem, choice)
    }

    /// Runs it by the kernel of a choice, the fastest one or another: to compare them.
    #[doc(hidden)]
    pub fn run_by(self, device: &Device, choice: KernelChoice<T>) -> Result<(), AttentionError> {
        let problem = self.checked(device)?;
        self.launch(device, &problem, choice)
    }

    /// What a kernel is chosen for, after everything else has been checked.
    fn checked(&self, device: &Device) -> Result<Problem, AttentionError> {
        let [batch, queries, heads, size] = self.q.shape();
        let [_, keys, key_heads, _] = self.k.shape();
        let of_keys = [batch, keys, key_heads, size];
        for (what, at, got, expected) in [
            ("output", self.out.device(), self.out.shape(), self.q.shape()),
            ("query tensor", self.q.device(), self.q.shape(), self.q.shape()),
            ("key tensor", self.k.device(), self.k.shape(), of_keys),
            ("value tensor", self.v.device(), self.v.shape(), of_keys),
        ] {
            if got != expected {
                return Err(AttentionError::ShapesDiffer { what, got, expected });
            }
            check_device(device, what, at)?;
        }
        if key_heads == 0 && heads > 0 || key_heads > 0 && !heads.is_multiple_of(key_heads) {
            return Err(AttentionError::HeadsDiffer { heads, key_heads });
        }
        // False for NaN too.
        let is_in_range = self.scale > 0.0 && self.scale <= 2f32.powi(64);
        if !is_in_range {
            return Err(AttentionError::Scale { scale: self.scale });
        }
        if let Some(log_sum_exp) = &self.log_sum_exp {
            let (len, expected) = (log_sum_exp.len(), batch.saturating_mul(heads).saturating_mul(queries));
            if len != expected {
                return Err(AttentionError::LogSumExpLength { len, expected });
            }
            check_device(device, "log-sum-exp", log_sum_exp.device())?;
        }
        let extent = |what, value: usize, most: usize| {
            if value > most {
                return Err(AttentionError::TooLarge { what, value, most });
            }
            Ok(value as u32)
        };
        extent("keys", keys, MOST_POSITIONS)?;
        Ok(Problem {
            queries: extent("queries", queries, MOST_POSITIONS)?,
            heads: extent("heads", heads, i32::MAX as usize)?,
            batch: extent("batch", batch, i32::MAX as usize)?,
            head_size: extent("head size", size, i32::MAX as usize)?,
        })
    }

    fn launch(
        mut self,
        device: &Device,
        problem: &Problem,
        choice: KernelChoice<T>,
    ) -> Result<(), AttentionError> {
        if self.out.layout.is_empty() {
            return Ok(());
        }
        let &Problem { queries, heads, batch, .. } = problem;
        let args = self.args(problem);
        let counted = |blocks: u64| {
            let (value, most) = (blocks as usize, MOST_BLOCKS as usize);
            let is_too_large = blocks > MOST_BLOCKS;
            let what = "tiles of queries in all heads";
            if is_too_large { Err(AttentionError::TooLarge { what, value, most }) } else { Ok(blocks as u32) }
        };
        // SAFETY: shapes, strides and devices were checked, the outputs are borrowed exclusively, and the maps describe the
        // tensors. Later uses of the memory wait for the device or are queued after this.
        unsafe {
            match choice.kernel {
                Kernel::Serial(kernel) => {
                    let (config, blocks) = serial_config(queries, heads, batch);
                    counted(blocks)?;
                    kernel.launch(device, config, args)?;
                }
                Kernel::Warpgroups(kernel) => {
                    let tiles = counted(kernel.tiles(queries, heads, batch))?;
                    self.check_alignment()?;
                    let layouts = [&self.out.layout, &self.q.layout, &self.k.layout, &self.v.layout];
                    let args = with_maps(device, kernel, args, layouts)?;
                    // Tiles that take as long are shared evenly. Others each get a block, which starts when one ends.
                    let is_even = self.causal.is_none() || queries <= MOST_IN_TURNS;
                    let multiprocessors = DeviceProfile::from(device).multiprocessors as u32;
                    let blocks = if is_even { tiles.min(multiprocessors).max(1) } else { tiles };
                    kernel.launch(device, kernel.config(blocks), args)?;
                }
            }
        }
        Ok(())
    }

    /// Whether tensor copies can read and write the tensors.
    fn check_alignment(&mut self) -> Result<(), AttentionError> {
        let out = self.out.raw();
        let tensors = [
            ("output", out, self.out.layout),
            ("query tensor", self.q.raw(), self.q.layout),
            ("key tensor", self.k.raw(), self.k.layout),
            ("value tensor", self.v.raw(), self.v.layout),
        ];
        for (what, raw, layout) in tensors {
            if !layout.is_empty() && !layout.is_aligned(raw.pointer) {
                return Err(AttentionError::NotAligned { what, strides: layout.strides });
            }
        }
        Ok(())
    }

    /// What the kernels are launched with, without maps.
    fn args(&mut self, problem: &Problem) -> AttentionLaunch<T> {
        let &Problem { queries, heads, batch, head_size } = problem;
        let [_, keys, key_heads, _] = self.k.shape().map(|extent| extent as u32);
        let diagonal = match self.causal {
            None => keys as i32,
            Some(Causal::TopLeft) => 0,
            Some(Causal::BottomRight) => keys as i32 - queries as i32,
        };
        let no_map = TensorMap::from_words([0; 16]);
        AttentionLaunch {
            q_map: no_map,
            k_map: no_map,
            v_map: no_map,
            out_map: no_map,
            out: self.out.raw(),
            q: self.q.raw(),
            k: self.k.raw(),
            v: self.v.raw(),
            log_sum_exp: self.log_sum_exp.as_mut().map_or(RawBuffer::NULL, raw_mut),
            out_strides: self.out.layout.strides(),
            q_strides: self.q.layout.strides(),
            k_strides: self.k.layout.strides(),
            v_strides: self.v.layout.strides(),
            batch,
            queries,
            keys,
            heads,
            group: heads / key_heads.max(1),
            head_size,
            diagonal,
            scale: self.scale,
        }
    }
}

fn check_device(device: &Device, what: &'static str, at: &Device) -> Result<(), AttentionError> {
    if device.is_in_order_with(at) {
        return Ok(());
    }
    let (at, device) = (at.residence(), device.residence());
    Err(AttentionError::WrongDevice { what, at, device })
}
