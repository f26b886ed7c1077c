//! Stopping between two steps when somebody asks for it, and how to go on.

use std::ffi::OsString;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use ferrowarp_mnist::train::{Observer, Run};
use ferrowarp_report::EpochRecord;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;

/// What a shell adds to a signal's number for the exit code.
const EXIT_CODE_OF_SIGNALS: u8 = 128;

/// The signal that asked for a stop, once there was one. The second signal ends the process at once.
pub struct Signals {
    arrived: Arc<AtomicUsize>,
}

impl Signals {
    /// From now on a signal asks for a stop: Ctrl-C, or the one by which a system ends its processes.
    pub fn listen() -> io::Result<Signals> {
        let arrived = Arc::new(AtomicUsize::new(0));
        let again = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM] {
            // In this order, so that the first signal does not end the process itself.
            flag::register_conditional_shutdown(
                signal,
                i32::from(EXIT_CODE_OF_SIGNALS) + signal,
                again.clone(),
            )?;
            flag::register(signal, again.clone())?;
            flag::register_usize(signal, arrived.clone(), usize::try_from(signal).unwrap_or_default())?;
        }
        Ok(Signals { arrived })
    }

    /// The exit code of a process that a signal stopped.
    pub fn exit_code(&self) -> u8 {
        let signal = u8::try_from(self.arrived.load(Ordering::SeqCst)).unwrap_or_default();
        EXIT_CODE_OF_SIGNALS.saturating_add(signal)
    }

    /// `observer`, which now also stops the run when a signal has arrived.
    pub fn observe<'a>(&'a self, observer: &'a mut dyn Observer) -> impl Observer + 'a {
        Stoppable { signals: self, observer }
    }
}

struct Stoppable<'a> {
    signals: &'a Signals,
    observer: &'a mut dyn Observer,
}

impl Observer for Stoppable<'_> {
    fn epoch_started(&mut self, run: &Run, epoch: u32) {
        self.observer.epoch_started(run, epoch);
    }

    fn progress(&mut self, images: usize) {
        self.observer.progress(images);
    }

    fn stop(&mut self) -> bool {
        self.observer.stop() || self.signals.arrived.load(Ordering::SeqCst) != 0
    }

    fn warning(&mut self, warning: &str) {
        self.observer.warning(warning);
    }

    fn epoch_ended(&mut self, run: &Run, record: &EpochRecord) -> io::Result<()> {
        self.observer.epoch_ended(run, record)
    }
}

/// The command that goes on with the run that `command` began, from the checkpoints in `dir`.
pub fn resume_command(command: impl IntoIterator<Item = OsString>, dir: &Path) -> String {
    let mut words = Vec::new();
    let mut command = command.into_iter();
    while let Some(word) = command.next() {
        let word = word.to_string_lossy().into_owned();
        match word.split_once('=').map_or(&*word, |(flag, _)| flag) {
            // The value of such a flag is the next word, unless it follows after a `=`.
            "--load" | "--resume" if !word.contains('=') => drop(command.next()),
            "--load" | "--resume" => {}
            _ => words.push(quoted(&word)),
        }
    }
    words.extend(["--resume".to_owned(), quoted(&dir.to_string_lossy())]);
    words.join(" ")
}

/// A word as a shell takes it.
fn quoted(word: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_-./,=:+@%".contains(&byte);
    if !word.is_empty() && word.bytes().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_is_the_old_one_with_the_folder_to_resume_from() {
        let command = |words: &[&str], dir: &str| {
            resume_command(words.iter().copied().map(OsString::from), Path::new(dir))
        };
        assert_eq!(
            command(&["train-mnist", "--lr", "0.1", "--checkpoint", "c"], "c"),
            "train-mnist --lr 0.1 --checkpoint c --resume c"
        );
        assert_eq!(
            command(&["t", "--resume", "old", "--lr=0.1", "--load=w"], "new"),
            "t --lr=0.1 --resume new"
        );
        assert_eq!(command(&["t", "--load", "--resume", "--epochs", "3"], "c"), "t --epochs 3 --resume c");
        assert_eq!(command(&["a b", "--save", "it's"], "$c"), r"'a b' --save 'it'\''s' --resume '$c'");
    }
}
