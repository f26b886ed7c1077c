//! Attention with its options.

use attention_kernels::args::{ALIGNED, AttentionLaunch, FROM_END};
use attention_kernels::operation::{SplitShape, combine_config, serial_config};
use cuda_std::launch::RawBuffer;
use cuda_std::tensor::TensorMap;

use super::kernel_choice::Kernel;
use super::maps::with_maps;
use super::tensor::raw_mut;
use super::types::Mask;
use super::{AttentionError, Causal, KernelChoice, Problem, Real, Tensor, TensorMut};
use crate::DeviceProfile;
use crate::device::{BufferView, BufferViewMut, Device, Queue};

/// The largest length.
pub(super) const MOST_POSITIONS: usize = 1 << 29;
/// The most queries per head for which the blocks share the tiles of a causal mask evenly.
const MOST_IN_TURNS: u32 = 2048;
/// A page size is a multiple of this: the keys that a kernel reads together.
const PAGE_MULTIPLE: usize = SplitShape::KEYS as usize;
/// The elements that a tensor copy writes at a time, even at the end of a row.
pub(super) const MULTIPLE: u32 = 8;
/// The most blocks of a grid.
pub(super) const MOST_BLOCKS: usize = i32::MAX as usize;

/// The operation `out = softmax(scale Q K^T + mask) V`; [`run`](Self::run) computes it.
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
    page_table: Option<BufferView<'a, u32>>,
    lengths: Option<BufferView<'a, u32>>,
    scale: f32,
    mask: Mask,
}

impl<'a, T: Real> Attention<'a, T> {
    /// Prepares attention without a mask and with a scale of 1 / sqrt(head size). `out` and Q are `[batch, queries, heads,
    /// head size]`, K and V are `[batch, keys, key heads, head size]`. The number of heads is a multiple of the key heads:
    /// neighbouring heads of Q share a head of K and V.
    pub fn new(out: TensorMut<'a, T>, q: Tensor<'a, T>, k: Tensor<'a, T>, v: Tensor<'a, T>) -> Self {
        let scale = 1.0 / (q.shape()[3].max(1) as f32).sqrt();
        let mask = Mask::default();
        Self { out, q, k, v, log_sum_exp: None, page_table: None, lengths: None, scale, mask }
    }

    /// Hides the keys that come after a query.
    pub fn causal(mut self, causal: Causal) -> Self {
        self.mask.causal = Some(causal);
        self
    }

    /// Limits the keys that [`causal`](Self::causal) lets a query see to the last `keys`: itself and the `keys - 1`
    /// positions before it. The time then grows with `keys` instead of the length.
    ///
    /// ```
    /// use ferrowarp::attention::{Attention, AttentionError, Causal, Tensor, TensorMut};
    /// use ferrowarp::bf16;
    /// use ferrowarp::device::Device;
    ///
    /// let device = Device::cpu();
    /// // One head of one element. All logits are 0, so a result is the mean of the values that the query sees.
    /// let shape = [1, 4, 1, 1];
    /// let zeros = device.alloc_zeroed::<bf16>(4)?;
    /// let values = device.upload(&[0.0, 2.0, 4.0, 6.0].map(bf16::from_f32))?;
    /// let mut out = device.alloc_zeroed::<bf16>(4)?;
    /// let (q, v) = (Tensor::new(&zeros, shape)?, Tensor::new(&values, shape)?);
    /// let call = Attention::new(TensorMut::new(&mut out, shape)?, q, q, v);
    /// call.causal(Causal::TopLeft).sliding_window(2).run(&device)?;
    /// assert_eq!(out.to_vec()?, [0.0, 1.0, 3.0, 5.0].map(bf16::from_f32));
    /// # Ok::<(), AttentionError>(())
    /// ```
    pub fn sliding_window(mut self, keys: usize) -> Self {
        self.mask.window = Some(keys);
        self
    }

    /// Multiplies the logits by `scale`, greater than 0 and at most 2^64.
    pub fn scale(mut self, scale: f32) -> Self {
        self.scale = scale;
        self
    }

    /// Also writes the natural logarithm of the sum of `exp(scale * logit)` over the keys that a query sees, dense `[batch,
    /// heads, queries]`. It is -inf for a query that sees no key.
    pub fn log_sum_exp(mut self, log_sum_exp: impl Into<BufferViewMut<'a, f32>>) -> Self {
        self.log_sum_exp = Some(log_sum_exp.into());
        self
    }

    /// Reads the keys and values of each batch entry from the pages of a paged KV cache. K and V are `[pages, page size, key
    /// heads, head size]`, and the page size is a multiple of 16. `page_table` is dense `[batch, n]`: key `i` of a batch
    /// entry is position `i % page_size` of the page in column `i / page_size`. Each batch entry has `n * page_size` keys,
    /// or the number that [`lengths`](Self::lengths) gives. Columns after those are not read. A page number out of range
    /// counts as the last page.
    ///
    /// ```
    /// use ferrowarp::attention::{Attention, AttentionError, Tensor, TensorMut};
    /// use ferrowarp::device::Device;
    /// use ferrowarp::f16;
    ///
    /// let device = Device::cpu();
    /// // Two pages of 16 positions. The two entries of the batch have one each, with 16 and 3 keys.
    /// let k = device.upload(&[f16::ZERO; 2 * 16 * 8])?;
    /// let v = [[f16::from_f32(1.0); 16 * 8], [f16::from_f32(2.0); 16 * 8]].concat();
    /// let (v, table, lengths) = (device.upload(&v)?, device.upload(&[1u32, 0])?, device.upload(&[16u32, 3])?);
    /// let q = device.upload(&[f16::ONE; 2 * 8])?;
    /// let mut out = device.alloc_zeroed::<f16>(2 * 8)?;
    /// Attention::new(
    ///     TensorMut::new(&mut out, [2, 1, 1, 8])?,
    ///     Tensor::new(&q, [2, 1, 1, 8])?,
    ///     Tensor::new(&k, [2, 16, 1, 8])?,
    ///     Tensor::new(&v, [2, 16, 1, 8])?,
    /// )
    /// .pages(&table)
    /// .lengths(&lengths)
    /// .run(&device)?;
    /// assert_eq!([0, 8].map(|i| out.to_vec().unwrap()[i].to_f32()), [2.0, 1.0]);
    /// # Ok::<(), AttentionError>(())
    /// ```
    pub fn pages(mut self, page_table: impl Into<BufferView<'a, u32>>) -> Self {
        self.page_table = Some(page_table.into());
        self
    }

    /// Uses only the first `lengths[i]` keys and values of batch entry `i`. A number above the number of keys counts as
    /// that. [`Causal::BottomRight`] counts from the last of these keys.
    pub fn lengths(mut self, lengths: impl Into<BufferView<'a, u32>>) -> Self {
        self.lengths = Some(lengths.into());
        self
    }

    /// Computes the attention. On a GPU the work is queued. Without queries nothing is written.
    ///
    /// # Errors
    /// The shapes do not match, the scale is out of range, a sliding window is empty or has no causal mask, an extent is too
    /// large, the device has no kernel for the head size, a tensor lives on another device, or the device failed.
    pub fn run(mut self, queue: &impl Queue) -> Result<(), AttentionError> {
        let problem = self.checked(queue.device())?;
        let choice = KernelChoice::new(&DeviceProfile::from(queue.device()), &problem)?;
        self.launch(queue, &problem, choice)
    }

    /// Runs it with the kernel of `choice`, to compare kernels.
    #[doc(hidden)]
    pub fn run_by(mut self, queue: &impl Queue, choice: KernelChoice<T>) -> Result<(), AttentionError> {
        let problem = self.checked(queue.device())?;
        self.launch(queue, &problem, choice)
    }

    /// Checks everything else and returns the problem that a kernel is chosen for.
    fn checked(&mut self, device: &Device) -> Result<Problem, AttentionError> {
        let [batch, queries, heads, size] = self.q.shape();
        let [pages, length, key_heads, _] = self.k.shape();
        let of_keys = [if self.page_table.is_some() { pages } else { batch }, length, key_heads, size];
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
        check_heads(heads, key_heads)?;
        check_scale(self.scale)?;
        self.mask.check()?;
        if let Some(log_sum_exp) = &self.log_sum_exp {
            let (len, expected) = (log_sum_exp.len(), batch.saturating_mul(heads).saturating_mul(queries));
            if len != expected {
                return Err(AttentionError::LogSumExpLength { len, expected });
            }
            check_device(device, "log-sum-exp", log_sum_exp.device())?;
        }
        if let Some(page_table) = &self.page_table {
            let len = page_table.len();
            if !len.is_multiple_of(batch.max(1)) {
                return Err(AttentionError::PageTableLength { len, batch });
            }
            if !length.is_multiple_of(PAGE_MULTIPLE) {
                return Err(AttentionError::PageSize { size: length, multiple: PAGE_MULTIPLE });
            }
            check_device(device, "page table", page_table.device())?;
        }
        if let Some(lengths) = &self.lengths {
            let len = lengths.len();
            if len != batch {
                return Err(AttentionError::LengthsLength { len, batch });
            }
            check_device(device, "buffer of lengths", lengths.device())?;
        }
        let keys = match &self.page_table {
            None => length,
            Some(_) if self.k.layout.is_empty() => 0,
            Some(page_table) => (page_table.len() / batch.max(1)).saturating_mul(length),
        };
        extent("batch entries or pages of K and V", pages, i32::MAX as usize)?;
        let rows = batch.saturating_mul(heads).saturating_mul(queries);
        extent("queries of all heads in the batch", rows, i32::MAX as usize)?;
        Ok(Problem {
            queries: extent("queries", queries, MOST_POSITIONS)?,
            keys: extent("keys", keys, MOST_POSITIONS)?,
            heads: extent("heads", heads, i32::MAX as usize)?,
            key_heads: extent("key heads", key_heads, i32::MAX as usize)?,
            batch: extent("batch", batch, i32::MAX as usize)?,
            head_size: extent("head size", size, i32::MAX as usize)?,
            is_aligned: self.check_alignment().is_ok(),
            is_ragged: self.page_table.is_some() || self.lengths.is_some(),
            is_causal: self.mask.causal.is_some(),
            window: self.mask.window() as u32,
        })
    }

    fn launch(
        mut self,
        queue: &impl Queue,
        problem: &Problem,
        choice: KernelChoice<T>,
    ) -> Result<(), AttentionError> {
        if self.out.layout.is_empty() {
            return Ok(());
        }
        let &Problem { queries, heads, key_heads, batch, .. } = problem;
        let (device, args) = (queue.device(), self.args(problem));
        let counted = |blocks: u64| extent("tiles of queries in all heads", blocks as usize, MOST_BLOCKS);
        // SAFETY: shapes, strides and devices were checked, the outputs are borrowed exclusively, the flags follow from the
        // addresses and strides, and the maps describe the tensors. There is memory for the partial results of all
        // splits. Later uses of the memory wait for the device or are queued after this.
        unsafe {
            match choice.kernel {
                Kernel::Serial(kernel) => {
                    let (config, blocks) = serial_config(queries, heads, batch);
                    counted(blocks)?;
                    kernel.launch(queue, config, args)?;
                }
                Kernel::Splits(kernel) => {
                    let splits = choice.splits;
                    let tiles = SplitShape::tiles(queries, heads, key_heads, batch);
                    let blocks = counted(tiles.saturating_mul(splits.into()))?;
                    if splits == 1 {
                        return Ok(kernel.launch(queue, kernel.config(blocks), args)?);
                    }
                    let rows = batch * heads * queries;
                    let len = splits as usize * rows as usize * (2 + problem.head_size as usize);
                    let mut sums = queue.alloc_unwritten::<f32>(len)?;
                    let args = AttentionLaunch { sums: RawBuffer::written(&mut sums), splits, ..args };
                    kernel.launch(queue, kernel.config(blocks), AttentionLaunch { ..args })?;
                    T::COMBINE.launch(queue, combine_config(rows), args)?;
                }
                Kernel::Warpgroups(kernel) => {
                    let tiles = counted(kernel.tiles(queries, heads, batch))?;
                    self.check_alignment()?;
                    let layouts = [&self.out.layout, &self.q.layout, &self.k.layout, &self.v.layout];
                    let args = with_maps(device, kernel, args, layouts)?;
                    // Tiles of equal cost are shared evenly. Otherwise each tile gets a block.
                    let is_even =
                        self.mask.causal.is_none() || self.mask.window.is_some() || queries <= MOST_IN_TURNS;
                    let multiprocessors = DeviceProfile::from(device).multiprocessors as u32;
                    let blocks = if is_even { tiles.min(multiprocessors).max(1) } else { tiles };
                    kernel.launch(queue, kernel.config(blocks), args)?;
                }
            }
        }
        Ok(())
    }

    /// Checks that tensor copies can read and write the tensors.
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

    /// Returns the launch arguments, without maps.
    fn args(&mut self, problem: &Problem) -> AttentionLaunch<T> {
        let &Problem { queries, keys, heads, key_heads, batch, head_size, .. } = problem;
        let read =
            [(self.q.raw(), self.q.layout), (self.k.raw(), self.k.layout), (self.v.raw(), self.v.layout)];
        let is_aligned = read.iter().all(|(raw, layout)| layout.is_empty() || layout.is_aligned(raw.pointer));
        let is_from_end = self.mask.causal == Some(Causal::BottomRight);
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
            sums: RawBuffer::NULL,
            page_table: self.page_table.map_or(RawBuffer::NULL, RawBuffer::read),
            lengths: self.lengths.map_or(RawBuffer::NULL, RawBuffer::read),
            out_strides: self.out.layout.strides(),
            q_strides: self.q.layout.strides(),
            k_strides: self.k.layout.strides(),
            v_strides: self.v.layout.strides(),
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
            page_size: self.k.shape()[1] as u32,
            pages: self.k.shape()[0] as u32,
            splits: 1,
            flags: if is_aligned { ALIGNED } else { 0 } | if is_from_end { FROM_END } else { 0 },
        }
    }
}

/// Converts an extent to 32 bits, or fails if it is over `most`.
pub(super) fn extent(what: &'static str, value: usize, most: usize) -> Result<u32, AttentionError> {
    if value > most { Err(AttentionError::TooLarge { what, value, most }) } else { Ok(value as u32) }
}

pub(super) fn check_heads(heads: usize, key_heads: usize) -> Result<(), AttentionError> {
    if key_heads == 0 && heads > 0 || key_heads > 0 && !heads.is_multiple_of(key_heads) {
        return Err(AttentionError::HeadsDiffer { heads, key_heads });
    }
    Ok(())
}

pub(super) fn check_scale(scale: f32) -> Result<(), AttentionError> {
    // False for NaN too.
    if scale > 0.0 && scale <= 2f32.powi(64) { Ok(()) } else { Err(AttentionError::Scale { scale }) }
}

pub(super) fn check_device(device: &Device, what: &'static str, at: &Device) -> Result<(), AttentionError> {
    if device.is_in_order_with(at) {
        return Ok(());
    }
    let (at, device) = (at.residence(), device.residence());
    Err(AttentionError::WrongDevice { what, at, device })
}
