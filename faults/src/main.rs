//! Makes a device fail in every way, each in its own process, and checks that the process ends soon with exit code 1,
//! reports the failure and the fix, and leaves an earlier checkpoint intact.
//!
//! Prints one line per fault and at the end a line `N passed, N failed, N not run`; the exit code is 1 if any failed.

mod child;
mod faults;
mod outcome;
mod parent;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context as _;
use clap::Parser;
use ferrowarp_device::device::{Device, DeviceChoice, PtxModules, open_with};
use ferrowarp_report::{output_file, print_line};

/// The folder of the fault kernels' PTX, in Cargo's target directory and in a bundle.
const PTX_FOLDER: &str = "fault-ptx";

/// The fix if there is no PTX.
const BUILD: &str = "opening the device for the fault kernels, whose PTX is built with `cargo xtask build-ptx --crate \
                     faults/kernels --out target/fault-ptx`";

/// Provokes every fault of a device, and checks how the program reports it.
#[derive(Parser)]
#[command(version)]
struct Arguments {
    /// The device; its faults stay in child processes.
    #[arg(long, value_enum, default_value_t)]
    device: DeviceChoice,
    /// Folder of the fault kernels' PTX [default: fault-ptx next to the program or in Cargo's target directory]
    #[arg(long, value_name = "DIR")]
    ptx: Option<PathBuf>,
    /// Only provoke faults whose name contains NAME.
    #[arg(long, value_name = "NAME")]
    only: Option<String>,
    /// Write the results as JSON.
    #[arg(long, value_name = "FILE.json")]
    json: Option<PathBuf>,
    /// Provoke this fault in this process, after a checkpoint has been written.
    #[arg(long, hide = true, requires = "checkpoint")]
    provoke: Option<String>,
    /// The checkpoint that is written before.
    #[arg(long, hide = true)]
    checkpoint: Option<PathBuf>,
}

impl Arguments {
    /// Opens the device. Returns a line that describes it, too.
    fn open(&self) -> anyhow::Result<(Device, String)> {
        Ok(open_with(self.device, || match &self.ptx {
            Some(folder) => PtxModules::read(folder),
            None => PtxModules::read(&default_ptx()),
        })?)
    }
}

/// The default place of the PTX: next to the program, or in its target directory.
fn default_ptx() -> PathBuf {
    let program = std::env::current_exe().unwrap_or_default();
    let folders = program.ancestors().skip(1).map(|folder| folder.join(PTX_FOLDER));
    folders.into_iter().find(|folder| folder.is_dir()).unwrap_or_else(|| Path::new(PTX_FOLDER).to_owned())
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    match run(&arguments) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => ferrowarp_report::exit_code(Err(error), ferrowarp_device::device::exit_if_hung),
    }
}

/// Checks whether every fault that could be provoked had its expected result.
fn run(arguments: &Arguments) -> anyhow::Result<bool> {
    if let Some(name) = &arguments.provoke {
        let fault = faults::FAULTS.iter().find(|fault| fault.name == *name);
        let fault = fault.with_context(|| format!("no fault is called {name}"))?;
        let checkpoint = arguments.checkpoint.as_deref().context("name a checkpoint")?;
        child::provoke(fault, arguments.open()?.0, checkpoint)?;
        return Ok(true);
    }
    if let Some(path) = &arguments.json {
        output_file::check_destination(path).with_context(|| {
            format!(
                "--json {} cannot be used: no file can be written there; name another one",
                path.display()
            )
        })?;
    }
    let (device, line) = arguments.open().context(BUILD)?;
    print_line(&line)?;
    let is_gpu = device.is_cuda();
    drop(device);
    let chosen = |name: &str| arguments.only.as_ref().is_none_or(|only| name.contains(only.as_str()));
    let outcomes = parent::check_all(arguments, is_gpu, chosen)?;
    if let Some(path) = &arguments.json {
        outcome::write_json(path, &line, &outcomes)?;
    }
    print_line(outcome::summary(&outcomes))?;
    Ok(outcomes.iter().all(|outcome| !outcome.has_failed()))
}
