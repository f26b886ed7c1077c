//! The gradient at a layer's input, through its ReLU, in one pass.
//!
//! Against [`super::linear`] and [`super::activation`]: the product on tiles in shared memory, and the mask of the
//! ReLU below applied on the only write.
//@ ptx(linear_relu_backward_64x64, linear_relu_backward_64x32, linear_relu_backward_32x32): bar.sync == 2, ld.global.nc.v4 >= 2, st.shared.v4 >= 1, ld.shared >= 8, fma.rn.f32 >= 16, .local == 0

use cuda_std::{kernel, shared_array, thread};

use super::tile::{ColumnSums, Matrix, OperandA, OperandB, Tile, shared_floats};

/// One tile of `d_inp`.
///
/// # Safety
/// As for [`linear_relu_backward_64x64`], and `shared` as for [`Tile::product`].
#[inline(always)]
unsafe fn backward<const BM: usize, const BN: usize, const TM: usize, const TN: usize>(
    shared: *mut f32,
    d_inp: *mut f32,
    [d_out, weights, activations]: [&[f32]; 3],
    [batch, inputs, outputs]: [u32; 3],
) {
    let (batch, inputs, outputs) = (batch as usize, inputs as usize, outputs as usize);
    // SAFETY: the shapes are the caller's contract; the rows and columns touched lie in them, each in one thread.
    unsafe {
        let a = OperandA::RowMajor(Matrix::new(d_out, batch, outputs));
        let b = OperandB::Transposed(Matrix::new(weights, inputs, outputs));
        let tile =
            Tile::<BM, BN, TM, TN>::product(shared, thread::block_idx_y(), a, b, outputs, ColumnSums::No);
        tile.for_each(batch, inputs, |at, _, sum| {
            *d_inp.add(at) = if *activations.get_unchecked(at) > 0.0 { sum } else { 0.0 };
        });
    }
}

macro_rules! backward_kernels {
    ($($name:ident $bm:literal $bn:literal $tm:literal $tn:literal;)*) => {$(
        #[doc = concat!(
            "`d_inp = d_out * weights^T` where `activations > 0`, else 0, on tiles of ", $bm, "x", $bn,
            ".\n\n`d_inp` and `activations`, the layer's input after its ReLU, are `[batch, inputs]`, `d_out` ",
            "`[batch, outputs]`, `weights` `[inputs, outputs]`. Launched on ceil(`inputs` / ", $bn,
            ") x ceil(`batch` / ", $bm, ") blocks.\n\n# Safety\nThe block has the tile's threads along x; ",
            "`d_inp` holds `batch * inputs` elements that nobody else uses; the slices hold as many elements as ",
            "their shapes say.",
        )]
        #[kernel]
        pub unsafe fn $name(
            d_inp: *mut f32,
            d_out: &[f32],
            weights: &[f32],
            activations: &[f32],
            batch: u32,
            inputs: u32,
            outputs: u32,
        ) {
            let shared = shared_array![f32; shared_floats($bm, $bn)];
            let (slices, shape) = ([d_out, weights, activations], [batch, inputs, outputs]);
            // SAFETY: the kernel's contract; the array is as large as the tile needs.
            unsafe { backward::<$bm, $bn, $tm, $tn>(shared, d_inp, slices, shape) };
        }
    )*
        kernels![$($name),*];
    };
}

backward_kernels! {
    linear_relu_backward_64x64 64 64 8 8;
    linear_relu_backward_64x32 64 32 8 8;
    linear_relu_backward_32x32 32 32 4 4;
}
