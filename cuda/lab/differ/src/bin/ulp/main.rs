//! `ulp`: measures the accuracy of the float functions of `cuda_std`, by back end and on the CPU executor.
//!
//! `pack` creates a folder on a machine with Rust: the PTX of each back end. `run` measures on GPU 0, on a machine without
//! Rust, and writes JSON, from which `page` writes docs/float-accuracy.md.

mod device;
mod judge;
mod measure;
mod page;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context, ensure};
use clap::{Parser, ValueEnum};
use cuda_builder::{Backend, CudaBuilder, NvvmArch};
use ferrowarp_device::device::{Device, PtxModules};
use ptx_emulator::{Emulator, PtxModule};

use measure::{Report, Size};

/// Measure how exact the float functions of cuda_std are
#[derive(Parser)]
#[command(version)]
enum Arguments {
    /// Fill a folder with this program and the PTX of both back ends
    Pack {
        /// For which architecture
        #[arg(long, default_value = "compute_90")]
        arch: NvvmArch,
        /// The folder
        #[arg(long, value_name = "DIR")]
        out: PathBuf,
    },
    /// Measure with the PTX of such a folder
    Run {
        /// The folder
        folder: PathBuf,
        /// Where the PTX runs
        #[arg(long, value_enum, default_value_t = On::Cuda)]
        device: On,
        /// Only functions with this in their names
        #[arg(long, default_value = "")]
        only: String,
        /// Where the results go
        #[arg(long, value_name = "FILE")]
        json: PathBuf,
    },
    /// Write docs/float-accuracy.md
    Page {
        /// The output of `run` [default: what was written last]
        results: Option<PathBuf>,
    },
}

/// Where PTX runs.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum On {
    /// GPU 0
    Cuda,
    /// The emulator, at a few inputs
    Emulator,
}

const BACKENDS: [Backend; 2] = [Backend::Nvvm, Backend::Llvm];

/// The file with the commit.
const COMMIT: &str = "COMMIT";

fn main() -> ExitCode {
    let result = match Arguments::parse() {
        Arguments::Pack { arch, out } => pack(arch, &out),
        Arguments::Run { folder, device, only, json } => run(&folder, device, &only, &json),
        Arguments::Page { results } => page::write(results.as_deref()),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn pack(arch: NvvmArch, out: &Path) -> anyhow::Result<()> {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(1).context("no workspace")?;
    let out = std::path::absolute(out).with_context(|| format!("the folder {}", out.display()))?;
    std::fs::create_dir_all(&out).with_context(|| format!("making {}", out.display()))?;
    for backend in BACKENDS {
        let built = CudaBuilder::new(workspace.join("differ/float-kernels"))
            .backend(backend)
            .arch(arch)
            .out_dir(workspace.join("target/differ/ulp"))
            .build()?;
        let path = ptx(&out, backend);
        std::fs::copy(&built, &path).with_context(|| format!("writing {}", path.display()))?;
        println!("{}", path.display());
    }
    let commit = output(Command::new("git").args(["rev-parse", "--short", "HEAD"]).current_dir(workspace))?;
    let path = out.join(COMMIT);
    std::fs::write(&path, commit).with_context(|| format!("writing {}", path.display()))?;
    let program = out.join("ulp");
    std::fs::copy(std::env::current_exe().context("finding this program")?, &program)
        .with_context(|| format!("writing {}", program.display()))?;
    println!("on a machine with a GPU: cd {} && ./ulp run . --json float-accuracy.json", out.display());
    Ok(())
}

fn run(folder: &Path, on: On, only: &str, json: &Path) -> anyhow::Result<()> {
    let size = if on == On::Cuda { Size::GPU } else { Size::EMULATOR };
    let commit = std::fs::read_to_string(folder.join(COMMIT))
        .with_context(|| format!("{} holds no {COMMIT}: fill it by `ulp pack`", folder.display()))?;
    let mut report = Report {
        host: processor()?,
        cores: std::thread::available_parallelism().map_or(1, |n| n.get()),
        date: output(Command::new("date").args(["-u", "+%Y-%m-%d"]))?,
        commit: commit.trim().to_owned(),
        ..Report::default()
    };
    let start = std::time::Instant::now();
    for backend in BACKENDS {
        let path = ptx(folder, backend);
        let device = open(on, &path)?;
        report.device = device.name();
        measure::on_device(&device, &backend.to_string(), size, only, &mut report.rows)?;
    }
    measure::executor(size, only, &mut report.rows);
    report.seconds = start.elapsed().as_secs();
    let text = serde_json::to_string_pretty(&report).context("writing the results as JSON")?;
    std::fs::write(json, text + "\n").with_context(|| format!("writing {}", json.display()))?;
    println!("{} rows in {} s", report.rows.len(), report.seconds);
    Ok(())
}

fn open(on: On, path: &Path) -> anyhow::Result<Device> {
    match on {
        On::Cuda => Ok(Device::cuda_with(0, &PtxModules::read(path)?)?),
        On::Emulator => {
            let text =
                std::fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))?;
            let emulator = Emulator::new(PtxModule::parse(&text)?);
            let limits = emulator.limits().clone();
            Ok(Device::with_launcher(emulator, limits))
        }
    }
}

fn ptx(folder: &Path, backend: Backend) -> PathBuf {
    folder.join(format!("{backend}.ptx"))
}

fn processor() -> anyhow::Result<String> {
    let info = std::fs::read_to_string("/proc/cpuinfo").context("reading what processor this is")?;
    let model = info.lines().find_map(|line| line.strip_prefix("model name")?.split_once(':'));
    Ok(model.map_or("an unknown processor", |(_, name)| name.trim()).to_owned())
}

fn output(command: &mut Command) -> anyhow::Result<String> {
    let output = command.output().with_context(|| format!("starting {command:?}"))?;
    ensure!(output.status.success(), "{command:?} failed ({})", output.status);
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}
