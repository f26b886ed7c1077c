//! A whole run of steps in one launch: the weights stay on the multiprocessors, and blocks only exchange sums.
//!
//! Compared with [`super::fused_forward`], [`super::head`] and [`super::fused_backward`]: no weight is read or written
//! between two steps, and a step costs two exchanges through L2 instead of its launches. A block of `weights` owns [`UNITS`]
//! hidden units of the first layer with all their weights, and their rows of the second layer. A block of `rows` owns a row
//! of the batch, and computes what follows from it. Tensor cores do the multiplications of the whole batch.
//!
//! A step: each block of weights sends its share of the second layer's sums of every row. The block of a row adds them,
//! computes the head, and sends the gradient of the second layer's sums back. It also sends the second layer's output and the
//! gradient of the logits to the blocks of the last layer, which update that and send it to all rows. `exchange` is how they
//! send. While the rows are at work, the blocks of weights apply the update of the step before, and
//! compute the first layer's multiplication of the next step; `gram` explains why that is possible.
//!
//! Plain SGD of a network with two hidden layers. Biases are the weights of a constant feature or unit 1.
//!
//! Requires: sizes that pass [`Extents::check`], and all blocks on the device at once.
//@ ptx(resident_epoch, resident_epoch_f16, compute_90+): mma.sync >= 12, ldmatrix >= 4, ld.relaxed.gpu >= 8, .local == 0

use cuda_std::grid::Watchdog;
use cuda_std::mem::f32x4;
use cuda_std::{KernelArgs, kernel, shared, thread};

use super::loss::Targets;

mod batches;
mod exchange;
mod extents;
mod gram;
mod halves;
#[cfg(not(target_arch = "nvptx64"))]
mod host;
mod last_layer;
mod masters;
mod rows;
mod sums;
mod units;
mod weights;

#[cfg(not(target_arch = "nvptx64"))]
pub use extents::Misfit;
pub use extents::{COUNTER, Extents, MAX_ROWS, UNITS};
#[cfg(not(target_arch = "nvptx64"))]
pub use host::{ResidentLaunch, ResidentShape};

/// Longer than the slowest device needs, and shorter than the operating system's watchdog.
const ALL_BATCHES: Watchdog = Watchdog::new("the inner products of the batches", 1_500_000_000);

/// The parameters of the network: read when the launch begins, written when it ends.
#[derive(Clone, Copy, Debug, KernelArgs)]
#[repr(C)]
pub struct ResidentNetwork {
    /// `[features, hidden1]`, changed.
    pub weights1: *mut f32,
    /// `[hidden1]`, changed.
    pub biases1: *mut f32,
    /// `[hidden1, hidden2]`, changed.
    pub weights2: *mut f32,
    /// `[hidden2]`, changed.
    pub biases2: *mut f32,
    /// `[hidden2, classes]`, changed.
    pub weights3: *mut f32,
    /// `[classes]`, changed.
    pub biases3: *mut f32,
    /// Pixels of a sample.
    pub features: u32,
    /// Units of the first hidden layer.
    pub hidden1: u32,
    /// Units of the second one.
    pub hidden2: u32,
    /// Classes.
    pub classes: u32,
}

/// The steps of a launch.
#[derive(Clone, Copy, Debug, KernelArgs)]
#[repr(C)]
pub struct ResidentSteps {
    /// `[samples]`, written for the samples of the step: the loss of each in nats, by its position in the epoch.
    pub loss: *mut f32,
    /// `[samples]`, written for the samples of the step: 1 if the first of the largest logits is the label's, otherwise 0.
    pub correct: *mut u32,
    /// `[samples, features]`.
    pub images: *const u8,
    /// `[samples]`, each less than the classes.
    pub labels: *const u8,
    /// [`Extents::mail_words`] words, at a multiple of 16 bytes: zeros before the step of round 0, and then as the last
    /// launch has left them.
    pub mail: *mut u32,
    /// [`Extents::batches_len`] bytes for one step more than the launch has, at a multiple of 16 bytes, written: the batches
    /// of the steps.
    pub batches: *mut u8,
    /// [`Extents::gram_len`] numbers for one step more than the launch has, at a multiple of 16 bytes, written: for each
    /// step except the first, the inner products of its samples with those of the step before.
    pub gram: *mut f32,
    /// [`Extents::ahead_len`] numbers, at a multiple of 16 bytes: the first layer's sums of the first step, if `is_begun`.
    /// Written, unless the epoch ends with the launch: the sums of the step after it.
    pub ahead: *mut f32,
    /// The learning rate of each step of the epoch, by its number in the epoch.
    pub rates: *const f32,
    /// Not 0 if the launch of the steps just before has written `ahead`.
    pub is_begun: u32,
    /// Samples of the data set.
    pub samples: u32,
    /// The first sample of the first step, counted in the order of the epoch.
    pub first: u32,
    /// Number of steps: at most to the end of the epoch, where the last batch may be short.
    pub steps: u32,
    /// Samples of a batch.
    pub batch: u32,
    /// Steps that have used `mail` before. It wraps around.
    pub round: u32,
    /// The epoch, which together with the seed determines the order of its samples.
    pub epoch: u32,
    /// The seed.
    pub seed: u64,
    /// The targets of a row, of `classes` classes.
    pub targets: Targets,
}

/// Computes `steps` steps of SGD.
///
/// Launched with [`Extents::blocks`] blocks of `32 * WARPS` threads and [`Extents::shared_bytes`] of dynamic shared memory.
/// A warp holds `TILES` tiles of 16 features. `HALVES` is 2 for sums as accurate as `f32`, and 1 for operands of `f16`.
///
/// # Safety
/// The launch is as described, and [`Extents::check`] succeeds; the pointers are valid for the elements of their shapes; no
/// other code uses what is written.
#[kernel(
    cooperative,
    min_arch = 90,
    max_threads = 32 * WARPS,
    args = ResidentLaunch,
    facts: ResidentShape = ResidentShape { warps: WARPS, tiles: TILES, halves: HALVES },
    instances(
        resident_epoch = <8, 7, 2>;
        resident_epoch_f16 = <8, 7, 1>;
        resident_epoch_serial = <1, 56, 2>, cpu_only = true;
        resident_epoch_serial_f16 = <1, 56, 1>, cpu_only = true;
    ),
)]
pub unsafe fn train<const WARPS: usize, const TILES: usize, const HALVES: usize>(
    network: ResidentNetwork,
    steps: ResidentSteps,
) {
    let extents = network.extents(&steps);
    let block = Block::<WARPS> {
        shared: shared::dynamic_shared_mem::<f32x4>(),
        tid: thread::thread_idx_x() as usize,
        extents,
    };
    let number = thread::block_idx_x() as usize;
    // SAFETY: the kernel's contract; all threads of a block take the same branch.
    unsafe {
        let batches = block.batches();
        block.clear(&batches);
        block.multiply_batches::<HALVES>(&batches, &steps);
        ALL_BATCHES.sync(steps.mail.add(extents.mail_words() - COUNTER));
        let (rows, last) = (extents.weight_blocks(), extents.weight_blocks() + extents.batch);
        if number < rows {
            block.train_weights::<TILES, HALVES>(&network, &steps, number);
        } else if number < last {
            block.train_row::<HALVES>(&network, &steps, number - rows);
        } else {
            block.train_last_layer::<HALVES>(&network, &steps, number - last);
        }
    }
}

/// A thread's view of its block.
#[derive(Clone, Copy)]
struct Block<const WARPS: usize> {
    shared: *mut f32x4,
    tid: usize,
    extents: Extents,
}

impl<const WARPS: usize> Block<WARPS> {
    const THREADS: usize = 32 * WARPS;

    /// Returns warp and lane.
    #[inline(always)]
    fn place(&self) -> (usize, usize) {
        (self.tid / 32, self.tid % 32)
    }

    /// Returns the thread's share of `0..len`.
    #[inline(always)]
    fn each(&self, len: usize) -> impl Iterator<Item = usize> + use<WARPS> {
        (self.tid..len).step_by(Self::THREADS)
    }

    /// Waits for all threads of the block.
    ///
    /// # Safety
    /// All threads of the block call this.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    unsafe fn sync(&self) {
        // SAFETY: all threads execute this.
        unsafe { thread::sync_threads_aligned() };
    }
}

impl ResidentNetwork {
    #[inline(always)]
    fn extents(&self, steps: &ResidentSteps) -> Extents {
        let [features, hidden1, hidden2, classes, batch] =
            [self.features, self.hidden1, self.hidden2, self.classes, steps.batch].map(|n| n as usize);
        Extents { features, hidden1, hidden2, classes, batch }
    }
}

impl ResidentSteps {
    /// Returns the number of batches whose sums are computed: those of the steps, and if the epoch continues, that of the
    /// step after them. So it makes no difference after which step a launch ends.
    #[inline(always)]
    fn batches(&self) -> usize {
        let goes_on = self.steps < (self.samples - self.first).div_ceil(self.batch);
        self.steps as usize + usize::from(goes_on)
    }

    /// Returns the learning rates of the launch's steps.
    #[inline(always)]
    fn rates(&self) -> *const f32 {
        self.rates.wrapping_add((self.first / self.batch) as usize)
    }

    /// Returns the first sample and the number of samples of a step.
    #[inline(always)]
    fn samples_of(&self, step: usize) -> (u32, usize) {
        let first = self.first + step as u32 * self.batch;
        (first, self.batch.min(self.samples - first) as usize)
    }
}
