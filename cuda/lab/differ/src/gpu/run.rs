//! Runs a pack on one GPU in several processes: while one compiles, another runs, and a kernel that hangs or faults only
//! takes its own process down.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};

use super::pack::RESULTS;
use super::work::{Assembler, Outcome, backend, batch};
use crate::compile::Module;
use crate::difference::{Difference, What};
use crate::report::{Entry, Results, output};

/// The time limit of a module, which the driver compiles.
const LIMIT: Duration = Duration::from_secs(120);

/// Modules that one process runs, unless it is lost.
const AT_ONCE: usize = 12;

/// What `differ gpu run` takes.
#[derive(clap::Args)]
pub struct Run {
    /// The folder
    folder: PathBuf,
    /// Processes at a time, each of which takes 5 GiB of the GPU's memory [default: three for four cores, 12 at most]
    #[arg(long)]
    workers: Option<usize>,
    #[command(flatten)]
    assembler: Assembler,
    /// When no further process is started
    #[arg(long, value_name = "SECONDS", default_value_t = 480)]
    seconds: u64,
    /// Write what came out, for `record`
    #[arg(long, value_name = "FILE.json")]
    json: Option<PathBuf>,
}

/// Reads the results of a pack.
fn read(path: &Path) -> anyhow::Result<Vec<Entry>> {
    let text = std::fs::read(path).with_context(|| format!("reading {}", path.display()))?;
    let entries: Vec<Entry> =
        serde_json::from_slice(&text).with_context(|| format!("{} holds no results", path.display()))?;
    ensure!(!entries.is_empty(), "{} holds no results", path.display());
    Ok(entries)
}

/// Stores the results of `run --json`. Returns whether there is no difference.
///
/// # Errors
/// The file holds no results, or docs/results cannot be written.
pub fn record(path: &Path) -> anyhow::Result<bool> {
    let entries = read(path)?;
    let wrong: usize = entries.iter().map(|entry| entry.report.wrong()).sum();
    let mut results = Results::read()?;
    entries.into_iter().for_each(|entry| results.put(entry));
    results.write()?;
    println!("{wrong} programs or cases differ, or did not run");
    Ok(wrong == 0)
}

impl Run {
    /// Runs the command. Returns whether there is no difference.
    ///
    /// # Errors
    /// The folder is not a pack, or no process gets the GPU.
    pub fn run(&self) -> anyhow::Result<bool> {
        let start = Instant::now();
        let mut entries = read(&self.folder.join(RESULTS))?;
        let files = modules(&self.folder)?;
        let cores = std::thread::available_parallelism().map_or(1, |n| n.get());
        let workers = self.workers.unwrap_or(cores * 3 / 4).clamp(1, 12);
        let open = Mutex::new(files.chunks(AT_ONCE));
        let work = || -> anyhow::Result<Vec<(&PathBuf, Option<Outcome>)>> {
            let mut all = Vec::new();
            loop {
                let Some(files) = open.lock().unwrap_or_else(PoisonError::into_inner).next() else {
                    return Ok(all);
                };
                let mut left = files;
                while !left.is_empty() && start.elapsed().as_secs() < self.seconds {
                    let outcomes = self.process(left)?;
                    let (done, rest) = left.split_at(outcomes.len());
                    all.extend(done.iter().zip(outcomes.into_iter().map(Some)));
                    left = rest;
                }
                all.extend(left.iter().map(|file| (file, None)));
            }
        };
        let outcomes = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..workers).map(|_| scope.spawn(work)).collect();
            let ended = threads
                .into_iter()
                .map(|thread| thread.join().unwrap_or_else(|_| panic!("a worker panicked")));
            ended.collect::<anyhow::Result<Vec<_>>>()
        })?;
        let outcomes: Vec<_> = outcomes.into_iter().flatten().collect();
        let seen: Vec<&Outcome> = outcomes.iter().filter_map(|(_, outcome)| outcome.as_ref()).collect();
        let device = seen.iter().find(|outcome| !outcome.device.is_empty());
        let device = device.with_context(|| format!("no process got the GPU: {seen:?}"))?;
        let soiled = seen.iter().filter(|one| !one.device.is_empty()).map(|one| one.soiled).min();
        println!("{}; {} of 100 words of unwritten memory are soiled", device.device, soiled.unwrap_or(0));
        let driver = output("nvidia-smi", &["--query-gpu=driver_version", "--format=csv,noheader", "--id=0"]);
        let machine = [device.device.clone()]
            .into_iter()
            .chain(driver.ok().map(|driver| format!("driver {driver}")))
            .chain(self.assembler.name());
        let machine = machine.collect::<Vec<_>>().join(", ");
        for Entry { report, origin } in &mut entries {
            let is_programs = report.seeds.is_some();
            let of_part = outcomes.iter().filter(|(file, _)| first_seed(file).is_some() == is_programs);
            let mut late = 0;
            for (file, outcome) in of_part {
                let of = report.of(backend(file));
                let Some(Outcome { kernels, cases, found, .. }) = outcome else {
                    of.refused += 1;
                    late += 1;
                    continue;
                };
                let of_kernel = found.chunk_by(|a, b| a.kernel == b.kernel);
                of.compared += if is_programs { *kernels } else { *cases } as u64;
                of.differ += if is_programs { of_kernel.clone().count() } else { found.len() };
                report.found.extend(of_kernel.map(|found| line(file, found)));
            }
            report.found.extend((late > 0).then(|| format!("{late} did not run: there was no time left")));
            report.seconds = start.elapsed().as_secs();
            (origin.machine, origin.cores) = (machine.clone(), cores);
            origin.date = output("date", &["-u", "+%F"])?;
            println!("{}: {}", report.part, report.summary());
            report.found.iter().take(40).for_each(|one| println!("  {one}"));
        }
        if let Some(path) = &self.json {
            let text = serde_json::to_string_pretty(&entries).context("writing the results")?;
            std::fs::write(path, text + "\n").with_context(|| format!("writing {}", path.display()))?;
        }
        let [compared, differ] = [|one: &&Outcome| one.cases, |one: &&Outcome| one.found.len()]
            .map(|of: fn(&&Outcome) -> usize| seen.iter().map(of).sum::<usize>());
        println!("{} modules did not run", outcomes.len() - seen.len());
        println!("{compared} compared, {differ} differ");
        Ok(differ == 0 && seen.len() == outcomes.len())
    }

    /// Runs modules in one process. Returns the results of the first ones; if the process is lost, the last of these is of
    /// the module that it was lost at.
    fn process(&self, files: &[PathBuf]) -> anyhow::Result<Vec<Outcome>> {
        let program = std::env::current_exe().context("finding this program")?;
        let mut command = Command::new(&program);
        command.args(["gpu", "work"]).args(files).stdin(Stdio::null()).stdout(Stdio::piped());
        self.assembler.pass(&mut command);
        let mut child = command.spawn().with_context(|| format!("starting {}", program.display()))?;
        let out = child.stdout.take().context("no stdout")?;
        let (send, lines) = channel();
        std::thread::spawn(move || {
            let lines = BufReader::new(out).lines().map_while(Result::ok);
            // Any other line is the driver's.
            lines.filter_map(|line| serde_json::from_str(&line).ok()).try_for_each(|line| send.send(line))
        });
        let mut outcomes: Vec<Outcome> = Vec::new();
        for file in files {
            match lines.recv_timeout(LIMIT) {
                Ok(outcome) => outcomes.push(outcome),
                // A kernel that faults is the last one of its process.
                Err(RecvTimeoutError::Disconnected) if is_fault(outcomes.last()) => break,
                Err(error) => {
                    let how = match error {
                        RecvTimeoutError::Timeout => format!("does not end in {LIMIT:?}"),
                        RecvTimeoutError::Disconnected => "ends the process".to_owned(),
                    };
                    let what = What::Fault(format!("a kernel, or the driver's compiler, {how}"));
                    let kernels = Module::read(file)?.kernels().into_iter().map(str::to_owned).collect();
                    outcomes.push(lost(kernels, &what));
                    break;
                }
            }
        }
        // It may have ended.
        let _ = child.kill();
        child.wait().context("waiting for a process")?;
        Ok(outcomes)
    }
}

fn is_fault(outcome: Option<&Outcome>) -> bool {
    outcome.is_some_and(|outcome| outcome.found.iter().any(|one| matches!(one.what, What::Fault(_))))
}

/// The results of a module that ends its process: any of its kernels may be the cause.
fn lost(kernels: Vec<String>, what: &What) -> Outcome {
    let of = |kernel| Difference { kernel, number: 0, input_len: 0, what: what.clone() };
    Outcome { kernels: kernels.len(), found: kernels.into_iter().map(of).collect(), ..Outcome::default() }
}

/// The modules in the folder. Crates are first: they take the longest to compile.
fn modules(folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let entries = std::fs::read_dir(folder).with_context(|| format!("reading {}", folder.display()))?;
    let files = entries.filter_map(|entry| Some(entry.ok()?.path()));
    let mut all: Vec<PathBuf> =
        files.filter(|path| path.extension().is_some_and(|end| end == "ptx")).collect();
    ensure!(!all.is_empty(), "no PTX in {}: fill it by `differ gpu pack`", folder.display());
    all.sort_by_key(|path| (first_seed(path).is_some(), path.clone()));
    Ok(all)
}

/// The first seed of a batch of programs, which is named like `b50-0`.
fn first_seed(path: &Path) -> Option<u64> {
    batch(path).strip_prefix('b')?.split_once('-')?.0.parse().ok()
}

/// The failures of a kernel.
fn line(file: &Path, found: &[Difference]) -> String {
    let kernel = &found[0].kernel;
    let name =
        match (first_seed(file), kernel.strip_prefix('k').and_then(|number| number.parse::<u64>().ok())) {
            (Some(first), Some(number)) => format!("seed {}", first + number),
            _ => kernel.clone(),
        };
    format!("{name}, {}: {} cases: {}", backend(file), found.len(), found[0])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_name_their_batch_and_back_end() {
        let folder = tempfile::tempdir().unwrap();
        assert!(modules(folder.path()).is_err());
        for name in ["b50-0.nvvm.m3.ptx", "crates.llvm.kernels.aes.ptx", "crates.cases"] {
            std::fs::write(folder.path().join(name), "1").unwrap();
        }
        let all = modules(folder.path()).unwrap();
        assert_eq!(
            [0, 1].map(|i| (backend(&all[i]), first_seed(&all[i]))),
            [("llvm", None), ("nvvm", Some(50))]
        );
        let lost = lost(vec!["k3".to_owned()], &What::Fault("trap".to_owned()));
        assert!(is_fault(Some(&lost)) && !is_fault(None));
        assert_eq!(line(&all[1], &lost.found), "seed 53, nvvm: 1 cases: k3, case 0 of 0 bytes: trap");
    }
}
