//! Compares many programs in batches, each in its own process: a compiler that crashes or hangs is a finding.

use std::ffi::OsStr;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use serde::{Deserialize, Serialize};

use super::ast::Program;
use super::folder::Folder;
use super::judge::{Finding, Verdict};
use super::print::{Source, source};
use super::{generate, shrink};
use crate::compile::{Compiler, Settings, workspace};

/// Programs compiled together.
const BATCH: usize = 100;

/// The time limit of a batch.
const TIME_LIMIT: Duration = Duration::from_secs(1800);

/// The address space limit of a batch, in KiB; it uses half a GiB.
const MEMORY_LIMIT: u64 = 4 << 20;

/// The settings of a comparison of programs.
#[derive(Clone, Debug)]
pub struct Hunt {
    /// The compiler settings; each worker replaces the folders by its own.
    pub settings: Settings,
    /// The folder for all output.
    pub work: PathBuf,
    /// Batches that run in parallel.
    pub jobs: usize,
    /// The program that compares a folder: `differ` itself.
    pub judge: PathBuf,
}

/// A program with a finding.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Found {
    /// Its seed.
    pub seed: u64,
    /// The finding.
    pub verdict: Verdict,
}

impl std::fmt::Display for Found {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let backend = self.verdict.backend.as_deref().unwrap_or("both");
        write!(f, "seed {}, {backend}: ", self.seed)?;
        match &self.verdict.finding {
            Finding::Differs(all) => match all.first() {
                Some(first) => write!(f, "{} cases: {first}", all.len()),
                None => Ok(()),
            },
            Finding::Refused(log) => write!(f, "refused: {log:.800}"),
        }
    }
}

impl Hunt {
    /// Compares in batches with these compilers; by default one batch for each core at a time.
    ///
    /// # Errors
    /// The folder for the output cannot be created.
    pub fn new(compiler: &Compiler, jobs: Option<usize>) -> anyhow::Result<Hunt> {
        let work = compiler.work()?;
        std::fs::create_dir_all(&work).with_context(|| format!("making {}", work.display()))?;
        let cores = std::thread::available_parallelism().map_or(1, |n| n.get());
        let judge = std::env::current_exe().context("finding this program")?;
        let settings = compiler.settings(work.join("ptx"));
        Ok(Hunt { settings, work, jobs: jobs.unwrap_or(cores).max(1), judge })
    }

    /// Compares the programs of `count` seeds from `first`, and reports the number of finished ones to `progress`. Findings
    /// are printed at once, since a run may be ended.
    ///
    /// # Errors
    /// A batch cannot be compared at all.
    pub fn run(
        &self,
        first: u64,
        count: u64,
        progress: &(dyn Fn(u64, usize) + Sync),
    ) -> anyhow::Result<Vec<Found>> {
        let state = Mutex::new((first, Vec::new(), 0));
        let lock = || state.lock().unwrap_or_else(PoisonError::into_inner);
        let batch = (count as usize).div_ceil(self.jobs).clamp(1, BATCH) as u64;
        let work = |worker: usize| -> anyhow::Result<()> {
            loop {
                let start = {
                    let mut state = lock();
                    state.0 += batch;
                    state.0 - batch
                };
                let end = (start + batch).min(first + count);
                if start >= end {
                    return Ok(());
                }
                let found = self.batch(worker, start..end)?;
                let mut state = lock();
                state.1.extend(found);
                state.2 += end - start;
                progress(state.2, state.1.len());
            }
        };
        std::thread::scope(|scope| {
            let work = &work;
            let workers: Vec<_> = (0..self.jobs).map(|worker| scope.spawn(move || work(worker))).collect();
            let ended = workers
                .into_iter()
                .map(|worker| worker.join().unwrap_or_else(|_| panic!("a worker panicked")));
            ended.collect::<anyhow::Result<Vec<()>>>()
        })?;
        let (_, mut found, _) = state.into_inner().unwrap_or_else(PoisonError::into_inner);
        found.sort_by_key(|found| found.seed);
        Ok(found)
    }

    /// Compares the programs of these seeds.
    fn batch(&self, worker: usize, seeds: Range<u64>) -> anyhow::Result<Vec<Found>> {
        let first = seeds.start;
        let programs: Vec<Program> = seeds.map(generate).collect();
        let mut of_batch = self.clone();
        // A pack is named after its first seed.
        of_batch.settings.packed =
            self.settings.packed.as_ref().map(|folder| folder.join(format!("b{first}")));
        let verdicts = of_batch.judge(worker, &programs)?.into_iter();
        let found: Vec<Found> =
            verdicts.map(|verdict| Found { seed: first + verdict.program as u64, verdict }).collect();
        found.iter().for_each(|found| eprintln!("{found}"));
        Ok(found)
    }

    /// Compares these programs.
    ///
    /// # Errors
    /// The programs cannot be written, or a process cannot be started.
    pub fn judge(&self, worker: usize, programs: &[Program]) -> anyhow::Result<Vec<Verdict>> {
        let sources: Vec<Source> =
            programs.iter().enumerate().map(|(i, program)| source(program, i)).collect();
        let all: Vec<usize> = (0..sources.len()).collect();
        self.judge_some(worker, &sources, &all)
    }

    /// Compares some of the programs, which keep their numbers.
    fn judge_some(&self, worker: usize, sources: &[Source], some: &[usize]) -> anyhow::Result<Vec<Verdict>> {
        let work = self.work.join(format!("worker-{worker}"));
        let folder = Folder::write_sources(&work.join("programs"), sources, some)?;
        // The workspace's build folder already has the dependencies of all kernels, but only one worker can use it.
        let shared = workspace().join("target/cuda-builder");
        let device = if worker == 0 { shared } else { work.join("device") };
        let judged = self.in_process(&folder, &device)?;
        if worker > 0 {
            // There are many programs, and each is compiled only once.
            let _ = std::fs::remove_dir_all(device.join("cache"));
        }
        match judged {
            Ok(verdicts) => Ok(verdicts),
            Err(log) if some.len() == 1 => {
                Ok(vec![Verdict { program: some[0], backend: None, finding: Finding::Refused(log) }])
            }
            // Bisects to find which of them it is.
            Err(_) => {
                let (a, b) = some.split_at(some.len() / 2);
                let mut verdicts = self.judge_some(worker, sources, a)?;
                verdicts.extend(self.judge_some(worker, sources, b)?);
                Ok(verdicts)
            }
        }
    }

    /// The verdicts of a process, or its error output if it fails.
    fn in_process(&self, folder: &Folder, device: &Path) -> anyhow::Result<Result<Vec<Verdict>, String>> {
        // A compiler that uses all memory affects other processes, too.
        let mut command = Command::new("sh");
        command.args(["-c", &format!("ulimit -v {MEMORY_LIMIT} && exec \"$0\" \"$@\"")]).arg(&self.judge);
        let (log, answer) = (folder.path.join("log"), folder.path.join("verdicts.json"));
        let settings = &self.settings;
        let names: Vec<String> = settings.backends.iter().map(ToString::to_string).collect();
        // There is a process for each core.
        command.env("RAYON_NUM_THREADS", "1");
        command.arg("judge").arg(&folder.path).arg("--work").arg(device).arg("--answer").arg(&answer);
        command.args(["--backend", &names.join(","), "--opt-level", &settings.opt_level.to_string()]);
        command.args(["--arch", &settings.arch.to_string()]);
        command.args(settings.packed.iter().flat_map(|path| [OsStr::new("--packed"), path.as_os_str()]));
        command.args(settings.planted.iter().flat_map(|planted| ["--plant".to_owned(), planted.to_string()]));
        let file = std::fs::File::create(&log).with_context(|| format!("creating {}", log.display()))?;
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(file);
        let mut child = command.spawn().with_context(|| format!("starting {}", self.judge.display()))?;
        let start = Instant::now();
        let status = loop {
            if let Some(status) = child.try_wait().context("waiting for a batch")? {
                break status;
            }
            if start.elapsed() > TIME_LIMIT {
                child.kill().context("ending a batch")?;
                child.wait().context("waiting for a batch")?;
                return Ok(Err(format!("it took more than {} seconds", TIME_LIMIT.as_secs())));
            }
            std::thread::sleep(Duration::from_millis(20));
        };
        if !status.success() {
            let log = std::fs::read_to_string(&log).unwrap_or_default();
            return Ok(Err(format!("{status}: {log}")));
        }
        let text = std::fs::read(&answer).with_context(|| format!("reading {}", answer.display()))?;
        Ok(Ok(serde_json::from_slice(&text).with_context(|| format!("reading {}", answer.display()))?))
    }

    /// Shrinks the program of a finding and writes it into a folder. Returns the folder.
    ///
    /// # Errors
    /// The comparison fails, or the folder cannot be written.
    pub fn shrink(&self, found: &Found) -> anyhow::Result<PathBuf> {
        let name = found.verdict.backend.clone().unwrap_or_else(|| "all".to_owned());
        let mut alone = self.clone();
        alone
            .settings
            .backends
            .retain(|backend| found.verdict.backend.as_ref().is_none_or(|b| *b == backend.to_string()));
        let program = generate(found.seed);
        let mut still_differs = |programs: &[Program]| -> anyhow::Result<Vec<bool>> {
            let verdicts = alone.judge(0, programs)?;
            let same = |i: usize| {
                verdicts.iter().any(|verdict| verdict.program == i && is_alike(verdict, &found.verdict))
            };
            Ok((0..programs.len()).map(same).collect())
        };
        let small = shrink::shrink(&program, &mut still_differs)?;
        let verdicts = alone.judge(0, std::slice::from_ref(&small))?;
        ensure!(!verdicts.is_empty(), "the shrunk program of seed {} does not differ", found.seed);
        let last = &verdicts[0];
        let path = self.work.join("found").join(format!("seed-{}-{name}", found.seed));
        let Source { program, helper } = source(&small, 0);
        Folder::write_sources(&path, &[Source { program: program.clone(), helper: helper.clone() }], &[0])?;
        let file = path.join("program.rs");
        let shown = serde_json::to_string_pretty(last).context("writing what differs")?;
        let text = format!(
            "// Seed {} by {name}: run again with `cargo lab differ programs --seed {} --programs 1 --opt-level {}`.\n//\n{}\n\n\
             // ---- the kernel crate\n{program}\n// ---- the crate that it depends on\n{helper}",
            found.seed,
            found.seed,
            self.settings.opt_level,
            shown.lines().map(|line| format!("// {line}")).collect::<Vec<_>>().join("\n"),
        );
        std::fs::write(&file, text).with_context(|| format!("writing {}", file.display()))?;
        Ok(path)
    }
}

/// Whether two findings have the same kind and back end. A program that does not compile natively proves nothing.
fn is_alike(a: &Verdict, b: &Verdict) -> bool {
    let kind = |verdict: &Verdict| match &verdict.finding {
        Finding::Differs(all) => all.first().map(|first| std::mem::discriminant(&first.what)),
        Finding::Refused(_) => None,
    };
    a.backend == b.backend && kind(a) == kind(b)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::difference::{Difference, What};

    #[test]
    fn a_smaller_program_differs_in_the_same_way() {
        let verdict = |backend: Option<&str>, finding| Verdict {
            program: 0,
            backend: backend.map(str::to_owned),
            finding,
        };
        let refused = || Finding::Refused("no".to_owned());
        let differs = |what| {
            Finding::Differs(vec![Difference { kernel: "k0".to_owned(), number: 0, input_len: 64, what }])
        };
        let fault = verdict(Some("llvm"), differs(What::Fault("trap".to_owned())));
        let other = verdict(Some("llvm"), differs(What::Fault("a stray load".to_owned())));
        let luck = verdict(Some("llvm"), differs(What::Undefined("byte 3".to_owned())));
        let crash = verdict(Some("llvm"), refused());
        assert!(is_alike(&fault, &other) && is_alike(&crash, &crash));
        assert!(!is_alike(&fault, &luck) && !is_alike(&fault, &crash));
        assert!(!is_alike(&crash, &verdict(None, refused())), "it does not compile natively");
    }
}
