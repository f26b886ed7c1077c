//! The complete state of an unfinished run, as bytes. A run that resumes from it ends with the same weights, bit for bit, as
//! a run that never stopped.
//!
//! The bytes are a safetensors file. It holds the weights and biases under the same names as a weight file and, with
//! momentum, the velocities under these names after `velocity.`. Within an epoch it also has `ahead`, if the pipeline has
//! already computed a part of the next step. Its metadata hold the version, the description of the run as JSON, and a SHA-256
//! of both and of all tensors. The order of the samples is a keyed permutation, so its state is the seed, the epoch and the
//! number of samples done.

use std::borrow::Cow;
use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::tensors::{Reader, Tensors};
use super::{CheckpointError, Kind, Training};
use crate::model::Parameters;
use ferrowarp_report::EpochRecord;

/// The version of the format that this program writes, and the only one that it reads.
pub const VERSION: u32 = 2;

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

/// The metadata of a checkpoint.
#[derive(Serialize, Deserialize)]
struct Sealed {
    checkpoint_version: u32,
    /// Of the description and all tensors, in hexadecimal.
    sha256: String,
    /// The [`Description`] as JSON.
    description: String,
}

#[derive(Serialize, Deserialize)]
struct Description<'a> {
    training: Cow<'a, Training>,
    data: Cow<'a, DataId>,
    progress: Cow<'a, Progress>,
    records: Cow<'a, [EpochRecord]>,
}

/// Whether a file is a checkpoint, of any version.
pub(super) fn is_one(reader: &Reader<'_>) -> bool {
    reader.metadata().is_some_and(|metadata| metadata.starts_with("{\"checkpoint_version\":"))
}

impl Snapshot {
    /// Reads a checkpoint. Any changed number, missing end or appended byte is an error, which names the file `path`.
    ///
    /// # Errors
    /// [`CheckpointError`] says what is wrong.
    pub fn parse(bytes: &[u8], path: &Path) -> Result<Snapshot, CheckpointError> {
        Self::parse_if(bytes, path, |found, expected| found == expected)
    }

    /// Same as [`Self::parse`], for a fuzzer, which does not guess checksums.
    #[doc(hidden)]
    pub fn parse_unverified(bytes: &[u8], path: &Path) -> Result<Snapshot, CheckpointError> {
        Self::parse_if(bytes, path, |_, _| true)
    }

    fn parse_if(
        bytes: &[u8],
        path: &Path,
        is_intact: fn(&str, &str) -> bool,
    ) -> Result<Snapshot, CheckpointError> {
        let invalid = |problem: String| CheckpointError::invalid(path, problem);
        let reader = Reader::new(bytes, path)?;
        let Some(metadata) = reader.metadata().filter(|_| is_one(&reader)) else {
            return Err(invalid("it is not a checkpoint of a training run".to_owned()));
        };
        let unreadable =
            |error: serde_json::Error| invalid(format!("its description of the run cannot be read: {error}"));
        let sealed: Sealed = serde_json::from_str(metadata).map_err(unreadable)?;
        if sealed.checkpoint_version != VERSION {
            let found = sealed.checkpoint_version;
            let problem = format!(
                "its format has version {found}, but this program reads only version {VERSION}; resume with the program \
                 that wrote it, or with a newer one"
            );
            return Err(CheckpointError::invalid(path, problem).of(Kind::Version));
        }
        if !is_intact(&reader.sha256(&sealed.description), &sealed.sha256) {
            return Err(invalid("its checksum is wrong, so it is damaged; copy it again".to_owned()));
        }
        let Description { training, data, progress, records } =
            serde_json::from_str(&sealed.description).map_err(unreadable)?;
        let parameters = reader.layers("")?;
        let velocities = reader.has(VELOCITY).then(|| reader.layers(VELOCITY)).transpose()?;
        let n_velocities = velocities.as_ref().map_or(0, |velocities| velocities.layers.len());
        let sets = [("", parameters.layers.len()), (VELOCITY, n_velocities)];
        reader.expect_only(&sets, Some(AHEAD))?;
        let snapshot = Snapshot {
            training: training.into_owned(),
            data: data.into_owned(),
            progress: progress.into_owned(),
            records: records.into_owned(),
            parameters,
            velocities,
            ahead: reader.vector(AHEAD)?,
        };
        match snapshot.contradiction() {
            Some(what) => Err(invalid(format!("it contradicts itself: {what}"))),
            None => Ok(snapshot),
        }
    }

    /// Writes the bytes that [`Self::parse`] reads. The same snapshot gives the same bytes.
    ///
    /// # Errors
    /// A tensor's length does not match its layer.
    pub fn to_bytes(&self) -> io::Result<Vec<u8>> {
        let description = serde_json::to_string(&Description {
            training: Cow::Borrowed(&self.training),
            data: Cow::Borrowed(&self.data),
            progress: Cow::Borrowed(&self.progress),
            records: Cow::Borrowed(&self.records),
        })?;
        let mut tensors = Tensors::default().with_layers("", &self.parameters);
        if let Some(velocities) = &self.velocities {
            tensors = tensors.with_layers(VELOCITY, velocities);
        }
        if let Some(ahead) = &self.ahead {
            tensors = tensors.with_vector(AHEAD, ahead);
        }
        let sha256 = tensors.sha256(&description)?;
        let sealed = Sealed { checkpoint_version: VERSION, sha256, description };
        tensors.to_bytes(serde_json::to_string(&sealed)?)
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

    /// The first violation of what the rest of the program relies on.
    fn contradiction(&self) -> Option<String> {
        let Snapshot { training, data, progress, records, parameters, velocities, ahead } = self;
        let (sizes, batch_size, momentum) = (parameters.sizes(), training.batch_size, training.momentum);
        let (images, done, correct) = (data.train_images, progress.samples, progress.correct);
        let of_epoch = batch_size.images_of_epoch(images, training.drop_last);
        let velocity_sizes = velocities.as_ref().map(Parameters::sizes);
        let (epochs, before) = (training.epochs, progress.epochs_before);
        let recorded = records.iter().map(|record| u64::from(record.epoch));
        let are_recorded = recorded.eq(u64::from(before) + 1..=u64::from(epochs));
        [
            (training.sizes != sizes)
                .then(|| format!("a network of {:?} with tensors of {sizes:?}", training.sizes)),
            (velocities.is_some() != (momentum != 0.0)).then(|| {
                let stored = if velocities.is_some() { "stored" } else { "no" };
                format!("momentum {momentum} with {stored} velocities")
            }),
            velocity_sizes
                .filter(|found| *found != sizes)
                .map(|found| format!("velocities of {found:?}, tensors of {sizes:?}")),
            (batch_size.check(images).is_err() || u32::try_from(images).is_err())
                .then(|| format!("batches of {batch_size} from {images} images")),
            (done >= of_epoch || !done.is_multiple_of(batch_size.get()) || correct > done).then(|| {
                format!(
                    "{correct} of {done} samples right, in batches of {batch_size} from {of_epoch} images"
                )
            }),
            (done == 0 && ahead.is_some())
                .then(|| "something of a step ahead, and no step of its epoch done".to_owned()),
            (!(progress.loss_sum.is_finite() && progress.seconds.is_finite()))
                .then(|| format!("a loss of {} after {} seconds", progress.loss_sum, progress.seconds)),
            (progress.every == Some(0)).then(|| "a checkpoint every 0 steps".to_owned()),
            (epochs == u32::MAX || before > epochs || !are_recorded).then(|| {
                format!("{epochs} epochs, {before} of them before the run, with {} records", records.len())
            }),
        ]
        .into_iter()
        .flatten()
        .next()
    }
}
