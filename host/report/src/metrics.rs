//! Metrics as JSON lines: one object per epoch and, in a profiled run, one per kernel after them.

use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::{KernelRecord, ReportError};
use crate::output_file;

/// The results of an epoch.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EpochRecord {
    /// The epoch, counted from 1 over all training.
    pub epoch: u32,
    /// Mean cross-entropy in nats over the training images, each evaluated just before its step.
    pub train_loss: f64,
    /// Share of the training images that were classified correctly just before their step, 0 to 1.
    pub train_accuracy: f64,
    /// Mean cross-entropy in nats over the test images after the epoch.
    pub test_loss: f64,
    /// Share of the test images that are classified correctly after the epoch, 0 to 1.
    pub test_accuracy: f64,
    /// Wall-clock seconds of the training, without the test.
    pub seconds: f64,
    /// Wall-clock seconds of the test.
    pub test_seconds: f64,
    /// Training images per second of training.
    pub images_per_second: f64,
}

/// A file with a line for every epoch so far. It is always complete: each epoch replaces it. A pipe or a device gets each
/// line once.
#[derive(Debug)]
pub struct Metrics {
    path: PathBuf,
    lines: String,
    /// The number of bytes of `lines` that were written.
    written: usize,
}

impl Metrics {
    /// Makes metrics for `path`, without writing anything.
    pub fn new(path: &Path) -> Metrics {
        Metrics { path: path.to_owned(), lines: String::new(), written: 0 }
    }

    /// Makes metrics for `path` that begin with these records. Writes the file if there are any.
    ///
    /// # Errors
    /// [`ReportError::Write`].
    pub fn going_on(path: &Path, records: &[EpochRecord]) -> Result<Metrics, ReportError> {
        let mut metrics = Metrics::new(path);
        if let Some((last, before)) = records.split_last() {
            before.iter().try_for_each(|record| metrics.add(record))?;
            metrics.push(last)?;
        }
        Ok(metrics)
    }

    /// Adds the line of one epoch and writes the file.
    ///
    /// # Errors
    /// [`ReportError::Write`].
    pub fn push(&mut self, record: &EpochRecord) -> Result<(), ReportError> {
        self.add(record)?;
        self.write().map_err(|source| self.failed(source))
    }

    /// Adds a line for each kernel and writes the file.
    ///
    /// # Errors
    /// [`ReportError::Write`].
    pub fn push_kernels(&mut self, kernels: &[KernelRecord]) -> Result<(), ReportError> {
        kernels.iter().try_for_each(|record| self.add(record))?;
        self.write().map_err(|source| self.failed(source))
    }

    fn write(&mut self) -> io::Result<()> {
        let first = if output_file::is_stream(&self.path)? { self.written } else { 0 };
        output_file::write(&self.path, &self.lines.as_bytes()[first..])?;
        self.written = self.lines.len();
        Ok(())
    }

    fn add(&mut self, record: &impl Serialize) -> Result<(), ReportError> {
        let line = serde_json::to_string(record).map_err(|error| self.failed(error.into()))?;
        self.lines.push_str(&line);
        self.lines.push('\n');
        Ok(())
    }

    fn failed(&self, source: io::Error) -> ReportError {
        ReportError::Write { what: "the metrics", path: self.path.clone(), source }
    }
}

/// A sample record. If the epoch is a power of two, JSON preserves its numbers exactly.
#[cfg(test)]
pub(super) fn sample(epoch: u32) -> EpochRecord {
    let epochs = f64::from(epoch);
    EpochRecord {
        epoch,
        train_loss: 0.5 / epochs,
        train_accuracy: 1.0 - 0.125 / epochs,
        test_loss: 0.25 / epochs + 0.0625,
        test_accuracy: 0.96875 - 0.03125 / epochs,
        seconds: 1.5,
        test_seconds: 0.125,
        images_per_second: 40_000.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_epoch_is_a_line_that_reads_back() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("metrics.jsonl");
        let mut metrics = Metrics::new(&path);
        let epochs = [1, 2, 4];
        for done in 1..=epochs.len() {
            metrics.push(&sample(epochs[done - 1])).unwrap();
            let text = std::fs::read_to_string(&path).unwrap();
            let read: Vec<EpochRecord> =
                text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
            assert_eq!(read, epochs[..done].iter().copied().map(sample).collect::<Vec<_>>());
            assert!(text.ends_with('\n'));
            let again = folder.path().join("again.jsonl");
            Metrics::going_on(&again, &read).unwrap();
            assert_eq!(std::fs::read_to_string(&again).unwrap(), text);
        }
    }

    #[test]
    fn a_folder_that_vanished_is_an_error_with_the_path() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("gone").join("metrics.jsonl");
        let error = Metrics::new(&path).push(&sample(1)).unwrap_err();
        assert_eq!(error.to_string(), format!("could not write the metrics to {}", path.display()));
    }
}
