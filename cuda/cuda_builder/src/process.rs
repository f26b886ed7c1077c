//! Runs a compiler that may fail, hang or print a lot.

use std::fmt;
use std::io::{self, Read, Write};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::{Duration, Instant};

use crate::error::CudaBuilderError;
use crate::watch;

/// The time limit of a compiler for one module, unless [`VARIABLE`] sets another.
const LONGEST: Duration = Duration::from_secs(600);
/// The same for a small module if a lower optimisation level follows. Larger ones have a second more for each
/// [`BYTES_A_SECOND`], up to [`LONGEST_AT_HIGHER_LEVELS`].
const LIMIT_OF_SMALL: Duration = Duration::from_secs(30);
/// The same for the largest modules.
const LONGEST_AT_HIGHER_LEVELS: Duration = Duration::from_secs(120);
/// A twentieth of what libNVVM compiles in a second, or less.
const BYTES_A_SECOND: usize = 4 << 10;
/// The environment variable with this limit in seconds.
pub(crate) const VARIABLE: &str = "FERROWARP_COMPILER_SECONDS";
/// The limit on wall time is this many times that on processor time: a tool may wait, or others may use the processors.
const WAITING: u32 = 5;
/// The most bytes of output that a tool may write: a hundred times the largest module of a build.
const MAX_OUTPUT: u64 = 1 << 30;
/// The most bytes of messages that are kept. The rest is read and dropped, so that the tool goes on.
const MAX_MESSAGES: u64 = 16 << 20;

/// The start of the file name of the child that runs libNVVM.
pub(crate) const NVVM_CHILD: &str = "nvvm-child";
/// What messages call that child.
pub(crate) const NVVM: &str = "libNVVM";

/// The output of a program that ended on its own.
pub(crate) struct Ended {
    pub status: ExitStatus,
    pub stdout: Vec<u8>,
    /// At most [`MAX_MESSAGES`], with a note if there were more.
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

/// What happens to the bytes of a pipe after the first ones that are kept.
#[derive(Clone, Copy)]
enum Rest {
    /// They are read.
    Drain,
    /// The pipe is closed, which ends the writer.
    Close,
}

/// The first bytes of a pipe.
#[derive(Default)]
struct Piped {
    bytes: Vec<u8>,
    /// Whether there were more.
    is_cut: bool,
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
    watch::limit().unwrap_or_else(|| limit_at_level(true, 0))
}

/// The time limit for one run of a compiler on a module of this many bytes, depending on whether it is the last try.
pub(crate) fn limit_at_level(is_last: bool, bytes: usize) -> Duration {
    let seconds = std::env::var(VARIABLE).ok().and_then(|text| text.parse().ok());
    let of_module = LIMIT_OF_SMALL + Duration::from_secs((bytes / BYTES_A_SECOND) as u64);
    let usual = if is_last { LONGEST } else { of_module.min(LONGEST_AT_HIGHER_LEVELS) };
    seconds.map_or(usual, Duration::from_secs)
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
    Err(CudaBuilderError::Options(reason))
}

/// Runs `command` to its end with `input` on its standard input, for at most `limit`. The limit is on processor time if the
/// system reports it, so a busy machine stops no tool that an idle one would not.
///
/// # Errors
/// It could not be started, had to be stopped, or wrote more than [`MAX_OUTPUT`].
pub(crate) fn run(command: Command, input: Vec<u8>, limit: Duration) -> Result<Ended, Stopped> {
    run_bounded(command, input, limit, MAX_OUTPUT)
}

fn run_bounded(
    mut command: Command,
    input: Vec<u8>,
    limit: Duration,
    max_output: u64,
) -> Result<Ended, Stopped> {
    let name = tool(&command);
    watch::stage(&name);
    let failed = |deed: &str, e: io::Error| Stopped::Failed(format!("{deed}: {e}"));
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    #[cfg(unix)]
    put_in_group(&mut command);
    let mut child = spawn(&mut command).map_err(|e| failed("starting it", e))?;
    let piped = start_pipes(&mut child, input, max_output);
    let (stdout, stderr) = piped.map_err(|e| {
        kill(&mut child);
        let _ = child.wait();
        failed("starting a thread", e)
    })?;
    let status = wait(&mut child, limit).map_err(|e| failed("waiting for it", e))?;
    let Some(status) = status else {
        kill(&mut child);
        let _ = child.wait();
        return Err(Stopped::TimedOut(limit));
    };
    // A grandchild may hold the pipes open: only the output so far counts.
    let grace = Duration::from_secs(5);
    let collect = |pipe: Receiver<Piped>| pipe.recv_timeout(grace).unwrap_or_default();
    let (stdout, stderr) = (collect(stdout), collect(stderr));
    if stdout.is_cut {
        return Err(Stopped::Failed(format!(
            "{name} wrote more than the limit of {max_output} bytes to its standard output; check that it is the tool that \
             it should be"
        )));
    }
    let mut messages = String::from_utf8_lossy(&stderr.bytes).into_owned();
    if stderr.is_cut {
        messages += &format!("\n(cut after {} MiB)\n", MAX_MESSAGES >> 20);
    }
    Ok(Ended { status, stdout: stdout.bytes, stderr: messages })
}

/// Starts the tool in a process group of its own, so that [`kill`] also ends what the tool has started.
///
/// Ctrl-C at a terminal does not reach such a group. On Linux the system therefore kills the tool when the builder ends,
/// however that happens. Elsewhere, and for what the tool has started, the builder's end closes the pipes: the next write
/// to one fails, and the input ends.
#[cfg(unix)]
fn put_in_group(command: &mut Command) {
    use std::os::unix::process::CommandExt as _;
    command.process_group(0);
    #[cfg(target_os = "linux")]
    {
        use rustix::process::{Pid, Signal, getppid, set_parent_process_death_signal};
        let builder = Pid::from_raw(std::process::id().cast_signed());
        let end_with_builder = move || {
            // The signal comes when the thread that started the tool ends. That thread waits for the tool.
            set_parent_process_death_signal(Some(Signal::KILL))?;
            // The builder may have ended before.
            if getppid() == builder { Ok(()) } else { Err(io::ErrorKind::Interrupted.into()) }
        };
        // SAFETY: the closure only makes two system calls and allocates nothing, so it may run between fork and exec.
        unsafe { command.pre_exec(end_with_builder) };
    }
}

/// Kills a tool that has not been waited for, and what it has started.
fn kill(child: &mut Child) {
    // A process that cannot be stopped has ended already.
    #[cfg(unix)]
    if let Some(group) = rustix::process::Pid::from_raw(child.id().cast_signed()) {
        let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
    }
    let _ = child.kill();
}

/// The tool's name: its file name.
fn tool(command: &Command) -> String {
    let name = Path::new(command.get_program()).file_name().unwrap_or_default().to_string_lossy();
    if name.starts_with(NVVM_CHILD) { NVVM.to_owned() } else { name.into_owned() }
}

fn spawn(command: &mut Command) -> io::Result<Child> {
    let mut tries = 0;
    loop {
        match command.spawn() {
            // A process that another thread has just started may still hold the new file open.
            Err(e) if e.kind() == io::ErrorKind::ExecutableFileBusy && tries < 100 => {
                tries += 1;
                thread::sleep(Duration::from_millis(10));
            }
            result => return result,
        }
    }
}

fn wait(child: &mut Child, limit: Duration) -> io::Result<Option<ExitStatus>> {
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
        thread::sleep(pause);
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

/// Writes the child's input and reads its output and messages, each on its own thread.
fn start_pipes(
    child: &mut Child,
    input: Vec<u8>,
    max_output: u64,
) -> io::Result<(Receiver<Piped>, Receiver<Piped>)> {
    if let Some(mut stdin) = child.stdin.take() {
        // A tool that does not read its input reports its own error.
        thread::Builder::new().spawn(move || drop(stdin.write_all(&input)))?;
    }
    let stdout = read_start(child.stdout.take(), max_output, Rest::Close)?;
    Ok((stdout, read_start(child.stderr.take(), MAX_MESSAGES, Rest::Drain)?))
}

/// Reads the first `most` bytes of a pipe on its own thread.
fn read_start(
    pipe: Option<impl Read + Send + 'static>,
    most: u64,
    rest: Rest,
) -> io::Result<Receiver<Piped>> {
    let (sender, receiver) = mpsc::channel();
    thread::Builder::new().spawn(move || {
        let mut piped = Piped::default();
        if let Some(mut pipe) = pipe {
            // Whatever could be read is shown.
            let _ = pipe.by_ref().take(most).read_to_end(&mut piped.bytes);
            piped.is_cut = pipe.read(&mut [0]).is_ok_and(|len| len > 0);
            if let Rest::Drain = rest {
                let _ = io::copy(&mut pipe, &mut io::sink());
            }
        }
        // After a time limit the receiver is gone.
        let _ = sender.send(piped);
    })?;
    Ok(receiver)
}

#[cfg(test)]
#[path = "process_tests.rs"]
mod tests;
