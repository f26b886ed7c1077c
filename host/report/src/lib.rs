//! The shared parts of the programs: output files, lines, progress, metrics, plots, errors, and their thread pool.

pub mod chart;
mod digit;
mod exit;
pub mod gallery;
mod lines;
mod metrics;
pub mod output_file;
mod plot;
pub mod pool;
mod profile;
mod progress;
mod timeline;
mod times;
mod warp_counts;

use std::io;
use std::path::PathBuf;

pub use digit::{draw_digit, draw_probabilities};
pub use exit::{exit_code, in_one_line, usage_exit_code};
pub use lines::{OutputError, print_line, print_note, printable};
pub use metrics::{EpochRecord, Metrics};
pub use plot::{render_plot, save_plot};
pub use profile::{KernelRecord, Profile};
pub use progress::{Counted, Progress};
pub use timeline::{Lane, LaneTimes, read_timeline, render_timeline, save_timeline};
pub use times::Times;
pub use warp_counts::WarpCounts;

/// Why a report could not be written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReportError {
    /// A file could not be written. An existing file of this name is unchanged.
    #[error("could not write {what} to {}", path.display())]
    Write {
        /// The contents of the file.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// There is nothing to draw.
    #[error("there is no epoch to plot; train at least one")]
    NothingToPlot,
    /// A timeline has no spans in any lane.
    #[error("there is no step to draw; train at least one")]
    NoSpans,
    /// Drawing failed.
    #[error("drawing the chart {title:?} failed: {message}")]
    Draw {
        /// The chart's title.
        title: String,
        /// The reason.
        message: String,
    },
}

impl ReportError {
    fn draw(title: &str, error: &dyn std::fmt::Display) -> Self {
        Self::Draw { title: title.to_owned(), message: error.to_string() }
    }
}
