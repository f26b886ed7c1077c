//! Runs a compiler that may fail, hang or print a lot.

use std::fmt;
use std::io::{Read, Write};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::time::{Duration, Instant};

use crate::error::CudaBuilderError;
use crate::{nvvm, watch};

/// The time limit of a compiler for one module, unless [`VARIABLE`] sets another.
const LONGEST: Duration = Duration::from_secs(600);
/// The same if a lower optimisation level follows.
const LONGEST_AT_HIGHER_LEVELS: Duration = Duration::from_secs(120);
/// The environment variable with this limit in seconds.
pub(crate) const VARIABLE: &str = "FERROWARP_COMPILER_SECONDS";
/// The limit on wall time is this many times that on processor time: a tool may wait, or others may use the processors.
const WAITING: u32 = 5;

/// The output of a program that ended on its own.
pub(crate) struct Ended {
    pub status: ExitStatus,
    pub stdout: Vec<u8>,
    pub stderr: String,
}

impl Ended {
    /// Its output, for an error message.
    pub fn log(&self) -> String {
        let log = format!("{}{}", String::from_utf8_lossy(&self.stdout), self.stderr).trim().to_owned();
        if log.is_empty() { format!("it said nothing and ended with {}", self.status) } else { log }
    }

    /// The signal that ended it, if one did.
    #[cfg(unix)]
    pub fn killed(&self) -> Option<String> {
        use std::os::unix::process::ExitStatusExt;
        let name = match self.status.signal()? {
            4 => "SIGILL, an illegal instruction",
            6 => "SIGABRT, which it raised itself",
            9 => "SIGKILL, as the system does when memory runs out",
            11 => "SIGSEGV, an access to an invalid address",
            other => return Some(format!("signal {other}")),
        };
        Some(name.to_owned())
    }

    /// The signal that ended it, if one did.
    #[cfg(not(unix))]
    pub fn killed(&self) -> Option<String> {
        None
    }
}

/// Why a run has no result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Stopped {
    /// It could not be started or waited for.
    Failed(String),
    /// It did not end within this time.
    TimedOut(Duration),
}

impl fmt::Display for Stopped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Stopped::Failed(reason) => f.write_str(reason),
            Stopped::TimedOut(limit) => write!(
                f,
                "it did not end within {} seconds and was stopped; {VARIABLE} sets another limit",
                limit.as_secs()
            ),
        }
    }
}

/// The time limit for one run of a compiler: the limit of this thread's work, if it has one.
pub(crate) fn limit() -> Duration {
    watch::limit().unwrap_or_else(|| limit_at_level(true))
}

/// The time limit for one run of a compiler, depending on whether it is the last try.
pub(crate) fn limit_at_level(is_last: bool) -> Duration {
    let seconds = std::env::var(VARIABLE).ok().and_then(|text| text.parse().ok());
    seconds.map_or(if is_last { LONGEST } else { LONGEST_AT_HIGHER_LEVELS }, Duration::from_secs)
}

/// Checks that the environment variable, if set and not empty, is a time that [`limit_at_level`] can read.
///
/// # Errors
/// [`CudaBuilderError::Options`].
pub(crate) fn check_variable() -> Result<(), CudaBuilderError> {
    let Some(text) = std::env::var_os(VARIABLE).filter(|text| !text.is_empty()) else { return Ok(()) };
    let text = text.to_string_lossy();
    if text.parse::<u64>().is_ok() {
        return Ok(());
    }
    let reason = format!("{VARIABLE} is `{text}`; set it to a whole number of seconds, or unset it");
    Err(CudaBuilderError::Options { reason })
}

/// Runs `command` to its end with `input` on its standard input, for at most `limit`. The limit is on processor time if the
/// system reports it, so a busy machine stops no tool that an idle one would not.
///
/// # Errors
/// It could not be started, or had to be stopped.
pub(crate) fn run(mut command: Command, input: Vec<u8>, limit: Duration) -> Result<Ended, Stopped> {
    watch::stage(&tool(&command));
    let failed = |deed: &str, e: std::io::Error| Stopped::Failed(format!("{deed}: {e}"));
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = spawn(&mut command).map_err(|e| failed("starting it", e))?;
    if let Some(mut stdin) = child.stdin.take() {
        // A tool that does not read its input reports its own error.
        std::thread::spawn(move || drop(stdin.write_all(&input)));
    }
    let stdout = read_all(child.stdout.take());
    let stderr = read_all(child.stderr.take());
    let status = wait(&mut child, limit).map_err(|e| failed("waiting for it", e))?;
    let Some(status) = status else {
        // A process that cannot be stopped has ended already.
        let _ = child.kill();
        let _ = child.wait();
        return Err(Stopped::TimedOut(limit));
    };
    // A grandchild may hold the pipes open: only the output so far counts.
    let grace = Duration::from_secs(5);
    let collect = |pipe: Receiver<Vec<u8>>| pipe.recv_timeout(grace).unwrap_or_default();
    let (stdout, stderr) = (collect(stdout), collect(stderr));
    Ok(Ended { status, stdout, stderr: String::from_utf8_lossy(&stderr).into_owned() })
}

/// The tool's name: its file name.
fn tool(command: &Command) -> String {
    let name = Path::new(command.get_program()).file_name().unwrap_or_default().to_string_lossy();
    if name.starts_with(nvvm::CHILD) { nvvm::NAME.to_owned() } else { name.into_owned() }
}

fn spawn(command: &mut Command) -> std::io::Result<Child> {
    let mut tries = 0;
    loop {
        match command.spawn() {
            // A process that another thread has just started may still hold the new file open.
            Err(e) if e.kind() == std::io::ErrorKind::ExecutableFileBusy && tries < 100 => {
                tries += 1;
                std::thread::sleep(Duration::from_millis(10));
            }
            result => return result,
        }
    }
}

fn wait(child: &mut Child, limit: Duration) -> std::io::Result<Option<ExitStatus>> {
    let start = Instant::now();
    let mut pause = Duration::from_micros(500);
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        let elapsed = start.elapsed();
        if elapsed >= limit
            && (elapsed >= limit * WAITING || processor_time(child).is_none_or(|t| t >= limit))
        {
            return Ok(None);
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(20));
    }
}

/// The processor time of the child, if the system reports it.
fn processor_time(child: &Child) -> Option<Duration> {
    /// `USER_HZ`: Linux's unit for programs, on all processors that libNVVM supports.
    const TICKS_A_SECOND: u64 = 100;
    let text = std::fs::read_to_string(format!("/proc/{}/stat", child.id())).ok()?;
    // The program's name, in parentheses, may contain anything; `utime` and `stime` are the 12th and 13th field after it.
    let fields = text.rsplit_once(')')?.1.split_whitespace().skip(11).take(2);
    let ticks: u64 = fields.map(|field| field.parse::<u64>()).sum::<Result<u64, _>>().ok()?;
    Some(Duration::from_millis(ticks * 1000 / TICKS_A_SECOND))
}

/// Reads a pipe to its end on its own thread.
fn read_all(pipe: Option<impl Read + Send + 'static>) -> Receiver<Vec<u8>> {
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(mut pipe) = pipe {
            // Whatever could be read is shown.
            let _ = pipe.read_to_end(&mut bytes);
        }
        // After a time limit the receiver is gone.
        let _ = sender.send(bytes);
    });
    receiver
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn input_and_output_of_any_size_pass() {
        let input = vec![b'x'; 3 << 20];
        let ended = run(shell("cat; echo said >&2"), input.clone(), LONGEST).unwrap();
        assert!(ended.status.success());
        assert_eq!((ended.stdout, ended.stderr.as_str()), (input, "said\n"));
    }

    #[test]
    fn what_hangs_is_stopped() {
        let start = Instant::now();
        let error = run(shell("exec sleep 60"), Vec::new(), Duration::from_millis(200)).err().unwrap();
        let text = error.to_string();
        assert!(text.contains("did not end") && text.contains(VARIABLE), "{text}");
        assert!(start.elapsed() < Duration::from_secs(20));
    }

    #[test]
    fn what_fails_or_is_missing_says_so() {
        let ended = run(shell("exit 3"), Vec::new(), LONGEST).unwrap();
        assert!(ended.log().contains("said nothing") && ended.log().contains('3'), "{}", ended.log());
        let error = run(Command::new("/nonexistent/compiler"), Vec::new(), LONGEST).err().unwrap();
        assert!(error.to_string().starts_with("starting it"), "{error}");
    }

    #[test]
    fn the_limit_is_of_the_processors_time() {
        let limit = Duration::from_millis(300);
        let waits = run(shell("exec sleep 0.6"), Vec::new(), limit).unwrap();
        assert!(waits.status.success(), "it used no time of the processor");
        let start = Instant::now();
        let error = run(shell("while :; do :; done"), Vec::new(), limit).err().unwrap();
        assert_eq!(error, Stopped::TimedOut(limit));
        assert!(start.elapsed() >= limit);
    }

    #[test]
    fn a_signal_that_ends_it_is_named() {
        let killed = |script| run(shell(script), Vec::new(), LONGEST).unwrap().killed();
        assert!(killed("kill -SEGV $$").unwrap().starts_with("SIGSEGV"));
        assert!(killed("kill -KILL $$").unwrap().contains("memory runs out"));
        assert_eq!(killed("exit 139"), None);
    }
}
