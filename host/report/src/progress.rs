//! Progress: a bar on a terminal, plain lines otherwise; always on standard error.

use std::fmt::Write;
use std::io::{self, IsTerminal, Read};

use indicatif::{ProgressBar, ProgressState, ProgressStyle};

/// The progress of a piece of work. On a terminal it is a bar that vanishes when the work is done. Without a terminal, work
/// that may take long prints one line at its beginning.
#[derive(Debug)]
pub struct Progress {
    bar: ProgressBar,
}

impl Progress {
    /// Begins work that is measured in bytes; `total` is `None` if unknown.
    pub fn bytes(what: &str, total: Option<u64>) -> Progress {
        if !io::stderr().is_terminal() {
            // Nothing can be done if even standard error is closed.
            let _ = io::Write::write_fmt(&mut io::stderr(), format_args!("{what}\n"));
        }
        let template = match total {
            Some(_) => "{msg} [{bar:30}] {bytes}/{total_bytes} {bytes_per_sec}",
            None => "{msg} {spinner} {elapsed}",
        };
        Self::new(what, total, template)
    }

    /// Begins work that is measured in images.
    pub fn images(what: &str, total: u64) -> Progress {
        Self::new(what, Some(total), "{msg} [{bar:30}] {pos}/{len} images, {rate}")
    }

    fn new(what: &str, total: Option<u64>, template: &str) -> Progress {
        let bar = match total {
            Some(total) => ProgressBar::new(total),
            None => ProgressBar::new_spinner(),
        };
        // The templates are constants of this file, so its tests would find a wrong one. The default style is a good
        // fallback.
        let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
        let whole = |state: &ProgressState, out: &mut dyn Write| {
            // Writing to a string does not fail.
            let _ = write!(out, "{:.0}/s", state.per_sec());
        };
        bar.set_style(style.progress_chars("=> ").with_key("rate", whole));
        bar.set_message(what.to_owned());
        Progress { bar }
    }

    /// Counts the bytes read from `reader`. The work is done when the result is dropped.
    pub fn wrap<R: Read>(self, reader: R) -> Counted<R> {
        Counted { reader, progress: self }
    }

    /// Sets the amount of completed work.
    pub fn set(&self, done: u64) {
        self.bar.set_position(done);
    }

    /// Shows that work continues, without new progress.
    pub fn tick(&self) {
        self.bar.tick();
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

/// A reader that advances a [`Progress`].
#[derive(Debug)]
pub struct Counted<R> {
    reader: R,
    progress: Progress,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let len = self.reader.read(buffer)?;
        self.progress.bar.inc(len as u64);
        Ok(len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn templates_are_well_formed_and_reading_counts() {
        for total in [None, Some(5)] {
            let progress = Progress::bytes("testing", total);
            progress.tick();
            let mut read = Vec::new();
            let mut counted = progress.wrap(&b"hello"[..]);
            counted.read_to_end(&mut read).unwrap();
            assert_eq!(read, b"hello");
            assert_eq!(counted.progress.bar.position(), 5);
            assert!(!counted.progress.bar.is_finished());
        }
        for template in [
            "{msg} [{bar:30}] {bytes}/{total_bytes} {bytes_per_sec}",
            "{msg} {spinner} {elapsed}",
            "{msg} [{bar:30}] {pos}/{len} images, {rate}",
        ] {
            assert!(ProgressStyle::with_template(template).is_ok());
        }
    }
}
