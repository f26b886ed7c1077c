//! The linear layer with its bias, and with ReLU, in one pass.
//!
//! Against [`super::linear`] and [`super::activation`]: the product on tiles in shared memory reads each input
//! `BN` times less often and each weight `BM` times, and bias and ReLU ride on the only write of the output.
//! Requires a one-dimensional block of the tile's threads, 64 for 64x64 and 32x32, 32 for 64x32.
//@ ptx(linear_relu_forward_64x64, linear_relu_forward_64x32, linear_relu_forward_32x32, linear_forward_64x64, linear_forward_64x32, linear_forward_32x32): bar.sync == 2, ld.global.nc.v4 >= 2, st.shared.v4 >= 2, ld.shared >= 8, fma.rn.f32 >= 16, .local == 0

use cuda_std::{kernel, shared_array, thread};

use super::tile::{ColumnSums, Matrix, OperandA, OperandB, Tile, shared_floats};

/// `out = act(inp * weights + biases)` for one tile.
///
/// # Safety
/// As for [`linear_relu_forward_64x64`], and `shared` as for [`Tile::product`].
#[inline(always)]
unsafe fn forward<const BM: usize, const BN: usize, const TM: usize, const TN: usize>(
    shared: *mut f32,
    out: *mut f32,
    [inp, weights, biases]: [&[f32]; 3],
    [batch, inputs, outputs]: [u32; 3],
    act: impl Fn(f32) -> f32,
) {
    let (batch, inputs, outputs) = (batch as usize, inputs as usize, outputs as usize);
    // SAFETY: the shapes are the caller's contract; the rows and columns written lie in `out`, each in one thread.
    unsafe {
        let a = OperandA::RowMajor(Matrix::new(inp, batch, inputs));
        let b = OperandB::RowMajor(Matrix::new(weights, inputs, outputs));
        let tile =
            Tile::<BM, BN, TM, TN>::product(shared, thread::block_idx_y(), a, b, inputs, ColumnSums::No);
        let bias: [f32; TN] = core::array::from_fn(|j| {
            if tile.col + j < outputs { *biases.get_unchecked(tile.col + j) } else { 0.0 }
        });
        tile.for_each(batch, outputs, |at, j, sum| *out.add(at) = act(sum + bias[j]));
    }
}

#[inline(always)]
fn relu(x: f32) -> f32 {
    if x > 0.0 { x } else { 0.0 }
}

macro_rules! forward_kernels {
    ($($relu:ident $plain:ident $bm:literal $bn:literal $tm:literal $tn:literal;)*) => {$(
        #[doc = concat!(
            "`out = max(inp * weights + biases, 0)` on tiles of ", $bm, "x", $bn, ", ", $tm, "x", $tn,
            " outputs a thread.\n\n`out` is `[batch, outputs]`, `inp` `[batch, inputs]`, `weights` `[inputs, ",
            "outputs]`, `biases` `[outputs]`. Launched on ceil(`outputs` / ", $bn, ") x ceil(`batch` / ", $bm,
            ") blocks.\n\n# Safety\nThe block has the tile's threads along x; `out` holds `batch * outputs` ",
            "elements that nobody else uses; the slices hold as many elements as their shapes say.",
        )]
        #[kernel]
        pub unsafe fn $relu(
            out: *mut f32,
            inp: &[f32],
            weights: &[f32],
            biases: &[f32],
            batch: u32,
            inputs: u32,
            outputs: u32,
        ) {
            let shared = shared_array![f32; shared_floats($bm, $bn)];
            let (slices, shape) = ([inp, weights, biases], [batch, inputs, outputs]);
            // SAFETY: the kernel's contract; the array is as large as the tile needs.
            unsafe { forward::<$bm, $bn, $tm, $tn>(shared, out, slices, shape, relu) };
        }

        #[doc = concat!(
            "`out = inp * weights + biases` on tiles of ", $bm, "x", $bn, "; otherwise as [`",
            stringify!($relu), "`](fn@", stringify!($relu), ").\n\n# Safety\nAs for [`", stringify!($relu),
            "`](fn@", stringify!($relu), ").",
        )]
        #[kernel]
        pub unsafe fn $plain(
            out: *mut f32,
            inp: &[f32],
            weights: &[f32],
            biases: &[f32],
            batch: u32,
            inputs: u32,
            outputs: u32,
        ) {
            let shared = shared_array![f32; shared_floats($bm, $bn)];
            let (slices, shape) = ([inp, weights, biases], [batch, inputs, outputs]);
            // SAFETY: as above.
            unsafe { forward::<$bm, $bn, $tm, $tn>(shared, out, slices, shape, |x| x) };
        }
    )*
        kernels![$($relu, $plain),*];
    };
}

forward_kernels! {
    linear_relu_forward_64x64 linear_forward_64x64 64 64 8 8;
    linear_relu_forward_64x32 linear_forward_64x32 64 32 8 8;
    linear_relu_forward_32x32 linear_forward_32x32 32 32 4 4;
}
