//! `cargo xtask sanitize`: runs race detectors on kernels, in which each GPU thread is a thread of the operating system, or the
//! executor under shuffled schedules.
//!
//! Each detector must first find the bugs in `cuda/planted-bugs`, and nothing in the kernel there that has no bug. Then it runs
//! every kernel and must find nothing. If a kernel has instances, Miri runs the smallest one and the others run all.

use std::iter;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use clap::{Args, ValueEnum};
use rayon::prelude::*;

use crate::checks::planted::{Finding, Findings, NO_BUG, bugs, is_content, is_fault, said};
use crate::workspace;

/// The compiler of the tools.
const NIGHTLY: &str = "nightly-2026-05-20";

/// Threads only yield where they wait, because Miri checks the order of accesses and not one schedule. The default, a random
/// next thread, costs a scan of all threads.
const IN_TURNS: &str = "-Zmiri-fixed-schedule";

/// Checks that are disabled for kernels, but not for the planted bugs. Stacked Borrows, which also knows the bounds of each
/// shared array, takes ten times as long as everything else. Validating every copied value takes a quarter; without it, an
/// uninitialised number is found where it is used, not where it is read. Weak-memory emulation returns old values from
/// atomic loads, which no kernel and no scheduler relies on.
const LEFT_OUT: &str =
    "-Zmiri-disable-stacked-borrows -Zmiri-disable-validation -Zmiri-disable-weak-memory-emulation";

/// Steps between Miri's collections of unused state from all frames of all threads. With a thousand threads it would do
/// little else at its default of 10000 steps.
const SELDOM_CLEANED: &str = "-Zmiri-provenance-gc=500000";

/// Miri interprets code step by step. After simplification and inlining it needs half the steps, and it still finds all
/// planted bugs, which run in the same form. Miri itself checks the preconditions that the standard library asserts.
const SIMPLIFIED: &str = "-Zmir-opt-level=3 -Zinline-mir=yes -Zinline-mir-threshold=500 \
     -Zinline-mir-hint-threshold=1000 -Zub-checks=no";

/// Run every kernel under ThreadSanitizer and AddressSanitizer, under Miri, or under shuffled schedules of the executor
#[derive(Args)]
pub struct Sanitize {
    /// A tool to run; may be repeated
    #[arg(long = "tool", value_enum, default_values_t = [Tool::Thread, Tool::Address])]
    tools: Vec<Tool>,
    /// Only run the planted bugs; each must be found
    #[arg(long)]
    planted: bool,
    /// Only run kernels whose name contains NAME
    #[arg(long, value_name = "NAME", conflicts_with = "planted")]
    only: Option<String>,
    /// Miri: only run part K of N of the planted bugs and of the kernels, counted from 0: `1/4` is the second quarter
    #[arg(long, value_name = "K/N", default_value = "0/1", value_parser = parse_part, conflicts_with = "write")]
    part: (usize, usize),
    /// Miri: end after this time, with the kernels that were run until then
    #[arg(long, value_name = "MINUTES", conflicts_with_all = ["planted", "write"])]
    minutes: Option<u64>,
    /// Miri: number of processes [default: one per core]
    #[arg(long)]
    jobs: Option<usize>,
    /// Stress: number of seeds; results are compared with those of the fixed order bit for bit
    #[arg(long, default_value_t = 100)]
    seeds: u64,
    /// Stress: the first seed, decimal, or hexadecimal after 0x
    #[arg(long, default_value = "0")]
    first: String,
    /// Write the findings and the times to docs/results
    #[arg(long)]
    write: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Tool {
    /// ThreadSanitizer
    Thread,
    /// AddressSanitizer
    Address,
    /// Miri, which finds data races, uninitialised reads and invalid pointers, at the smallest sizes
    Miri,
    /// The executor under shuffled schedules
    Stress,
}

impl Tool {
    fn name(self) -> &'static str {
        match self {
            Tool::Thread => "ThreadSanitizer",
            Tool::Address => "AddressSanitizer",
            Tool::Miri => "Miri",
            Tool::Stress => "stress",
        }
    }

    /// The stem of its file with times in docs/results.
    fn page(self) -> &'static str {
        if self == Tool::Miri { "miri" } else { "sanitize" }
    }

    /// Whether the line of its output is a finding.
    fn is_finding(self, line: &str) -> bool {
        match self {
            Tool::Miri => line.contains("Undefined Behavior") || is_fault(line),
            _ => line.starts_with("SUMMARY: "),
        }
    }

    /// The planted bugs that it must find: all, data races, or accesses outside of allocations.
    fn finds(self, bug: &str) -> bool {
        let races = [
            "missing-barrier",
            "barrier-too-early",
            "race-between-blocks",
            "lost-update",
            "flag-without-release",
            "flag-without-acquire",
        ];
        match self {
            Tool::Thread => races.contains(&bug),
            Tool::Address => bug == "off-by-one-row",
            Tool::Miri => true,
            Tool::Stress => false,
        }
    }
}

/// Reads `K/N`, a part of a list.
fn parse_part(text: &str) -> Result<(usize, usize), String> {
    let numbers =
        text.split_once('/').and_then(|(part, parts)| Some((part.parse().ok()?, parts.parse().ok()?)));
    numbers
        .filter(|(part, parts)| part < parts)
        .ok_or_else(|| "expected K/N with K below N, like 0/4".to_owned())
}

impl Sanitize {
    /// Runs the command.
    pub fn run(&self) -> anyhow::Result<()> {
        let mut times: Vec<(&str, String, Duration)> = Vec::new();
        for &tool in &self.tools {
            let start = Instant::now();
            let name = match tool {
                Tool::Stress => return self.stress(),
                Tool::Miri => format!("Miri, {} processes at a time", self.miri()?),
                Tool::Thread | Tool::Address => {
                    self.sanitizer(tool)?;
                    tool.name().to_owned()
                }
            };
            times.push((tool.page(), name, start.elapsed()));
        }
        if self.write && !self.planted && self.only.is_none() {
            write_times(&times)?;
        }
        Ok(())
    }

    fn stress(&self) -> anyhow::Result<()> {
        let build = ["build", "--release", "--bin", "self-check"];
        let built = workspace::cargo().args(build).current_dir(workspace::root()).status();
        ensure!(built.context("starting cargo")?.success(), "self-check could not be built");
        let mut check = Command::new(workspace::target().join("release/self-check"));
        // Every run of self-check chooses its own seeds.
        check.env_remove("FERROWARP_SEED").args(["--seeds", &self.seeds.to_string(), "--first", &self.first]);
        check.args(self.only.iter().flat_map(|name| ["--only", name]));
        let checked = check.status().context("starting self-check")?;
        ensure!(checked.success(), "a kernel depends on the schedule, or the check could not run; see above");
        Ok(())
    }

    /// Runs Miri. Returns the number of its processes.
    fn miri(&self) -> anyhow::Result<usize> {
        let start = Instant::now();
        let toolchain = toolchain()?;
        let jobs = self.jobs.unwrap_or(0);
        let pool = rayon::ThreadPoolBuilder::new().num_threads(jobs).build().context("starting threads")?;
        let jobs = pool.current_num_threads();
        if self.only.is_none() {
            let program = build_planted(&mut workspace::cargo(), "debug", workspace::target())?;
            pool.install(|| self.find_planted(Tool::Miri, &program, || planted_under_miri(&toolchain)))?;
        }
        if self.planted {
            return Ok(jobs);
        }
        let (part, parts) = self.part;
        let run = |job: usize| {
            let mut command = cargo(&toolchain);
            command.args(["miri", "run", "-q", "-p", "ferrowarp-self-check", "--", "--threads"]);
            command.arg("--part").arg(format!("{}/{}", part * jobs + job, parts * jobs));
            command.args(self.only.iter().flat_map(|name| ["--only", name]));
            command.env("CARGO_TARGET_DIR", target("miri")).env("RUSTFLAGS", SIMPLIFIED);
            command.env("MIRIFLAGS", format!("{IN_TURNS} {LEFT_OUT} {SELDOM_CLEANED}"));
            if self.minutes.is_some() {
                // So that the children of rustup and cargo can be stopped together with them.
                command.process_group(0);
            }
            self.wait_for(command.spawn().context("starting cargo miri")?, start)
        };
        let ends: Vec<anyhow::Result<bool>> = pool.install(|| (0..jobs).into_par_iter().map(run).collect());
        let mut is_whole = true;
        for has_ended in ends {
            is_whole &= has_ended?;
        }
        match self.part {
            _ if !is_whole => println!("Miri found nothing in the kernels that ended in the given time"),
            (_, 1) => println!("Miri found nothing in any kernel"),
            (part, parts) => println!("Miri found nothing in part {part} of {parts} of the kernels"),
        }
        Ok(jobs)
    }

    /// Waits until Miri ends or its time is over. Returns whether it ended.
    fn wait_for(&self, mut miri: Child, start: Instant) -> anyhow::Result<bool> {
        let limit = self.minutes.map(|minutes| Duration::from_secs(60 * minutes));
        loop {
            if let Some(status) = miri.try_wait().context("waiting for Miri")? {
                let message = "Miri found something in the kernel that is named last above, or could not run";
                ensure!(status.success(), message);
                return Ok(true);
            }
            if limit.is_some_and(|limit| start.elapsed() > limit) {
                let group = format!("-{}", miri.id());
                let killed =
                    Command::new("kill").args(["-KILL", "--", &group]).status().context("starting kill")?;
                ensure!(killed.success(), "Miri could not be ended");
                miri.wait().context("waiting for Miri")?;
                return Ok(false);
            }
            thread::sleep(Duration::from_millis(200));
        }
    }

    /// Runs the tool's `command` on this part of the planted bugs, and stores what it reported.
    fn find_planted(
        &self,
        tool: Tool,
        program: &PathBuf,
        command: impl Fn() -> Command + Sync,
    ) -> anyhow::Result<()> {
        let (part, parts) = self.part;
        // The kernel without a bug comes first, because it takes Miri longest.
        let bugs = iter::once((NO_BUG.to_owned(), String::new())).chain(bugs(program)?);
        let bugs: Vec<_> = bugs.skip(part).step_by(parts).collect();
        let found = bugs.par_iter().map(|(bug, what)| {
            if bug == NO_BUG {
                is_content(tool.name(), &mut command())?;
                return Ok(Vec::new());
            }
            let mut found = Vec::new();
            if tool == Tool::Miri {
                let mut executor = Command::new(program);
                let message = said(executor.args([bug.as_str(), "--coroutines"]), is_fault)?;
                found.push(Finding::new(bug, what, "executor", message));
            }
            let message = said(command().arg(bug), |line| tool.is_finding(line))?;
            ensure!(message.is_some() || !tool.finds(bug), "{} does not find {bug}: {what}", tool.name());
            println!("{}, {bug}: {}", tool.name(), message.as_deref().unwrap_or("not found"));
            found.push(Finding::new(bug, what, tool.name(), message));
            Ok(found)
        });
        let found: Vec<Vec<Finding>> = found.collect::<anyhow::Result<_>>()?;
        let mut findings = Findings::read()?;
        found.into_iter().flatten().for_each(|finding| findings.put(finding));
        if self.write { findings.write() } else { Ok(()) }
    }

    fn sanitizer(&self, tool: Tool) -> anyhow::Result<()> {
        let toolchain = toolchain()?;
        let flag = if tool == Tool::Thread { "thread" } else { "address" };
        let folder = target(flag);
        let instrumented = || {
            let mut command = cargo(&toolchain);
            command.env("RUSTFLAGS", format!("-Zsanitizer={flag}"));
            command
        };
        if self.only.is_none() {
            let program = build_planted(&mut instrumented(), &format!("{}/debug", triple()), folder.clone())?;
            self.find_planted(tool, &program, || without_leaks(&program))?;
        }
        if self.planted {
            return Ok(());
        }
        let mut build = instrumented();
        build.args(["build", "-Zbuild-std", "--target", &triple(), "-p", "ferrowarp-self-check"]);
        let built = build.env("CARGO_TARGET_DIR", &folder).status().context("starting cargo")?;
        ensure!(built.success(), "self-check could not be built with {}", tool.name());
        let mut check = without_leaks(&folder.join(triple()).join("debug/self-check"));
        check.arg("--threads").args(self.only.iter().flat_map(|name| ["--only", name]));
        let checked = check.status().context("starting self-check")?;
        ensure!(checked.success(), "{} found something in the kernel named last above", tool.name());
        println!("{} found nothing in any kernel", tool.name());
        Ok(())
    }
}

/// Writes the times of complete runs, which found nothing.
fn write_times(times: &[(&str, String, Duration)]) -> anyhow::Result<()> {
    let (machine, date, commit) = (workspace::machine()?, workspace::date()?, workspace::commit()?);
    for page in ["miri", "sanitize"] {
        let rows: String = times
            .iter()
            .filter(|(of, ..)| *of == page)
            .map(|(_, name, time)| format!("| {name} | {} |\n", time.as_secs()))
            .collect();
        let text = format!(
            "# Every kernel under {}\n\nWritten by `cargo xtask sanitize --write`, which found the planted bugs that it must \
             find and nothing in any kernel.\n\n| tool | seconds |\n| --- | ---: |\n{rows}\n{machine}, {date}, commit {commit}.\n",
            if page == "miri" { "Miri, the smallest instance of each" } else { "the sanitizers" }
        );
        if !rows.is_empty() {
            workspace::write(&workspace::root().join(format!("docs/results/{page}.md")), &text)?;
        }
    }
    Ok(())
}

/// A program under a sanitizer. Kernels leave through `exit` with their findings, so only Miri detects leaks.
fn without_leaks(program: &Path) -> Command {
    let mut command = Command::new(program);
    command.env("TSAN_OPTIONS", "halt_on_error=1").env("ASAN_OPTIONS", "detect_leaks=0");
    command
}

fn planted_under_miri(toolchain: &str) -> Command {
    let mut command = cargo(toolchain);
    command.args(["miri", "run", "-q", "-p", "planted-bugs", "--"]);
    command.env("MIRIFLAGS", IN_TURNS).env("RUSTFLAGS", SIMPLIFIED).env("CARGO_TARGET_DIR", target("miri"));
    command
}

/// Builds the planted bugs; for a nightly's command, for the target and with its standard library.
fn build_planted(cargo: &mut Command, profile: &str, folder: PathBuf) -> anyhow::Result<PathBuf> {
    cargo.args(["build", "-q", "-p", "planted-bugs"]).current_dir(workspace::root());
    if profile.contains('/') {
        cargo.args(["-Zbuild-std", "--target", &triple()]);
    }
    let built = cargo.env("CARGO_TARGET_DIR", &folder).status().context("starting cargo")?;
    ensure!(built.success(), "planted-bugs could not be built ({built})");
    Ok(folder.join(profile).join("planted-bugs"))
}

/// A nightly compiler with Miri and the sources of the standard library: the pinned one, or another installed one.
fn toolchain() -> anyhow::Result<String> {
    for name in [NIGHTLY, "nightly"] {
        let output = cargo(name).args(["miri", "--version"]).output().context("starting rustup")?;
        if output.status.success() {
            return Ok(name.to_owned());
        }
    }
    bail!(
        "there is no nightly compiler with Miri; get one with `rustup toolchain install {NIGHTLY} --component miri \
         --component rust-src`"
    )
}

/// Cargo of a toolchain, independent of the one that runs this program.
fn cargo(toolchain: &str) -> Command {
    let mut command = Command::new("rustup");
    command.args(["run", toolchain, "cargo"]).current_dir(workspace::root());
    for variable in ["CARGO", "RUSTC", "RUSTUP_TOOLCHAIN", "RUSTFLAGS", "FERROWARP_SEED"] {
        command.env_remove(variable);
    }
    command
}

/// The build folder of a tool.
fn target(tool: &str) -> PathBuf {
    workspace::target().join("judges").join(tool)
}

fn triple() -> String {
    format!("{}-unknown-linux-gnu", std::env::consts::ARCH)
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_documents_name_the_tested_nightly() {
        for page in ["docs/miri.md", "docs/versions.md"] {
            let text = std::fs::read_to_string(super::workspace::root().join(page)).unwrap();
            assert!(text.contains(super::NIGHTLY), "{page} does not name {}; update it", super::NIGHTLY);
        }
    }
}
