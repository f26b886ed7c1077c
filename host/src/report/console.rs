//! The console of a program: its lines, its progress bar, its exit code.

use std::error::Error;
use std::io::{self, Write};
use std::process::ExitCode;

use super::{EpochRecord, Progress};
use crate::device;
use crate::train::{Observer, Run};

/// Shows a training run: a line per epoch on `out`, and on a terminal a bar in between.
#[derive(Debug)]
pub struct Console<W> {
    out: W,
    bar: Option<Progress>,
}

impl<W: Write> Console<W> {
    /// Lines go to `out`.
    pub fn new(out: W) -> Console<W> {
        Console { out, bar: None }
    }

    /// Writes one line.
    ///
    /// # Errors
    /// What `out` answers, such as a closed pipe.
    pub fn line(&mut self, line: impl std::fmt::Display) -> io::Result<()> {
        self.bar = None;
        writeln!(self.out, "{line}")?;
        self.out.flush()
    }
}

impl<W: Write> Observer for Console<W> {
    fn epoch_started(&mut self, run: &Run, epoch: u32) {
        let what = format!("epoch {epoch}/{}", run.last_epoch);
        self.bar = Some(Progress::images(&what, run.train_images as u64));
    }

    fn progress(&mut self, images: usize) {
        if let Some(bar) = &self.bar {
            bar.set(images as u64);
        }
    }

    fn epoch_ended(&mut self, run: &Run, record: &EpochRecord) -> io::Result<()> {
        let width = run.last_epoch.to_string().len();
        self.line(format_args!(
            "epoch {:>width$}/{}: train loss {:.4}, train accuracy {:.2} %, test accuracy {:.2} %, {:.2} s, {:.0} images/s",
            record.epoch,
            run.last_epoch,
            record.train_loss,
            100.0 * record.train_accuracy,
            100.0 * record.test_accuracy,
            record.seconds,
            record.images_per_second,
        ))
    }
}

/// What a program's `main` answers when its arguments cannot be parsed, or ask for help or the version: the text
/// on the stream it belongs to, and clap's code: 2, or 0 if it was asked for.
pub fn usage_exit_code(error: &clap::Error) -> ExitCode {
    // With the stream closed, the exit code still tells.
    let _ = error.print();
    u8::try_from(error.exit_code()).map_or(ExitCode::FAILURE, ExitCode::from)
}

/// What a program's `main` answers: success, or the error with its causes on the standard error and code 1. After an
/// error that left a GPU behind with work that may never end, the process ends here.
pub fn exit_code<E: AsRef<dyn Error>>(result: Result<(), E>) -> ExitCode {
    let Err(error) = result else {
        return ExitCode::SUCCESS;
    };
    // With the standard error closed, the exit code still tells.
    let _ = writeln!(io::stderr(), "error: {}", in_one_line(error.as_ref()));
    device::end_process_if_abandoned(1);
    ExitCode::FAILURE
}

/// The error and its causes. A cause whose text the message before already holds is not repeated.
pub fn in_one_line(error: &dyn Error) -> String {
    let mut line = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let text = error.to_string();
        if !line.contains(&text) {
            line.push_str(": ");
            line.push_str(&text);
        }
        cause = error.source();
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::metrics::sample;

    #[test]
    fn an_epoch_is_one_plain_line() {
        let mut out = Vec::new();
        let run =
            Run { sizes: vec![784, 10], train_images: 60, test_images: 10, first_epoch: 1, last_epoch: 12 };
        let mut console = Console::new(&mut out);
        console.epoch_started(&run, 1);
        console.progress(30);
        console.epoch_ended(&run, &sample(1)).unwrap();
        assert_eq!(
            String::from_utf8(out).unwrap(),
            "epoch  1/12: train loss 0.5000, train accuracy 87.50 %, test accuracy 93.75 %, 1.50 s, 40000 images/s\n"
        );
    }

    #[derive(Debug, thiserror::Error)]
    #[error("{text}")]
    struct Link {
        text: &'static str,
        source: Option<Box<Link>>,
    }

    #[test]
    fn causes_follow_the_error_once() {
        let inner = Link { text: "no such file", source: None };
        let middle = Link { text: "could not read x", source: Some(Box::new(inner)) };
        let outer = Link { text: "loading failed: could not read x", source: Some(Box::new(middle)) };
        assert_eq!(in_one_line(&outer), "loading failed: could not read x: no such file");
    }
}
