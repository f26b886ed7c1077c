//! `cargo xtask miri` and `cargo xtask sanitize` run race detectors on kernels. Each GPU thread is a thread of the
//! operating system.
//!
//! Each tool must first find the bugs in `cuda/planted-bugs`, and nothing in the kernel there that has no bug. Then it runs
//! every kernel and must find nothing. If a kernel has instances, Miri runs the smallest one and the sanitizers run all.

use std::iter;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use clap::{Args, ValueEnum};
use rayon::prelude::*;

use crate::checks::planted::{Finding, Findings};
use crate::measure;
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

/// Run every kernel (its smallest instance) under Miri, which finds data races, uninitialised reads and invalid pointers
#[derive(Args)]
pub struct Miri {
    /// Only run the planted bugs; each must be found
    #[arg(long)]
    planted: bool,
    /// Only run kernels whose name contains NAME
    #[arg(long, value_name = "NAME", conflicts_with = "planted")]
    only: Option<String>,
    /// Only run part K of N of the planted bugs and of the kernels, counted from 0: `1/4` is the second quarter
    #[arg(long, value_name = "K/N", default_value = "0/1", value_parser = parse_part, conflicts_with = "write")]
    part: (usize, usize),
    /// End after this time, with the kernels that were run until then
    #[arg(long, value_name = "MINUTES", conflicts_with_all = ["planted", "write"])]
    minutes: Option<u64>,
    /// Number of processes [default: one per core]
    #[arg(long)]
    jobs: Option<usize>,
    /// Write the findings to docs/results
    #[arg(long)]
    write: bool,
}

/// Run every kernel under ThreadSanitizer and AddressSanitizer, at larger shapes than Miri
#[derive(Args)]
pub struct Sanitize {
    /// The sanitizers to run
    #[arg(value_enum, default_values_t = [Sanitizer::Thread, Sanitizer::Address])]
    sanitizers: Vec<Sanitizer>,
    /// Only run the planted bugs; each must be found
    #[arg(long)]
    planted: bool,
    /// Only run kernels whose name contains NAME
    #[arg(long, value_name = "NAME", conflicts_with = "planted")]
    only: Option<String>,
    /// Write the findings to docs/results
    #[arg(long)]
    write: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Sanitizer {
    Thread,
    Address,
}

impl Sanitizer {
    fn flag(self) -> &'static str {
        match self {
            Sanitizer::Thread => "thread",
            Sanitizer::Address => "address",
        }
    }

    fn name(self) -> &'static str {
        match self {
            Sanitizer::Thread => "ThreadSanitizer",
            Sanitizer::Address => "AddressSanitizer",
        }
    }

    /// The planted bugs that it must find: data races, or accesses outside of allocations.
    fn finds(self) -> &'static [&'static str] {
        match self {
            Sanitizer::Thread => &[
                "missing-barrier",
                "barrier-too-early",
                "race-between-blocks",
                "lost-update",
                "flag-without-release",
                "flag-without-acquire",
            ],
            Sanitizer::Address => &["off-by-one-row"],
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

impl Miri {
    /// Runs the command.
    pub fn run(&self) -> anyhow::Result<()> {
        let start = Instant::now();
        let toolchain = toolchain()?;
        let jobs = self.jobs.unwrap_or(0);
        let pool = rayon::ThreadPoolBuilder::new().num_threads(jobs).build().context("starting threads")?;
        if self.only.is_none() {
            pool.install(|| self.find_planted(&toolchain))?;
        }
        if self.planted {
            return Ok(());
        }
        let jobs = pool.current_num_threads();
        let (part, parts) = self.part;
        let run = |job: usize| {
            let mut command = cargo(&toolchain);
            command.args(["miri", "run", "-q", "-p", "ferrowarp-self-check", "--", "--threads"]);
            command
                .arg("--part")
                .arg(format!("{}/{}", part * jobs + job, parts * jobs))
                .env("CARGO_TARGET_DIR", target("miri"));
            command.args(self.only.iter().flat_map(|name| ["--only", name]));
            command.env("MIRIFLAGS", format!("{IN_TURNS} {LEFT_OUT} {SELDOM_CLEANED}"));
            if self.minutes.is_some() {
                // So that the children of rustup and cargo can be stopped together with them.
                command.process_group(0);
            }
            self.wait_for(command.env("RUSTFLAGS", SIMPLIFIED).spawn().context("starting cargo miri")?, start)
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
        if !self.write || self.only.is_some() {
            return Ok(());
        }
        write_times("miri", &[(format!("Miri, {jobs} processes at a time"), start.elapsed())])
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

    /// Runs Miri and the executor on each planted bug.
    fn find_planted(&self, toolchain: &str) -> anyhow::Result<()> {
        let mut findings = Findings::read()?;
        let program = build_planted(&mut workspace::cargo(), "debug", workspace::target())?;
        let look = |bug: &Option<(String, String)>| -> anyhow::Result<Vec<Finding>> {
            let Some((bug, what)) = bug else {
                is_content("Miri", &mut planted_under_miri(toolchain))?;
                return Ok(Vec::new());
            };
            let mut executor = Command::new(&program);
            let by_executor = said(executor.args([bug.as_str(), "--coroutines"]), is_fault)?;
            let mut miri = planted_under_miri(toolchain);
            let found = said(miri.arg(bug), |line| line.contains("Undefined Behavior") || is_fault(line))?;
            let message = found.with_context(|| format!("Miri does not find {bug}: {what}"))?;
            println!("{bug}: {message}");
            let of = |tool, message| Finding::new(bug, what, tool, message);
            Ok(vec![of("executor", by_executor), of("Miri", Some(message))])
        };
        let (part, parts) = self.part;
        // The kernel without a bug comes first, because it takes Miri longest.
        let bugs = iter::once(None).chain(bugs(&program)?.into_iter().map(Some));
        let bugs: Vec<_> = bugs.skip(part).step_by(parts).collect();
        let found: Vec<_> = bugs.par_iter().map(look).collect::<anyhow::Result<_>>()?;
        found.into_iter().flatten().for_each(|finding| findings.put(finding));
        if self.write { findings.write() } else { Ok(()) }
    }
}

impl Sanitize {
    /// Runs the command.
    pub fn run(&self) -> anyhow::Result<()> {
        let toolchain = toolchain()?;
        let mut times = Vec::new();
        for &sanitizer in &self.sanitizers {
            let start = Instant::now();
            self.with(sanitizer, &toolchain)?;
            times.push((sanitizer.name().to_owned(), start.elapsed()));
        }
        if !self.write || self.planted || self.only.is_some() {
            return Ok(());
        }
        write_times("sanitize", &times)
    }

    fn with(&self, sanitizer: Sanitizer, toolchain: &str) -> anyhow::Result<()> {
        let folder = target(sanitizer.flag());
        let instrumented = || {
            let mut command = cargo(toolchain);
            command.env("RUSTFLAGS", format!("-Zsanitizer={}", sanitizer.flag()));
            command
        };
        if self.only.is_none() {
            let program = build_planted(&mut instrumented(), &format!("{}/debug", triple()), folder.clone())?;
            self.find_planted(sanitizer, &program)?;
        }
        if self.planted {
            return Ok(());
        }
        let mut build = instrumented();
        build.args(["build", "-Zbuild-std", "--target", &triple(), "-p", "ferrowarp-self-check"]);
        let built = build.env("CARGO_TARGET_DIR", &folder).status().context("starting cargo")?;
        ensure!(built.success(), "self-check could not be built with {}", sanitizer.name());
        let mut check = Command::new(folder.join(triple()).join("debug/self-check"));
        check.arg("--threads").args(self.only.iter().flat_map(|name| ["--only", name]));
        // Kernels leave through `exit` with their findings; Miri detects leaks.
        check.env("TSAN_OPTIONS", "halt_on_error=1").env("ASAN_OPTIONS", "detect_leaks=0");
        let checked = check.status().context("starting self-check")?;
        ensure!(checked.success(), "{} found something in the kernel named last above", sanitizer.name());
        println!("{} found nothing in any kernel", sanitizer.name());
        Ok(())
    }

    fn find_planted(&self, sanitizer: Sanitizer, program: &PathBuf) -> anyhow::Result<()> {
        let mut findings = Findings::read()?;
        for (bug, what) in bugs(program)? {
            let mut command = Command::new(program);
            command.arg(&bug).env("TSAN_OPTIONS", "halt_on_error=1").env("ASAN_OPTIONS", "detect_leaks=0");
            let found = said(&mut command, |line| line.starts_with("SUMMARY: "))?;
            ensure!(
                found.is_some() || !sanitizer.finds().contains(&bug.as_str()),
                "{} does not find {bug}: {what}",
                sanitizer.name()
            );
            println!("{bug}: {}", found.as_deref().unwrap_or("not found"));
            findings.put(Finding::new(&bug, &what, sanitizer.name(), found));
        }
        is_content(sanitizer.name(), &mut Command::new(program))?;
        if self.write { findings.write() } else { Ok(()) }
    }
}

/// Writes the page of a tool that found its planted bugs and nothing in any kernel, with its times.
fn write_times(name: &str, tools: &[(String, Duration)]) -> anyhow::Result<()> {
    let (machine, date, commit) = (measure::machine()?, measure::date()?, measure::commit()?);
    let instances = if name == "miri" { "the smallest instance of each" } else { "every instance of each" };
    let mut text = format!(
        "# Every kernel under `cargo xtask {name}`\n\nWritten by `cargo xtask {name} --write`, which found the planted bugs that it must find and nothing in any kernel. It ran \
         {instances}.\n\n| tool | seconds |\n| --- | ---: |\n"
    );
    for (tool, time) in tools {
        text += &format!("| {tool} | {} |\n", time.as_secs());
    }
    text += &format!("\n{machine}, {date}, commit {commit}.\n");
    workspace::write(&workspace::root().join(format!("docs/results/{name}.md")), &text)
}

/// Checks that the tool reports nothing about a kernel without a bug. `command` runs a planted bug under the tool.
fn is_content(tool: &str, command: &mut Command) -> anyhow::Result<()> {
    let output = command.arg("none").output().with_context(|| format!("starting {command:?}"))?;
    let text = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{tool} complains of a kernel without a bug: {text}");
    Ok(())
}

/// Whether the line is a fault of the executor.
fn is_fault(line: &str) -> bool {
    line.starts_with("error: kernel ") && line.contains(" failed in block ")
}

/// The command's report of a bug: the first line that is a finding, if it fails.
fn said(command: &mut Command, is_finding: impl Fn(&str) -> bool) -> anyhow::Result<Option<String>> {
    let output = command.stdin(Stdio::null()).output().with_context(|| format!("starting {command:?}"))?;
    let text = String::from_utf8_lossy(&output.stderr);
    let line = text.lines().find(|line| is_finding(line)).filter(|_| !output.status.success());
    let root = format!("{}/", workspace::root().display());
    let shortened =
        |line: &str| line.trim_start_matches("error: ").trim_start_matches("SUMMARY: ").replace(&root, "");
    Ok(line.map(shortened))
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

/// Names and descriptions of the planted bugs.
fn bugs(program: &PathBuf) -> anyhow::Result<Vec<(String, String)>> {
    let output = Command::new(program).output().with_context(|| format!("starting {}", program.display()))?;
    let text = String::from_utf8(output.stdout).context("reading the names of the planted bugs")?;
    let pair = |line: &str| line.split_once('\t').map(|(name, what)| (name.to_owned(), what.to_owned()));
    let bugs: Vec<_> = text.lines().filter_map(pair).collect();
    ensure!(!bugs.is_empty(), "{} names no bugs", program.display());
    Ok(bugs)
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
