//! The linear layer with its bias and ReLU in one pass.
//!
//! Compared with [`super::linear`] and [`super::activation`]: the tiles in shared memory read each input and each weight
//! once per tile, and the only write of the output includes bias and ReLU.
//@ ptx(linear_act_forward_64x64, linear_act_forward_32x32): bar.sync == 3, ld.global.v4 >= 2, ld.shared.v4 >= 8, .local == 0
//@ ptx(linear_act_forward_cluster, compute_90+): bar.sync == 3, barrier.cluster == 4, mapa >= 1, .local == 0
//@ ptx(linear_act_forward_64x64, linear_act_forward_32x32, compute_90+): griddepcontrol.wait == 1, griddepcontrol.launch_dependents == 1
//@ ptx(linear_act_forward_tf32, compute_80+): mma.sync >= 16, .local == 0
//@ ptx(linear_act_forward_bf16, linear_act_forward_f16, compute_80+): mma.sync >= 8, .local == 0
//@ ptx(linear_act_forward_cluster_tf32, linear_act_forward_cluster_bf16, linear_act_forward_cluster_f16, compute_90+): mma.sync >= 8, barrier.cluster == 4, .local == 0

use cuda_std::half::{bf16, f16};
use cuda_std::mem::f32x4;
use cuda_std::mma::tf32;
use cuda_std::{KernelArgs, cluster, kernel, thread};

use super::matrix::{Matrix, OperandA, OperandB};
#[cfg(not(target_arch = "nvptx64"))]
use super::product::Shape;
use super::product::{Cluster32x32, Product, Serial, Tensor32x32, TensorCluster32x32, Tile32x32, Tile64x64};

/// The arguments of the kernels.
#[derive(Clone, Copy, Debug, KernelArgs)]
#[repr(C)]
pub struct LinearArgs {
    /// `[rows, outputs]`, written.
    pub out: *mut f32,
    /// `[rows, inputs]`.
    pub inp: *const f32,
    /// `[inputs, outputs]`.
    pub weights: *const f32,
    /// `[outputs]`.
    pub biases: *const f32,
    /// Rows of the batch.
    pub rows: u32,
    /// Features in.
    pub inputs: u32,
    /// Features out.
    pub outputs: u32,
    /// 1 for a ReLU, 0 for no activation.
    pub relu: u32,
    /// Rows of tiles.
    pub tile_rows: u32,
}

/// Computes `out = inp * weights + biases`, with a ReLU if `relu` is 1.
///
/// Launched with one block, or one cluster of at most 8 blocks, per tile.
///
/// # Safety
/// The launch is as described; the pointers are valid for the elements of their shapes, and no other code uses `out`.
#[kernel(
    max_threads = 256,
    args,
    facts: Shape = <P as Product>::SHAPE,
    instances(
        linear_act_forward_64x64 = <Tile64x64>;
        linear_act_forward_32x32 = <Tile32x32>;
        linear_act_forward_cluster = <Cluster32x32>, min_arch = 90;
        linear_act_forward_tf32 = <Tensor32x32<tf32>>, min_arch = 80;
        linear_act_forward_bf16 = <Tensor32x32<bf16>>, min_arch = 80;
        linear_act_forward_f16 = <Tensor32x32<f16>>, min_arch = 80;
        linear_act_forward_cluster_tf32 = <TensorCluster32x32<tf32>>, min_arch = 90;
        linear_act_forward_cluster_bf16 = <TensorCluster32x32<bf16>>, min_arch = 90;
        linear_act_forward_cluster_f16 = <TensorCluster32x32<f16>>, min_arch = 90;
        cpu_only = true {
            linear_act_forward_serial = <Serial>;
            linear_act_forward_serial_tf32 = <Serial<tf32>>;
            linear_act_forward_serial_bf16 = <Serial<bf16>>;
            linear_act_forward_serial_f16 = <Serial<f16>>;
        }
    ),
)]
pub unsafe fn linear_act_forward<P: Product>(
    #[shared(<P as Product>::SHARED)] shared: *mut f32x4,
    args: LinearArgs,
) {
    super::wait_for_turn();
    let [rows, inputs, outputs] = [args.rows, args.inputs, args.outputs].map(|n| n as usize);
    let block = thread::block_idx_x();
    let tile = if P::SHAPE.is_cluster { block / cluster::num_blocks() } else { block };
    // SAFETY: the caller's contract for the shapes; the outputs lie in `out`, each in one thread.
    unsafe {
        let a = OperandA::RowMajor(Matrix::new(args.inp, rows, inputs));
        let b = OperandB::RowMajor(Matrix::new(args.weights, inputs, outputs));
        P::product(
            shared,
            tile,
            args.tile_rows,
            a,
            b,
            |_, _| (),
            |row, col, sums| {
                let out = args.out.add(row * outputs + col);
                for (j, sum) in sums.iter().enumerate() {
                    let sum = sum + *args.biases.add(col + j);
                    // NaN stays NaN: operands too large for `f16` must give a NaN loss.
                    *out.add(j) = if args.relu != 0 && sum <= 0.0 { 0.0 } else { sum };
                }
            },
        );
    }
}
