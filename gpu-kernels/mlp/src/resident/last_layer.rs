//! The last layer. Blocks of their own update it and send it to the blocks of rows, each the weights of some units below.

use core::sync::atomic::Ordering;

use cuda_std::grid;
use cuda_std::half::f16;
use cuda_std::mem::{f32x2, u32x2, u32x4};
use cuda_std::mma::{FragmentA, FragmentB, ldmatrix_trans};

use super::exchange::Mail;
use super::extents::{LAST_UNITS, LOGITS_PITCH, MAX_ROWS, PITCH, QUADS};
use super::halves::{GRADIENTS, HalfProducts, OUTPUTS, group_of, upper_and_lower};
use super::rows::Shared;
use super::{Block, ResidentNetwork, ResidentSteps};
use crate::head::MAX_CLASSES;

/// Parts of 16 rows of a batch.
const PARTS: usize = MAX_ROWS / 16;

/// Quads of the last layer that a thread waits for at once: all of a thread's on a GPU.
const AT_ONCE: usize = 2;

/// Halves of `[MAX_ROWS, LOGITS_PITCH]` times eight units below the block's weights, the last followed by 1 and zeros, times
/// [`OUTPUTS`], then the same of the gradients of the logits, times [`GRADIENTS`].
#[derive(Clone, Copy)]
struct Rows(*mut u32x4);

impl Rows {
    const QUADS: usize = 2 * 2 * MAX_ROWS * LOGITS_PITCH;

    /// Returns one half of the units, or of the gradients, of a row.
    #[inline(always)]
    fn row(&self, is_unit: bool, half: usize, row: usize) -> *mut u32x4 {
        self.0.wrapping_add(((usize::from(!is_unit) * 2 + half) * MAX_ROWS + row) * LOGITS_PITCH)
    }
}

impl<const WARPS: usize> Block<WARPS> {
    /// Loads the last layer to the shared memory of a row's block, as [`Self::receive_last_layer`] receives it.
    ///
    /// # Safety
    /// Same as for the kernel.
    #[inline(always)]
    pub(super) unsafe fn load_last_layer(&self, shared: &Shared, network: &ResidentNetwork) {
        for i in self.each(MAX_CLASSES * 4 * PITCH) {
            // SAFETY: an element of the layer in shared memory.
            unsafe {
                let weight = self.load_last(network, i / (4 * PITCH), i % (4 * PITCH));
                *shared.weights.cast::<u32>().add(i) = weight.to_bits() & !1;
            }
        }
    }

    /// Waits for the last layer.
    ///
    /// # Safety
    /// Same as for the kernel.
    #[inline(always)]
    pub(super) unsafe fn receive_last_layer(&self, shared: &Shared, mail: &Mail) {
        let quads = self.extents.gradient_quads(2) as u32;
        let all = self.extents.classes as u32 * quads;
        for first in (self.tid as u32..all).step_by(Self::THREADS * AT_ONCE) {
            let of: [u32; AT_ONCE] =
                core::array::from_fn(|i| (first + (i * Self::THREADS) as u32).min(all - 1));
            let places = of.map(|i| ((i / quads) as usize, (i % quads) as usize));
            // SAFETY: quads of the layer, the last one perhaps several times.
            unsafe {
                let from =
                    places.map(|(class, quad)| mail.last.wrapping_add(class * QUADS + quad).cast_const());
                let weights = mail.receive_words("the weights of the last layer", from);
                for i in 0..AT_ONCE {
                    let (class, quad) = places[i];
                    *shared.weights.add(class * PITCH + quad) = weights[i].map(f32::from_bits).into();
                }
            }
        }
    }

    /// Computes the steps of the weights of the last layer for the units of block `number`.
    ///
    /// # Safety
    /// Same as for the kernel.
    #[inline(always)]
    pub(super) unsafe fn train_last_layer<const HALVES: usize>(
        &self,
        network: &ResidentNetwork,
        steps: &ResidentSteps,
        number: usize,
    ) {
        let (e, (warp, lane)) = (self.extents, self.place());
        let ((group, place), rates) = (group_of(lane), steps.rates());
        // The class and the first of the two units of the lane's pair `i` in a tile of eight units.
        let at = |tile: usize, i: usize| (group + 8 * i, number * LAST_UNITS + 8 * tile + 2 * place);
        // SAFETY: as for the blocks of weights; one warp has a tile. All lanes of a warp have the same tiles.
        unsafe {
            let rows = Rows(self.shared.cast());
            // Nothing is received for rows and units past the end, so they stay zero.
            for i in self.each(Rows::QUADS) {
                *rows.0.add(i) = u32x4::default();
            }
            self.sync();
            let weights = |tile, i| rows.0.add(Rows::QUADS).cast::<f32x2>().add((2 * tile + i) * 32 + lane);
            let tiles = || (warp..LAST_UNITS / 8).step_by(WARPS).flat_map(|tile| [(tile, 0), (tile, 1)]);
            for (tile, i) in tiles() {
                let (class, unit) = at(tile, i);
                *weights(tile, i) = [unit, unit + 1].map(|unit| self.load_last(network, class, unit)).into();
            }
            for step in 0..steps.steps as usize {
                let factor = *rates.add(step) / (GRADIENTS * OUTPUTS);
                let mail = Mail::of(steps.mail, &e, steps.round.wrapping_add(step as u32));
                self.receive_rows::<HALVES>(&rows, &mail, number);
                self.sync();
                for tile in (warp..LAST_UNITS / 8).step_by(WARPS) {
                    let sums = self.gradients_of_last::<HALVES>(&rows, tile);
                    for i in 0..2 {
                        let (class, unit) = at(tile, i);
                        let old = (*weights(tile, i)).to_array();
                        let new: [f32; 2] = core::array::from_fn(|j| old[j] - factor * sums[2 * i + j]);
                        *weights(tile, i) = new.into();
                        let to = mail.last.add(class * QUADS).cast::<[u32; 2]>().add(unit / 2);
                        mail.send_pair(to, new.map(f32::to_bits));
                    }
                }
                self.sync();
            }
            for (tile, i) in tiles() {
                let ((class, unit), new) = (at(tile, i), (*weights(tile, i)).to_array());
                for j in 0..2 {
                    if let Some(weight) = self.last_layer(network, class, unit + j) {
                        grid::store_relaxed(weight.cast(), new[j].to_bits());
                    }
                }
            }
        }
    }

    /// Loads a weight of the last layer; 0 if there is none.
    ///
    /// # Safety
    /// Same as for the kernel.
    #[inline(always)]
    unsafe fn load_last(&self, network: &ResidentNetwork, class: usize, unit: usize) -> f32 {
        // Another block writes them when it ends, with such stores.
        // SAFETY: an element of the layer.
        let load = |weight: *mut f32| unsafe { grid::wait_until(weight.cast(), Ordering::Relaxed, |_| true) };
        f32::from_bits(self.last_layer(network, class, unit).map_or(0, load))
    }

    /// Returns the address of a weight of the last layer; for the constant unit 1, of the class's bias.
    #[inline(always)]
    fn last_layer(&self, network: &ResidentNetwork, class: usize, unit: usize) -> Option<*mut f32> {
        let (e, is_bias) = (self.extents, unit == self.extents.hidden2);
        let (weights, at) = if is_bias { (network.biases3, 0) } else { (network.weights3, unit * e.classes) };
        (class < e.classes && unit <= e.hidden2).then(|| weights.wrapping_add(at + class))
    }

    /// Waits for the block's units and the gradients of the logits of all rows.
    ///
    /// # Safety
    /// Same as for the kernel.
    #[inline(always)]
    unsafe fn receive_rows<const HALVES: usize>(&self, rows: &Rows, mail: &Mail, number: usize) {
        // The quads of 16 units are as many as those of 16 logits.
        let (e, each) = (self.extents, LAST_UNITS * HALVES / 8);
        let (quads, units, last) = (e.row_quads(HALVES), e.gradient_quads(HALVES), e.batch - 1);
        for first in (self.tid..MAX_ROWS * 2 * each).step_by(Self::THREADS * HALVES) {
            let places: [(usize, usize); HALVES] = core::array::from_fn(|i| {
                let i = first + i * Self::THREADS;
                (i / (2 * each), i % (2 * each))
            });
            // The quad of a row.
            let at = |quad: usize| if quad < each { number * each + quad } else { units + quad - each };
            let from = places.map(|(row, quad)| {
                let quad = if quad < each { at(quad).min(units - 1) } else { at(quad) };
                mail.rows.wrapping_add(row.min(last) * quads + quad).cast_const()
            });
            // SAFETY: quads of existing rows, which have their place in shared memory, where only this thread writes them.
            unsafe {
                let words = mail.receive_words("the units and gradients of the batch's rows", from);
                for i in 0..HALVES {
                    let (row, quad) = places[i];
                    let is_unit = quad < each;
                    if row > last || is_unit && at(quad) >= units {
                        continue;
                    }
                    if HALVES == 2 {
                        let halves = upper_and_lower(words[i]);
                        for half in 0..2 {
                            *rows.row(is_unit, half, row).cast::<u32x2>().add(quad % each) =
                                halves[half].into();
                        }
                    } else {
                        *rows.row(is_unit, 0, row).add(quad % each) = words[i].into();
                    }
                }
            }
        }
    }

    /// Returns the lane's sums over all rows of the products of a tile's units and the gradients.
    ///
    /// # Safety
    /// Same as for the kernel; all lanes of the warp call this.
    #[inline(always)]
    unsafe fn gradients_of_last<const HALVES: usize>(&self, rows: &Rows, tile: usize) -> [f32; 4] {
        let lane = self.place().1;
        let mut products = HalfProducts::<HALVES>::ZERO;
        // SAFETY: all rows.
        unsafe {
            let mut units = [[[0; 2]; HALVES]; PARTS];
            for pair in 0..PARTS / 2 {
                for half in 0..HALVES {
                    let row = rows.row(true, half, 32 * pair + lane).add(tile);
                    let [a, b, c, d]: [u32; 4] = ldmatrix_trans(row);
                    units[2 * pair][half] = [a, b];
                    units[2 * pair + 1][half] = [c, d];
                }
            }
            for part in 0..PARTS {
                let gradients: [FragmentA<f16>; HALVES] = core::array::from_fn(|half| {
                    let row = rows.row(false, half, 16 * part + lane / 16 * 8 + lane % 8);
                    FragmentA::from_registers(ldmatrix_trans(row.add(lane / 8 % 2)))
                });
                products.add(part, gradients, units[part].map(FragmentB::from_registers));
            }
        }
        products.sums()
    }
}
