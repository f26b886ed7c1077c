//! The console output of a training run.

use std::io::{self, Write};

use ferrowarp_report::{EpochRecord, OutputError, Progress, print_note, printable};

use crate::train::{Observer, Run};

/// Shows a training run: a line per epoch on `out`, and a progress bar in between on a terminal.
#[derive(Debug)]
pub struct Console<W> {
    out: W,
    bar: Option<Progress>,
}

impl<W: Write> Console<W> {
    /// Makes a console that writes lines to `out`.
    pub fn new(out: W) -> Console<W> {
        Console { out, bar: None }
    }

    /// Writes one line.
    ///
    /// # Errors
    /// `out` refuses the line, such as a closed pipe.
    pub fn line(&mut self, line: impl std::fmt::Display) -> Result<(), OutputError> {
        self.put(line).map_err(OutputError)
    }

    fn put(&mut self, line: impl std::fmt::Display) -> io::Result<()> {
        self.bar = None;
        writeln!(self.out, "{}", printable(line))?;
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

    fn warning(&mut self, warning: &str) {
        self.bar = None;
        print_note(format_args!("warning: {warning}"));
    }

    fn epoch_ended(&mut self, run: &Run, record: &EpochRecord) -> io::Result<()> {
        let width = run.last_epoch.to_string().len();
        self.put(format_args!(
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_epoch_is_one_plain_line() {
        let mut out = Vec::new();
        let run =
            Run { sizes: vec![784, 10], train_images: 60, test_images: 10, first_epoch: 1, last_epoch: 12 };
        let record = EpochRecord {
            epoch: 1,
            train_loss: 0.5,
            train_accuracy: 0.875,
            test_loss: 0.3125,
            test_accuracy: 0.9375,
            seconds: 1.5,
            test_seconds: 0.125,
            images_per_second: 40_000.0,
        };
        let mut console = Console::new(&mut out);
        console.epoch_started(&run, 1);
        console.progress(30);
        console.epoch_ended(&run, &record).unwrap();
        assert_eq!(
            String::from_utf8(out).unwrap(),
            "epoch  1/12: train loss 0.5000, train accuracy 87.50 %, test accuracy 93.75 %, 1.50 s, 40000 images/s\n"
        );
    }
}
