//! The complete state of an unfinished run, as bytes. A run that resumes from it ends with the same weights, bit for bit, as
//! a run that never stopped.
//!
//! The bytes are a safetensors file wrapped in the [`file_format`]. The safetensors file holds the weights and biases under
//! the same names as a weight file and, with momentum, the velocities under these names after `velocity.`. Within an epoch
//! it also has `ahead`, if the pipeline has already computed a part of the next step. The description of the run is JSON in
//! its metadata. The order of the samples is a keyed permutation, so its state is the seed, the epoch and the number of
//! samples done.

use std::borrow::Cow;
use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::tensors::{self, Reader};
use super::{SnapshotError, Training, file_format};
use crate::model::Parameters;
use ferrowarp_report::EpochRecord;

const VELOCITY: &str = "velocity.";
const AHEAD: &str = "ahead";

/// The state of a run between two steps.
#[derive(Clone, Debug, PartialEq)]
pub struct Snapshot {
    /// The settings that a resumed run must keep. [`Training::epochs`] counts all complete epochs of training.
    pub training: Training,
    /// The data set, which a resumed run must use too.
    pub data: DataId,
    /// The progress of the run.
    pub progress: Progress,
    /// The records of the run's complete epochs.
    pub records: Vec<EpochRecord>,
    /// The weights and biases.
    pub parameters: Parameters,
    /// The velocities of the weights and biases, `[inputs, outputs]` and `[outputs]`; `None` without momentum.
    pub velocities: Option<Parameters>,
    /// The part of the next step that [`Network::ahead`](crate::model::Network::ahead) returns.
    pub ahead: Option<Vec<f32>>,
}

/// Identifies a data set.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DataId {
    /// Training images.
    pub train_images: usize,
    /// Test images.
    pub test_images: usize,
    /// SHA-256 over all images and labels, in hexadecimal digits.
    pub sha256: String,
}

/// The progress of a run, and the settings that a resumed run may change.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Progress {
    /// Epochs of training before the run.
    pub epochs_before: u32,
    /// The last epoch of the run, counted from 1 over all training.
    pub last_epoch: u32,
    /// Samples trained on in the current epoch: whole batches, and fewer than there are images.
    pub samples: usize,
    /// Sum of their losses in nats, added in order.
    pub loss_sum: f64,
    /// How many of them were classified correctly.
    pub correct: usize,
    /// Wall-clock seconds of their training.
    pub seconds: f64,
    /// Steps between two checkpoints; `None` means one checkpoint per epoch.
    pub every: Option<u64>,
    /// The number of checkpoints to keep.
    pub keep: usize,
    /// The device of the run.
    pub device: String,
}

#[derive(Serialize, Deserialize)]
struct Description<'a> {
    training: Cow<'a, Training>,
    data: Cow<'a, DataId>,
    progress: Cow<'a, Progress>,
    records: Cow<'a, [EpochRecord]>,
}

/// Reads the bytes of a snapshot. Any changed byte, missing end or appended byte is an error.
///
/// # Errors
/// [`SnapshotError`] says what is wrong.
pub fn parse(bytes: &[u8]) -> Result<Snapshot, SnapshotError> {
    let payload = file_format::open(bytes)?;
    let reader = Reader::new(payload, Path::new("the checkpoint")).map_err(SnapshotError::Tensors)?;
    let description = reader.metadata().ok_or(SnapshotError::NoDescription)?;
    let Description { training, data, progress, records } =
        serde_json::from_str(description).map_err(SnapshotError::Description)?;

    let parameters = reader.layers("").map_err(SnapshotError::Tensors)?;
    let velocities = reader.has(VELOCITY).then(|| reader.layers(VELOCITY)).transpose();
    let velocities = velocities.map_err(SnapshotError::Tensors)?;
    let n_velocities = velocities.as_ref().map_or(0, |velocities| velocities.layers.len());
    let sets = [("", parameters.layers.len()), (VELOCITY, n_velocities)];
    let ahead = reader.vector(AHEAD).map_err(SnapshotError::Tensors)?;
    reader.expect_only(&sets, &[AHEAD]).map_err(SnapshotError::Tensors)?;

    let snapshot = Snapshot {
        training: training.into_owned(),
        data: data.into_owned(),
        progress: progress.into_owned(),
        records: records.into_owned(),
        parameters,
        velocities,
        ahead,
    };
    snapshot.check()?;
    Ok(snapshot)
}

impl Snapshot {
    /// Writes the bytes that [`parse`] reads. The same snapshot gives the same bytes.
    ///
    /// # Errors
    /// A tensor's length does not match its layer.
    pub fn to_bytes(&self) -> io::Result<Vec<u8>> {
        let description = Description {
            training: Cow::Borrowed(&self.training),
            data: Cow::Borrowed(&self.data),
            progress: Cow::Borrowed(&self.progress),
            records: Cow::Borrowed(&self.records),
        };
        let description = serde_json::to_string(&description)?;
        let mut sets = vec![("", &self.parameters)];
        sets.extend(self.velocities.as_ref().map(|velocities| (VELOCITY, velocities)));
        let vectors: Vec<_> = self.ahead.iter().map(|ahead| (AHEAD, &ahead[..])).collect();
        Ok(file_format::seal(&tensors::to_bytes(&sets, &vectors, description)?))
    }

    /// The current epoch, counted from 1 over all training.
    pub fn epoch(&self) -> u32 {
        self.training.epochs + 1
    }

    /// Completed steps of the current epoch.
    pub fn steps_in_epoch(&self) -> u64 {
        self.training.batch_size.steps(self.progress.samples)
    }

    /// Completed steps of the run.
    pub fn steps(&self) -> u64 {
        let Training { batch_size, drop_last, .. } = self.training;
        let per_epoch = batch_size.steps(batch_size.images_of_epoch(self.data.train_images, drop_last));
        let epochs = u64::from(self.training.epochs.saturating_sub(self.progress.epochs_before));
        epochs * per_epoch + self.steps_in_epoch()
    }

    /// Checks the invariants that the rest of the program relies on.
    fn check(&self) -> Result<(), SnapshotError> {
        let Snapshot { training, data, progress, records, parameters, velocities, ahead } = self;
        let contradiction = |what: String| Err(SnapshotError::Contradiction { what });
        let sizes = parameters.sizes();
        if training.sizes != sizes {
            return contradiction(format!("a network of {:?} with tensors of {sizes:?}", training.sizes));
        }
        if velocities.is_some() != (training.momentum != 0.0) {
            return contradiction(format!(
                "momentum {} with {} velocities",
                training.momentum,
                if velocities.is_some() { "stored" } else { "no" }
            ));
        }
        if let Some(velocities) = velocities
            && velocities.sizes() != sizes
        {
            return contradiction(format!("velocities of {:?}, tensors of {sizes:?}", velocities.sizes()));
        }
        let (images, batch_size, done) = (data.train_images, training.batch_size, progress.samples);
        if batch_size.check(images).is_err() || u32::try_from(images).is_err() {
            return contradiction(format!("batches of {batch_size} from {images} images"));
        }
        let of_epoch = batch_size.images_of_epoch(images, training.drop_last);
        if done >= of_epoch || !done.is_multiple_of(batch_size.get()) || progress.correct > done {
            let right = progress.correct;
            return contradiction(format!(
                "{right} of {done} samples right, in batches of {batch_size} from {of_epoch} images"
            ));
        }
        if done == 0 && ahead.is_some() {
            return contradiction("something of a step ahead, and no step of its epoch done".to_owned());
        }
        if !(progress.loss_sum.is_finite() && progress.seconds.is_finite()) {
            return contradiction(format!(
                "a loss of {} after {} seconds",
                progress.loss_sum, progress.seconds
            ));
        }
        if progress.every == Some(0) {
            return contradiction("a checkpoint every 0 steps".to_owned());
        }
        let expected = (u64::from(progress.epochs_before) + 1)..=u64::from(training.epochs);
        if training.epochs == u32::MAX
            || progress.epochs_before > training.epochs
            || !records.iter().map(|record| u64::from(record.epoch)).eq(expected)
        {
            return contradiction(format!(
                "{} epochs, {} of them before the run, with {} records",
                training.epochs,
                progress.epochs_before,
                records.len()
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
#[path = "snapshot_tests.rs"]
pub(super) mod tests;
