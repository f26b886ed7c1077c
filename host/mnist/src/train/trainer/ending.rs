//! What a run that ends early writes and reports.

use std::path::{Path, PathBuf};

use super::{Observer, TrainError, Trainer, first_infinite};
use crate::checkpoint::{self, Kind};
use crate::train::plot_title;
use ferrowarp_report::{ReportError, in_one_line, save_plot};

impl Trainer<'_> {
    pub(super) fn stopped_learning(&self) -> String {
        let (epoch, lr) = (self.epoch, self.largest_lr());
        let cure = if self.config.momentum == 0.0 { "" } else { ", or less momentum" };
        format!(
            "after epoch {epoch} the network gives every test image the same answer: it has stopped learning, and \
             further epochs will hardly help; train again with a learning rate below {lr}{cure}"
        )
    }

    /// Writes the current weights if the settings name a file, and returns the file.
    fn save_weights(&self) -> Result<Option<&Path>, TrainError> {
        let Some(path) = &self.config.save else { return Ok(None) };
        let parameters = self.parameters()?;
        if let Some(weight) = first_infinite(&parameters) {
            return Err(self.diverged(self.steps(), format_args!("a weight after it is {weight}")));
        }
        checkpoint::save(path, &parameters, &self.training(self.epoch - 1))?;
        Ok(Some(path))
    }

    /// Saves the progress of a run that ends with an error of the output or of a checkpoint: writes the weights and, for an
    /// output error, a checkpoint.
    pub fn keep(&mut self, error: &TrainError, observer: &mut dyn Observer) {
        match error {
            TrainError::Output(_) => {
                if let Err(error) = self.save() {
                    observer.warning(&in_one_line(&error));
                }
            }
            TrainError::Checkpoint(error) if matches!(error.kind(), Kind::Unwritten | Kind::Folder) => {}
            _ => return,
        }
        match self.save_weights() {
            Ok(None) => {}
            Ok(Some(path)) => {
                let (steps, path) = (self.steps(), path.display());
                observer
                    .warning(&format!("the run ends after step {steps}; the weights so far are in {path}"));
            }
            Err(error) => observer.warning(&in_one_line(&error)),
        }
    }

    /// Writes the current weights and the plot of the finished epochs, and returns the error of a stopped run. It names the
    /// epoch of the last completed step.
    pub(super) fn stopped(&self, observer: &mut dyn Observer) -> Result<TrainError, TrainError> {
        let saved = self.save_weights()?.map(Path::to_owned);
        let checkpoint = self.newest_checkpoint();
        let epoch = if self.stats.samples == 0 { self.epoch - 1 } else { self.epoch };
        let plot = self.save_plot_so_far().unwrap_or_else(|error| {
            observer.warning(&in_one_line(&error));
            None
        });
        let timeline = self.config.timeline.as_ref().filter(|_| self.epoch <= self.watched);
        let mut missing = Vec::new();
        missing.extend(self.config.plot.as_ref().filter(|_| plot.is_none()).map(|_| "plot"));
        missing.extend(timeline.map(|_| "timeline"));
        Ok(TrainError::Stopped { epoch, step: self.steps(), checkpoint, saved, plot, missing })
    }

    /// Draws the finished epochs if the settings name a file and there are any, and returns the file.
    fn save_plot_so_far(&self) -> Result<Option<PathBuf>, ReportError> {
        let (Some(path), Some(last)) = (&self.config.plot, self.records.last()) else { return Ok(None) };
        save_plot(path, &plot_title(&self.run, self.config, last.test_accuracy), &self.records)?;
        Ok(Some(path.clone()))
    }
}
