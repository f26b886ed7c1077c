//! Stops a run between two steps at a signal, and says how to resume it.

use std::ffi::OsString;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use ferrowarp_device::collective::{CollectiveError, Communicator, Reduction};
use ferrowarp_mnist::train::{Observer, Run};
use ferrowarp_report::{EpochRecord, print_note};
#[cfg(unix)]
use signal_hook::consts::SIGHUP;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;

/// Shells add this to a signal's number for the exit code.
const EXIT_CODE_OF_SIGNALS: u8 = 128;

/// How often a thread checks for a signal.
const GLANCE: Duration = Duration::from_millis(200);

/// How long after a signal a running program waits before it acknowledges the signal.
const PATIENCE: Duration = Duration::from_secs(1);

/// The signal that requested a stop, once one has arrived. A second signal ends the process at once.
pub struct Signals {
    arrived: Arc<AtomicUsize>,
    /// Whether the next signal ends the process at once.
    at_once: Arc<AtomicBool>,
}

impl Signals {
    /// Starts to listen for signals that request a stop: Ctrl-C, termination by the system, or a closed terminal.
    pub fn listen() -> io::Result<Signals> {
        let arrived = Arc::new(AtomicUsize::new(0));
        let at_once = Arc::new(AtomicBool::new(false));
        for signal in signals() {
            // This order ensures that the first signal does not end the process.
            flag::register_conditional_shutdown(
                signal,
                i32::from(EXIT_CODE_OF_SIGNALS) + signal,
                at_once.clone(),
            )?;
            flag::register(signal, at_once.clone())?;
            flag::register_usize(signal, arrived.clone(), usize::try_from(signal).unwrap_or_default())?;
        }
        let seen = arrived.clone();
        // Without this thread the signals still work, but are not acknowledged.
        let _ = thread::Builder::new().name("signals".to_owned()).spawn(move || acknowledge(&seen));
        Ok(Signals { arrived, at_once })
    }

    /// The signal that has arrived.
    pub fn arrived(&self) -> Option<u32> {
        u32::try_from(self.arrived.load(Ordering::SeqCst)).ok().filter(|&signal| signal != 0)
    }

    /// Takes a signal that has arrived at another rank for one that has arrived here.
    fn receive(&self, signal: u32) {
        self.arrived.store(signal as usize, Ordering::SeqCst);
        self.at_once.store(true, Ordering::SeqCst);
    }

    /// Does `work`, which cannot be stopped in between: even a first signal ends the process at once.
    pub fn ending_at_once<T>(&self, work: impl FnOnce() -> T) -> T {
        self.at_once.store(true, Ordering::SeqCst);
        let result = work();
        self.at_once.store(self.arrived().is_some(), Ordering::SeqCst);
        result
    }

    /// The exit code after a stop by a signal.
    pub fn exit_code(&self) -> u8 {
        let signal = self.arrived().and_then(|signal| u8::try_from(signal).ok()).unwrap_or_default();
        EXIT_CODE_OF_SIGNALS.saturating_add(signal)
    }

    /// Wraps `observer` so that it also stops the run once a signal has arrived here or at another rank.
    pub fn observe<'a>(
        &'a self,
        observer: &'a mut dyn Observer,
        communicator: Option<&'a Communicator>,
    ) -> impl Observer + 'a {
        Stoppable { signals: self, observer, communicator, is_stopping: false }
    }
}

/// Acknowledges a signal if the program is still running a while later.
fn acknowledge(arrived: &AtomicUsize) {
    while arrived.load(Ordering::SeqCst) == 0 {
        thread::sleep(GLANCE);
    }
    thread::sleep(PATIENCE);
    print_note("ending after the current step or file; a second signal ends the program at once");
}

/// The signals that request a stop. A hangup that `nohup` ignores stays ignored.
fn signals() -> Vec<i32> {
    let mut signals = vec![SIGINT, SIGTERM];
    #[cfg(unix)]
    if !std::fs::read_to_string("/proc/self/status").is_ok_and(|status| is_ignored(&status, SIGHUP)) {
        signals.push(SIGHUP);
    }
    signals
}

/// Whether a process ignores a signal, according to its status (proc(5)): one bit per signal, the lowest for the first.
#[cfg(unix)]
fn is_ignored(status: &str, signal: i32) -> bool {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| mask >> (signal - 1) & 1 == 1)
}

/// An observer that also stops the run once a signal has arrived: at this rank or, with a communicator, at any. Then all
/// ranks stop after the same step.
struct Stoppable<'a> {
    signals: &'a Signals,
    observer: &'a mut dyn Observer,
    communicator: Option<&'a Communicator>,
    /// Whether a signal has arrived at some rank.
    is_stopping: bool,
}

impl Stoppable<'_> {
    /// Returns a signal that has arrived at any rank.
    fn agree(&self, communicator: &Communicator) -> Result<Option<u32>, CollectiveError> {
        let (device, stream) = (communicator.device(), communicator.device().default_stream());
        let on_device = |error| communicator.device_error("agreeing on a stop", error);
        let mut signal = device.upload(&[self.signals.arrived().unwrap_or(0)]).map_err(on_device)?;
        communicator.all_reduce(&stream, &mut signal, Reduction::Max)?;
        communicator.synchronize(&stream)?;
        Ok(signal.to_vec().map_err(on_device)?.into_iter().find(|&signal| signal != 0))
    }
}

impl Observer for Stoppable<'_> {
    fn epoch_started(&mut self, run: &Run, epoch: u32) {
        self.observer.epoch_started(run, epoch);
    }

    fn progress(&mut self, images: usize) {
        self.observer.progress(images);
        // The next step reports an error.
        if let Some(communicator) = self.communicator
            && let Ok(Some(signal)) = self.agree(communicator)
        {
            self.signals.receive(signal);
            self.is_stopping = true;
        }
    }

    fn stop(&mut self) -> bool {
        match self.communicator {
            Some(_) => self.is_stopping,
            None => self.observer.stop() || self.signals.arrived().is_some(),
        }
    }

    fn warning(&mut self, warning: &str) {
        self.observer.warning(warning);
    }

    fn epoch_ended(&mut self, run: &Run, record: &EpochRecord) -> io::Result<()> {
        self.observer.epoch_ended(run, record)
    }
}

/// The command that resumes the run of `command` from the checkpoints in `dir`.
pub fn resume_command(command: impl IntoIterator<Item = OsString>, dir: &Path) -> String {
    let mut words = Vec::new();
    let mut command = command.into_iter();
    while let Some(word) = command.next() {
        let word = word.to_string_lossy().into_owned();
        match word.split_once('=').map_or(&*word, |(flag, _)| flag) {
            // The value of such a flag is the next word, unless it follows a `=`.
            "--load" | "--resume" if !word.contains('=') => drop(command.next()),
            "--load" | "--resume" => {}
            _ => words.push(quoted(&word)),
        }
    }
    words.extend(["--resume".to_owned(), quoted(&dir.to_string_lossy())]);
    words.join(" ")
}

/// Quotes a word for a shell.
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

    #[cfg(unix)]
    #[test]
    fn a_process_ignores_the_signals_of_its_mask() {
        let status = "SigBlk:\t0000000000000001\nSigIgn:\t0000000000001001\nSigCgt:\t0000000000000002\n";
        let ignored: Vec<i32> = (1..=64).filter(|&signal| is_ignored(status, signal)).collect();
        assert_eq!(ignored, [1, 13]);
        assert!(!is_ignored("", SIGHUP));
    }

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
