//! Attention with its options.

use attention_kernels::args::{ALIGNED, AttentionLaunch, FROM_END};
use attention_kernels::operation::{AttentionKernels, SplitShape, combine_config, serial_config};
use cuda_std::launch::RawBuffer;
use cuda_std::tensor::TensorMap;
use ferrowarp_device::device::Queue;
use ferrowarp_device::error::Error;
use ferrowarp_device::tensor::{Tensor, TensorView};

use super::kernel_choice::{Kernel, KernelChoice, Problem};
use super::maps::with_maps;
use super::outputs::Outputs;
use super::stored::Stored;
use super::types::{Causal, Element16, Mask, NAME};
use crate::operation::{MOST, Operation, read, written};
use crate::recent::recent;

/// The largest length.
pub(super) const MOST_POSITIONS: usize = 1 << 29;
/// The most queries per head for which the blocks share the tiles of a causal mask evenly.
const MOST_IN_TURNS: u32 = 2048;
/// A page size is a multiple of this: the keys that a kernel reads together.
const PAGE_MULTIPLE: usize = 16;
const _: () = assert!((SplitShape::KEYS as usize).is_multiple_of(PAGE_MULTIPLE));

/// The options of attention: `out = softmax(scale Q K^T + mask) V`.
///
/// ```
/// use ferrowarp::attention::{Attention, Causal};
/// use ferrowarp::device::Device;
/// use ferrowarp::{Error, Tensor, bf16};
///
/// let device = Device::cpu();
/// // 3 queries of 4 heads, which share one head of 3 keys.
/// let (q, k) = (Tensor::<bf16>::zeros(&device, [1, 3, 4, 8])?, Tensor::zeros(&device, [1, 3, 1, 8])?);
/// let v = device.tensor(&[bf16::ONE; 3 * 8], [1, 3, 1, 8])?;
/// let attention = Attention::new().causal(Causal::TopLeft);
/// let (out, log_sum_exp) = attention.forward(&device, &q, &k, &v)?;
/// let gradients = attention.backward(&device, &out, &q, &k, &v, (&out, &log_sum_exp))?;
/// assert_eq!(gradients.k.shape(), k.shape());
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default)]
#[must_use = "nothing is computed before it is run"]
pub struct Attention<'a> {
    pages: Option<TensorView<'a, u32>>,
    lengths: Option<TensorView<'a, u32>>,
    scale: Option<f32>,
    pub(super) mask: Mask,
}

/// The extents of a problem.
#[derive(Clone, Copy)]
pub(super) struct Extents {
    pub queries: u32,
    pub keys: u32,
    pub heads: u32,
    pub key_heads: u32,
    pub batch: u32,
    pub head_size: u32,
}

impl<'a> Attention<'a> {
    /// Attention without a mask and with a scale of 1 / sqrt(head size).
    pub const fn new() -> Self {
        Self { pages: None, lengths: None, scale: None, mask: Mask { causal: None, window: None } }
    }

    /// Hides the keys that come after a query.
    pub const fn causal(self, causal: Causal) -> Self {
        Self { mask: Mask { causal: Some(causal), ..self.mask }, ..self }
    }

    /// Limits the keys that [`causal`](Self::causal) lets a query see to the last `keys`: itself and the `keys - 1`
    /// positions before it. The time then grows with `keys` instead of the length.
    ///
    /// ```
    /// use ferrowarp::attention::{Attention, Causal};
    /// use ferrowarp::device::Device;
    /// use ferrowarp::{Error, Tensor, bf16};
    ///
    /// let device = Device::cpu();
    /// // One head of one element. All logits are 0, so a result is the mean of the values that the query sees.
    /// let zeros = Tensor::zeros(&device, [1, 4, 1, 1])?;
    /// let values = device.tensor(&[0.0, 2.0, 4.0, 6.0].map(bf16::from_f32), [1, 4, 1, 1])?;
    /// let attention = Attention::new().causal(Causal::TopLeft).sliding_window(2);
    /// let out = attention.run(&device, &zeros, &zeros, &values)?;
    /// assert_eq!(out.to_vec()?, [0.0, 1.0, 3.0, 5.0].map(bf16::from_f32));
    /// # Ok::<(), Error>(())
    /// ```
    pub const fn sliding_window(self, keys: usize) -> Self {
        Self { mask: Mask { window: Some(keys), ..self.mask }, ..self }
    }

    /// Multiplies the logits by `scale`, greater than 0 and at most 2^64.
    pub const fn scale(self, scale: f32) -> Self {
        Self { scale: Some(scale), ..self }
    }

    /// Reads the keys and values of each batch entry from the pages of a paged KV cache. K and V are `[pages, page size, key
    /// heads, head size]`, and the page size is a multiple of 16. The table is `[batch, n]` without gaps: key `i` of a batch
    /// entry is position `i % page_size` of the page in column `i / page_size`. Each batch entry has `n * page_size` keys,
    /// or the number that [`lengths`](Self::lengths) gives. Columns after those are not read. A page number out of range
    /// counts as the last page; without pages queries get zeros. The gradients know no pages.
    ///
    /// ```
    /// use ferrowarp::attention::Attention;
    /// use ferrowarp::device::Device;
    /// use ferrowarp::{Error, Tensor, f16};
    ///
    /// let device = Device::cpu();
    /// // Two pages of 16 positions. The two entries of the batch have one each, with 16 and 3 keys.
    /// let k = Tensor::zeros(&device, [2, 16, 1, 8])?;
    /// let v = [[f16::from_f32(1.0); 16 * 8], [f16::from_f32(2.0); 16 * 8]].concat();
    /// let v = device.tensor(&v, [2, 16, 1, 8])?;
    /// let (table, lengths) = (device.tensor(&[1u32, 0], [2, 1])?, device.upload(&[16u32, 3])?);
    /// let q = Tensor::zeros(&device, [2, 1, 1, 8])?;
    /// let out = Attention::new().pages(&table).lengths(&lengths).run(&device, &q, &k, &v)?.to_vec()?;
    /// assert_eq!([0, 8].map(|i| out[i].to_f32()), [2.0, 1.0]);
    /// # Ok::<(), Error>(())
    /// ```
    pub fn pages(self, table: impl Into<TensorView<'a, u32>>) -> Self {
        Self { pages: Some(table.into()), ..self }
    }

    /// Uses only the first `lengths[i]` keys and values of batch entry `i`: `[batch]`. A number above the number of keys counts as
    /// that. [`Causal::BottomRight`] counts from the last of these keys. The gradients know no lengths.
    pub fn lengths(self, lengths: impl Into<TensorView<'a, u32>>) -> Self {
        Self { lengths: Some(lengths.into()), ..self }
    }

    /// Returns the result, in the shape of the queries; [`run_into`](Self::run_into) describes it.
    ///
    /// # Errors
    /// Same as for [`Self::run_into`]; the device is out of memory.
    pub fn run<'i, T: Element16>(
        &self,
        queue: &impl Queue,
        q: impl Into<TensorView<'i, T>>,
        k: impl Into<TensorView<'i, T>>,
        v: impl Into<TensorView<'i, T>>,
    ) -> Result<Tensor<T>, Error> {
        let q = q.into();
        let mut out = Tensor::unwritten(queue, q.shape())?;
        self.run_into(queue, &mut out, q, k, v)?;
        Ok(out)
    }

    /// Returns the result and the [log-sum-exp](Outputs::log_sum_exp), which [`backward`](Self::backward) needs.
    ///
    /// # Errors
    /// Same as for [`Self::run`].
    pub fn forward<'i, T: Element16>(
        &self,
        queue: &impl Queue,
        q: impl Into<TensorView<'i, T>>,
        k: impl Into<TensorView<'i, T>>,
        v: impl Into<TensorView<'i, T>>,
    ) -> Result<(Tensor<T>, Tensor<f32>), Error> {
        let q = q.into();
        let [batch, queries, heads, _] = Operation::new(NAME, queue).extents("query tensor", &q)?;
        let mut out = Tensor::unwritten(queue, q.shape())?;
        let mut log_sum_exp = Tensor::unwritten(queue, [batch, heads, queries])?;
        self.run_into(queue, Outputs::new(&mut out).log_sum_exp(&mut log_sum_exp), q, k, v)?;
        Ok((out, log_sum_exp))
    }

    /// Writes the result, for queries `[batch, queries, heads, head size]`, and keys and values `[batch, keys, key heads, head
    /// size]`. The number of heads is a multiple of the key heads: neighbouring heads of the queries share a head of keys and
    /// values. Without queries nothing is written.
    ///
    /// # Errors
    /// The shapes do not match; a tensor has gaps along its last axis; the scale is out of range; a sliding window is empty or has
    /// no causal mask; an extent is too large; the device has no kernel for the head size; a tensor lives on another device; the
    /// device failed.
    pub fn run_into<'o, 'i, T: Element16>(
        &self,
        queue: &impl Queue,
        outputs: impl Into<Outputs<'o, T>>,
        q: impl Into<TensorView<'i, T>>,
        k: impl Into<TensorView<'i, T>>,
        v: impl Into<TensorView<'i, T>>,
    ) -> Result<(), Error> {
        self.run_by(queue, outputs.into(), [q.into(), k.into(), v.into()], None)
    }

    /// Runs the kernel of a choice, to compare kernels.
    ///
    /// # Panics
    /// The kernel takes aligned rows, and these are not.
    #[doc(hidden)]
    pub fn run_by<T: Element16>(
        &self,
        queue: &impl Queue,
        mut outputs: Outputs<'_, T>,
        [q, k, v]: [TensorView<'_, T>; 3],
        by: Option<KernelChoice<T>>,
    ) -> Result<(), Error> {
        let operation = Operation::new(NAME, queue);
        let of_q = Stored::new(operation, "query tensor", &q)?;
        let of_k = Stored::new(operation, "key tensor", &k)?;
        let of_v = Stored::new(operation, "value tensor", &v)?;
        let of_out = Stored::new(operation, "output", &outputs.out)?;
        let [batch, queries, heads, size] = of_q.shape;
        let [pages, length, key_heads, _] = of_k.shape;
        let of_keys = [if self.pages.is_some() { pages } else { batch }, length, key_heads, size];
        operation.check("output", &outputs.out, of_q.shape)?;
        operation.check_device("query tensor", &q)?;
        operation.check("key tensor", &k, of_keys)?;
        operation.check("value tensor", &v, of_keys)?;
        if let Some(log_sum_exp) = &outputs.log_sum_exp {
            operation.check("log-sum-exp", log_sum_exp, [batch, heads, queries])?;
            operation.dense("log-sum-exp", log_sum_exp)?;
        }
        let keys = self.keys(operation, batch, &of_k)?;
        operation.count("batch entries or pages of K and V", pages, MOST)?;
        let extents = self.extents(operation, &of_q, [keys, key_heads], queries)?;
        let (q, k, v, out) = (q.raw(), k.raw(), v.raw(), outputs.out.raw());
        let are_read_aligned =
            of_q.is_aligned(q.pointer) && of_k.is_aligned(k.pointer) && of_v.is_aligned(v.pointer);
        let is_aligned = are_read_aligned && of_out.is_aligned(out.pointer);
        let Extents { queries, keys, heads, key_heads, batch, head_size } = extents;
        let problem = Problem {
            queries,
            keys,
            heads,
            key_heads,
            batch,
            head_size,
            is_aligned,
            is_ragged: self.is_ragged(),
            is_paged: self.pages.is_some(),
            is_causal: self.mask.causal.is_some(),
            window: self.mask.window() as u32,
        };
        let choice = match by {
            Some(choice) => choice,
            None => recent(queue.device(), problem, KernelChoice::new)?,
        };
        if of_out.is_empty() {
            return Ok(());
        }
        let is_from_end = self.mask.causal == Some(Causal::BottomRight);
        let no_map = TensorMap::from_words([0; 16]);
        let args = AttentionLaunch {
            q_map: no_map,
            k_map: no_map,
            v_map: no_map,
            out_map: no_map,
            out,
            q,
            k,
            v,
            log_sum_exp: written(&mut outputs.log_sum_exp),
            sums: RawBuffer::NULL,
            page_table: read(&self.pages),
            lengths: read(&self.lengths),
            out_strides: of_out.strides(),
            q_strides: of_q.strides(),
            k_strides: of_k.strides(),
            v_strides: of_v.strides(),
            batch,
            queries,
            keys,
            heads,
            key_heads,
            group: heads / key_heads.max(1),
            head_size,
            diagonal: self.mask.diagonal(queries, keys),
            window: self.mask.window(),
            scale: self.factor(head_size),
            page_size: length as u32,
            pages: pages as u32,
            splits: 1,
            flags: if are_read_aligned { ALIGNED } else { 0 } | if is_from_end { FROM_END } else { 0 },
        };
        let counted = |blocks: u64| operation.count("tiles of queries in all heads", blocks as usize, MOST);
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
                    let len = splits as usize * rows as usize * (2 + head_size as usize);
                    let mut sums = queue.alloc_unwritten::<f32>(len)?;
                    let args = AttentionLaunch { sums: RawBuffer::written(&mut sums), splits, ..args };
                    kernel.launch(queue, kernel.config(blocks), AttentionLaunch { ..args })?;
                    <T as AttentionKernels>::COMBINE.launch(queue, combine_config(rows), args)?;
                }
                Kernel::Rows(kernel) => {
                    assert!(is_aligned, "{} takes aligned rows", kernel.meta.name);
                    let blocks = counted(kernel.tiles(queries, heads, key_heads, batch))?;
                    kernel.launch(queue, kernel.config(blocks), args)?;
                }
                Kernel::Warpgroups(kernel) => {
                    assert!(is_aligned, "{} takes aligned rows", kernel.meta.name);
                    let tiles = counted(kernel.tiles(queries, heads, batch))?;
                    let args = with_maps(queue.device(), kernel, args, [&of_out, &of_q, &of_k, &of_v])?;
                    // Tiles of equal cost are shared evenly. Otherwise each tile gets a block.
                    let is_even =
                        self.mask.causal.is_none() || self.mask.window.is_some() || queries <= MOST_IN_TURNS;
                    let multiprocessors = queue.device().multiprocessors() as u32;
                    let is_shared = is_even && kernel.has_many_tiles();
                    let blocks = if is_shared { tiles.min(multiprocessors).max(1) } else { tiles };
                    kernel.launch(queue, kernel.config(blocks), args)?;
                }
            }
        }
        Ok(())
    }

    /// Checks pages and lengths, and returns the most keys of a batch entry.
    fn keys(&self, operation: Operation<'_>, batch: usize, of_k: &Stored) -> Result<usize, Error> {
        let [_, length, ..] = of_k.shape;
        self.lengths.iter().try_for_each(|lengths| operation.vector("tensor of lengths", lengths, batch))?;
        let Some(table) = &self.pages else { return Ok(length) };
        let [_, columns] = operation.extents("page table", table)?;
        operation.check("page table", table, [batch, columns])?;
        operation.dense("page table", table)?;
        if !length.is_multiple_of(PAGE_MULTIPLE) {
            let needs = "the page size must be a multiple of 16";
            return Err(operation.refuse_option(format!("pages of {length} positions"), needs));
        }
        Ok(if of_k.is_empty() { 0 } else { columns.saturating_mul(length) })
    }

    /// Checks the options and the extents. A head counts as `rows` queries.
    pub(super) fn extents(
        &self,
        operation: Operation<'_>,
        of_q: &Stored,
        [keys, key_heads]: [usize; 2],
        rows: usize,
    ) -> Result<Extents, Error> {
        let [batch, queries, heads, size] = of_q.shape;
        if key_heads == 0 && heads > 0 || key_heads > 0 && !heads.is_multiple_of(key_heads) {
            let option = format!("{heads} query heads and {key_heads} key heads");
            let needs = "the query heads must be a multiple of the key heads";
            return Err(operation.refuse_option(option, needs));
        }
        let scale = self.scale.unwrap_or(1.0);
        // False for NaN too.
        let is_in_range = scale > 0.0 && scale <= 2f32.powi(64);
        if !is_in_range {
            let needs = "it must be greater than 0 and at most 2^64";
            return Err(operation.refuse_option(format!("a scale of {scale}"), needs));
        }
        self.mask.check(operation)?;
        let rows = batch.saturating_mul(heads).saturating_mul(rows);
        operation.count("queries of all heads in the batch", rows, MOST)?;
        Ok(Extents {
            queries: operation.count("queries", queries, MOST_POSITIONS)?,
            keys: operation.count("keys", keys, MOST_POSITIONS)?,
            heads: operation.count("heads", heads, MOST)?,
            key_heads: operation.count("key heads", key_heads, MOST)?,
            batch: operation.count("entries of the batch", batch, MOST)?,
            head_size: operation.count("elements of a head", size, MOST)?,
        })
    }

    /// The factor of the logits.
    pub(super) fn factor(&self, head_size: u32) -> f32 {
        self.scale.unwrap_or_else(|| 1.0 / (head_size.max(1) as f32).sqrt())
    }

    /// Whether K and V are in pages, or each batch entry has its own length.
    pub(super) fn is_ragged(&self) -> bool {
        self.pages.is_some() || self.lengths.is_some()
    }
}
