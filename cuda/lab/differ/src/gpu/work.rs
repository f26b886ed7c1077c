//! The process that uses the GPU. It runs modules one after the other and prints a line for each, so the parent process
//! knows the module if this process hangs or crashes.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, ensure};
use ferrowarp_device::device::{Device, PtxModules};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::cases;
use crate::compile::Module;
use crate::difference::{Difference, What};

/// Bytes of stack per thread, for kernels where the compiler cannot compute them: recursion, and calls through pointers.
const STACK: usize = 16 << 10;

/// The results of a module.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outcome {
    /// The number of its kernels.
    pub kernels: usize,
    /// The number of their cases.
    pub cases: usize,
    /// The cases that differ.
    pub found: Vec<Difference>,
    /// The device.
    pub device: String,
    /// The percentage of its unwritten memory that was soiled.
    pub soiled: usize,
}

/// What `differ gpu work` takes.
#[derive(clap::Args)]
pub struct Work {
    /// The PTX files
    files: Vec<PathBuf>,
    #[command(flatten)]
    assembler: Assembler,
}

/// What makes machine code instead of the driver's compiler.
#[derive(clap::Args, Clone, Debug)]
pub struct Assembler {
    /// Make the machine code by this ptxas instead of the driver's compiler
    #[arg(long, value_name = "FILE")]
    ptxas: Option<PathBuf>,
    /// Its optimisation level
    #[arg(long, value_name = "0 to 3", default_value_t = 3, requires = "ptxas")]
    ptxas_level: u8,
}

impl Work {
    /// Runs the modules, until a kernel has made the GPU unusable in this process.
    ///
    /// # Errors
    /// There is no GPU, or a file cannot be read.
    pub fn run(&self) -> anyhow::Result<()> {
        // The previous module's device: while it lives, the driver keeps state that all modules share.
        let mut last = None;
        for path in &self.files {
            let (outcome, device) = self.module(path)?;
            drop(last.replace(device));
            println!("{}", serde_json::to_string(&outcome).context("writing an outcome")?);
            if outcome.found.iter().any(|one| matches!(one.what, What::Fault(_))) {
                break;
            }
        }
        Ok(())
    }

    fn module(&self, path: &Path) -> anyhow::Result<(Outcome, Device)> {
        let module = Module::read(path)?;
        let cases_path = path.with_file_name(format!("{}.cases", batch(path)));
        let bytes =
            std::fs::read(&cases_path).with_context(|| format!("reading {}", cases_path.display()))?;
        let all = cases::read(&bytes)?;
        let cases = module.cases(&all);
        self.assembler.assemble(path, &module.ptx)?;
        // The device reads the file when its first kernel is launched.
        let device =
            Device::cuda_with(0, &PtxModules::read(path)?)?.with_soiled_memory()?.with_stack_bytes(STACK)?;
        let (words, soil) = (device.unwritten_memory()?, u32::from_ne_bytes([cases::SOILED; 4]));
        let soiled = words.iter().filter(|word| **word == soil).count();
        let of_kernel = cases.chunk_by(|a, b| a.kernel == b.kernel);
        let outcome = Outcome {
            kernels: of_kernel.clone().count(),
            cases: cases.len(),
            found: of_kernel.flat_map(|cases| super::compare(&device, cases)).collect(),
            device: device.name(),
            soiled: 100 * soiled / words.len().max(1),
        };
        Ok((outcome, device))
    }
}

/// The batch of a module, whose files are named `BATCH.BACKEND.NAME.ptx`.
pub(super) fn batch(path: &Path) -> &str {
    part(path, 0)
}

/// The back end of a module.
pub(super) fn backend(path: &Path) -> &str {
    part(path, 1)
}

fn part(path: &Path, n: usize) -> &str {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    name.split('.').nth(n).unwrap_or_default()
}

/// The end of machine code that a device takes for that of the PTX with a hash, which follows.
const TRAILER: &[u8; 16] = b"ferrowarp cubin\n";

impl Assembler {
    /// Writes the machine code of the PTX next to it.
    fn assemble(&self, ptx: &Path, text: &str) -> anyhow::Result<()> {
        let Some(ptxas) = &self.ptxas else { return Ok(()) };
        let cubin = ptx.with_extension("cubin");
        let mut command = Command::new(ptxas);
        command.args([&format!("-O{}", self.ptxas_level), "-arch=sm_90", "-o"]).arg(&cubin).arg(ptx);
        let output = command.output().with_context(|| format!("starting {}", ptxas.display()))?;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "{}: {}", ptxas.display(), said.trim());
        let mut code = std::fs::read(&cubin).with_context(|| format!("reading {}", cubin.display()))?;
        code.extend_from_slice(TRAILER);
        code.extend_from_slice(&Sha256::digest(text));
        std::fs::write(&cubin, code).with_context(|| format!("writing {}", cubin.display()))
    }

    /// Adds the same arguments to a command.
    pub(super) fn pass(&self, command: &mut Command) {
        if let Some(ptxas) = &self.ptxas {
            command.arg("--ptxas").arg(ptxas).args(["--ptxas-level", &self.ptxas_level.to_string()]);
        }
    }

    /// Its name in a report: `ptxas 13.0.88 -O3`.
    pub(super) fn name(&self) -> Option<String> {
        let output = Command::new(self.ptxas.as_ref()?).arg("--version").output().ok()?;
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let version = said.split(" V").nth(1)?.split_whitespace().next()?;
        Some(format!("ptxas {version} -O{}", self.ptxas_level))
    }
}
