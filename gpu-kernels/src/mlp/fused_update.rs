//! The gradient of a layer's parameters and the SGD step in one pass: the gradient is never written.
//@ ptx(linear_update_64x64, linear_update_64x32, linear_update_32x32): bar.sync == 2, ld.global.nc.v4 >= 2, st.shared.v4 >= 2, ld.shared >= 8, fma.rn.f32 >= 16, .local == 0

use cuda_std::{kernel, shared_array};

use super::sgd::step;
use super::tile::{ColumnSums, Matrix, OperandA, OperandB, Tile, shared_floats};

/// The parameters a step writes; the velocities may be any pointer if the momentum is 0.
#[derive(Clone, Copy)]
struct Parameters {
    weights: *mut f32,
    biases: *mut f32,
    weight_velocity: *mut f32,
    bias_velocity: *mut f32,
}

/// One tile of the update.
///
/// # Safety
/// As for [`linear_update_64x64`], and `shared` as for [`Tile::product`].
#[inline(always)]
unsafe fn update<const BM: usize, const BN: usize, const TM: usize, const TN: usize>(
    shared: *mut f32,
    parameters: Parameters,
    [activations, d_out]: [&[f32]; 2],
    [batch, inputs, outputs]: [u32; 3],
    [lr, momentum]: [f32; 2],
) {
    let (batch, inputs, outputs) = (batch as usize, inputs as usize, outputs as usize);
    let Parameters { weights, biases, weight_velocity, bias_velocity } = parameters;
    // SAFETY: the shapes are the caller's contract; the elements touched lie in them, each in one thread. A
    // bias velocity moves by wrapping arithmetic, since without momentum it may point anywhere.
    unsafe {
        let a = OperandA::Transposed(Matrix::new(activations, batch, inputs));
        let b = OperandB::RowMajor(Matrix::new(d_out, batch, outputs));
        let tile = Tile::<BM, BN, TM, TN>::product(shared, a, b, batch, ColumnSums::Yes);
        // Which of the two loops runs is the same for all threads.
        if momentum == 0.0 {
            tile.for_each(inputs, outputs, |at, _, gradient| *weights.add(at) -= lr * gradient);
        } else {
            tile.for_each(inputs, outputs, |at, _, gradient| {
                step(weights.add(at), weight_velocity.add(at), gradient, lr, momentum);
            });
        }
        if tile.row(0) == 0 {
            for j in 0..TN {
                let col = tile.col + j;
                if col < outputs {
                    let velocity = bias_velocity.wrapping_add(col);
                    step(biases.add(col), velocity, tile.column_sums[j], lr, momentum);
                }
            }
        }
    }
}

macro_rules! update_kernels {
    ($($name:ident $bm:literal $bn:literal $tm:literal $tn:literal;)*) => {$(
        #[doc = concat!(
            "One SGD step of a layer on tiles of ", $bm, "x", $bn, ": the gradients are `activations^T * d_out` ",
            "and the column sums of `d_out`, which carries the average over the batch already; momentum as in ",
            "[`update_layer`](fn@super::sgd::update_layer).\n\n`weights` and `weight_velocity` are `[inputs, ",
            "outputs]`, `biases` and `bias_velocity` `[outputs]`, `activations` `[batch, inputs]`, `d_out` ",
            "`[batch, outputs]`. Launched on ceil(`outputs` / ", $bn, ") x ceil(`inputs` / ", $bm,
            ") blocks.\n\n# Safety\nThe block has the tile's threads along x; all pointers and slices hold as ",
            "many elements as their shapes say, and nobody else uses those written.",
        )]
        #[kernel]
        pub unsafe fn $name(
            weights: *mut f32,
            biases: *mut f32,
            weight_velocity: *mut f32,
            bias_velocity: *mut f32,
            activations: &[f32],
            d_out: &[f32],
            batch: u32,
            inputs: u32,
            outputs: u32,
            lr: f32,
            momentum: f32,
        ) {
            let shared = shared_array![f32; shared_floats($bm, $bn)];
            let parameters = Parameters { weights, biases, weight_velocity, bias_velocity };
            let (slices, shape) = ([activations, d_out], [batch, inputs, outputs]);
            // SAFETY: the kernel's contract; the array is as large as the tile needs.
            unsafe { update::<$bm, $bn, $tm, $tn>(shared, parameters, slices, shape, [lr, momentum]) };
        }
    )*};
}

update_kernels! {
    linear_update_64x64 64 64 8 8;
    linear_update_64x32 64 32 8 8;
    linear_update_32x32 32 32 4 4;
}
