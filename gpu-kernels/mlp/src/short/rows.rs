//! The part of a step that belongs to one row: both layers after the first, the loss, and the gradients down to the first
//! layer's units. Also gathers the samples of the next step.
//!
//! Compared with [`linear_act_forward`](super::super::fused_forward), [`network_head`](super::super::head) and
//! [`linear_backward`](super::super::fused_backward): a block has a row of the batch, and nothing of it leaves the block
//! before the end. Its threads fetch the second layer's weights into registers before the launch ahead has ended, and use
//! them twice, for the units and for the gradients. Other blocks gather the next batch, and wait for nothing.
//!
//! A thread has four neighbouring columns of every `groups`-th row of the second layer. So `groups` threads share a sum over
//! rows, and a quarter of the number of columns share a sum over columns; both go through shared memory.
//@ ptx(short_rows): bar.sync == 6, ld.global.cg.v4 >= 15, ld.volatile.global >= 4, shfl.sync.bfly >= 13, .local == 0
//@ ptx(short_rows, compute_90+): griddepcontrol.wait == 1, griddepcontrol.launch_dependents == 2

use cuda_std::grid::launch_dependents;
use cuda_std::hint::opaque;
#[cfg(not(target_arch = "nvptx64"))]
use cuda_std::launch::LaunchConfig;
use cuda_std::mem::{f32x4, load_global_l2};
use cuda_std::warp::{reduce_max_width, reduce_min_width, reduce_sum, reduce_sum_width, warp_shuffle_idx};
use cuda_std::{GpuFloat as _, KernelArgs, kernel, shared_array, thread};

use super::{MAX_HIDDEN1, MAX_HIDDEN2, MAX_SHARES};
use crate::head::{MAX_CLASSES, NextBatch};
use crate::loss::Targets;
use crate::matrix::Matrix;
use crate::state::StepState;
use crate::wait_for_turn;

/// Threads of a block.
pub(super) const THREADS: usize = 512;
/// Quads of the second layer's weights that a thread holds.
pub(super) const QUADS: usize = 15;
/// Threads of a sample of the next batch.
const SAMPLE: usize = 64;
/// Elements of the sums that threads share. Sums over rows have four per thread; sums over columns have one per quad, and
/// one more per column of threads.
const SHARED_SUMS: usize = THREADS * QUADS + MAX_HIDDEN2 / 4;
/// Vectors of shared memory of a block.
const SHARED: usize =
    (SHARED_SUMS + MAX_HIDDEN1 + MAX_HIDDEN2 * (2 + MAX_CLASSES) + 2 * MAX_CLASSES + 2).div_ceil(4);

/// The arrays that the rows read and write.
#[derive(Clone, Copy, Debug, KernelArgs)]
#[repr(C)]
pub struct Rows {
    /// `[samples]`, written for the samples of the step: the loss of each row in nats.
    pub loss: *mut f32,
    /// `[samples]`, written for the samples of the step: 1 if the first of the largest logits is the label's, otherwise 0.
    pub correct: *mut u32,
    /// `[rows, classes]`, written: the gradient of the logits, averaged over the batch.
    pub d_logits: *mut f32,
    /// `[rows, hidden2]`, written: the gradient of the second layer's sums.
    pub d_hidden2: *mut f32,
    /// `[rows, hidden1]`, written: the gradient of the first layer's sums.
    pub d_hidden1: *mut f32,
    /// `[rows, hidden2]`, written: the second layer's units.
    pub units2: *mut f32,
    /// `[rows, hidden1]`, written: the first layer's units.
    pub units1: *mut f32,
    /// `[shares, rows, hidden1]`: the shares of the first layer's sums.
    pub sums: *const f32,
    /// `[hidden1]`.
    pub biases1: *const f32,
    /// `[hidden1, hidden2]`, at a multiple of 16 bytes.
    pub weights2: *const f32,
    /// `[hidden2]`.
    pub biases2: *const f32,
    /// `[hidden2, classes]`, at a multiple of 16 bytes.
    pub weights3: *const f32,
    /// `[classes]`.
    pub biases3: *const f32,
    /// `[rows]`, each less than `classes`.
    pub labels: *const u32,
    /// The state of training.
    pub state: *const StepState,
    /// Rows of the batch; each has a block.
    pub rows: u32,
    /// Shares of a sum of the first layer.
    pub shares: u32,
    /// Units of the first layer.
    pub hidden1: u32,
    /// Units of the second one.
    pub hidden2: u32,
    /// Classes.
    pub classes: u32,
    /// The targets of a row, of `classes` classes.
    pub targets: Targets,
}

/// Computes everything that belongs to a row, and gathers the next batch.
///
/// Launched as in [`config`]. The `max_threads` bound is larger, to leave registers for a block of the launch ahead, next to
/// which this block fetches its weights.
///
/// # Safety
/// The launch is as described, and [`fits_short`](crate::resident::Extents::fits_short); the pointers are valid for the elements of their
/// shapes; no other code uses what is written. Of what is read, the launch ahead writes only `sums`, and it does not use the
/// next batch.
#[kernel(max_threads = 640)]
pub unsafe fn short_rows(rows: Rows, next: NextBatch) {
    let shared = shared_array![f32x4; SHARED];
    let (block, tid) = (thread::block_idx_x(), thread::thread_idx_x() as usize);
    // SAFETY: the kernel's contract; all threads of a block take the same branch. The shared arrays lie one after the other.
    unsafe {
        if block >= rows.rows {
            launch_dependents();
            let sample = (block - rows.rows) as usize * (THREADS / SAMPLE) + tid / SAMPLE;
            let state = rows.state.read_volatile();
            next.gather(state, rows.rows, sample, [tid % SAMPLE, SAMPLE]);
            return;
        }
        let sums = shared.cast::<f32>();
        let units1 = sums.add(SHARED_SUMS);
        let units2 = units1.add(MAX_HIDDEN1);
        let gradients = units2.add(MAX_HIDDEN2);
        let logits = gradients.add(MAX_HIDDEN2);
        let targets = logits.add(MAX_CLASSES);
        let last = targets.add(MAX_CLASSES);
        let place = last.add(MAX_HIDDEN2 * MAX_CLASSES).cast();
        let row = block as usize;
        Row { of: rows, row, tid, sums, units1, units2, gradients, logits, targets, last, place }.run();
    }
}

/// A row of the batch, and its block's shared memory.
struct Row {
    of: Rows,
    row: usize,
    tid: usize,
    /// Shares of sums, at a multiple of 16 bytes.
    sums: *mut f32,
    /// `[hidden1]`: the biases before the units.
    units1: *mut f32,
    /// `[hidden2]`: the biases before the units.
    units2: *mut f32,
    /// `[hidden2]`, at a multiple of 16 bytes, then zeros.
    gradients: *mut f32,
    /// `[classes]`: the biases before the logits.
    logits: *mut f32,
    /// `[classes]`, then zeros up to [`MAX_CLASSES`]: the targets' part of the gradient of the logits.
    targets: *mut f32,
    /// `[hidden2, classes]`, at a multiple of 16 bytes: the last layer's weights, then zeros up to [`MAX_CLASSES`] for each
    /// unit.
    last: *mut f32,
    /// The row's label, and the first sample of the step.
    place: *mut [u32; 2],
}

impl Row {
    /// Computes the whole row.
    ///
    /// # Safety
    /// Same as for the kernel; all threads of the block call this.
    #[inline(always)]
    unsafe fn run(&self) {
        let Rows { hidden1, hidden2, classes, .. } = self.of;
        let [hidden1, hidden2, classes] = [hidden1, hidden2, classes].map(|n| n as usize);
        let (row, tid, of) = (self.row, self.tid, &self.of);
        // 32-bit divisions take a third of the instructions.
        let across = (self.of.hidden2 / 4).max(1);
        let [groups, group, column] =
            [THREADS as u32 / across, tid as u32 / across, tid as u32 % across].map(|n| n as usize);
        // SAFETY: these arrays have the elements. An earlier launch wrote them, and they are read past L1. One thread writes each
        // element of shared memory.
        let (weights, packed) = unsafe {
            let second = Matrix::new(of.weights2, hidden1, hidden2);
            // The last few threads have no rows.
            let start = if group < groups { group } else { hidden1 };
            let weights: [f32x4; QUADS] = second.any_quads(|i| (start + i * groups, 4 * column));
            let at = |array: *const f32, i: usize| array.add(i).read_volatile();
            let packed = opaque(start | column << 10 | groups << 20) as u32;
            // Each thread loads the biases of the elements that it will write there.
            *self.units1.add(tid) = at(of.biases1, tid.min(hidden1 - 1));
            if tid < MAX_HIDDEN2 {
                *self.units2.add(tid) = at(of.biases2, tid.min(hidden2 - 1));
                *self.gradients.add(tid) = 0.0;
            }
            if tid % 32 == 0 {
                let class = tid / 32;
                *self.logits.add(class) = at(of.biases3, class.min(classes - 1));
                let target = of.targets.of(class == of.labels.add(row).read_volatile() as usize);
                *self.targets.add(class) =
                    if class < classes { -target * (1.0 / of.rows as f32) } else { 0.0 };
            }
            if tid == 0 {
                *self.place =
                    [of.labels.add(row).read_volatile(), (&raw const (*of.state).first).read_volatile()];
            }
            if tid < hidden2 * MAX_CLASSES / 4 {
                let is_weight = tid < hidden2 * classes / 4;
                *self.last.cast::<f32x4>().add(tid) = match is_weight {
                    true => load_global_l2(of.weights3.cast::<f32x4>().add(tid)),
                    false => f32x4::new(0.0, 0.0, 0.0, 0.0),
                };
            }
            wait_for_turn();
            (weights, packed)
        };
        // Recomputed from one register at each use: the other registers are for weights.
        let unpacked = || {
            let packed = opaque(packed as usize) as u32;
            [packed & 1023, packed >> 10 & 1023, packed >> 20]
        };
        // SAFETY: one thread writes each element of shared memory and of the units, and it is read after a barrier, which all
        // threads reach.
        unsafe {
            if tid < hidden1 {
                let unit = relu(self.first_layer(hidden1) + *self.units1.add(tid));
                *self.units1.add(tid) = unit;
                *of.units1.add(row * hidden1 + tid) = unit;
            }
            thread::sync_threads_aligned();
            let mut acc = [0.0f32; 4];
            let [from, _, groups] = unpacked();
            for i in 0..QUADS {
                let row = from + i as u32 * groups;
                // If there is no such row, the weights are another row's.
                let unit = if row < hidden1 as u32 { *self.units1.add(row as usize) } else { 0.0 };
                let weights = weights[i].to_array();
                acc = core::array::from_fn(|j| unit.mul_add(weights[j], acc[j]));
            }
            if tid < groups as usize * (hidden2 / 4) {
                *self.sums.cast::<f32x4>().add(tid) = f32x4::from(acc);
            }
            thread::sync_threads_aligned();
            if tid < hidden2 {
                let [_, _, groups] = unpacked();
                let unit = relu(sum_of(self.sums.add(tid), groups as usize, hidden2) + *self.units2.add(tid));
                *self.units2.add(tid) = unit;
                *of.units2.add(row * hidden2 + tid) = unit;
            }
            thread::sync_threads_aligned();
        }
        // SAFETY: one thread writes each element of shared memory and of the gradients, and it is read after a barrier, which all
        // threads reach.
        unsafe {
            self.third_layer([hidden2, classes]);
            thread::sync_threads_aligned();
            if tid < MAX_HIDDEN2 {
                self.judge([hidden2, classes]);
            }
            thread::sync_threads_aligned();
            let [from, column, groups] = unpacked();
            let gradients = (*self.gradients.cast::<f32x4>().add(column as usize)).to_array();
            let pitch = hidden1 | 1;
            for i in 0..QUADS {
                let (row, [x, y, z, w]) = (from + i as u32 * groups, weights[i].to_array());
                if row < hidden1 as u32 {
                    let [a, b, c, d] = gradients;
                    let at = column * pitch as u32 + row;
                    *self.sums.add(at as usize) = x.mul_add(a, y * b) + z.mul_add(c, w * d);
                }
            }
            thread::sync_threads_aligned();
            if tid < hidden1 {
                let sum = sum_of(self.sums.add(tid), hidden2 / 4, pitch);
                *of.d_hidden1.add(row * hidden1 + tid) = if *self.units1.add(tid) > 0.0 { sum } else { 0.0 };
            }
        }
    }

    /// Returns the first layer's sum for the thread's unit.
    ///
    /// # Safety
    /// Same as for the kernel; the unit exists.
    #[inline(always)]
    unsafe fn first_layer(&self, hidden1: usize) -> f32 {
        let (rows, last) = (self.of.rows, self.of.shares - 1);
        let first = self.of.sums.wrapping_add(self.row * hidden1 + self.tid);
        let step = rows * hidden1 as u32;
        // All loads are in flight at once.
        let shares: [f32; MAX_SHARES] = core::array::from_fn(|share| {
            let at = (share as u32).min(last) * step;
            // SAFETY: the share lies in the shape.
            unsafe { *first.add(at as usize) }
        });
        let mut four = [0.0f32; 4];
        for share in 0..MAX_SHARES {
            four[share % 4] += if share as u32 <= last { shares[share] } else { 0.0 };
        }
        (four[0] + four[1]) + (four[2] + four[3])
    }

    /// Computes the logits, one warp per logit.
    ///
    /// # Safety
    /// Same as for the kernel; all threads of the block call this.
    #[inline(always)]
    unsafe fn third_layer(&self, [hidden2, classes]: [usize; 2]) {
        let (class, lane) = (self.tid / 32, self.tid % 32);
        if class >= classes {
            return;
        }
        // SAFETY: unit and class lie in the shapes, and all lanes of the warp execute this.
        unsafe {
            let terms: [f32; MAX_HIDDEN2 / 32] = core::array::from_fn(|i| {
                let unit = lane + 32 * i;
                let at = unit.min(hidden2 - 1);
                let term = *self.units2.add(at) * *self.last.add(at * classes + class);
                if unit < hidden2 { term } else { 0.0 }
            });
            let sum = reduce_sum((terms[0] + terms[1]) + (terms[2] + terms[3]));
            if lane == 0 {
                *self.logits.add(class) += sum;
            }
        }
    }

    /// Computes the gradient of the thread's unit of the second layer, and in the first warp the row's results. Each
    /// half-warp has all logits, one per lane.
    ///
    /// # Safety
    /// Same as for the kernel; whole warps call this, including the first.
    #[inline(always)]
    unsafe fn judge(&self, [hidden2, classes]: [usize; 2]) {
        const WIDTH: u32 = MAX_CLASSES as u32;
        let (of, row, tid) = (&self.of, self.row, self.tid);
        let class = tid % MAX_CLASSES;
        // SAFETY: class and unit lie in the shapes; all lanes of the warp reach the collectives.
        let (less, sum, d_logit) = unsafe {
            // After the last class these are the next units' weights, and their logits' gradients are 0.
            let own = self.last.add(tid.min(hidden2 - 1) * classes);
            let logit = if class < classes { *self.logits.add(class) } else { f32::NEG_INFINITY };
            let max = reduce_max_width::<f32, WIDTH>(u32::MAX, logit);
            // 0 for the largest, and only for it.
            let less = logit - max;
            let exp = if class < classes { less.exp() } else { 0.0 };
            let sum = reduce_sum_width::<f32, WIDTH>(u32::MAX, exp);
            let scale = 1.0 / of.rows as f32;
            let d_logit = exp.mul_add(scale / sum, *self.targets.add(class));
            let mut gradient = [0.0f32; 4];
            for c in 0..MAX_CLASSES {
                let (d_logit, _) = warp_shuffle_idx(u32::MAX, d_logit, c as u32, 32);
                gradient[c % 4] = d_logit.mul_add(*own.add(c), gradient[c % 4]);
            }
            if tid < hidden2 {
                let sum = (gradient[0] + gradient[1]) + (gradient[2] + gradient[3]);
                let gradient = if *self.units2.add(tid) > 0.0 { sum } else { 0.0 };
                *self.gradients.add(tid) = gradient;
                *of.d_hidden2.add(row * hidden2 + tid) = gradient;
            }
            (less, sum, d_logit)
        };
        // SAFETY: class and row lie in the shapes; all lanes of the first warp reach the collectives.
        unsafe {
            if tid < 32 {
                let candidate = if less == 0.0 { class as u32 } else { WIDTH };
                let hit = reduce_min_width::<u32, WIDTH>(u32::MAX, candidate) as usize;
                if tid < classes {
                    *of.d_logits.add(row * classes + tid) = d_logit;
                }
                let mut all = 0.0;
                if of.targets.are_spread() {
                    let less = if class < classes { less } else { 0.0 };
                    all = reduce_sum_width::<f32, WIDTH>(u32::MAX, less);
                }
                let label = self.place.cast::<u32>().read_volatile() as usize;
                if tid == label {
                    let (loss, first) =
                        (sum.ln() - of.targets.weighted(less, all), (*self.place)[1] as usize);
                    *of.loss.add(first + row) = loss;
                    *of.correct.add(first + row) = u32::from(hit == label && !loss.is_nan());
                }
            }
        }
    }
}

/// Returns the larger of the number and 0; NaN stays NaN.
#[inline(always)]
fn relu(x: f32) -> f32 {
    if x <= 0.0 { 0.0 } else { x }
}

/// Returns the sum of `len` elements that are `step` elements apart.
///
/// # Safety
/// The elements exist, and there is at least one.
#[inline(always)]
unsafe fn sum_of(first: *const f32, len: usize, step: usize) -> f32 {
    const AT_ONCE: u32 = 8;
    let (last, step, mut sums) = (len as u32 - 1, step as u32, [0.0f32; AT_ONCE as usize]);
    let mut i = 0;
    while i <= last {
        for j in 0..AT_ONCE {
            // SAFETY: the element exists.
            let element = unsafe { *first.add(((i + j).min(last) * step) as usize) };
            sums[j as usize] += if i + j <= last { element } else { 0.0 };
        }
        i = opaque((i + AT_ONCE) as usize) as u32;
    }
    ((sums[0] + sums[4]) + (sums[1] + sums[5])) + ((sums[2] + sums[6]) + (sums[3] + sums[7]))
}

/// Returns the launch for `rows` rows and a next batch of `samples`.
#[cfg(not(target_arch = "nvptx64"))]
pub fn config(rows: u32, samples: u32) -> LaunchConfig {
    LaunchConfig::new(rows + samples.div_ceil((THREADS / SAMPLE) as u32), THREADS as u32)
}
