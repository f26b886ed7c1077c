//! The process that uses the GPU. It runs the requested modules, and reports when each kernel begins and its result. So the
//! parent process knows the kernel if this process hangs or crashes.

use std::ffi::OsString;
use std::io::{BufRead as _, Write as _};
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::Args;
use ferrowarp_device::device::{Device, PtxModules};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::Outputs;
use super::split::Items;
use crate::cases::{self, Case};
use crate::difference::{Difference, What};

/// Bytes of stack per thread, for kernels where the compiler cannot compute them: recursion, and calls through pointers.
const STACK: usize = 16 << 10;

/// A request to a worker, one per line.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Request {
    /// The name of the module, without an extension.
    pub module: String,
    /// Its kernels to compile and run.
    pub kernels: Vec<String>,
}

/// A worker's answer, one per line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Line {
    /// A kernel begins.
    Begins(String),
    /// Its result.
    Ended {
        /// The number of its cases.
        cases: usize,
        /// The cases that differ.
        found: Vec<Difference>,
    },
    /// All kernels are done.
    Done,
    /// None of them can be run.
    Refused(String),
    /// The device, once: its name and the percentage of soiled words in unwritten memory.
    Device(String, usize),
}

/// The path and the form of a module's expected outputs.
pub fn expected(folder: &Path, module: &str) -> Option<(PathBuf, Outputs)> {
    let batch = module.rsplit_once('.').map_or(module, |(batch, _)| batch);
    [(module, "digests", Outputs::Digests), (batch, "cases", Outputs::Bytes)]
        .into_iter()
        .map(|(name, ending, outputs)| (folder.join(format!("{name}.{ending}")), outputs))
        .find(|(path, _)| path.exists())
}

/// A module, and its kernels' expected outputs.
struct Module {
    name: String,
    ptx: String,
    cases: Vec<Case>,
    outputs: Outputs,
}

/// Serves requests from stdin until there are no more, or until a kernel has made the GPU unusable in this process.
///
/// # Errors
/// There is no GPU, or stdin or stdout cannot be used.
pub fn serve(folder: &Path, assembler: &Assembler) -> anyhow::Result<()> {
    // The previous request's device: while it lives, the driver keeps state that all modules share.
    let mut last: Option<Device> = None;
    let mut module: Option<Module> = None;
    let _removed = RemovedAtEnd(part_of_this_process());
    for line in std::io::stdin().lock().lines() {
        let request: Request =
            serde_json::from_str(&line.context("reading a request")?).context("a request")?;
        if module.as_ref().is_none_or(|module| module.name != request.module) {
            module = Some(Module::read(folder, &request.module)?);
        }
        let Some(module) = &module else { continue };
        let device = match module.open(&request.kernels, assembler) {
            Ok(device) => device,
            Err(error) => {
                say(&Line::Refused(format!("{error:#}").chars().take(600).collect()))?;
                continue;
            }
        };
        if last.is_none() {
            let words = device.unwritten_memory()?;
            let soil = u32::from_ne_bytes([cases::SOILED; 4]);
            let soiled = words.iter().filter(|word| **word == soil).count();
            say(&Line::Device(device.name(), 100 * soiled / words.len().max(1)))?;
        }
        if !module.run(&device, &request.kernels)? {
            return Ok(());
        }
        last = Some(device);
        say(&Line::Done)?;
    }
    drop(last);
    Ok(())
}

/// A file that is removed on drop.
struct RemovedAtEnd(PathBuf);

impl Drop for RemovedAtEnd {
    fn drop(&mut self) {
        // It may never have been written.
        let _ = std::fs::remove_file(&self.0);
        let _ = std::fs::remove_file(self.0.with_extension("cubin"));
    }
}

/// What makes machine code instead of the driver's compiler.
#[derive(Args, Clone, Debug)]
pub struct Assembler {
    /// Make the machine code by this ptxas instead of the driver's compiler
    #[arg(long, value_name = "FILE")]
    pub ptxas: Option<PathBuf>,
    /// Its optimisation level
    #[arg(long, value_name = "0 to 3", default_value_t = 3, requires = "ptxas")]
    pub ptxas_level: u8,
}

/// The end of machine code that a device takes for that of the PTX with a hash, which follows.
const TRAILER: &[u8; 16] = b"ferrowarp cubin\n";

impl Assembler {
    /// Writes the machine code of the PTX next to it.
    fn assemble(&self, ptx: &Path, text: &str) -> anyhow::Result<()> {
        let Some(ptxas) = &self.ptxas else { return Ok(()) };
        let cubin = ptx.with_extension("cubin");
        let mut command = std::process::Command::new(ptxas);
        command.args([&format!("-O{}", self.ptxas_level), "-arch=sm_90", "-o"]).arg(&cubin).arg(ptx);
        let output = command.output().with_context(|| format!("starting {}", ptxas.display()))?;
        let said = String::from_utf8_lossy(&output.stderr);
        anyhow::ensure!(output.status.success(), "{}: {}", ptxas.display(), said.trim());
        let mut code = std::fs::read(&cubin).with_context(|| format!("reading {}", cubin.display()))?;
        code.extend_from_slice(TRAILER);
        code.extend_from_slice(&Sha256::digest(text));
        std::fs::write(&cubin, code).with_context(|| format!("writing {}", cubin.display()))
    }

    /// The same as arguments of a program.
    pub fn arguments(&self) -> Vec<OsString> {
        let Some(ptxas) = &self.ptxas else { return Vec::new() };
        vec!["--ptxas".into(), ptxas.into(), "--ptxas-level".into(), self.ptxas_level.to_string().into()]
    }

    /// Its name in a report: `ptxas 13.0.88 -O3`.
    pub fn name(&self) -> Option<String> {
        let output = std::process::Command::new(self.ptxas.as_ref()?).arg("--version").output().ok()?;
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let version = said.split(" V").nth(1)?.split_whitespace().next()?;
        Some(format!("ptxas {version} -O{}", self.ptxas_level))
    }
}

/// The file of the PTX that this process runs.
fn part_of_this_process() -> PathBuf {
    std::env::temp_dir().join(format!("differ-{}.ptx", std::process::id()))
}

impl Module {
    fn read(folder: &Path, name: &str) -> anyhow::Result<Module> {
        let (path, outputs) =
            expected(folder, name).with_context(|| format!("no outputs of {name} are known"))?;
        let bytes = std::fs::read(&path).with_context(|| format!("reading {}", path.display()))?;
        let cases = cases::read(&bytes).with_context(|| format!("reading {}", path.display()))?;
        let path = folder.join(format!("{name}.ptx"));
        let ptx = std::fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
        Ok(Module { name: name.to_owned(), ptx, cases, outputs })
    }

    /// Opens a device with some of the kernels, which are compiled now.
    fn open(&self, kernels: &[String], assembler: &Assembler) -> anyhow::Result<Device> {
        let part = Items::of(&self.ptx).part(&kernels.iter().map(String::as_str).collect());
        let path = part_of_this_process();
        std::fs::write(&path, &part).with_context(|| format!("writing {}", path.display()))?;
        assembler.assemble(&path, &part)?;
        // The file must stay: a device reads it when its first kernel is launched.
        Ok(Device::cuda_with(0, &PtxModules::read(&path)?)?.with_soiled_memory()?.with_stack_bytes(STACK)?)
    }

    /// Runs the kernels. Returns whether the GPU is still usable afterwards.
    fn run(&self, device: &Device, kernels: &[String]) -> anyhow::Result<bool> {
        for cases in
            cases::by_kernel(&self.cases).into_iter().filter(|cases| kernels.contains(&cases[0].kernel))
        {
            say(&Line::Begins(cases[0].kernel.clone()))?;
            let found = super::compare(device, cases, self.outputs);
            let is_fault = found.iter().any(|one| matches!(one.what, What::Fault(_)));
            say(&Line::Ended { cases: cases.len(), found })?;
            if is_fault {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

fn say(line: &Line) -> anyhow::Result<()> {
    let text = serde_json::to_string(line).context("writing an answer")?;
    let mut out = std::io::stdout().lock();
    writeln!(out, "{text}").and_then(|()| out.flush()).context("writing an answer")
}
