//! The rungs of the ladder, for comparisons.

use cuda_std::half::bf16;
use cuda_std::launch::RawBuffer;
use ferrowarp_device::device::Queue;
use ferrowarp_device::error::Error;
use ferrowarp_device::tensor::{Operand, TensorView, TensorViewMut};
use ladders_kernels::attention::Rung;
use ladders_kernels::attention::ladder::{LadderLaunch, RungShape, SIZE};

use super::maps::map;
use super::operation::MOST_POSITIONS;
use super::stored::Stored;
use crate::operation::{MOST, Operation};

/// Runs a rung of the ladder: attention without a mask, with a scale of 1 / sqrt(head size).
///
/// The tensors have no gaps, the same batch and heads, and a head size of 128. The lengths are nonzero multiples of the rung's
/// tiles.
///
/// # Errors
/// The shapes do not match each other or the tiles, a tensor has gaps or lives on another device, or the device failed.
#[doc(hidden)]
pub fn run_rung(
    queue: &impl Queue,
    rung: &Rung,
    mut out: TensorViewMut<'_, bf16>,
    [q, k, v]: [TensorView<'_, bf16>; 3],
) -> Result<(), Error> {
    let operation = Operation::new("a rung of the attention ladder", queue);
    let [batch, queries, heads, _] = operation.extents("query tensor", &q)?;
    let [_, keys, _, _] = operation.extents("key tensor", &k)?;
    let of_q = stored(operation, "query tensor", &q, [batch, queries, heads, SIZE])?;
    let of_k = stored(operation, "key tensor", &k, [batch, keys, heads, SIZE])?;
    stored(operation, "value tensor", &v, [batch, keys, heads, SIZE])?;
    stored(operation, "output", &out, [batch, queries, heads, SIZE])?;
    let shape = rung.kernels[0].facts;
    for (what, value, multiple) in [("queries", queries, shape.queries), ("keys", keys, shape.keys)] {
        if value == 0 || !value.is_multiple_of(multiple as usize) {
            let option = format!("{value} {what}, which are not a multiple of {multiple}");
            return Err(operation.refuse_option(option, "`Attention` takes any number"));
        }
    }
    if of_q.is_empty() {
        return Ok(());
    }
    let tiles = batch.saturating_mul(heads).saturating_mul(queries / shape.queries as usize);
    let tiles = operation.count("tiles of queries in all heads", tiles, MOST)?;
    let len = batch.saturating_mul(heads).saturating_mul(queries).saturating_mul(keys);
    let mut matrix = rung.has_matrix.then(|| queue.alloc_unwritten::<f32>(len)).transpose()?;
    let matrix = matrix.as_mut().map_or(RawBuffer::NULL, RawBuffer::written);
    let (device, rows) = (queue.device(), RungShape::BOX_QUERIES);
    let (out, q, k, v) = (out.raw(), q.raw(), k.raw(), v.raw());
    let args = LadderLaunch {
        q_map: map(device, q, &of_q, rows)?,
        k_map: map(device, k, &of_k, shape.keys)?,
        v_map: map(device, v, &of_k, shape.keys)?,
        out_map: map(device, out, &of_q, rows)?,
        out,
        q,
        k,
        v,
        matrix,
        batch: operation.count("entries of the batch", batch, MOST)?,
        heads: operation.count("heads", heads, MOST)?,
        queries: operation.count("queries", queries, MOST_POSITIONS)?,
        keys: operation.count("keys", keys, MOST_POSITIONS)?,
        scale: 1.0 / (SIZE as f32).sqrt(),
    };
    for kernel in rung.kernels {
        let config = kernel.config(tiles, device.multiprocessors() as u32);
        // SAFETY: shapes and devices were checked, the output is borrowed exclusively, the maps describe the tensors, and the matrix
        // has an element for each query and key of all heads.
        unsafe { kernel.launch(queue, config, LadderLaunch { ..args }) }?;
    }
    Ok(())
}

/// A tensor of this shape without gaps.
fn stored(
    operation: Operation<'_>,
    operand: &'static str,
    view: &impl Operand,
    shape: [usize; 4],
) -> Result<Stored, Error> {
    operation.check(operand, view, shape)?;
    operation.dense(operand, view)?;
    Stored::new(operation, operand, view)
}
