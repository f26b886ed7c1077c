//! Runs a compiler that may fail, hang or write much.

use std::io::{Read, Write};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::time::{Duration, Instant};

/// The longest any compiler may take for one module, unless [`VARIABLE`] says otherwise.
const LONGEST: Duration = Duration::from_secs(600);
/// The environment variable that names that time in seconds.
const VARIABLE: &str = "FERROWARP_COMPILER_SECONDS";

/// What a program that ended by itself left.
pub(crate) struct Ended {
    pub status: ExitStatus,
    pub stdout: Vec<u8>,
    pub stderr: String,
}

impl Ended {
    /// What it said, for an error message.
    pub fn log(&self) -> String {
        let log = format!("{}{}", String::from_utf8_lossy(&self.stdout), self.stderr).trim().to_owned();
        if log.is_empty() { format!("it said nothing and ended with {}", self.status) } else { log }
    }
}

/// The time limit for one run of a compiler.
pub(crate) fn limit() -> Duration {
    let seconds = std::env::var(VARIABLE).ok().and_then(|text| text.parse().ok());
    seconds.map_or(LONGEST, Duration::from_secs)
}

/// Runs `command` with `input` on its standard input to its end, at most as long as `limit`.
///
/// # Errors
/// It could not be started, or had to be stopped.
pub(crate) fn run(mut command: Command, input: Vec<u8>, limit: Duration) -> Result<Ended, String> {
    let piped = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = piped.spawn().map_err(|e| format!("starting it: {e}"))?;
    if let Some(mut stdin) = child.stdin.take() {
        // Who reads none of its input says so by its own error.
        std::thread::spawn(move || drop(stdin.write_all(&input)));
    }
    let stdout = read_all(child.stdout.take());
    let stderr = read_all(child.stderr.take());
    let deadline = Instant::now() + limit;
    let status = wait_until(&mut child, deadline).map_err(|e| format!("waiting for it: {e}"))?;
    let Some(status) = status else {
        // It is stopped already if it cannot be stopped.
        let _ = child.kill();
        let _ = child.wait();
        return Err(format!(
            "it did not end within {} seconds and was stopped; {VARIABLE} sets another limit",
            limit.as_secs()
        ));
    };
    // A child of its own may hold the pipes open: what was written until now is all that counts.
    let grace = Duration::from_secs(5);
    let collect = |pipe: Receiver<Vec<u8>>| pipe.recv_timeout(grace).unwrap_or_default();
    let (stdout, stderr) = (collect(stdout), collect(stderr));
    Ok(Ended { status, stdout, stderr: String::from_utf8_lossy(&stderr).into_owned() })
}

fn wait_until(child: &mut Child, deadline: Instant) -> std::io::Result<Option<ExitStatus>> {
    let mut pause = Duration::from_micros(500);
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if Instant::now() >= deadline {
            return Ok(None);
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(20));
    }
}

/// Reads a pipe to its end on a thread of its own.
fn read_all(pipe: Option<impl Read + Send + 'static>) -> Receiver<Vec<u8>> {
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(mut pipe) = pipe {
            // What could be read is all there is to show.
            let _ = pipe.read_to_end(&mut bytes);
        }
        // Nobody waits for it any more after a time limit.
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
        assert!(error.contains("did not end") && error.contains(VARIABLE), "{error}");
        assert!(start.elapsed() < Duration::from_secs(20));
    }

    #[test]
    fn what_fails_or_is_missing_says_so() {
        let ended = run(shell("exit 3"), Vec::new(), LONGEST).unwrap();
        assert!(ended.log().contains("said nothing") && ended.log().contains('3'), "{}", ended.log());
        let error = run(Command::new("/nonexistent/compiler"), Vec::new(), LONGEST).err().unwrap();
        assert!(error.starts_with("starting it"), "{error}");
    }
}
