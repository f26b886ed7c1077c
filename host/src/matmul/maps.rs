//! The tensor maps of a launch.

use cuda_std::launch::RawBuffer;
use cuda_std::tensor::{Swizzle, TensorElement, TensorMap, TensorMapSpec};
use ferrowarp_device::device::Device;
use ferrowarp_device::error::Error;
use matmul_kernels::args::{A_TRANSPOSED, B_TRANSPOSED, MatmulLaunch, OUT_TENSOR};
use matmul_kernels::operation::WarpgroupShape;

use super::align::group;

/// A stored matrix, or a batch of matrices.
struct Stored {
    rows: u32,
    cols: u32,
    pitch: u64,
    batch: u32,
    batch_pitch: u64,
    /// Whether copies round `f32` to TF32.
    is_tf32: bool,
}

impl Stored {
    /// Makes the map of a tensor `[batch, rows, cols]` with boxes of the given columns and rows.
    fn map<T: TensorElement>(
        &self,
        device: &Device,
        buffer: RawBuffer<T>,
        tile: [u32; 2],
    ) -> Result<TensorMap, Error> {
        let [box_cols, box_rows] = tile;
        // With a batch stride of 0 there is one matrix. A map needs a stride even then.
        let (batch, batch_pitch) = match self.batch_pitch {
            0 => (1, self.pitch),
            batch_pitch => (self.batch, batch_pitch),
        };
        let sizes = [self.cols, self.rows, batch].map(u64::from);
        let spec = TensorMapSpec::new::<T>(sizes, [box_cols, box_rows, 1])
            .with_strides([1, self.pitch, batch_pitch])
            .with_swizzle(Swizzle::Bytes128);
        let spec = if self.is_tf32 { spec.rounded_to_tf32() } else { spec };
        Ok(device.tensor_map(buffer, &spec)?)
    }
}

/// Adds the maps of A, B and, with [`OUT_TENSOR`], the result to the arguments. The boxes of A and B have `terms` columns
/// and these rows. With `is_tf32`, copies of `f32` operands round to TF32: tensor cores ignore the other bits.
pub(super) fn with_maps<T: TensorElement>(
    device: &Device,
    (terms, is_tf32): (u32, bool),
    [a_rows, b_rows]: [u32; 2],
    args: MatmulLaunch<T>,
) -> Result<MatmulLaunch<T>, Error> {
    let batch = args.batch;
    let of = |[rows, cols]: [u32; 2], is_transposed: bool, pitch, batch_pitch| {
        let [rows, cols] = if is_transposed { [cols, rows] } else { [rows, cols] };
        Stored { rows, cols, pitch, batch, batch_pitch, is_tf32 }
    };
    let has = |flag| args.flags & flag != 0;
    let mut a = of([args.m, args.k], has(A_TRANSPOSED), args.a_pitch, args.a_batch);
    let mut b = of([args.k, args.n], has(B_TRANSPOSED), args.b_pitch, args.b_batch);
    if args.folded > 0 {
        let group = group::<T>();
        a.cols = args.folded * group;
        b.rows = args.k / group;
        b.cols += (group - 1) * args.b_pitch as u32;
        b.pitch *= u64::from(group);
    }
    let out_map = if has(OUT_TENSOR) {
        let out = of([args.m, args.n], false, args.out_pitch, args.out_batch);
        out.map::<T>(device, args.out.cast(), [terms, WarpgroupShape::OUT_BOX_ROWS])?
    } else {
        args.out_map
    };
    Ok(MatmulLaunch {
        a_map: a.map(device, args.a, [terms, a_rows])?,
        b_map: b.map(device, args.b, [terms, b_rows])?,
        out_map,
        ..args
    })
}
