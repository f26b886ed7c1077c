//! The first layer's multiplication, in shares.
//!
//! Compared with [`linear_act_forward`](super::super::fused_forward): a block has at most 64 terms of 64 x 32 sums, and
//! leaves its share of them to the next launch, so it needs neither a loop nor a cluster. The batch was written by the
//! launch before last, so it is fetched before the launch ahead has ended.
//@ ptx(short_first): bar.sync == 3, ld.global.cg.v4 >= 12, ld.shared.v4 >= 12, .local == 0
//@ ptx(short_first, compute_90+): griddepcontrol.wait == 1, griddepcontrol.launch_dependents == 1

#[cfg(not(target_arch = "nvptx64"))]
use cuda_std::launch::LaunchConfig;
use cuda_std::mem::f32x4;
use cuda_std::{KernelArgs, kernel, shared_array, thread};

use super::{Of, QUADS, SHARED, TERMS, THREADS, TILE_COLS};
use crate::matrix::{Matrix, OperandA, OperandB};
use crate::wait_for_turn;

/// The arguments of the kernel.
#[derive(Clone, Copy, Debug, KernelArgs)]
#[repr(C)]
pub struct FirstArgs {
    /// `[shares, rows, outputs]`, written.
    pub sums: *mut f32,
    /// `[rows, inputs]`, which the launch ahead does not write.
    pub inp: *const f32,
    /// `[inputs, outputs]`.
    pub weights: *const f32,
    /// Rows of the batch, at most 64.
    pub rows: u32,
    /// Features in.
    pub inputs: u32,
    /// Features out.
    pub outputs: u32,
}

/// Computes shares of `inp * weights`, of 64 terms each, in order.
///
/// Launched with one block per 32 columns of the outputs in each share, as in [`config`].
///
/// # Safety
/// The launch is as described; the pointers are valid for the elements of their shapes, and no other code uses `sums`.
#[kernel(max_threads = 128)]
pub unsafe fn short_first(args: FirstArgs) {
    let shared = shared_array![f32x4; SHARED];
    let [rows, inputs, outputs] = [args.rows, args.inputs, args.outputs].map(|n| n as usize);
    let (col0, share) = (thread::block_idx_x() as usize * TILE_COLS, thread::block_idx_y() as usize);
    let (start, end) = (share * TERMS, (share + 1) * TERMS);
    // SAFETY: the caller's contract for the shapes; one thread writes each sum.
    unsafe {
        let a = OperandA::RowMajor(Matrix::new(args.inp, rows, inputs)).of_depth(start, end);
        let b = OperandB::RowMajor(Matrix::new(args.weights, inputs, outputs)).of_depth(start, end);
        let out = args.sums.add(share * rows * outputs);
        let is_aligned = Matrix::new(out, rows, outputs).is_aligned();
        Of::once::<{ QUADS[0] }, { QUADS[1] }, { QUADS[2] }>(
            shared,
            [0, col0],
            (a, true),
            b,
            wait_for_turn,
            |_, row, col, sums| {
                if row >= rows || col >= outputs {
                    return;
                }
                let out = out.add(row * outputs + col);
                if is_aligned {
                    *out.cast() = sums;
                    return;
                }
                let sums = sums.to_array();
                (0..4).filter(|j| col + j < outputs).for_each(|j| *out.add(j) = sums[j]);
            },
        );
    }
}

/// Returns the launch for a layer with `inputs` inputs and `outputs` outputs.
#[cfg(not(target_arch = "nvptx64"))]
pub fn config(inputs: u32, outputs: u32) -> LaunchConfig {
    let grid = (outputs.div_ceil(TILE_COLS as u32), inputs.div_ceil(TERMS as u32));
    LaunchConfig::new(grid, THREADS as u32)
}
