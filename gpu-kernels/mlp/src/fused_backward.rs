//! The backward pass in two kernels. The first computes the gradient of one layer's input, and the SGD step of the layer
//! above. The second computes two such steps.
//!
//! Compared with [`super::linear`] and [`super::sgd`]: the multiplications use tiles in shared memory, the mask of the ReLU
//! is applied at the only write, and the gradients of the parameters are never written. The gradient of a layer's input
//! reads that layer's weights before they change, so meanwhile the layer above may change its own: one launch does both.
//@ ptx(linear_backward_64x64, linear_backward_32x32): ld.global.v4 >= 4, ld.shared.v4 >= 16, .local == 0
//@ ptx(linear_updates_64x64, linear_updates_32x32): ld.global.v4 >= 4, ld.shared.v4 >= 8, .local == 0
//@ ptx(linear_backward_32x32, linear_updates_32x32, compute_90+): griddepcontrol.wait == 1, griddepcontrol.launch_dependents == 1
//@ ptx(linear_backward_tf32, linear_backward_bf16, linear_backward_f16, compute_80+): mma.sync >= 16, .local == 0
//@ ptx(linear_updates_tf32, linear_updates_bf16, linear_updates_f16, compute_80+): mma.sync >= 8, .local == 0

use cuda_std::half::{bf16, f16};
use cuda_std::mem::f32x4;
use cuda_std::mma::tf32;
use cuda_std::{KernelArgs, hint, kernel, thread};

use super::matrix::{Matrix, OperandA, OperandB};
#[cfg(not(target_arch = "nvptx64"))]
use super::product::Shape;
use super::product::{Product, Serial, Tensor32x32, Tile32x32, Tile64x64, zip_in_place};
use super::sgd::step;
use super::state::{Rates, StepState};

#[cfg(not(target_arch = "nvptx64"))]
mod host;

#[cfg(not(target_arch = "nvptx64"))]
pub use host::{BackwardLaunch, UpdatesLaunch};

/// The gradient of a layer's input, through the ReLU before it.
#[derive(Clone, Copy, Debug, KernelArgs)]
#[repr(C)]
pub struct InputGradient {
    /// `[rows, inputs]`, written.
    pub d_inp: *mut f32,
    /// `[rows, outputs]`.
    pub d_out: *const f32,
    /// `[inputs, outputs]`.
    pub weights: *const f32,
    /// The input, `[rows, inputs]`.
    pub activations: *const f32,
    /// Features in.
    pub inputs: u32,
    /// Features out.
    pub outputs: u32,
    /// Rows of tiles.
    pub tile_rows: u32,
    /// Blocks: one per tile, or 0.
    pub blocks: u32,
}

/// An SGD step of a layer's parameters.
#[derive(Clone, Copy, Debug, KernelArgs)]
#[repr(C)]
pub struct Update {
    /// `[inputs, outputs]`, changed.
    pub weights: *mut f32,
    /// `[outputs]`, changed.
    pub biases: *mut f32,
    /// `[inputs, outputs]`, changed; any pointer without momentum.
    pub weight_velocity: *mut f32,
    /// `[outputs]`, changed; any pointer without momentum.
    pub bias_velocity: *mut f32,
    /// The layer's input, `[rows, inputs]`.
    pub activations: *const f32,
    /// `[rows, outputs]`, already averaged over the batch.
    pub d_out: *const f32,
    /// Features in.
    pub inputs: u32,
    /// Features out.
    pub outputs: u32,
    /// Rows of tiles.
    pub tile_rows: u32,
    /// Blocks: one per tile, or 0.
    pub blocks: u32,
}

/// Computes the gradient of one layer's input, and the step of another layer.
///
/// Launched with the blocks of both, one after the other. `turn` is the index of the step's rate in `state`.
///
/// # Safety
/// The launch is as described; the pointers are valid for the elements of their shapes. No other code uses what is written,
/// and neither part reads what the other writes.
#[kernel(
    max_threads = 256,
    args = BackwardLaunch,
    facts: Shape = <P as Product>::SHAPE,
    instances(
        linear_backward_64x64 = <Tile64x64>;
        linear_backward_32x32 = <Tile32x32>;
        linear_backward_tf32 = <Tensor32x32<tf32>>, min_arch = 80;
        linear_backward_bf16 = <Tensor32x32<bf16>>, min_arch = 80;
        linear_backward_f16 = <Tensor32x32<f16>>, min_arch = 80;
        cpu_only = true {
            linear_backward_serial = <Serial>;
            linear_backward_serial_tf32 = <Serial<tf32>>;
            linear_backward_serial_bf16 = <Serial<bf16>>;
            linear_backward_serial_f16 = <Serial<f16>>;
        }
    ),
)]
pub unsafe fn linear_backward<P: Product>(
    #[shared(<P as Product>::SHARED)] shared: *mut f32x4,
    gradient: InputGradient,
    update: Update,
    state: *const StepState,
    turn: u32,
    #[from(u32)] rows: usize,
) {
    super::wait_for_turn();
    let block = thread::block_idx_x();
    // SAFETY: the kernel's contract; all threads of a block take the same branch.
    unsafe {
        if block < gradient.blocks {
            gradient.run::<P>(shared, block, rows);
        } else {
            update.run::<P>(shared, block - gradient.blocks, rows, StepState::rates(state, turn));
        }
    }
}

/// Computes the steps of two layers. This is the last launch of a step: it advances `state` to the next step.
///
/// Launched with the blocks of both, one after the other. `turn` is the index of the step's rate in `state`, and `rates` has
/// the rates of all steps of the epoch, and one more.
///
/// # Safety
/// Same as for [`linear_backward`](fn@linear_backward); no other code uses `state`.
#[kernel(
    max_threads = 256,
    args = UpdatesLaunch,
    facts: Shape = <P as Product>::SHAPE,
    instances(
        linear_updates_64x64 = <Tile64x64>;
        linear_updates_32x32 = <Tile32x32>;
        linear_updates_tf32 = <Tensor32x32<tf32>>, min_arch = 80;
        linear_updates_bf16 = <Tensor32x32<bf16>>, min_arch = 80;
        linear_updates_f16 = <Tensor32x32<f16>>, min_arch = 80;
        cpu_only = true {
            linear_updates_serial = <Serial>;
            linear_updates_serial_tf32 = <Serial<tf32>>;
            linear_updates_serial_bf16 = <Serial<bf16>>;
            linear_updates_serial_f16 = <Serial<f16>>;
        }
    ),
)]
pub unsafe fn linear_updates<P: Product>(
    #[shared(<P as Product>::SHARED)] shared: *mut f32x4,
    above: Update,
    below: Update,
    state: *mut StepState,
    rates: *const f32,
    turn: u32,
    #[from(u32)] rows: usize,
) {
    super::wait_for_turn();
    let block = thread::block_idx_x();
    // SAFETY: as above; no block reads what the first thread writes.
    unsafe {
        let of_step = StepState::rates(state, turn);
        if block < above.blocks {
            above.run::<P>(shared, block, rows, of_step);
        } else {
            below.run::<P>(shared, block - above.blocks, rows, of_step);
        }
        if block == 0 && thread::thread_idx_x() == 0 {
            StepState::go_on(state, rates, turn, rows as u32);
        }
    }
}

impl InputGradient {
    /// Computes one tile.
    ///
    /// # Safety
    /// Same as for the kernel.
    #[inline(always)]
    unsafe fn run<P: Product>(&self, shared: *mut f32x4, tile: u32, rows: usize) {
        let (inputs, outputs) = (self.inputs as usize, self.outputs as usize);
        // SAFETY: the caller's contract; each output belongs to one thread.
        unsafe {
            let a = OperandA::RowMajor(Matrix::new(self.d_out, rows, outputs).of_gradients());
            let b = OperandB::Transposed(Matrix::new(self.weights, inputs, outputs));
            P::product(
                shared,
                tile,
                self.tile_rows,
                a,
                b,
                |_, _| (),
                |row, col, sums| {
                    let at = row * inputs + col;
                    for (j, &sum) in sums.iter().enumerate() {
                        *self.d_inp.add(at + j) = if *self.activations.add(at + j) > 0.0 { sum } else { 0.0 };
                    }
                },
            );
        }
    }
}

impl Update {
    /// Computes the step of one tile of the weights, whose last row is the biases.
    ///
    /// # Safety
    /// Same as for the kernels.
    #[inline(always)]
    unsafe fn run<P: Product>(
        &self,
        shared: *mut f32x4,
        tile: u32,
        rows: usize,
        Rates { lr, momentum }: Rates,
    ) {
        let (inputs, outputs) = (self.inputs as usize, self.outputs as usize);
        // SAFETY: the caller's contract; each parameter belongs to one thread.
        unsafe {
            let a = OperandA::Transposed(Matrix::new(self.activations, rows, inputs).with_ones());
            let b = OperandB::RowMajor(Matrix::new(self.d_out, rows, outputs).of_gradients());
            let soon =
                |row: usize, col: usize| hint::prefetch_line(self.weights.wrapping_add(row * outputs + col));
            let write = |row, col, gradients: &[f32]| self.apply(row, col, gradients, Rates { lr, momentum });
            P::product(shared, tile, self.tile_rows, a, b, soon, write);
        }
    }

    /// Computes the step of the parameters of a row from a column on; in the row after the weights' last row, of the biases.
    ///
    /// # Safety
    /// Same as for the kernels; the parameters exist, and no other thread uses them.
    #[inline(always)]
    pub(super) unsafe fn apply(
        &self,
        row: usize,
        col: usize,
        gradients: &[f32],
        Rates { lr, momentum }: Rates,
    ) {
        let (inputs, outputs) = (self.inputs as usize, self.outputs as usize);
        let (parameters, velocities, at) = match row < inputs {
            true => (self.weights, self.weight_velocity, row * outputs + col),
            false => (self.biases, self.bias_velocity, col),
        };
        // SAFETY: the caller's contract. Velocities are only addressed by wrapping arithmetic, because without momentum they
        // may point anywhere.
        unsafe {
            let (parameters, velocities) = (parameters.add(at), velocities.wrapping_add(at));
            // All threads take the same branch.
            if momentum == 0.0 {
                zip_in_place(parameters, gradients, |old, gradient| old - lr * gradient);
                return;
            }
            for (j, &gradient) in gradients.iter().enumerate() {
                step(parameters.add(j), velocities.wrapping_add(j), gradient, lr, momentum);
            }
        }
    }
}
