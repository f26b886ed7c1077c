//! `cargo xtask fuzz`: runs every parser of untrusted bytes under libFuzzer and AddressSanitizer, into `docs/results/`.
//!
//! The programs are those of `host/fuzz`, built with cargo-fuzz and a nightly compiler. Each begins with the committed
//! inputs of its corpus. New inputs stay in the target directory for the next run.

mod report;

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, bail, ensure};

use crate::checks::fuzz::report::{Entry, Results};
use crate::measure;
use crate::workspace;

/// Maximum memory of a parser and the fuzzer together, in MiB.
const MEMORY_MIB: u32 = 1024;
/// Maximum wall time of one input in seconds; more counts as a hang. A busy machine also spends it on others.
const INPUT_SECONDS: u32 = 30;
/// Maximum input length in bytes: a complete file of every format fits.
const LONGEST: u32 = 4096;

/// Fuzz every parser of outside data, and write the results to docs/results
#[derive(clap::Args)]
pub struct Fuzz {
    /// Names of targets in host/fuzz/fuzz_targets [default: all]
    targets: Vec<String>,

    /// Maximum number of inputs per target
    #[arg(long, default_value_t = 10_000_000)]
    runs: u64,

    /// Maximum seconds per target
    #[arg(long, default_value_t = 900)]
    seconds: u64,

    /// Only run the committed inputs once, with the stable compiler; write nothing
    #[arg(long, conflicts_with_all = ["targets", "runs", "seconds", "no_build"])]
    replay: bool,

    /// Run the last built programs
    #[arg(long)]
    no_build: bool,

    /// The toolchain to build with; fuzzing needs a nightly
    #[arg(long, default_value = "nightly")]
    toolchain: String,
}

impl Fuzz {
    /// Runs the command.
    pub fn run(&self) -> anyhow::Result<()> {
        if self.replay {
            let status = workspace::cargo()
                .args(["test", "-p", "ferrowarp-mnist", "--test", "all", "fuzz::"])
                .current_dir(workspace::root())
                .status()
                .context("starting cargo test")?;
            ensure!(status.success(), "the committed inputs of host/fuzz/corpus do not pass ({status})");
            return Ok(());
        }
        let known = targets()?;
        if let Some(unknown) = self.targets.iter().find(|name| !known.contains(name)) {
            bail!("there is no target {unknown}; there are {}", known.join(", "));
        }
        let chosen = if self.targets.is_empty() { &known } else { &self.targets };
        if !self.no_build {
            self.build()?;
        }
        // An invalid file ends the run before its hours, not after them.
        Results::read(&known)?;
        let mut failed = Vec::new();
        for name in chosen {
            println!("fuzzing {name} for {} inputs or {} s", self.runs, self.seconds);
            let entry = self.fuzz(name)?;
            println!("{}", entry.summary());
            if !entry.is_clean() {
                failed.push(format!("{name} ({})", entry.result));
            }
            // After every target, because a long run may be interrupted. Reads the file again: another run may have changed
            // it.
            let mut results = Results::read(&known)?;
            results.put(entry);
            results.write()?;
        }
        ensure!(
            failed.is_empty(),
            "{} failed: fix the parser, and move the input from {} to host/fuzz/corpus",
            failed.join(", "),
            workspace::shown(&folder().join("artifacts"))
        );
        Ok(())
    }

    fn build(&self) -> anyhow::Result<()> {
        let mut command = Command::new("cargo");
        // A plain `cargo` here is the one of the toolchain that runs this program.
        command
            .env_remove("CARGO")
            .env_remove("RUSTUP_TOOLCHAIN")
            .current_dir(workspace::root().join("host"));
        command.arg(format!("+{}", self.toolchain)).args(["fuzz", "build", "--target", &target_triple()]);
        command.arg("--target-dir").arg(folder());
        let status = command.status().context("starting cargo fuzz")?;
        ensure!(
            status.success(),
            "the fuzz targets were not built ({status}); needed are `cargo install cargo-fuzz` and `rustup \
             toolchain install {}`",
            self.toolchain
        );
        Ok(())
    }

    /// Runs one program to its end.
    fn fuzz(&self, name: &str) -> anyhow::Result<Entry> {
        let program = folder().join(target_triple()).join("release").join(name);
        let (found, artifacts) = (made("found", name)?, made("artifacts", name)?);
        let log_path = made("logs", "")?.join(name);
        let log = File::create(&log_path).with_context(|| format!("writing {}", log_path.display()))?;
        let mut command = Command::new(&program);
        command.arg(&found).arg(workspace::root().join("host/fuzz/corpus").join(name));
        command.arg(format!("-runs={}", self.runs)).arg(format!("-max_total_time={}", self.seconds));
        command.arg(format!("-rss_limit_mb={MEMORY_MIB}")).arg(format!("-timeout={INPUT_SECONDS}"));
        command.arg(format!("-max_len={LONGEST}")).arg("-print_final_stats=1");
        command.arg(format!("-artifact_prefix={}/", artifacts.display()));
        // Freed memory is kept for a while to detect its use; the default of 256 MiB would hide the parser's own usage.
        command.env("ASAN_OPTIONS", "quarantine_size_mb=16").current_dir(folder());
        let started = Instant::now();
        let status = command.stderr(log).status().with_context(|| {
            format!("starting {}; build it, without --no-build", workspace::shown(&program))
        })?;
        let seconds = started.elapsed().as_secs_f64();
        let log = std::fs::read(&log_path).with_context(|| format!("reading {}", log_path.display()))?;
        let log = String::from_utf8_lossy(&log);
        let mut entry = Entry::read(name, &log, seconds, status.success())
            .with_context(|| format!("reading what {name} said, in {}", log_path.display()))?;
        entry.machine = measure::machine()?;
        entry.cores = std::thread::available_parallelism().map_or(1, Into::into);
        entry.date = measure::date()?;
        entry.commit = measure::commit()?;
        Ok(entry)
    }
}

/// The names of all targets.
fn targets() -> anyhow::Result<Vec<String>> {
    let folder = workspace::root().join("host/fuzz/fuzz_targets");
    let files = workspace::files(&folder, &|path: &Path| path.extension().is_some_and(|e| e == "rs"))?;
    Ok(files.iter().filter_map(|path| Some(path.file_stem()?.to_str()?.to_owned())).collect())
}

/// The folder of the programs and their findings.
fn folder() -> PathBuf {
    workspace::target().join("fuzz")
}

/// Creates a folder of one kind for one target.
fn made(kind: &str, name: &str) -> anyhow::Result<PathBuf> {
    let path = folder().join(kind).join(name);
    std::fs::create_dir_all(&path).with_context(|| format!("making the folder {}", path.display()))?;
    Ok(path)
}

fn target_triple() -> String {
    format!("{}-unknown-linux-gnu", std::env::consts::ARCH)
}
