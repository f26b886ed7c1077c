//! Decides when a run writes its checkpoints, and identifies their data set.

use sha2::{Digest, Sha256};

use super::{Config, Start, TrainError};
use crate::checkpoint::{DataId, Folder, Found};
use crate::model::ModelError;
use ferrowarp_data::{Dataset, LazyMnist};

/// The checkpoints of a run.
pub(super) struct Saver {
    pub folder: Folder,
    pub data: DataId,
    every: Option<u64>,
    /// The number of steps at the last checkpoint.
    saved_at: Option<u64>,
}

impl Saver {
    /// Opens the folder that the settings name, if any. First checks that a resumed run has the same data set.
    pub fn open(config: &Config, mnist: &LazyMnist, start: &Start) -> Result<Option<Saver>, TrainError> {
        let resumed = start.resumed();
        if config.checkpoints.is_none() && resumed.is_none() {
            return Ok(None);
        }
        let data = data_id(mnist)?;
        if let Some(found) = resumed {
            check_data(&data, found)?;
        }
        let Some(checkpoints) = &config.checkpoints else { return Ok(None) };
        let folder = Folder::open(&checkpoints.dir, checkpoints.keep, resumed)?;
        // A run that continues in another folder has no checkpoint there yet.
        let saved_at = resumed.map(|found| found.snapshot.steps()).filter(|_| folder.newest().is_some());
        Ok(Some(Saver { folder, data, every: checkpoints.every, saved_at }))
    }

    /// The number of steps from step `steps` of the run to the next checkpoint; `None` if checkpoints are per epoch.
    pub fn due_in(&self, steps: u64) -> Option<u64> {
        self.every.map(|every| every - steps % every)
    }

    /// Whether a checkpoint is due after step `steps` of the run, the last one of an epoch.
    pub fn is_due_after_epoch(&self, steps: u64) -> bool {
        self.every.is_none_or(|every| steps.is_multiple_of(every))
    }

    /// Whether the newest checkpoint holds the state after `steps` steps.
    pub fn has(&self, steps: u64) -> bool {
        self.saved_at == Some(steps)
    }

    /// Notes that a checkpoint of the state after `steps` steps exists.
    pub fn note(&mut self, steps: u64) {
        self.saved_at = Some(steps);
    }
}

fn check_data(data: &DataId, found: &Found) -> Result<(), TrainError> {
    let expected = &found.snapshot.data;
    if data == expected {
        return Ok(());
    }
    let in_words = |data: &DataId| {
        let DataId { train_images, test_images, sha256 } = data;
        format!("{train_images} training and {test_images} test images with the SHA-256 {sha256}")
    };
    Err(TrainError::Run(format!(
        "the data set is not the one that the run of {} was trained on: it has {}, expected {}; pass the folder of that data \
         set with --data",
        found.path.display(),
        in_words(data),
        in_words(expected)
    )))
}

/// Identifies the data set. This decodes all of it.
fn data_id(mnist: &LazyMnist) -> Result<DataId, ModelError> {
    let (mut hash, train) = (Sha256::new(), mnist.train.to_dataset()?);
    for Dataset { images, labels, rows, cols, .. } in [&*train, &mnist.test] {
        for number in [*rows, *cols, labels.len()] {
            hash.update((number as u64).to_le_bytes());
        }
        hash.update(images);
        hash.update(labels);
    }
    let sha256 = hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
    Ok(DataId { train_images: train.len(), test_images: mnist.test.len(), sha256 })
}
