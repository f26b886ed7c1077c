//! Downloads, as bars on a terminal and as plain lines elsewhere.

use std::collections::BTreeMap;
use std::io::IsTerminal;
use std::sync::Mutex;

use cuda_builder::Progress;
use indicatif::{MultiProgress, ProgressBar, ProgressStyle};

/// Shows the progress of downloads.
#[derive(Default)]
pub struct Downloads {
    bars: MultiProgress,
    by_package: Mutex<BTreeMap<String, ProgressBar>>,
}

impl Downloads {
    /// Takes note of one event.
    pub fn show(&self, event: Progress) {
        match event {
            Progress::Downloading { package, bytes, total } => self.bar(&package, total).set_position(bytes),
            Progress::Unpacking { package } => self.bar(&package, 0).set_message("unpacking"),
            Progress::Installing { command, reason } => {
                // The bars draw on stderr too; a line goes above them.
                self.bars.suspend(|| eprintln!("{reason}; running `{command}`"));
            }
            Progress::Ready { package } => self.bar(&package, 0).finish_with_message("ready"),
            _ => {}
        }
    }

    fn bar(&self, package: &str, total: u64) -> ProgressBar {
        let mut bars = self.by_package.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let new = || {
            if !std::io::stderr().is_terminal() {
                eprintln!("fetching {package} ({:.0} MB) with pip", total as f64 / 1e6);
            }
            let style =
                ProgressStyle::with_template("{prefix:28} {bar:32} {bytes:>10} of {total_bytes} {msg}");
            let bar = self.bars.add(ProgressBar::new(total)).with_prefix(package.to_owned());
            bar.with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
        };
        bars.entry(package.to_owned()).or_insert_with(new).clone()
    }
}
