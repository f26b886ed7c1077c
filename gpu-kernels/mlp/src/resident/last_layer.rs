//! The last layer. Each block of a row updates its own copy; all copies are equal.

use core::sync::atomic::Ordering;

use cuda_std::grid::{self, Watchdog};
use cuda_std::half::f16;
use cuda_std::mem::{f32x2, u32x2};
use cuda_std::mma::{FragmentA, FragmentB, ldmatrix_trans};

use super::exchange::Mail;
use super::extents::{COLUMNS, HALF_PITCH, LOGITS_PITCH, MAX_ROWS, PITCH};
use super::halves::{GRADIENTS, HalfProducts, OUTPUTS, group_of, split};
use super::rows::Shared;
use super::{Block, ResidentNetwork};
use crate::head::MAX_CLASSES;

/// Longer than the slowest device needs, and shorter than the operating system's watchdog.
const OTHER_ROWS: Watchdog = Watchdog::new("the units and gradients of the batch's rows", 1_500_000_000);

/// Rows that a lane waits for at once: all of a lane's on a GPU.
const ROWS_AT_ONCE: usize = 4;

/// Parts of 16 rows of a batch.
const PARTS: usize = MAX_ROWS / 16;

impl<const WARPS: usize> Block<WARPS> {
    /// Loads the last layer to shared memory.
    ///
    /// # Safety
    /// Same as for the kernel.
    #[inline(always)]
    pub(super) unsafe fn begin_last_layer(&self, shared: &Shared, network: &ResidentNetwork) {
        for i in self.each(MAX_CLASSES * 4 * PITCH) {
            // Another block writes them when it ends, with such stores.
            // SAFETY: an element of the layer.
            let load =
                |weight: *mut f32| unsafe { grid::wait_until(weight.cast(), Ordering::Relaxed, |_| true) };
            let weight = self.last_layer(network, i).map_or(0, load);
            // SAFETY: an element of the layer in shared memory.
            unsafe { *shared.weights.cast::<f32>().add(i) = f32::from_bits(weight) };
        }
    }

    /// Writes the last layer back.
    ///
    /// # Safety
    /// Same as for the kernel.
    #[inline(always)]
    pub(super) unsafe fn finish_last_layer(&self, shared: &Shared, network: &ResidentNetwork) {
        for i in self.each(MAX_CLASSES * 4 * PITCH) {
            if let Some(weight) = self.last_layer(network, i) {
                // SAFETY: an element of the layer.
                unsafe {
                    grid::store_relaxed(weight.cast(), (*shared.weights.cast::<f32>().add(i)).to_bits())
                };
            }
        }
    }

    /// Returns the address in global memory of the element that is number `i` in shared memory.
    #[inline(always)]
    fn last_layer(&self, network: &ResidentNetwork, i: usize) -> Option<*mut f32> {
        let (e, class, unit) = (self.extents, i / (4 * PITCH), i % (4 * PITCH));
        let is_bias = unit == e.hidden2;
        let (weights, at) = if is_bias { (network.biases3, 0) } else { (network.weights3, unit * e.classes) };
        (class < e.classes && unit <= e.hidden2).then(|| weights.wrapping_add(at + class))
    }

    /// Waits for the words of all rows. With single halves a half-warp receives a row.
    ///
    /// # Safety
    /// Same as for the kernel.
    #[inline(always)]
    pub(super) unsafe fn receive_rows<const HALVES: usize>(&self, shared: &Shared, mail: &Mail) {
        let (e, (warp, lane)) = (self.extents, self.place());
        let (lanes, parts) = (16 * HALVES, 2 / HALVES);
        let (quads, units) = (e.row_quads(HALVES) as u32, e.gradient_quads(HALVES) as u32);
        let last = e.batch as u32 - 1;
        let mut quad = (lane % lanes) as u32;
        // Once, except for the widest second layers.
        while quad < quads {
            let is_unit = quad < units;
            for first in (0..MAX_ROWS / (parts * WARPS)).step_by(ROWS_AT_ONCE * HALVES) {
                let row_of = |i: usize| parts * (warp + (first + i) * WARPS) + lane / lanes;
                let from = |i: usize| {
                    let quad = (row_of(i) as u32).min(last) * quads + quad;
                    mail.rows.wrapping_add(quad as usize).cast_const()
                };
                if HALVES == 2 {
                    let from: [_; 2 * ROWS_AT_ONCE] = core::array::from_fn(from);
                    // SAFETY: the lane's quads of existing rows.
                    let words = unsafe { mail.receive_words(OTHER_ROWS, from) };
                    for i in 0..2 * ROWS_AT_ONCE {
                        let scale = if is_unit { OUTPUTS } else { GRADIENTS };
                        let [a, b, c, d] = words[i].map(|word| f32::from_bits(word) * scale);
                        let [left, right] = [[a, b], [c, d]].map(split::<2>);
                        for half in 0..2 {
                            let row = row_of(i);
                            // SAFETY: the row has the quad in shared memory, and only this lane writes it.
                            unsafe {
                                let to = match is_unit {
                                    true => shared
                                        .units(half)
                                        .add(row * HALF_PITCH)
                                        .cast::<u32x2>()
                                        .add(quad as usize),
                                    false => shared
                                        .gradients(half)
                                        .add(row * LOGITS_PITCH)
                                        .cast::<u32x2>()
                                        .add((quad - units) as usize),
                                };
                                if row <= last as usize {
                                    *to = [left[half], right[half]].into();
                                }
                            }
                        }
                    }
                } else {
                    let from: [_; ROWS_AT_ONCE] = core::array::from_fn(from);
                    // SAFETY: the lane's quads of existing rows, which have them in shared memory too, where only it writes them.
                    unsafe {
                        let words = mail.receive_words(OTHER_ROWS, from);
                        for i in 0..ROWS_AT_ONCE {
                            let row = row_of(i);
                            let to = match is_unit {
                                true => shared.units(0).add(row * HALF_PITCH + quad as usize),
                                false => {
                                    shared.gradients(0).add(row * LOGITS_PITCH + (quad - units) as usize)
                                }
                            };
                            if row <= last as usize {
                                *to = words[i].into();
                            }
                        }
                    }
                }
            }
            quad += lanes as u32;
        }
    }

    /// Computes the step of the last layer, bit for bit the same in every block.
    ///
    /// # Safety
    /// Same as for the kernel.
    #[inline(always)]
    pub(super) unsafe fn move_last_layer<const HALVES: usize>(&self, shared: &Shared, lr: f32) {
        let (warp, lane) = self.place();
        let (group, place) = group_of(lane);
        let factor = lr / (GRADIENTS * OUTPUTS);
        for tile in (warp..COLUMNS / 8).step_by(WARPS) {
            let mut products = HalfProducts::<HALVES>::ZERO;
            // SAFETY: all rows, and the lane's pair of columns of two classes. All lanes of the warp have the same tiles.
            unsafe {
                let mut units = [[[0; 2]; HALVES]; PARTS];
                for pair in 0..PARTS / 2 {
                    for half in 0..HALVES {
                        let row = shared.units(half).add((32 * pair + lane) * HALF_PITCH + tile);
                        let [a, b, c, d]: [u32; 4] = ldmatrix_trans(row);
                        units[2 * pair][half] = [a, b];
                        units[2 * pair + 1][half] = [c, d];
                    }
                }
                for part in 0..PARTS {
                    let row = (16 * part + lane / 16 * 8 + lane % 8) * LOGITS_PITCH + lane / 8 % 2;
                    let gradients: [FragmentA<f16>; HALVES] = core::array::from_fn(|half| {
                        FragmentA::from_registers(ldmatrix_trans(shared.gradients(half).add(row)))
                    });
                    products.add(part, gradients, units[part].map(FragmentB::from_registers));
                }
                let sums = products.sums();
                for i in 0..2 {
                    let weights =
                        shared.weights.add((group + 8 * i) * PITCH).cast::<f32x2>().add(4 * tile + place);
                    let old = (*weights).to_array();
                    *weights = core::array::from_fn(|j| old[j] - factor * sums[2 * i + j]).into();
                }
            }
        }
    }
}
