//! The rungs of the ladder, for comparisons.

use cuda_std::half::bf16;
use cuda_std::launch::RawBuffer;
use ladders_kernels::attention::{LadderLaunch, Rung, RungShape, SIZE};

use super::maps::map;
use super::operation::{MOST_BLOCKS, MOST_POSITIONS, check_device, extent};
use super::{AttentionError, Tensor, TensorMut};
use crate::device::Queue;

/// Runs a rung of the ladder: attention without a mask, with a scale of 1 / sqrt(head size). On a GPU it is queued.
///
/// The tensors are dense, with the same batch, heads and a head size of 128. The lengths are nonzero multiples of the rung's
/// tiles.
///
/// # Errors
/// The shapes do not match each other or the tiles, a tensor is not dense or lives on another device, or the device failed.
#[doc(hidden)]
pub fn run_rung(
    queue: &impl Queue,
    rung: &Rung,
    mut out: TensorMut<'_, bf16>,
    [q, k, v]: [Tensor<'_, bf16>; 3],
) -> Result<(), AttentionError> {
    let ([batch, queries, heads, _], [_, keys, ..]) = (q.shape(), k.shape());
    let device = queue.device();
    let tensors = [
        ("query tensor", q.layout, q.device(), queries),
        ("key tensor", k.layout, k.device(), keys),
        ("value tensor", v.layout, v.device(), keys),
        ("output", out.layout, out.device(), queries),
    ];
    for (what, layout, at, length) in tensors {
        let (got, expected) = (layout.shape, [batch, length, heads, SIZE]);
        if got != expected {
            return Err(AttentionError::ShapesDiffer { what, got, expected });
        }
        if !layout.is_dense() {
            return Err(AttentionError::NotDense { what, strides: layout.strides });
        }
        check_device(device, what, at)?;
    }
    let shape = rung.kernels[0].facts;
    for (what, value, multiple) in [("queries", queries, shape.queries), ("keys", keys, shape.keys)] {
        if value == 0 || !value.is_multiple_of(multiple as usize) {
            return Err(AttentionError::NotMultiple { what, value, multiple });
        }
    }
    if out.layout.is_empty() {
        return Ok(());
    }
    let tiles = batch.saturating_mul(heads).saturating_mul(queries / shape.queries as usize);
    let tiles = extent("tiles of queries in all heads", tiles, MOST_BLOCKS)?;
    let len = batch.saturating_mul(heads).saturating_mul(queries).saturating_mul(keys);
    let mut matrix = rung.has_matrix.then(|| queue.alloc_unwritten::<f32>(len)).transpose()?;
    let matrix = matrix.as_mut().map_or(RawBuffer::NULL, RawBuffer::written);
    let (rows, raw) = (RungShape::BOX_QUERIES, out.raw());
    let args = LadderLaunch {
        q_map: map(device, q.raw(), &q.layout, rows)?,
        k_map: map(device, k.raw(), &k.layout, shape.keys)?,
        v_map: map(device, v.raw(), &v.layout, shape.keys)?,
        out_map: map(device, raw, &out.layout, rows)?,
        out: raw,
        q: q.raw(),
        k: k.raw(),
        v: v.raw(),
        matrix,
        batch: extent("batch", batch, MOST_BLOCKS)?,
        heads: extent("heads", heads, MOST_BLOCKS)?,
        queries: extent("queries", queries, MOST_POSITIONS)?,
        keys: extent("keys", keys, MOST_POSITIONS)?,
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
