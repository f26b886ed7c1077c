//! `differ-gpu`: registry crates and random programs on a machine with a GPU and without Rust.
//!
//! `pack` creates a folder on a machine with Rust: the cases, with the host's results, and the PTX of each back end. `run`
//! runs all of it on the GPU, and ends with a line `N compared, N differ`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use clap::{Args, Parser};
use cuda_builder::NvvmArch;
use differ::compile::Settings;
use differ::crates::CRATES;
use differ::gpu::pack::{self, Pack};
use differ::gpu::results::Manifest;
use differ::gpu::worker::Assembler;
use differ::gpu::{runner, worker};
use differ::programs::hunt::Hunt;
use differ::report::{Entry, Origin, Results};

/// Crates of the registry and random programs on a GPU, compared with the host bit for bit
#[derive(Parser)]
#[command(version)]
enum Command {
    /// Fill a folder with cases and PTX
    Pack(PackArguments),
    /// Run such a folder on GPU 0
    Run(Run),
    /// Write what a run gave to docs/results
    Record {
        /// The output of `run --json`
        file: PathBuf,
    },
    /// Run what stdin asks for
    #[command(hide = true)]
    Work {
        /// The folder
        folder: PathBuf,
        #[command(flatten)]
        assembler: Assembler,
    },
}

#[derive(Args)]
struct PackArguments {
    /// Which crates [default: all]
    #[arg(long, value_delimiter = ',')]
    crates: Vec<String>,
    /// How much the back ends optimise crates
    #[arg(long, value_delimiter = ',', default_values_t = [0, 1, 2, 3])]
    opt_level: Vec<u8>,
    /// For which architecture
    #[arg(long, default_value = "compute_90")]
    arch: NvvmArch,
    /// How many random programs, at level 3
    #[arg(long, default_value_t = 0)]
    programs: u64,
    /// The seed of the first one
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Batches of programs at a time [default: one for each core]
    #[arg(long)]
    jobs: Option<usize>,
    /// Also make what travels: an archive of the folder, the program that runs it and a script
    #[arg(long, value_name = "DIR")]
    archive: Option<PathBuf>,
    /// The folder
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
}

#[derive(Args)]
struct Run {
    /// The folder
    folder: PathBuf,
    /// Processes at a time, each of which takes 5 GiB of the GPU's memory [default: three for four cores, 12 at most]
    #[arg(long)]
    workers: Option<usize>,
    #[command(flatten)]
    assembler: Assembler,
    /// When no further module is begun
    #[arg(long, value_name = "SECONDS", default_value_t = 480)]
    seconds: u64,
    /// Write what came out, for `record`
    #[arg(long, value_name = "FILE.json")]
    json: Option<PathBuf>,
}

fn main() -> ExitCode {
    let result = match Command::parse() {
        Command::Pack(arguments) => arguments.run().map(|()| true),
        Command::Run(arguments) => arguments.run(),
        Command::Record { file } => record(&file),
        Command::Work { folder, assembler } => worker::serve(&folder, &assembler).map(|()| true),
    };
    match result {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::from(2)
        }
    }
}

/// Records the results of a GPU. Returns whether there is no difference.
fn record(path: &Path) -> anyhow::Result<bool> {
    let text = std::fs::read(path).with_context(|| format!("reading {}", path.display()))?;
    let mut entries: Vec<Entry> =
        serde_json::from_slice(&text).with_context(|| format!("{} holds no results", path.display()))?;
    ensure!(!entries.is_empty(), "{} holds no results", path.display());
    let wrong: usize = entries.iter().map(|entry| entry.report.wrong()).sum();
    entries.iter_mut().for_each(|entry| entry.report.sum_up_late());
    let mut results = Results::read()?;
    entries.into_iter().for_each(|entry| results.put(entry));
    results.write()?;
    println!("{wrong} programs or cases differ, or did not run");
    Ok(wrong == 0)
}

impl PackArguments {
    fn run(self) -> anyhow::Result<()> {
        let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(1).context("no workspace")?;
        let out =
            std::path::absolute(&self.out).with_context(|| format!("the folder {}", self.out.display()))?;
        if out.join("pack.json").exists() {
            std::fs::remove_dir_all(&out).with_context(|| format!("emptying {}", out.display()))?;
        }
        let all = || CRATES.iter().map(|name| (*name).to_owned()).collect();
        let crates: Vec<String> = if self.crates.is_empty() { all() } else { self.crates.clone() };
        let pack = Pack {
            crates: crates.clone(),
            opt_levels: self.opt_level.clone(),
            arch: self.arch,
            out: out.clone(),
        };
        let mut manifest = Manifest {
            commit: Origin::now()?.commit,
            opt_level: self.opt_level.iter().copied().max().unwrap_or(3),
            arch: self.arch.to_string(),
            crates,
            ..Manifest::default()
        };
        if self.programs > 0 {
            let seeds = (self.seed, self.seed + self.programs - 1);
            manifest.seeds = Some(seeds);
            manifest.refused = pack.programs(&self.hunt(workspace, &out)?, seeds)?;
        }
        pack.crates(workspace, self.programs == 0)?;
        pack::write_manifest(&out, &manifest)?;
        let Some(to) = self.archive else { return Ok(()) };
        pack::archive(&out, &std::env::current_exe().context("finding this program")?, &to)
    }

    fn hunt(&self, workspace: &Path, out: &Path) -> anyhow::Result<Hunt> {
        let judge = std::env::current_exe().context("finding this program")?.with_file_name("differ");
        ensure!(judge.exists(), "{} is not there: build the package `differ`", judge.display());
        let work = workspace.join("target/differ/gpu");
        std::fs::create_dir_all(&work).with_context(|| format!("making {}", work.display()))?;
        let cores = std::thread::available_parallelism().map_or(1, |n| n.get());
        let settings =
            Settings { arch: self.arch, packed: Some(out.to_owned()), ..Settings::new(3, work.join("ptx")) };
        let (workspace, jobs) = (workspace.to_owned(), self.jobs.unwrap_or(cores).max(1));
        Ok(Hunt { settings, work, workspace, jobs, judge })
    }
}

impl Run {
    /// Runs the command. Returns whether there is no difference.
    fn run(self) -> anyhow::Result<bool> {
        let start = Instant::now();
        let cores = std::thread::available_parallelism().map_or(1, |n| n.get());
        let modules = runner::modules(&self.folder)?;
        let workers = self.workers.unwrap_or(cores * 3 / 4).clamp(1, 12);
        let end = start + Duration::from_secs(self.seconds);
        let (outcomes, mut seen) = runner::run(&self.folder, &modules, &self.assembler, workers, end)?;
        ensure!(!seen.name.is_empty(), "no process got the GPU: {outcomes:?}");
        seen.name.extend(self.assembler.name().map(|assembler| format!(", {assembler}")));
        let manifest = Manifest::read(&self.folder)?;
        let results = manifest.results(&outcomes, &seen, start.elapsed().as_secs());
        if let Some(path) = &self.json {
            let text = serde_json::to_string_pretty(&results).context("writing the results")?;
            std::fs::write(path, text + "\n").with_context(|| format!("writing {}", path.display()))?;
        }
        println!("{}; {} of 100 words of unwritten memory are soiled", seen.name, seen.soiled);
        for result in &results {
            println!("{}: {}", result.report.part, result.report.summary());
            result.report.found.iter().take(40).for_each(|one| println!("  {one}"));
        }
        let compared: usize = outcomes.iter().map(|outcome| outcome.cases).sum();
        let differ: usize = outcomes.iter().map(|outcome| outcome.found.len()).sum();
        let missing: usize =
            outcomes.iter().flat_map(|outcome| &outcome.missing).map(|(_, cases, _)| cases).sum();
        println!("{missing} cases did not run");
        println!("{compared} compared, {differ} differ");
        Ok(differ == 0 && missing == 0)
    }
}
