//! The tensor maps of a launch.

use attention_kernels::args::{AttentionLaunch, page_rows};
use attention_kernels::operation::WarpgroupShape;
use cuda_std::launch::RawBuffer;
use cuda_std::tensor::{Swizzle, TensorElement, TensorMap, TensorMapSpec};
use ferrowarp_device::device::Device;
use ferrowarp_device::error::Error;

use super::stored::Stored;

/// Makes the map of a tensor, with boxes of `rows` positions.
pub(super) fn map<T: TensorElement>(
    device: &Device,
    buffer: RawBuffer<T>,
    stored: &Stored,
    rows: u32,
) -> Result<TensorMap, Error> {
    let [batch, length, heads, size] = stored.shape;
    let [by_batch, by_position, by_head] = stored.strides;
    let sizes = [size, heads, length, batch].map(|size| size as u64);
    let spec = TensorMapSpec::new::<T>(sizes, [WarpgroupShape::BOX_COLS, 1, rows, 1])
        .with_strides([1, by_head, by_position, by_batch].map(|stride| stride as u64))
        .with_swizzle(Swizzle::Bytes128);
    Ok(device.tensor_map(buffer, &spec)?)
}

/// Adds the tensor maps to the arguments. The layouts belong to the result, Q, K and V.
pub(super) fn with_maps<T: TensorElement>(
    device: &Device,
    shape: &WarpgroupShape,
    args: AttentionLaunch<T>,
    [out, q, k, v]: [&Stored; 4],
) -> Result<AttentionLaunch<T>, Error> {
    let queries = WarpgroupShape::BOX_QUERIES;
    let q_map = map(device, args.q, q, queries)?;
    // Without keys the maps of K and V are unused.
    let rows =
        if args.page_table.pointer.is_null() { shape.keys } else { page_rows(args.page_size, shape.keys) };
    let of_keys = |buffer, stored: &Stored| {
        if stored.is_empty() { Ok(q_map) } else { map(device, buffer, stored, rows) }
    };
    Ok(AttentionLaunch {
        q_map,
        k_map: of_keys(args.k, k)?,
        v_map: of_keys(args.v, v)?,
        out_map: map(device, args.out, out, queries)?,
        ..args
    })
}
