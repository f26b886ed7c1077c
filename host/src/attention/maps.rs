//! The tensor maps of a launch.

use attention_kernels::args::AttentionLaunch;
use attention_kernels::operation::WarpgroupShape;
use cuda_std::launch::RawBuffer;
use cuda_std::tensor::{Swizzle, TensorElement, TensorMap, TensorMapSpec};

use super::AttentionError;
use super::tensor::Layout;
use crate::device::Device;

/// Elements in 16 bytes. The strides of a tensor map are multiples of 16 bytes.
const VECTOR: usize = 8;
/// An unused stride of more elements is replaced by this one, since a map has only 40 bits for the bytes.
const MOST_UNUSED: usize = 1 << 32;

/// Makes the map of a tensor, with boxes of `rows` positions.
pub(super) fn map<T: TensorElement>(
    device: &Device,
    buffer: RawBuffer<T>,
    layout: &Layout,
    rows: u32,
) -> Result<TensorMap, AttentionError> {
    let [batch, length, heads, size] = layout.shape;
    // Unused strides must still be valid in a map.
    let stride = |count: usize, stride: usize| {
        if count > 1 { stride } else { stride.min(MOST_UNUSED).next_multiple_of(VECTOR).max(VECTOR) }
    };
    let [by_batch, by_position, by_head] = layout.strides;
    let strides = [1, stride(heads, by_head), stride(length, by_position), stride(batch, by_batch)];
    let sizes = [size, heads, length, batch].map(|size| size as u64);
    let spec = TensorMapSpec::new::<T>(sizes, [WarpgroupShape::BOX_COLS, 1, rows, 1])
        .with_strides(strides.map(|stride| stride as u64))
        .with_swizzle(Swizzle::Bytes128);
    Ok(device.tensor_map(buffer, &spec)?)
}

/// Adds the tensor maps to the arguments. The layouts belong to the result, Q, K and V.
pub(super) fn with_maps<T: TensorElement>(
    device: &Device,
    shape: &WarpgroupShape,
    args: AttentionLaunch<T>,
    [out, q, k, v]: [&Layout; 4],
) -> Result<AttentionLaunch<T>, AttentionError> {
    let queries = WarpgroupShape::BOX_QUERIES;
    let q_map = map(device, args.q, q, queries)?;
    // Without keys the maps of K and V are unused.
    let of_keys = |buffer, layout: &Layout| {
        if layout.is_empty() { Ok(q_map) } else { map(device, buffer, layout, shape.keys) }
    };
    Ok(AttentionLaunch {
        q_map,
        k_map: of_keys(args.k, k)?,
        v_map: of_keys(args.v, v)?,
        out_map: map(device, args.out, out, queries)?,
        ..args
    })
}
