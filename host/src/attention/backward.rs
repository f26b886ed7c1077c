//! The gradients of attention.

use attention_kernels::args::ALIGNED;
use attention_kernels::backward::args::{BackwardLaunch, LEAST_TURN, PADDED, ROWS_IN_ORDER};
use attention_kernels::backward::{FusedShape, delta_config, finish_config, serial_config};
use bytemuck::Pod;
use cuda_std::launch::RawBuffer;
use cuda_std::tensor::TensorMap;
use ferrowarp_device::device::{Device, Queue};
use ferrowarp_device::error::Error;
use ferrowarp_device::tensor::{Tensor, TensorView};

use super::backward_by::{BackwardBy, choose, no_size};
use super::backward_work::Work;
use super::maps::map;
use super::operation::{Attention, Extents};
use super::outputs::{GradientOutputs, Gradients};
use super::stored::Stored;
use super::types::Element16;
use crate::operation::{MOST, Operation};

/// The operation in errors.
pub(super) const NAME: &str = "attention backward";

/// The operands of the gradients.
#[doc(hidden)]
#[derive(Clone, Copy, Debug)]
pub struct BackwardInputs<'a, T: Pod> {
    /// The gradient of the result.
    pub d_out: TensorView<'a, T>,
    pub q: TensorView<'a, T>,
    pub k: TensorView<'a, T>,
    pub v: TensorView<'a, T>,
    /// The result of the forward pass.
    pub out: TensorView<'a, T>,
    /// Its log-sum-exp.
    pub log_sum_exp: TensorView<'a, f32>,
}

/// How the tensors are stored.
struct Layouts {
    q: Stored,
    k: Stored,
    v: Stored,
    out: Stored,
    d_out: Stored,
    dq: Stored,
    dk: Stored,
    dv: Stored,
}

impl Attention<'_> {
    /// Returns the gradients, given the gradient `d_out` of the result. `q`, `k` and `v` are the operands of the forward pass, and
    /// `results` what [`forward`](Self::forward) returned. The head size is at most 256.
    ///
    /// ```
    /// use ferrowarp::attention::Attention;
    /// use ferrowarp::device::Device;
    /// use ferrowarp::{Error, Tensor, bf16};
    ///
    /// let device = Device::cpu();
    /// let constant = |value| device.tensor(&[bf16::from_f32(value); 16], [1, 2, 1, 8]);
    /// let (q, k, v, d_out) = (constant(1.0)?, constant(0.0)?, constant(2.0)?, constant(1.0)?);
    /// let (out, log_sum_exp) = Attention::new().forward(&device, &q, &k, &v)?;
    /// let gradients = Attention::new().backward(&device, &d_out, &q, &k, &v, (&out, &log_sum_exp))?;
    /// // Both queries weight both values equally.
    /// assert_eq!(gradients.v.to_vec()?, [bf16::ONE; 16]);
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`Self::run`]; there are [pages](Self::pages) or [lengths](Self::lengths).
    pub fn backward<'i, T: Element16>(
        &self,
        queue: &impl Queue,
        d_out: impl Into<TensorView<'i, T>>,
        q: impl Into<TensorView<'i, T>>,
        k: impl Into<TensorView<'i, T>>,
        v: impl Into<TensorView<'i, T>>,
        results: (impl Into<TensorView<'i, T>>, impl Into<TensorView<'i, f32>>),
    ) -> Result<Gradients<T>, Error> {
        let (q, k, v) = (q.into(), k.into(), v.into());
        let [mut dq, mut dk, mut dv] = [
            Tensor::unwritten(queue, q.shape())?,
            Tensor::unwritten(queue, k.shape())?,
            Tensor::unwritten(queue, v.shape())?,
        ];
        self.backward_into(queue, GradientOutputs::new(&mut dq, &mut dk, &mut dv), d_out, q, k, v, results)?;
        Ok(Gradients { q: dq, k: dk, v: dv })
    }

    /// Writes the gradients, as [`backward`](Self::backward) returns them.
    ///
    /// # Errors
    /// Same as for [`Self::backward`].
    #[allow(clippy::too_many_arguments, reason = "all that gradients depend on")]
    pub fn backward_into<'i, T: Element16>(
        &self,
        queue: &impl Queue,
        outputs: GradientOutputs<'_, T>,
        d_out: impl Into<TensorView<'i, T>>,
        q: impl Into<TensorView<'i, T>>,
        k: impl Into<TensorView<'i, T>>,
        v: impl Into<TensorView<'i, T>>,
        (out, log_sum_exp): (impl Into<TensorView<'i, T>>, impl Into<TensorView<'i, f32>>),
    ) -> Result<(), Error> {
        let (d_out, out, log_sum_exp) = (d_out.into(), out.into(), log_sum_exp.into());
        let inputs = BackwardInputs { d_out, q: q.into(), k: k.into(), v: v.into(), out, log_sum_exp };
        self.run_backward_by(queue, outputs, inputs, None)
    }

    /// Runs these kernels, to compare kernels.
    ///
    /// # Panics
    /// The kernels take aligned rows, and these are not.
    #[doc(hidden)]
    pub fn run_backward_by<T: Element16>(
        &self,
        queue: &impl Queue,
        mut outputs: GradientOutputs<'_, T>,
        inputs: BackwardInputs<'_, T>,
        by: Option<BackwardBy>,
    ) -> Result<(), Error> {
        let (operation, device) = (Operation::new(NAME, queue), queue.device());
        let (layouts, extents) = self.layouts(operation, &outputs, &inputs)?;
        let Extents { queries, keys, heads, key_heads, batch, .. } = extents;
        let mut args = self.backward_args(&mut outputs, &inputs, &layouts, &extents);
        let unaligned = layouts.unaligned(&args);
        let by = match by {
            Some(by) => by,
            None => choose::<T>(operation, &args, unaligned.is_none())?,
        };
        let has_queries = [queries, heads, batch].iter().all(|&extent| extent > 0);
        let has_keys = [keys, key_heads, batch].iter().all(|&extent| extent > 0);
        if !has_queries && !has_keys {
            return Ok(());
        }
        let rows = u64::from(queries.next_multiple_of(PADDED)) * u64::from(heads) * u64::from(batch);
        let rows = operation.count("padded queries of all heads", rows as usize, MOST)?;
        let mut stats = queue.alloc_unwritten::<f32>(2 * rows as usize)?;
        args.stats = RawBuffer::written(&mut stats);
        args.flags = if unaligned.is_none() { ALIGNED } else { 0 };
        let counted = |blocks: u64| operation.count("tiles of all heads", blocks as usize, MOST);
        // SAFETY: shapes, strides and devices were checked, the outputs are borrowed exclusively, and the maps describe the
        // tensors. There is memory for the statistics. Later uses wait for the device or are queued after this.
        unsafe {
            let kernel = match by {
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
                    return Ok(());
                }
                BackwardBy::Warpgroups { index } => {
                    let kernel = &T::BY_WARPGROUPS[index];
                    assert!(unaligned.is_none(), "{} takes aligned rows", kernel.meta.name);
                    args = layouts.with_maps(device, args, kernel.head_size)?;
                    args.flags |= ROWS_IN_ORDER;
                    kernel
                }
                BackwardBy::Separate { index } => {
                    let kernel = &T::SEPARATE[index];
                    assert!(unaligned.is_none(), "{} takes aligned rows", kernel.meta.name);
                    args = layouts.with_maps(device, args, kernel.head_size)?;
                    let tiles = [kernel.tiles(keys, key_heads, batch), kernel.tiles(queries, heads, batch)];
                    let of = kernel.separate_sums(tiles[0], tiles[1]);
                    let parts = Work::new(&args, device).parts(kernel.head_size, of);
                    let blocks = counted(of[0] * u64::from(parts[0]) + of[1] * u64::from(parts[1]))?;
                    let mut turns = queue.alloc_unwritten::<u32>((rows / LEAST_TURN) as usize + 1)?;
                    args.turns = RawBuffer::written(&mut turns);
                    [args.key_parts, args.query_parts] = parts;
                    let is_shared = parts.iter().any(|&parts| parts > 1);
                    let elements = if is_shared { blocks as usize * kernel.elements_of_part() } else { 0 };
                    let mut sums = queue.alloc_unwritten::<f32>(elements)?;
                    args.sums = RawBuffer::written(&mut sums);
                    T::DELTA.launch(queue, delta_config(rows), BackwardLaunch { ..args })?;
                    let config = kernel.config(blocks).with_programmatic_stream_serialization();
                    return Ok(kernel.launch(queue, config, args)?);
                }
                BackwardBy::Fused { index } => &T::FUSED[index],
            };
            let mut turns = queue.alloc_unwritten::<u32>((rows / LEAST_TURN) as usize + 1)?;
            let mut sums = queue.alloc_unwritten::<f32>(rows as usize * kernel.head_size as usize)?;
            args.turns = RawBuffer::written(&mut turns);
            args.sums = RawBuffer::written(&mut sums);
            args.sum_size = kernel.head_size;
            args.turn_queries = kernel.queries;
            // It also sets the turns to zero.
            T::DELTA.launch(queue, delta_config(rows), BackwardLaunch { ..args })?;
            if has_keys {
                let tiles = counted(kernel.tiles(keys, key_heads, batch))?;
                let fit = device.resident_blocks(kernel.meta, &kernel.config(1))?;
                let blocks = tiles.min(fit as u32).max(1);
                kernel.launch(queue, kernel.config(blocks), BackwardLaunch { ..args })?;
            }
            if has_queries {
                T::FINISH.launch(queue, finish_config(rows), args)?;
            }
        }
        Ok(())
    }

    /// Checks everything that does not depend on the kernels.
    fn layouts<T: Element16>(
        &self,
        operation: Operation<'_>,
        outputs: &GradientOutputs<'_, T>,
        inputs: &BackwardInputs<'_, T>,
    ) -> Result<(Layouts, Extents), Error> {
        if self.is_ragged() {
            let option = "pages or lengths of keys".to_owned();
            return Err(operation.refuse_option(option, "gradients need whole tensors"));
        }
        let BackwardInputs { d_out, q, k, v, out, log_sum_exp } = inputs;
        let layouts = Layouts {
            q: Stored::new(operation, "query tensor", q)?,
            k: Stored::new(operation, "key tensor", k)?,
            v: Stored::new(operation, "value tensor", v)?,
            out: Stored::new(operation, "result", out)?,
            d_out: Stored::new(operation, "gradient of the result", d_out)?,
            dq: Stored::new(operation, "gradient of the queries", &outputs.q)?,
            dk: Stored::new(operation, "gradient of the keys", &outputs.k)?,
            dv: Stored::new(operation, "gradient of the values", &outputs.v)?,
        };
        let of_queries @ [batch, queries, heads, size] = layouts.q.shape;
        let [_, keys, key_heads, _] = layouts.k.shape;
        let of_keys = [batch, keys, key_heads, size];
        operation.check_device("query tensor", q)?;
        operation.check("key tensor", k, of_keys)?;
        operation.check("value tensor", v, of_keys)?;
        operation.check("result", out, of_queries)?;
        operation.check("gradient of the result", d_out, of_queries)?;
        operation.check("gradient of the queries", &outputs.q, of_queries)?;
        operation.check("gradient of the keys", &outputs.k, of_keys)?;
        operation.check("gradient of the values", &outputs.v, of_keys)?;
        operation.check("log-sum-exp", log_sum_exp, [batch, heads, queries])?;
        operation.dense("log-sum-exp", log_sum_exp)?;
        // The padded rows are counted in 32 bits.
        let padded = queries.saturating_add(PADDED as usize);
        let extents = self.extents(operation, &layouts.q, [keys, key_heads], padded)?;
        if size == 0 {
            return Err(no_size(0));
        }
        Ok((layouts, extents))
    }

    /// Returns the launch arguments, without maps and statistics.
    fn backward_args<T: Element16>(
        &self,
        outputs: &mut GradientOutputs<'_, T>,
        inputs: &BackwardInputs<'_, T>,
        layouts: &Layouts,
        extents: &Extents,
    ) -> BackwardLaunch<T> {
        let &Extents { queries, keys, heads, key_heads, batch, head_size } = extents;
        let no_map = TensorMap::from_words([0; 16]);
        BackwardLaunch {
            q_map: no_map,
            k_map: no_map,
            v_map: no_map,
            d_out_map: no_map,
            dq_map: no_map,
            dk_map: no_map,
            dv_map: no_map,
            dq: outputs.q.raw(),
            dk: outputs.k.raw(),
            dv: outputs.v.raw(),
            q: inputs.q.raw(),
            k: inputs.k.raw(),
            v: inputs.v.raw(),
            out: inputs.out.raw(),
            d_out: inputs.d_out.raw(),
            log_sum_exp: inputs.log_sum_exp.raw(),
            stats: RawBuffer::NULL,
            sums: RawBuffer::NULL,
            turns: RawBuffer::NULL,
            dq_strides: layouts.dq.strides(),
            dk_strides: layouts.dk.strides(),
            dv_strides: layouts.dv.strides(),
            q_strides: layouts.q.strides(),
            k_strides: layouts.k.strides(),
            v_strides: layouts.v.strides(),
            out_strides: layouts.out.strides(),
            d_out_strides: layouts.d_out.strides(),
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
            sum_size: 0,
            turn_queries: LEAST_TURN,
            flags: 0,
            heads_at_once: 1,
            key_parts: 1,
            query_parts: 1,
        }
    }
}

/// Returns the heads of K and V whose tiles blocks take at the same time. With few, blocks wait for the first ones of a head.
/// With many, L2 does not hold the queries, the gradients of their results, and the sums.
fn heads_at_once<T>(args: &BackwardLaunch<T>, head_size: u32) -> u32 {
    const L2_BYTES: usize = 24 << 20;
    let of_head = 8 * args.group as usize * args.queries as usize * head_size as usize;
    1 << (L2_BYTES / of_head.max(1)).clamp(4, 1 << 16).ilog2()
}

impl Layouts {
    /// The first tensor that tensor copies cannot read or write.
    fn unaligned<T>(&self, args: &BackwardLaunch<T>) -> Option<&'static str> {
        let Self { q, k, v, out, d_out, dq, dk, dv } = self;
        let all = [
            ("query tensor", args.q, q),
            ("key tensor", args.k, k),
            ("value tensor", args.v, v),
            ("result", args.out, out),
            ("gradient of the result", args.d_out, d_out),
            ("gradient of the queries", args.dq, dq),
            ("gradient of the keys", args.dk, dk),
            ("gradient of the values", args.dv, dv),
        ];
        let mut unaligned = all.into_iter().filter(|(_, raw, stored)| !stored.is_aligned(raw.pointer));
        unaligned.next().map(|(operand, ..)| operand)
    }

    /// Adds the maps of the tensors to the arguments.
    fn with_maps<T: Element16>(
        &self,
        device: &Device,
        args: BackwardLaunch<T>,
        head_size: u32,
    ) -> Result<BackwardLaunch<T>, Error> {
        let Self { q, k, v, d_out, dq, dk, dv, .. } = self;
        // If there are no queries or no keys, their maps are unused and may describe other tensors.
        let any = if q.is_empty() { (args.k, k) } else { (args.q, q) };
        let of = |raw, stored: &Stored| {
            let (raw, stored) = if stored.is_empty() { any } else { (raw, stored) };
            map(device, raw, stored, FusedShape::BOX_ROWS)
        };
        Ok(BackwardLaunch {
            q_map: of(args.q, q)?,
            k_map: of(args.k, k)?,
            v_map: of(args.v, v)?,
            d_out_map: of(args.d_out, d_out)?,
            dq_map: of(args.dq, dq)?,
            dk_map: of(args.dk, dk)?,
            dv_map: of(args.dv, dv)?,
            heads_at_once: heads_at_once(&args, head_size).min((args.key_heads * args.batch).max(1)),
            ..args
        })
    }
}
