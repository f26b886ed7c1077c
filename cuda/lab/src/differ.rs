//! `cargo lab differ`: compares the same Rust code natively and as PTX of both back ends, bit for bit.

mod report;

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail, ensure};
use clap::{Args, ValueEnum};

use crate::differ::report::{Entry, Origin, Outcome, Results};

/// Compare what crates of the registry and random programs do natively with what their PTX does, bit for bit
#[derive(Args)]
pub struct Differ {
    /// What is compared
    #[arg(value_enum, default_values_t = [Part::Planted, Part::Crates, Part::Programs])]
    parts: Vec<Part>,
    /// How many random programs
    #[arg(long, default_value_t = 10_000)]
    programs: u64,
    /// The seed of the first one
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Only these crates
    #[arg(long, value_delimiter = ',', value_name = "NAME")]
    crates: Vec<String>,
    /// What compiles for the device [default: nvvm,llvm]
    #[arg(long, value_name = "NAME")]
    backend: Option<String>,
    /// How much the back ends optimise, 0 to 3
    #[arg(long, value_name = "LEVEL", default_value_t = 3)]
    opt_level: u8,
    /// The architecture
    #[arg(long, default_value = "compute_90")]
    arch: String,
    /// Batches of programs at a time [default: one for each core]
    #[arg(long)]
    jobs: Option<usize>,
    /// Random programs that were found and are then made smaller, which takes minutes each
    #[arg(long, default_value_t = 5)]
    shrink: usize,
    /// Go on with random programs that were ended, with the same sources
    #[arg(long)]
    resume: bool,
    /// Pack the programs and all crates for a machine with a GPU, into this folder, instead of running them here
    #[arg(long, value_name = "DIR", conflicts_with_all = ["gpu_results", "write", "backend", "crates"])]
    gpu_pack: Option<PathBuf>,
    /// Run nothing, and take the results that such a pack gave on a GPU
    #[arg(long, value_name = "FILE.json")]
    gpu_results: Option<PathBuf>,
    /// Write what came out down in docs/results
    #[arg(long)]
    write: bool,
}

/// A part of the comparison.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Part {
    /// Errors planted in the LLVM IR, which must be found
    Planted,
    /// Crates of the registry
    Crates,
    /// Random programs
    Programs,
}

impl Part {
    fn name(self) -> &'static str {
        match self {
            Part::Planted => "planted",
            Part::Crates => "crates",
            Part::Programs => "programs",
        }
    }
}

impl Differ {
    /// Runs the command.
    pub fn run(&self) -> anyhow::Result<()> {
        if let Some(path) = &self.gpu_results {
            return self.take_results(path);
        }
        // The results are for the current sources, even if they change meanwhile.
        let origin = Origin::now()?;
        let mut build = crate::cargo();
        build.args(["build", "--release", "--quiet", "--package", "differ"]);
        let built = build.current_dir(crate::lab()).status().context("starting cargo")?;
        ensure!(built.success(), "differ could not be built ({built})");
        if let Some(to) = &self.gpu_pack {
            return self.pack(to, &origin);
        }
        let mut results = Results::read()?;
        let mut failed = Vec::new();
        for &part in &self.parts {
            println!("== {}", part.name());
            let (outcome, is_clean) = self.part(part)?;
            failed.extend((!is_clean).then_some(part.name()));
            results.put(Entry { origin: origin.clone(), outcome });
        }
        if self.write {
            ensure!(
                self.crates.is_empty(),
                "--write writes down all crates, and --crates {} are some: leave one of the two out",
                self.crates.join(",")
            );
            results.write()?;
        }
        if !failed.is_empty() {
            bail!("differences, or a planted error that was not found: {}; see above", failed.join(" and "));
        }
        Ok(())
    }

    /// Creates packs for a GPU.
    fn pack(&self, to: &Path, origin: &Origin) -> anyhow::Result<()> {
        let mut differ = Command::new(crate::lab().join("target").join("release/differ-gpu"));
        differ.args(["pack", "--commit", &origin.commit, "--arch", &self.arch, "--archive"]).arg(to);
        differ.arg("--out").arg(crate::lab().join("target").join("differ/gpu-pack"));
        differ.args(["--opt-level", &self.opt_level.to_string(), "--seed", &self.seed.to_string()]);
        differ.args(["--programs", &self.programs.to_string()]);
        differ.args(self.jobs.iter().flat_map(|jobs| ["--jobs".to_owned(), jobs.to_string()]));
        differ.args(self.resume.then_some("--resume"));
        let status = differ.status().with_context(|| format!("starting {differ:?}"))?;
        ensure!(status.success(), "packing failed ({status}); go on with --resume");
        println!(
            "carry {}, run `sh run.sh` there, and take gpu-results.json with --gpu-results",
            to.display()
        );
        Ok(())
    }

    /// Reads the results of a GPU.
    fn take_results(&self, path: &Path) -> anyhow::Result<()> {
        let text = std::fs::read(path).with_context(|| format!("reading {}", path.display()))?;
        let mut entries: Vec<Entry> =
            serde_json::from_slice(&text).with_context(|| format!("{} holds no results", path.display()))?;
        ensure!(!entries.is_empty(), "{} holds no results", path.display());
        let differ: usize = entries.iter().map(|entry| entry.outcome.wrong()).sum();
        entries.iter_mut().for_each(|entry| entry.outcome.sum_up_late());
        let mut results = Results::read()?;
        entries.into_iter().for_each(|entry| results.put(entry));
        if self.write {
            results.write()?;
        }
        ensure!(differ == 0, "{differ} programs or cases differ, or did not run: see {}", path.display());
        Ok(())
    }

    /// Runs a part. Returns the outcome, and whether it is without findings.
    fn part(&self, part: Part) -> anyhow::Result<(Outcome, bool)> {
        let work = crate::lab().join("target").join("differ");
        let json = work.join(format!("{}.json", part.name()));
        std::fs::create_dir_all(&work).with_context(|| format!("making {}", work.display()))?;
        let mut differ = Command::new(crate::lab().join("target").join("release/differ"));
        differ.arg(part.name()).arg("--work").arg(&work).arg("--json").arg(&json);
        differ.args(["--opt-level", &self.opt_level.to_string(), "--arch", &self.arch]);
        differ.args(self.backend.iter().flat_map(|name| ["--backend", name]));
        match part {
            Part::Planted => {}
            Part::Crates if self.crates.is_empty() => {}
            Part::Crates => drop(differ.args(["--crates", &self.crates.join(",")])),
            Part::Programs => {
                let (seed, programs) = (self.seed.to_string(), self.programs.to_string());
                differ.args(["--seed", &seed, "--programs", &programs]);
                differ.args(["--shrink", &self.shrink.to_string()]);
                differ.args(self.jobs.iter().flat_map(|jobs| ["--jobs".to_owned(), jobs.to_string()]));
                differ.args(self.resume.then_some("--resume"));
            }
        }
        let status = differ.status().with_context(|| format!("starting {differ:?}"))?;
        // 0 means no difference, 1 a difference; with anything else there is no result.
        ensure!(matches!(status.code(), Some(0 | 1)), "the comparison of {} failed ({status})", part.name());
        let text = std::fs::read(&json).with_context(|| format!("reading {}", json.display()))?;
        let outcome = serde_json::from_slice(&text).with_context(|| format!("reading {}", json.display()))?;
        Ok((outcome, status.success()))
    }
}

impl Origin {
    fn now() -> anyhow::Result<Origin> {
        let cores = std::thread::available_parallelism().map_or(1, |n| n.get());
        let info = std::fs::read_to_string("/proc/cpuinfo").context("reading what processor this is")?;
        let model = info.lines().find_map(|line| line.strip_prefix("model name")?.split_once(':'));
        let machine = model.map_or("an unknown processor", |(_, name)| name.trim()).to_owned();
        let date = output("date", &["-u", "+%Y-%m-%d"])?;
        let hash = output("git", &["rev-parse", "--short", "HEAD"])?;
        let sources = output("git", &["status", "--porcelain", "--", ".", ":!README.md", ":!docs"])?;
        let commit = if sources.is_empty() { hash } else { format!("{hash} with uncommitted changes") };
        Ok(Origin { machine, cores, date, commit })
    }
}

/// What a command prints, run in the repository.
fn output(program: &str, arguments: &[&str]) -> anyhow::Result<String> {
    let output = Command::new(program).args(arguments).current_dir(crate::root()).output();
    let output = output.with_context(|| format!("starting {program}"))?;
    ensure!(output.status.success(), "{program} {} failed", arguments.join(" "));
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}
