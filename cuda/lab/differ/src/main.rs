//! `differ`: see `differ --help`, and `cargo lab differ`.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Context, bail, ensure};
use clap::{Args, Parser, Subcommand};
use cuda_builder::Backend;
use differ::compile::{Compiler, Settings, workspace};
use differ::crates::{self, CRATES};
use differ::gpu::pack::Pack;
use differ::gpu::run::{Run, record};
use differ::gpu::work::Work;
use differ::planted::Planted;
use differ::planted::search::{self, Shown};
use differ::programs::folder::Folder;
use differ::programs::hunt::Hunt;
use differ::programs::judge::{self, Finding};
use differ::report::{Entry, OfBackend, Origin, Report, Results};

/// The same Rust on the host and as PTX, compared bit for bit
#[derive(Parser)]
#[command(version)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Compare random programs
    Programs(Programs),
    /// Compare crates of the registry
    Crates(Crates),
    /// Plant wrong edits of the LLVM IR, each kind of which must be found
    Planted(PlantedEdits),
    /// Compare crates and random programs on a machine with a GPU and without Rust
    #[command(subcommand)]
    Gpu(Gpu),
    /// Compare the programs of a folder
    #[command(hide = true)]
    Judge(Judge),
}

#[derive(Subcommand)]
enum Gpu {
    /// Fill a folder with cases and PTX
    Pack(Pack),
    /// Run such a folder on GPU 0
    Run(Run),
    /// Write what a run gave to docs/results
    Record {
        /// The output of `run --json`
        file: PathBuf,
    },
    /// Run modules of PTX
    #[command(hide = true)]
    Work(Work),
}

#[derive(Args)]
struct Common {
    #[command(flatten)]
    compiler: Compiler,
    /// Write what came out as JSON
    #[arg(long, value_name = "FILE.json")]
    json: Option<PathBuf>,
    /// Also write it to docs/results
    #[arg(long)]
    write: bool,
}

#[derive(Args)]
struct Programs {
    #[command(flatten)]
    common: Common,
    /// How many programs
    #[arg(long, default_value_t = 200)]
    programs: u64,
    /// The first seed
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Batches at a time [default: as many as there are cores]
    #[arg(long)]
    jobs: Option<usize>,
    /// Make at most N of the programs that differ smaller
    #[arg(long, value_name = "N", default_value_t = 5)]
    shrink: usize,
    /// A wrong edit to plant
    #[arg(long, hide = true)]
    plant: Option<Planted>,
}

#[derive(Args)]
struct Crates {
    #[command(flatten)]
    common: Common,
    /// Which [default: all]
    #[arg(long, value_delimiter = ',')]
    crates: Vec<String>,
}

#[derive(Args)]
struct PlantedEdits {
    #[command(flatten)]
    common: Common,
    /// Programs that each edit is planted in, and five times as many if need be
    #[arg(long, default_value_t = 40)]
    programs: u64,
    /// Only these kinds
    #[arg(long, value_delimiter = ',', value_name = "NAME")]
    only: Vec<String>,
    /// The first seed
    #[arg(long, default_value_t = 0)]
    seed: u64,
}

#[derive(Args)]
struct Judge {
    /// The folder
    folder: PathBuf,
    #[command(flatten)]
    compiler: Compiler,
    /// A wrong edit to plant
    #[arg(long)]
    plant: Option<Planted>,
    /// Also pack the programs for a GPU
    #[arg(long)]
    packed: Option<PathBuf>,
    /// Where the verdicts go
    #[arg(long)]
    answer: PathBuf,
}

fn main() -> ExitCode {
    let result = match Arguments::parse().command {
        Command::Programs(command) => command.run(),
        Command::Crates(command) => command.run(),
        Command::Planted(command) => command.run(),
        Command::Gpu(Gpu::Pack(command)) => command.run().map(|()| ExitCode::SUCCESS),
        Command::Gpu(Gpu::Run(command)) => command.run().map(code),
        Command::Gpu(Gpu::Record { file }) => record(&file).map(code),
        Command::Gpu(Gpu::Work(command)) => command.run().map(|()| ExitCode::SUCCESS),
        Command::Judge(command) => command.run(),
    };
    match result {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::from(2)
        }
    }
}

/// The exit code of a comparison.
fn code(is_equal: bool) -> ExitCode {
    if is_equal { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

impl Common {
    /// Where this runs, if it is to be written. The results are for the current sources, even if they change meanwhile.
    fn origin(&self) -> anyhow::Result<Option<Origin>> {
        self.write.then(Origin::now).transpose()
    }

    fn write(&self, report: &Report, origin: Option<Origin>) -> anyhow::Result<()> {
        if let Some(path) = &self.json {
            let text = serde_json::to_string_pretty(report).context("writing the report")?;
            std::fs::write(path, text + "\n").with_context(|| format!("writing {}", path.display()))?;
        }
        let Some(origin) = origin else { return Ok(()) };
        let mut results = Results::read()?;
        results.put(Entry { report: report.clone(), origin });
        results.write()
    }
}

impl Programs {
    fn run(&self) -> anyhow::Result<ExitCode> {
        let origin = self.common.origin()?;
        let mut hunt = Hunt::new(&self.common.compiler, self.jobs)?;
        hunt.settings.planted = self.plant;
        let start = Instant::now();
        let progress = |done: u64, found: usize| {
            eprintln!("{done} of {} programs in {:.0?}, {found} found", self.programs, start.elapsed());
        };
        let found = hunt.run(self.seed, self.programs, &progress)?;
        let seconds = start.elapsed().as_secs();
        let of = |backend: &Backend| {
            let name = backend.to_string();
            let of_it = || found.iter().filter(|f| f.verdict.backend.as_ref().is_none_or(|b| *b == name));
            let refused = of_it().filter(|f| matches!(f.verdict.finding, Finding::Refused(_))).count();
            OfBackend {
                backend: name.clone(),
                compared: self.programs,
                differ: of_it().count() - refused,
                refused,
            }
        };
        let mut report = Report::new("programs", self.common.compiler.opt_level, self.common.compiler.arch);
        report.seeds = Some((self.seed, self.seed + self.programs - 1));
        report.seconds = seconds;
        report.backends = self.common.compiler.backend.iter().map(of).collect();
        report.found = found.iter().map(ToString::to_string).collect();
        println!("{}", report.summary());
        for one in &report.found {
            println!("{one}");
        }
        self.common.write(&report, origin)?;
        let differ = found.iter().filter(|one| matches!(one.verdict.finding, Finding::Differs(_)));
        for one in differ.take(self.shrink) {
            eprintln!("making the program of seed {} smaller", one.seed);
            let path = hunt.shrink(one)?;
            println!(
                "the program of seed {} in a few lines: {}",
                one.seed,
                path.join("program.rs").display()
            );
        }
        Ok(code(found.is_empty()))
    }
}

impl Crates {
    fn run(&self) -> anyhow::Result<ExitCode> {
        ensure!(
            self.crates.is_empty() || !self.common.write,
            "--write records all crates; omit --crates {}",
            self.crates.join(",")
        );
        let origin = self.common.origin()?;
        let all = || CRATES.iter().map(|name| (*name).to_owned()).collect();
        let names: Vec<String> = if self.crates.is_empty() { all() } else { self.crates.clone() };
        let start = Instant::now();
        let compiler = &self.common.compiler;
        let outcomes = crates::compare(&names, &compiler.settings(compiler.work()?.join("crates")))?;
        let mut report = Report::new("crates", self.common.compiler.opt_level, self.common.compiler.arch);
        report.crates = names;
        report.seconds = start.elapsed().as_secs();
        for outcome in &outcomes {
            let of = |backend: Backend| OfBackend {
                backend: backend.to_string(),
                compared: outcome.cases as u64,
                differ: outcome.differences.len(),
                refused: 0,
            };
            report.backends.push(of(outcome.backend));
            for of_kernel in outcome.differences.chunk_by(|a, b| a.kernel == b.kernel) {
                report.found.push(format!(
                    "{}: {} cases: {}",
                    outcome.backend,
                    of_kernel.len(),
                    of_kernel[0]
                ));
            }
        }
        println!("{}", report.summary());
        report.found.iter().for_each(|one| println!("{one}"));
        self.common.write(&report, origin)?;
        Ok(code(report.found.is_empty()))
    }
}

impl PlantedEdits {
    fn run(&self) -> anyhow::Result<ExitCode> {
        let (start, origin) = (Instant::now(), self.common.origin()?);
        let all = search::names();
        let names: Vec<&str> = all
            .iter()
            .copied()
            .filter(|name| self.only.is_empty() || self.only.iter().any(|only| only == name))
            .collect();
        ensure!(
            names.len() == if self.only.is_empty() { all.len() } else { self.only.len() },
            "--only {}: expected some of {}",
            self.only.join(","),
            all.join(",")
        );
        let work = self.common.compiler.work()?.join("planted");
        let mut settings = self.common.compiler.settings(work.join("ptx"));
        settings.work = Some(workspace().join("target/cuda-builder"));
        let seeds = (self.seed, self.programs);
        let shown = search::search(&names, seeds, &settings, &work.join("programs"))?;
        let mut report = Report::new("planted", self.common.compiler.opt_level, self.common.compiler.arch);
        report.found = shown
            .iter()
            .map(|Shown { planted, backend, seed, difference }| {
                format!("{planted} by {backend}, {}: seed {seed}: {difference}", planted.what())
            })
            .collect();
        let of = |backend: &Backend| OfBackend {
            backend: backend.to_string(),
            compared: names.len() as u64,
            differ: shown.iter().filter(|one| one.backend == *backend).count(),
            refused: 0,
        };
        report.backends = self.common.compiler.backend.iter().map(of).collect();
        report.seconds = start.elapsed().as_secs();
        report.found.iter().for_each(|one| println!("{one}"));
        self.common.write(&report, origin)?;
        let is_seen = |backend: &Backend, name: &str| {
            shown.iter().any(|one| one.backend == *backend && one.planted.kind() == name)
        };
        let mut is_clean = true;
        for backend in &self.common.compiler.backend {
            for name in names.iter().filter(|name| !is_seen(backend, name)) {
                println!("no program shows the planted error `{name}` by {backend}");
                is_clean = false;
            }
        }
        Ok(code(is_clean))
    }
}

impl Judge {
    fn run(&self) -> anyhow::Result<ExitCode> {
        if !self.folder.is_dir() {
            bail!("{} is no folder", self.folder.display());
        }
        let out = self.folder.join("ptx");
        let settings = Settings {
            work: Some(self.compiler.work()?),
            planted: self.plant,
            packed: self.packed.clone(),
            ..self.compiler.settings(out)
        };
        let verdicts = judge::judge(&Folder { path: self.folder.clone() }, &settings)?;
        let text = serde_json::to_vec(&verdicts).context("writing the verdicts")?;
        std::fs::write(&self.answer, text).with_context(|| format!("writing {}", self.answer.display()))?;
        Ok(ExitCode::SUCCESS)
    }
}
