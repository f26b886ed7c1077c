//! The parent process: starts one child per fault and checks how it ended.

use std::io::Read as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use ferrowarp_mnist::checkpoint;
use ferrowarp_report::print_line;

use crate::Arguments;
use crate::child::{self, AFTERWARDS};
use crate::faults::{Expected, FAULTS, Fault};
use crate::outcome::{Ended, Outcome, Verdict};

/// The time after which a child counts as hanging. Opening a device may take seconds, because the driver compiles the PTX.
const PATIENCE: Duration = Duration::from_secs(60);

/// The interval between checks of a child.
const GLANCE: Duration = Duration::from_millis(20);

/// Runs all selected faults; prints a line as each one ends.
pub fn check_all(arguments: &Arguments, is_gpu: bool, chosen: impl Fn(&str) -> bool) -> Result<Vec<Outcome>> {
    let folder = tempfile::tempdir().context("making a folder for the checkpoints")?;
    let mut outcomes = Vec::new();
    for fault in FAULTS.iter().filter(|fault| chosen(fault.name)) {
        let expected = if is_gpu { Ok(&fault.gpu) } else { fault.cpu.as_ref() };
        let outcome = match expected {
            Ok(expected) => check(arguments, fault, expected, &folder.path().join(fault.name))?,
            Err(reason) => Outcome::of(fault, Verdict::NotRun(format!("no GPU; on the CPU {reason}")), None),
        };
        print_line(&outcome)?;
        outcomes.push(outcome);
    }
    ensure!(
        !outcomes.is_empty(),
        "no fault's name contains `{}`",
        arguments.only.as_deref().unwrap_or_default()
    );
    Ok(outcomes)
}

fn check(arguments: &Arguments, fault: &Fault, expected: &Expected, checkpoint: &Path) -> Result<Outcome> {
    let program = std::env::current_exe().context("finding this program's file")?;
    let mut command = Command::new(&program);
    command.args(["--device", &arguments.device.to_string(), "--provoke", fault.name, "--checkpoint"]);
    command.arg(checkpoint);
    if let Some(ptx) = &arguments.ptx {
        command.arg("--ptx").arg(ptx);
    }
    command.env_remove("FERROWARP_SYNC").env_remove("CUDA_LAUNCH_BLOCKING");
    command.envs(fault.variables.iter().copied()).env("RUST_BACKTRACE", "0");
    let start = Instant::now();
    let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn();
    let child = child.with_context(|| format!("starting {}", program.display()))?;
    let ended = wait(child, start)?;
    let verdict = match judge(&ended, expected).and_then(|()| is_whole(checkpoint)) {
        Ok(()) => Verdict::Passed,
        Err(reason) => Verdict::Failed(reason),
    };
    Ok(Outcome::of(fault, verdict, Some(ended)))
}

/// Waits for the child to end; kills it if it exceeds [`PATIENCE`].
fn wait(mut child: Child, start: Instant) -> Result<Ended> {
    let mut errors = child.stderr.take().context("the child has no standard error")?;
    let reader = std::thread::Builder::new().spawn(move || {
        let mut text = Vec::new();
        // The output so far is checked.
        let _ = errors.read_to_end(&mut text);
        String::from_utf8_lossy(&text).into_owned()
    });
    let reader = match reader {
        Ok(reader) => reader,
        Err(error) => {
            // A child that has ended needs no kill.
            let _ = child.kill();
            let _ = child.wait();
            return Err(error).context("starting a thread to read a child's messages");
        }
    };
    let status = loop {
        if let Some(status) = child.try_wait().context("waiting for the child")? {
            break Some(status);
        }
        if start.elapsed() > PATIENCE {
            child.kill().context("ending a child that hangs")?;
            child.wait().context("waiting for a child that was killed")?;
            break None;
        }
        std::thread::sleep(GLANCE);
    };
    let seconds = start.elapsed().as_secs_f64();
    let text = reader.join().unwrap_or_default();
    Ok(Ended { code: status.and_then(|status| status.code()), in_time: status.is_some(), seconds, text })
}

/// Checks that the child ended as expected. The error is the reason.
fn judge(ended: &Ended, expected: &Expected) -> Result<(), String> {
    if !ended.in_time {
        return Err(format!("it did not end within {PATIENCE:?}"));
    }
    if ended.code != Some(1) {
        return Err(match ended.code {
            Some(code) => format!("the exit code is {code}, not 1"),
            None => "a signal ended it".to_owned(),
        });
    }
    let text = ended.text.trim_end();
    if text.lines().count() != 1 || !text.starts_with("error: ") || text.contains("panicked at") {
        return Err(format!("it wrote more or less than one error: {text}"));
    }
    if text.starts_with(&format!("error: {AFTERWARDS}")) {
        return Err(text.to_owned());
    }
    match expected.says.iter().find(|part| !text.contains(**part)) {
        Some(part) => Err(format!("the error does not say `{part}`")),
        None => Ok(()),
    }
}

/// Checks that the checkpoint holds the values written before the fault.
fn is_whole(path: &Path) -> Result<(), String> {
    let found = checkpoint::load(path).map_err(|error| format!("the checkpoint is lost: {error}"))?;
    let (parameters, training) = child::trained();
    if found.parameters != parameters || found.training != Some(training) {
        return Err("the checkpoint holds something else than was written".to_owned());
    }
    Ok(())
}
