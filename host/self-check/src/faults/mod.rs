//! Makes a device fail in every way, each in its own process, and checks that the process ends soon with exit code 1,
//! reports the failure and the fix, and leaves an earlier checkpoint intact.
//!
//! Prints one line per fault and at the end a line `N passed, N failed, N not run`.

mod child;
mod table;

use std::fmt;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use ferrowarp::device::{Device, DeviceChoice, PtxModules, open_with};
use ferrowarp_mnist::checkpoint;
use ferrowarp_report::{output_file, print_line};
use serde_json::json;

use crate::check_destination;
use child::AFTERWARDS;
use table::{Expected, FAULTS, Fault};

/// The folder of the fault kernels' PTX, in Cargo's target directory and in a bundle.
const PTX_FOLDER: &str = "fault-ptx";

/// The fix if there is no PTX.
const BUILD: &str = "opening the device for the fault kernels, whose PTX is built with `cargo xtask build-ptx --crate \
                     faults/kernels --out target/fault-ptx`";

/// The longest that a child may take; one that hangs is killed.
const PATIENCE: Duration = Duration::from_secs(60);

/// Instead, make the device fail in every way, each in its own process, and check how programs report it
#[derive(clap::Args)]
pub struct Faults {
    /// Folder of the fault kernels' PTX [default: fault-ptx next to the program or in Cargo's target directory]
    #[arg(long, value_name = "DIR")]
    ptx: Option<PathBuf>,
    /// Write the results as JSON.
    #[arg(long, value_name = "FILE.json")]
    json: Option<PathBuf>,
    /// Provoke this fault in this process, after this checkpoint has been written.
    #[arg(long, hide = true, num_args = 2, value_names = ["NAME", "CHECKPOINT"])]
    provoke: Option<Vec<String>>,
}

/// One fault and its result: `ok`, `FAIL` or `not run`, with the reason unless it is `ok`.
struct Outcome {
    fault: &'static Fault,
    verdict: &'static str,
    reason: Option<String>,
    ended: Option<Ended>,
}

/// How a child ended.
struct Ended {
    /// Its exit code; `None` after a signal.
    code: Option<i32>,
    is_in_time: bool,
    /// Wall time from its start to its end.
    seconds: f64,
    /// What it wrote to standard error, without the last line break.
    message: String,
}

impl Faults {
    /// Checks whether every fault that can be provoked has its expected result.
    pub fn run(&self, choice: DeviceChoice, only: Option<&str>) -> Result<bool> {
        if let Some([name, checkpoint]) = self.provoke.as_deref() {
            let fault = FAULTS.iter().find(|fault| fault.name == *name);
            let fault = fault.with_context(|| format!("no fault is called {name}"))?;
            child::provoke(fault, self.open(choice)?.0, Path::new(checkpoint))?;
            return Ok(true);
        }
        self.json.as_deref().map_or(Ok(()), check_destination)?;
        let (device, line) = self.open(choice).context(BUILD)?;
        print_line(&line)?;
        let is_gpu = device.is_cuda();
        drop(device);
        let only = only.unwrap_or_default();
        let folder = tempfile::tempdir().context("making a folder for the checkpoints")?;
        let mut outcomes = Vec::new();
        for fault in FAULTS.iter().filter(|fault| fault.name.contains(only)) {
            let expected = if is_gpu { Ok(&fault.gpu) } else { fault.cpu.as_ref() };
            let outcome = match expected {
                Ok(expected) => self.check(choice, fault, expected, &folder.path().join(fault.name))?,
                Err(reason) => {
                    let reason = Some(format!("no GPU; on the CPU {reason}"));
                    Outcome { fault, verdict: "not run", reason, ended: None }
                }
            };
            print_line(&outcome)?;
            outcomes.push(outcome);
        }
        ensure!(!outcomes.is_empty(), "no fault's name contains `{only}`");
        let count = |verdict: &str| outcomes.iter().filter(|outcome| outcome.verdict == verdict).count();
        let [passed, failed, not_run] = ["ok", "FAIL", "not run"].map(count);
        let summary = format!("{passed} passed, {failed} failed, {not_run} not run");
        if let Some(path) = &self.json {
            let faults: Vec<_> = outcomes.iter().map(Outcome::to_json).collect();
            let all = json!({ "device": line, "summary": summary, "faults": faults });
            output_file::write(path, format!("{all:#}\n").as_bytes())
                .with_context(|| format!("could not write the results to {}", path.display()))?;
        }
        print_line(summary)?;
        Ok(failed == 0)
    }

    /// Opens the device. Returns a line that describes it, too.
    fn open(&self, choice: DeviceChoice) -> Result<(Device, String)> {
        Ok(open_with(choice, || match &self.ptx {
            Some(folder) => PtxModules::read(folder),
            None => PtxModules::read(&default_ptx()),
        })?)
    }

    fn check(
        &self,
        choice: DeviceChoice,
        fault: &'static Fault,
        expected: &Expected,
        checkpoint: &Path,
    ) -> Result<Outcome> {
        let program = std::env::current_exe().context("finding this program's file")?;
        let errors = checkpoint.with_extension("txt");
        let file = File::create(&errors).with_context(|| format!("creating {}", errors.display()))?;
        let mut command = Command::new(&program);
        command.args(["--device", &choice.to_string(), "faults"]);
        command.arg("--provoke").arg(fault.name).arg(checkpoint);
        command.args(self.ptx.iter().flat_map(|ptx| [Path::new("--ptx"), ptx]));
        command.env_remove("FERROWARP_SYNC").env_remove("CUDA_LAUNCH_BLOCKING").env("RUST_BACKTRACE", "0");
        command.envs(fault.waits_for_each_launch.then_some(("FERROWARP_SYNC", "1")));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(file);
        let start = Instant::now();
        let mut child = command.spawn().with_context(|| format!("starting {}", program.display()))?;
        let (is_in_time, code) = wait(&mut child).context("waiting for a child")?;
        let seconds = start.elapsed().as_secs_f64();
        let text = std::fs::read(&errors).with_context(|| format!("reading {}", errors.display()))?;
        let message = String::from_utf8_lossy(&text).trim_end().to_owned();
        let ended = Ended { code, is_in_time, seconds, message };
        let reason = judge(&ended, expected).and_then(|()| is_intact(checkpoint)).err();
        let verdict = if reason.is_none() { "ok" } else { "FAIL" };
        Ok(Outcome { fault, verdict, reason, ended: Some(ended) })
    }
}

/// The default place of the PTX: next to the program, or in its target directory.
fn default_ptx() -> PathBuf {
    let program = std::env::current_exe().unwrap_or_default();
    let mut folders = program.ancestors().skip(1).map(|folder| folder.join(PTX_FOLDER));
    folders.find(|folder| folder.is_dir()).unwrap_or_else(|| Path::new(PTX_FOLDER).to_owned())
}

/// Waits for the child to end, and kills it after [`PATIENCE`]. Returns whether it ended in time, and its exit code.
fn wait(child: &mut Child) -> std::io::Result<(bool, Option<i32>)> {
    let start = Instant::now();
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok((true, status.code()));
        }
        if start.elapsed() > PATIENCE {
            child.kill()?;
            return Ok((false, child.wait()?.code()));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Checks that the child ended as expected. The error is the reason.
fn judge(ended: &Ended, expected: &Expected) -> Result<(), String> {
    let text = &ended.message;
    match ended.code {
        _ if !ended.is_in_time => return Err(format!("it did not end within {PATIENCE:?}")),
        Some(1) => {}
        Some(code) => return Err(format!("the exit code is {code}, not 1")),
        None => return Err("a signal ended it".to_owned()),
    }
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
fn is_intact(path: &Path) -> Result<(), String> {
    let found = checkpoint::load(path).map_err(|error| format!("the checkpoint is lost: {error}"))?;
    let (parameters, training) = child::trained();
    if found.parameters != parameters || found.training != Some(training) {
        return Err("the checkpoint holds something else than was written".to_owned());
    }
    Ok(())
}

impl Outcome {
    fn to_json(&self) -> serde_json::Value {
        let ended = self.ended.as_ref();
        json!({
            "fault": self.fault.name,
            "what": self.fault.what,
            "verdict": self.verdict,
            "reason": self.reason,
            "exit_code": ended.and_then(|ended| ended.code),
            "seconds": ended.map(|ended| ended.seconds),
            "message": ended.map(|ended| &ended.message),
        })
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:<8} {:<20}", self.verdict, self.fault.name)?;
        if let Some(Ended { code, seconds, .. }) = &self.ended {
            let code = code.map_or_else(|| "-".to_owned(), |code| code.to_string());
            write!(f, " exit {code}, {seconds:5.2} s")?;
        }
        if let Some(reason) = &self.reason {
            write!(f, " {reason}")?;
        }
        if let Some(Ended { message, .. }) = &self.ended {
            write!(f, "\n         {}", message.replace('\n', "\n         "))?;
        }
        Ok(())
    }
}
