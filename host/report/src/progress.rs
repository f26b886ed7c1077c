//! Progress: a bar on a terminal, plain lines otherwise; always on the standard error.

use std::fmt::Write;
use std::io::{self, IsTerminal, Read};

use indicatif::{ProgressBar, ProgressState, ProgressStyle};

/// The progress of one piece of work. On a terminal it is a bar that vanishes when the work is done; where
/// there is no terminal, work that may take long says so in one line at its beginning.
#[derive(Debug)]
pub struct Progress {
    bar: ProgressBar,
}

impl Progress {
    /// Work that is measured in bytes; `None` if the total is unknown.
    pub fn bytes(what: &str, total: Option<u64>) -> Progress {
        if !io::stderr().is_terminal() {
            // Nothing is to be done when even the standard error is closed.
            let _ = io::Write::write_fmt(&mut io::stderr(), format_args!("{what}\n"));
        }
        let template = match total {
            Some(_) => "{msg} [{bar:30}] {bytes}/{total_bytes} {bytes_per_sec}",
            None => "{msg} {spinner} {elapsed}",
        };
        Self::new(what, total, template)
    }

    /// Work that is measured in images.
    pub fn images(what: &str, total: u64) -> Progress {
        Self::new(what, Some(total), "{msg} [{bar:30}] {pos}/{len} images, {rate}")
    }

    fn new(what: &str, total: Option<u64>, template: &str) -> Progress {
        let bar = match total {
            Some(total) => ProgressBar::new(total),
            None => ProgressBar::new_spinner(),
        };
        // The templates are constants of this file; a wrong one would show in its tests, and the default style
        // is the right thing to fall back on.
        let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
        let whole = |state: &ProgressState, out: &mut dyn Write| {
            // A string to draw takes whatever is written.
            let _ = write!(out, "{:.0}/s", state.per_sec());
        };
        bar.set_style(style.progress_chars("=> ").with_key("rate", whole));
        bar.set_message(what.to_owned());
        Progress { bar }
    }

    /// Counts what is read from `reader`. The work is done when the result is dropped.
    pub fn wrap<R: Read>(self, reader: R) -> Counted<R> {
        Counted { reader, progress: self }
    }

    /// Sets the amount that is done.
    pub fn set(&self, done: u64) {
        self.bar.set_position(done);
    }

    /// Nothing new, but still at it.
    pub fn tick(&self) {
        self.bar.tick();
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

/// A reader that moves a [`Progress`] along.
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
