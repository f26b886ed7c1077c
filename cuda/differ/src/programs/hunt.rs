//! Many programs, a batch at a time, each batch in a process of its own: a compiler that crashes or hangs is a finding.

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
use crate::compile::Settings;

/// Programs that are compiled together.
const BATCH: usize = 40;

/// How long a batch may take.
const TIME_LIMIT: Duration = Duration::from_secs(900);

/// Where programs are compared, and how.
#[derive(Clone, Debug)]
pub struct Hunt {
    /// How kernels are compiled; the folder is that of each worker's own.
    pub settings: Settings,
    /// The folder of everything that is made.
    pub work: PathBuf,
    /// The root of the workspace.
    pub workspace: PathBuf,
    /// Batches at a time.
    pub jobs: usize,
    /// The program that judges a folder: `differ` itself.
    pub judge: PathBuf,
}

/// A program in which something is wrong.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Found {
    /// Its seed.
    pub seed: u64,
    /// What is wrong.
    pub verdict: Verdict,
}

impl Hunt {
    /// Compares the programs of so many seeds from `first` on; `progress` is told how many are done.
    ///
    /// # Errors
    /// A batch cannot be judged at all.
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
                let seeds: Vec<u64> = (start..(start + batch).min(first + count)).collect();
                if seeds.is_empty() {
                    return Ok(());
                }
                let programs: Vec<Program> = seeds.iter().map(|&seed| generate(seed)).collect();
                let found = self.judge(worker, &programs)?;
                let mut state = lock();
                let named = found.into_iter().map(|verdict| Found { seed: seeds[verdict.program], verdict });
                state.1.extend(named);
                state.2 += seeds.len() as u64;
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

    /// What is wrong with these programs.
    ///
    /// # Errors
    /// They cannot be written, or a process cannot be started.
    pub fn judge(&self, worker: usize, programs: &[Program]) -> anyhow::Result<Vec<Verdict>> {
        let sources: Vec<Source> =
            programs.iter().enumerate().map(|(i, program)| source(program, i)).collect();
        let all: Vec<usize> = (0..sources.len()).collect();
        self.judge_some(worker, &sources, &all)
    }

    /// What is wrong with some of the programs, which keep their numbers.
    fn judge_some(&self, worker: usize, sources: &[Source], some: &[usize]) -> anyhow::Result<Vec<Verdict>> {
        let work = self.work.join(format!("worker-{worker}"));
        let folder = Folder::write_sources(&work.join("programs"), &self.workspace, sources, some)?;
        match self.in_process(&folder, &work.join("device"))? {
            Ok(verdicts) => Ok(verdicts),
            Err(log) if some.len() == 1 => {
                Ok(vec![Verdict { program: some[0], backend: None, finding: Finding::Refused(log) }])
            }
            // Which of them it is, is found by halves.
            Err(_) => {
                let (a, b) = some.split_at(some.len() / 2);
                let mut verdicts = self.judge_some(worker, sources, a)?;
                verdicts.extend(self.judge_some(worker, sources, b)?);
                Ok(verdicts)
            }
        }
    }

    /// The verdicts of a process, or what it says where it fails.
    fn in_process(&self, folder: &Folder, device: &Path) -> anyhow::Result<Result<Vec<Verdict>, String>> {
        let mut command = Command::new(&self.judge);
        let (log, answer) = (folder.path.join("log"), folder.path.join("verdicts.json"));
        let settings = &self.settings;
        let names: Vec<String> = settings.backends.iter().map(ToString::to_string).collect();
        command.arg("judge").arg(&folder.path).arg("--work").arg(device).arg("--answer").arg(&answer);
        command.args(["--backend", &names.join(","), "--opt-level", &settings.opt_level.to_string()]);
        command.args(["--arch", &settings.arch.to_string()]);
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

    /// Makes a program smaller that was found, and writes it into a folder, which is given back.
    ///
    /// # Errors
    /// The judge's, or the folder cannot be written.
    pub fn shrink(&self, found: &Found) -> anyhow::Result<PathBuf> {
        let name = found.verdict.backend.clone().unwrap_or_else(|| "all".to_owned());
        let mut alone = self.clone();
        alone
            .settings
            .backends
            .retain(|backend| found.verdict.backend.as_ref().is_none_or(|b| *b == backend.to_string()));
        let program = generate(found.seed);
        let mut last = found.verdict.clone();
        let mut still_differs = |programs: &[Program]| -> anyhow::Result<Vec<bool>> {
            let verdicts = alone.judge(0, programs)?;
            let same = |i: usize| {
                verdicts.iter().find(|verdict| {
                    verdict.program == i && is_alike(&verdict.finding, &found.verdict.finding)
                })
            };
            Ok((0..programs.len()).map(|i| same(i).is_some()).collect())
        };
        let small = shrink::shrink(&program, &mut still_differs)?;
        let verdicts = alone.judge(0, std::slice::from_ref(&small))?;
        ensure!(!verdicts.is_empty(), "the shrunk program of seed {} does not differ", found.seed);
        last.finding = verdicts[0].finding.clone();
        let path = self.work.join("found").join(format!("seed-{}-{name}", found.seed));
        let Source { program, helper } = source(&small, 0);
        Folder::write_sources(
            &path,
            &self.workspace,
            &[Source { program: program.clone(), helper: helper.clone() }],
            &[0],
        )?;
        let file = path.join("program.rs");
        let shown = serde_json::to_string_pretty(&last).context("writing what differs")?;
        let text = format!(
            "// Seed {} by {name}: run again with `cargo xtask differ --seed {} --programs 1 --opt-level {}`.\n//\n{}\n\n\
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

/// Whether two findings are of the same kind.
fn is_alike(a: &Finding, b: &Finding) -> bool {
    let kind = |finding: &Finding| match finding {
        Finding::Differs(all) => all.first().map(|first| std::mem::discriminant(&first.what)),
        Finding::Refused(_) => None,
    };
    kind(a) == kind(b)
}
