//! Collective operations between GPUs, and cross entropy with the classes of each row divided among ranks.

use std::fmt;
use std::sync::Arc;

use cuda_std::launch::{LaunchConfig, LaunchError, RawBuffer};
use ferrowarp_device::DeviceProfile;
use ferrowarp_device::device::{Buffer, DeviceError, Stream};
use ferrowarp_device::error::{Error, Kind};
use ferrowarp_device::tensor::{TensorView, TensorViewMut};
use softmax_kernels::cross_entropy::{
    CrossEntropyLaunch, FACTORS, NUMBERS, ShardGradientLaunch, ShardPartLaunch, cross_entropy_combine,
};

pub use ferrowarp_device::collective::*;

use crate::element::Element as Number;
use crate::operation::Operation;
use crate::softmax::cross_entropy::{Class, CrossEntropy, Outputs, launch as launch_cross_entropy};
use crate::softmax::kernel_choice::parts;

/// Threads per block of the kernel that combines the ranks' numbers.
const BLOCK: u32 = 256;

/// The most rows, since each row takes a block.
const MOST_ROWS: u64 = i32::MAX as u64;

/// Cross entropy with each row's classes divided among the ranks of a communicator, for logits that do not fit one device.
///
/// Rank 0 has the logits of the first classes, rank 1 the next ones, and so on. Ranks may have different numbers of classes.
/// Each rank passes its own logits, `[rows, cols]`, and the targets of all rows to [`Self::run_into`]. Targets count classes
/// from the first class of rank 0. Losses and log-sum-exps cover whole rows, with the same bits on all ranks. Each rank gets the
/// gradient of its own logits.
///
/// The ranks exchange three numbers per row in one all-gather: the maximum of a rank's logits, the sum of their
/// exponentials, and the target's logit.
///
/// [`Self::run_into`] only queues, so it can be [recorded](crate::device::Device::record). The graph keeps the workspace.
///
/// ```
/// use std::sync::Arc;
///
/// use ferrowarp::collective::{Communicator, ShardedCrossEntropy, World};
/// use ferrowarp::device::Device;
/// use ferrowarp::softmax::cross_entropy::Outputs;
/// use ferrowarp::{CrossEntropy, Tensor};
///
/// // On GPUs: Device::cuda(world.local_rank())?
/// let (world, device) = (World::from_environment()?, Device::cpu());
/// let communicator = Arc::new(Communicator::connect(&world, &device)?);
/// // Two rows and two classes of each rank.
/// let logits = device.tensor(&[0.0f32; 4], [2, 2])?;
/// let targets = device.upload(&[0i64, 1])?;
/// let (mut losses, mut gradient) = (Tensor::zeros(&device, [2])?, Tensor::zeros(&device, [2, 2])?);
/// let mut operation = ShardedCrossEntropy::new(Arc::clone(&communicator), 2, 2)?;
/// let outputs = Outputs::new(&mut losses).gradient(&mut gradient);
/// let stream = device.default_stream();
/// operation.run_into(&stream, &CrossEntropy::new(), outputs, &logits, &targets)?;
/// communicator.synchronize(&stream)?;
/// let classes = operation.classes() as f32;
/// assert!(losses.to_vec()?.iter().all(|loss| (loss - classes.ln()).abs() < 1e-6));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct ShardedCrossEntropy {
    communicator: Arc<Communicator>,
    shards: Shards,
    /// `[NUMBERS, rows, parts]` of this rank; below, of all ranks.
    numbers: Buffer<f32>,
    all_numbers: Buffer<f32>,
    /// `[FACTORS, rows]`.
    factors: Buffer<f32>,
}

/// How the classes are divided, seen from one rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Shards {
    rows: usize,
    /// Columns of this rank.
    cols: usize,
    first_class: usize,
    /// Classes of all ranks together.
    classes: usize,
    /// Parts of each rank's row.
    parts: u32,
}

impl Shards {
    /// Divides the classes, given the rows, columns and wanted parts of each rank.
    ///
    /// # Errors
    /// The rows differ, or there are too many rows or columns.
    fn new(ranks: &[[u64; 3]], rank: usize) -> Result<Self, String> {
        let rows = ranks.first().map_or(0, |&[rows, ..]| rows);
        if let Some((other, [differing, ..])) = ranks.iter().enumerate().find(|(_, shard)| shard[0] != rows) {
            return Err(format!(
                "rank {other} has {differing} rows and rank 0 has {rows}; give each rank all rows, and its own columns of them"
            ));
        }
        if rows > MOST_ROWS {
            return Err(format!("there are {rows} rows, and {MOST_ROWS} is the most; split the rows"));
        }
        let most = u64::from(u32::MAX);
        if let Some((wide, [_, cols, _])) = ranks.iter().enumerate().find(|(_, shard)| shard[1] > most) {
            return Err(format!(
                "rank {wide} has {cols} columns, and {most} is the most; divide the classes among more ranks"
            ));
        }
        let cols = |ranks: &[[u64; 3]]| ranks.iter().map(|shard| shard[1]).sum::<u64>() as usize;
        let parts = ranks.iter().map(|shard| shard[2]).max().unwrap_or(1);
        Ok(Self {
            rows: rows as usize,
            cols: cols(&ranks[rank..=rank]),
            first_class: cols(&ranks[..rank]),
            classes: cols(ranks),
            parts: u32::try_from(parts).unwrap_or(u32::MAX),
        })
    }

    /// The number of parts in all rows.
    fn all_parts(&self) -> usize {
        self.rows * self.parts as usize
    }
}

impl ShardedCrossEntropy {
    /// Prepares the operation for `rows` rows with `cols` columns, or 0, on this rank. All ranks call it at the same time.
    /// It allocates `4 * (ranks + 2) * 3 * rows` bytes or, for few rows, a little more.
    ///
    /// # Errors
    /// The ranks have different numbers of rows, there are 2^31 rows or more, or a rank has 2^32 columns or more: all ranks
    /// return the same error. Or a rank is lost, the device is out of memory, or the device failed.
    pub fn new(communicator: Arc<Communicator>, rows: usize, cols: usize) -> Result<Self, CollectiveError> {
        let (device, size) = (communicator.device().clone(), communicator.size() as usize);
        let operation = format!("preparing cross entropy of {rows} x {cols}");
        let on_device = |error: DeviceError| communicator.device_error(&operation, error);
        let wanted = parts(&DeviceProfile::from(&device), rows, cols);
        let own = device.upload(&[rows as u64, cols as u64, u64::from(wanted)]).map_err(on_device)?;
        let mut all = device.alloc_zeroed::<u64>(3 * size).map_err(on_device)?;
        let stream = device.default_stream();
        communicator.all_gather(&stream, &own, &mut all)?;
        communicator.synchronize(&stream)?;
        let all = all.to_vec().map_err(on_device)?;
        let ranks = all.as_chunks::<3>().0;
        let shards = Shards::new(ranks, communicator.rank() as usize).map_err(|reason| {
            let (operation, rank, size) = (operation.clone(), communicator.rank(), communicator.size());
            CollectiveError::Refused { operation, rank, size, reason }
        })?;
        // A world of one needs no workspace.
        let len = if size == 1 { 0 } else { shards.all_parts() };
        let numbers = device.alloc_zeroed(NUMBERS * len).map_err(on_device)?;
        let all_numbers = device.alloc_zeroed(size * NUMBERS * len).map_err(on_device)?;
        let factors = device.alloc_zeroed(FACTORS * if len == 0 { 0 } else { rows }).map_err(on_device)?;
        Ok(Self { communicator, shards, numbers, all_numbers, factors })
    }

    /// The class of this rank's first column.
    pub fn first_class(&self) -> usize {
        self.shards.first_class
    }

    /// The number of classes of all ranks together.
    pub fn classes(&self) -> usize {
        self.shards.classes
    }

    /// Writes the outputs for this rank's logits. All ranks must pass the same targets and the same
    /// [ignored](CrossEntropy::ignore_index) one, and either all or none ask for [log-sum-exps](Outputs::log_sum_exp).
    /// On a GPU the work is queued. Without rows or classes nothing is written.
    ///
    /// [`Outputs::correct`] is not supported.
    ///
    /// # Errors
    /// The logits or the gradient do not have the prepared shape, a vector does not have one element per row, memory or the
    /// stream belongs to another device, or the outputs include correctness: this rank has queued nothing, and the others wait
    /// for it. Or a rank is lost, or the device failed.
    pub fn run_into<'o, 'i, T: Number, C: Class>(
        &mut self,
        stream: &Stream,
        options: &CrossEntropy<'_>,
        outputs: impl Into<Outputs<'o, T>>,
        logits: impl Into<TensorView<'i, T>>,
        targets: impl Into<TensorView<'i, C>>,
    ) -> Result<(), CollectiveError> {
        let (logits, targets) = (logits.into(), targets.into());
        self.run(stream, outputs.into(), |operation, outputs| {
            options.args(operation, outputs, &logits, &targets)
        })
    }

    /// Same as [`Self::run_into`], but replaces the logits with their gradient.
    ///
    /// # Errors
    /// Same as for [`Self::run_into`]; or the outputs have a gradient of their own.
    pub fn run_in_place<'o, 'i, T: Number, C: Class>(
        &mut self,
        stream: &Stream,
        options: &CrossEntropy<'_>,
        outputs: impl Into<Outputs<'o, T>>,
        logits: impl Into<TensorViewMut<'o, T>>,
        targets: impl Into<TensorView<'i, C>>,
    ) -> Result<(), CollectiveError> {
        let (mut logits, targets) = (logits.into(), targets.into());
        self.run(stream, outputs.into(), |operation, outputs| {
            options.args_in_place(operation, outputs, &mut logits, &targets)
        })
    }

    fn run<T: Number>(
        &mut self,
        stream: &Stream,
        mut outputs: Outputs<'_, T>,
        args: impl FnOnce(
            Operation<'_>,
            &mut Outputs<'_, T>,
        ) -> Result<(CrossEntropyLaunch<T>, [usize; 2]), Error>,
    ) -> Result<(), CollectiveError> {
        let (communicator, shards) = (Arc::clone(&self.communicator), self.shards);
        let device = communicator.device();
        let refused = |reason| CollectiveError::Refused {
            operation: shards.to_string(),
            rank: communicator.rank(),
            size: communicator.size(),
            reason,
        };
        let failed = |error: Error| match error.kind() {
            Kind::Device(_) => communicator.device_error(&shards.to_string(), error.into()),
            _ => refused(error.to_string()),
        };
        let (args, [rows, cols]) =
            args(Operation::new("cross entropy", device), &mut outputs).map_err(failed)?;
        if [rows, cols] != [shards.rows, shards.cols] {
            return Err(refused(format!(
                "the logits are {rows} x {cols}; prepare the operation for that shape"
            )));
        }
        if !args.correct.pointer.is_null() {
            return Err(refused("marks of correct rows are for one device; omit `correct`".to_owned()));
        }
        if !device.is_in_order_with(stream.device()) {
            return Err(refused("the stream is another device's; open it on the communicator's".to_owned()));
        }
        if shards.rows == 0 || shards.classes == 0 {
            return Ok(());
        }
        if communicator.size() == 1 {
            return launch_cross_entropy(stream, args, [rows, cols]).map_err(failed);
        }
        let on_device = |error: LaunchError| communicator.device_error(&shards.to_string(), error.into());
        // SAFETY: `args` was checked against the device and the workspace's shape. Its memory is borrowed, outputs
        // exclusively, and later uses wait for the device or are queued after this.
        unsafe { self.launch_part(stream, &args) }.map_err(on_device)?;
        communicator.all_gather(stream, &self.numbers, &mut self.all_numbers)?;
        // SAFETY: as above; the all-gather comes before this on the stream, so the numbers of all ranks are there.
        unsafe { self.launch_rest(stream, &args) }.map_err(on_device)
    }

    /// The launch of a block for each part of each row.
    fn config(&self, block: u32) -> LaunchConfig {
        // At most 2^31 - 1, since only few rows are cut.
        LaunchConfig::new(self.shards.all_parts() as u32, block)
    }

    /// # Safety
    /// `args` has the shape and the device that this was prepared for, and its memory is borrowed.
    unsafe fn launch_part<T: Number>(
        &mut self,
        on: &Stream,
        args: &CrossEntropyLaunch<T>,
    ) -> Result<(), LaunchError> {
        let (kernel, config) =
            (T::CROSS_ENTROPY.shards.part, self.config(T::CROSS_ENTROPY.shards.part.block));
        let Shards { rows, cols, first_class, parts, .. } = self.shards;
        let args = ShardPartLaunch {
            numbers: RawBuffer::written(&mut self.numbers),
            logits: args.logits,
            targets: args.targets,
            rows: rows as u32,
            stride: args.stride,
            cols: cols as u32,
            first_class: first_class as i64,
            ignore_index: args.ignore_index,
            target_bytes: args.target_bytes,
            parts,
            reads_ignored: u32::from(!args.lse.pointer.is_null()),
        };
        // SAFETY: the caller's memory; the workspace holds the numbers of all parts, and the grid has a block for each.
        unsafe { kernel.launch(on, config, args) }
    }

    /// # Safety
    /// Same as for [`Self::launch_part`].
    unsafe fn launch_rest<T: Number>(
        &mut self,
        on: &Stream,
        args: &CrossEntropyLaunch<T>,
    ) -> Result<(), LaunchError> {
        let Shards { rows, cols, first_class, parts, .. } = self.shards;
        let is_gradient_wanted = !args.d_logits.pointer.is_null();
        let factors = match is_gradient_wanted {
            true => RawBuffer::written(&mut self.factors),
            false => RawBuffer::NULL,
        };
        // SAFETY: the caller's memory; the workspace holds the numbers of all ranks and the factors, and each row has a
        // thread.
        unsafe {
            cross_entropy_combine::launch(
                on,
                LaunchConfig::cover(rows, BLOCK),
                args.loss,
                args.lse,
                factors,
                &self.all_numbers,
                args.targets,
                args.d_loss,
                rows as u32,
                parts,
                self.communicator.size(),
                args.target_bytes,
                args.ignore_index,
                args.d_scale,
            )?;
        }
        if !is_gradient_wanted || cols == 0 {
            return Ok(());
        }
        let kernel = T::CROSS_ENTROPY.shards.gradient;
        let args = ShardGradientLaunch {
            d_logits: args.d_logits,
            logits: args.logits,
            targets: args.targets,
            factors,
            rows: rows as u32,
            d_stride: args.d_stride,
            stride: args.stride,
            cols: cols as u32,
            first_class: first_class as i64,
            ignore_index: args.ignore_index,
            target_bytes: args.target_bytes,
            parts,
        };
        // SAFETY: as above; the gradient has the shape of the logits, and the grid has a block for each part.
        unsafe { kernel.launch(on, self.config(kernel.block), args) }
    }
}

impl fmt::Display for Shards {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { rows, cols, classes, .. } = self;
        write!(f, "cross entropy of {rows} x {cols} of {classes} classes")
    }
}

impl fmt::Debug for ShardedCrossEntropy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { communicator, shards, .. } = self;
        f.debug_struct("ShardedCrossEntropy")
            .field("communicator", communicator)
            .field("shards", shards)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_classes_of_a_rank_follow_those_of_the_ranks_before() {
        let shards = Shards::new(&[[4, 10, 1], [4, 0, 3], [4, 7, 2]], 2).unwrap();
        assert_eq!(shards, Shards { rows: 4, cols: 7, first_class: 10, classes: 17, parts: 3 });
        assert_eq!(shards.to_string(), "cross entropy of 4 x 7 of 17 classes");
    }

    #[test]
    fn shapes_that_do_not_fit_each_other_are_refused() {
        for (ranks, expected) in [
            ([[4, 10, 1], [5, 10, 1]], "rank 1 has 5 rows and rank 0 has 4; give each rank all rows"),
            ([[4, 10, 1], [4, 1 << 32, 1]], "rank 1 has 4294967296 columns, and 4294967295 is the most"),
            ([[1 << 31, 10, 1]; 2], "there are 2147483648 rows, and 2147483647 is the most; split the rows"),
        ] {
            let error = Shards::new(&ranks, 0).unwrap_err();
            assert!(error.starts_with(expected), "{error}");
        }
    }
}
