//! The gradient of a layer's parameters and the SGD step in one pass: the gradient is never written.
//!
//! A block walks down the rows of tiles in steps of the grid, so a launch may have fewer blocks than tiles.
//@ ptx(linear_update_64x64, linear_update_64x32, linear_update_32x32): bar.sync == 2, ld.global.nc.v4 >= 2, st.shared.v4 >= 2, ld.shared >= 8, fma.rn.f32 >= 16, .local == 0

use cuda_std::{kernel, shared_array, thread};

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

/// The block's tiles of the update.
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
    let mut tile_row = thread::block_idx_y();
    while tile_row < inputs.div_ceil(BM as u32) {
        // SAFETY: the shapes are the caller's contract.
        let tile: Tile<BM, BN, TM, TN> = unsafe {
            let a = OperandA::Transposed(Matrix::new(activations, batch as usize, inputs as usize));
            let b = OperandB::RowMajor(Matrix::new(d_out, batch as usize, outputs as usize));
            Tile::product(shared, tile_row, a, b, batch as usize, ColumnSums::Yes)
        };
        // SAFETY: likewise; each parameter belongs to one tile, and there to one thread.
        unsafe { apply(&tile, parameters, inputs as usize, outputs as usize, lr, momentum) };
        tile_row += thread::grid_dim_y();
    }
}

/// The step of the parameters whose gradients `tile` holds.
///
/// # Safety
/// The parameters have the shapes `[inputs, outputs]` and `[outputs]`, and only this thread has the tile's.
#[inline(always)]
unsafe fn apply<const BM: usize, const BN: usize, const TM: usize, const TN: usize>(
    tile: &Tile<BM, BN, TM, TN>,
    parameters: Parameters,
    inputs: usize,
    outputs: usize,
    lr: f32,
    momentum: f32,
) {
    let Parameters { weights, biases, weight_velocity, bias_velocity } = parameters;
    // SAFETY: the elements touched lie in the shapes. A bias velocity moves by wrapping arithmetic, since without
    // momentum it may point anywhere.
    unsafe {
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
            "`[batch, outputs]`. Launched on ceil(`outputs` / ", $bn, ") x at most ceil(`inputs` / ", $bm,
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
    )*
        kernels![$($name),*];
    };
}

update_kernels! {
    linear_update_64x64 64 64 8 8;
    linear_update_64x32 64 32 8 8;
    linear_update_32x32 32 32 4 4;
}
