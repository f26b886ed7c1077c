//! The steps of three layers in one launch.
//!
//! Compared with [`linear_updates`](super::super::fused_backward): a block has all terms of 64 x 32 gradients at once, and
//! so no loop. The first layer's input and all old weights, which the launch ahead does not write, are fetched before it has
//! ended.
//@ ptx(short_updates): bar.sync == 3, ld.global.cg.v4 >= 16, ld.shared.v4 >= 12, .local == 0
//@ ptx(short_updates, compute_90+): griddepcontrol.wait >= 1, griddepcontrol.launch_dependents >= 1

#[cfg(not(target_arch = "nvptx64"))]
use cuda_std::launch::LaunchConfig;
use cuda_std::mem::f32x4;
use cuda_std::{kernel, shared_array, thread};

use super::{Of, QUADS, SHARED, THREADS, TILE_COLS, TILE_ROWS};
use crate::fused_backward::Update;
#[cfg(not(target_arch = "nvptx64"))]
use crate::grid::Tiles;
use crate::matrix::{Matrix, OperandA, OperandB};
use crate::state::StepState;
use crate::wait_for_turn;

/// Computes the steps of three layers. This is the last launch of a step: it advances `state` to the next step.
///
/// Launched with the blocks of all layers, one layer after the other, as in [`config`]. `turn` is the index of the step's
/// rate in `state`, and `rates` has the rates of all steps of the epoch, and one more.
///
/// # Safety
/// The launch is as described, and there are at most 64 rows; the pointers are valid for the elements of their shapes; no
/// other code uses what is written. The launch ahead writes neither the parameters nor the first layer's input.
#[kernel(max_threads = 128)]
pub unsafe fn short_updates(
    first: Update,
    second: Update,
    third: Update,
    state: *mut StepState,
    rates: *const f32,
    turn: u32,
    rows: u32,
) {
    let shared = shared_array![f32x4; SHARED];
    let block = thread::block_idx_x();
    // SAFETY: the kernel's contract; all threads of a block take the same branch. No block reads the first thread's writes.
    unsafe {
        let is_first = block < first.blocks;
        let (update, tile) = match block {
            _ if is_first => (first, block),
            _ if block < first.blocks + second.blocks => (second, block - first.blocks),
            _ => (third, block - first.blocks - second.blocks),
        };
        update.once(shared, (tile, is_first), rows as usize, (state, turn));
        if block == 0 && thread::thread_idx_x() == 0 {
            StepState::go_on(state, rates, turn, rows);
        }
    }
}

impl Update {
    /// Computes the step of one tile of the weights, whose last row is the biases. Only if it `is_first`, the layer's input
    /// exists before the launch ahead has ended.
    ///
    /// # Safety
    /// Same as for the kernel.
    #[inline(always)]
    unsafe fn once(
        &self,
        shared: *mut f32x4,
        (tile, is_first): (u32, bool),
        rows: usize,
        (state, turn): (*const StepState, u32),
    ) {
        let (inputs, outputs) = (self.inputs as usize, self.outputs as usize);
        let across = self.outputs.div_ceil(TILE_COLS as u32).max(1);
        let (row0, col0) = ((tile / across) as usize * TILE_ROWS, (tile % across) as usize * TILE_COLS);
        // SAFETY: the state has the step's rate, and the layer its parameters.
        let (rates, weights, biases) = unsafe {
            (
                StepState::rates_past_l1(state, turn),
                Matrix::new(self.weights, inputs, outputs),
                Matrix::new(self.biases, 1, outputs),
            )
        };
        let tid = thread::thread_idx_x() as usize;
        let place = |i: usize| {
            let [row, col] = Of::place_of(tid, i);
            (row0 + row, col0 + col)
        };
        // Loads everything at once, before the thread writes anything: loads of memory that may have been written wait for the
        // write.
        let mut old: [f32x4; QUADS[2]] = weights.quads(place);
        if row0 + TILE_ROWS > inputs {
            let of_biases: [f32x4; QUADS[2]] =
                biases.quads(|i| (place(i).0.wrapping_sub(inputs), place(i).1));
            old = core::array::from_fn(|i| if place(i).0 < inputs { old[i] } else { of_biases[i] });
        }
        // SAFETY: all threads of the block execute this, and each parameter belongs to one of them.
        unsafe {
            let a = OperandA::Transposed(Matrix::new(self.activations, rows, inputs).with_ones());
            let b = OperandB::RowMajor(Matrix::new(self.d_out, rows, outputs).of_gradients());
            Of::once::<{ QUADS[0] }, { QUADS[1] }, { QUADS[2] }>(
                shared,
                [row0, col0],
                (a, is_first),
                b,
                wait_for_turn,
                |i, row, col, gradients| {
                    if row > inputs || col >= outputs {
                        return;
                    }
                    let gradients = gradients.to_array();
                    if rates.momentum != 0.0 {
                        (0..4).filter(|j| col + j < outputs).for_each(|j| {
                            self.apply(row, col + j, &gradients[j..=j], rates);
                        });
                        return;
                    }
                    let old = old[i].to_array();
                    let new: [f32; 4] = core::array::from_fn(|j| old[j] - rates.lr * gradients[j]);
                    let to = match row < inputs {
                        true => self.weights.add(row * outputs + col),
                        false => self.biases.add(col),
                    };
                    if weights.is_aligned() && row < inputs {
                        *to.cast() = f32x4::from(new);
                        return;
                    }
                    for j in 0..4 {
                        if col + j < outputs {
                            *to.add(j) = new[j];
                        }
                    }
                },
            );
        }
    }
}

/// Returns the tiles of a layer's step.
#[cfg(not(target_arch = "nvptx64"))]
pub fn tiles(inputs: u32, outputs: u32) -> Tiles {
    // The biases are one more row.
    let rows = (inputs + 1).div_ceil(TILE_ROWS as u32);
    Tiles { rows, count: rows * outputs.div_ceil(TILE_COLS as u32) }
}

/// Returns the launch for `tiles` tiles.
#[cfg(not(target_arch = "nvptx64"))]
pub fn config(tiles: u32) -> LaunchConfig {
    LaunchConfig::new(tiles, THREADS as u32)
}
