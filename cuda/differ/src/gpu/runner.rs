//! Many modules on one GPU, each in one of several processes: while one compiles, another runs, and a kernel that hangs or
//! faults takes only its process along.

use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};

use super::worker::{self, Line, Request};
use crate::cases;
use crate::difference::{Difference, What};

/// How long the first kernel of a module may take, for which the driver compiles all of them.
const FIRST: Duration = Duration::from_secs(150);

/// How long any other may take.
const LIMIT: Duration = Duration::from_secs(20);

/// Processes that one module may use up.
const MOST_TRIES: usize = 12;

/// What came of a module.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Its name: the batch and the back end, with a dot between them.
    pub module: String,
    /// Kernels that ran, and their cases.
    pub kernels: usize,
    /// Cases of them.
    pub cases: usize,
    /// Cases that differ.
    pub found: Vec<Difference>,
    /// Kernels and cases that did not run, and why.
    pub missing: (usize, usize),
    /// Why they did not.
    pub reason: Option<String>,
}

/// What all processes said of the device.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// Its name.
    pub name: String,
    /// The least part of its unwritten memory that was soiled, in a hundred.
    pub soiled: usize,
}

/// The modules in the folder, the largest first: those take the longest to compile.
///
/// # Errors
/// The folder cannot be read or holds no PTX.
pub fn modules(folder: &Path) -> anyhow::Result<Vec<String>> {
    let entries = std::fs::read_dir(folder).with_context(|| format!("reading {}", folder.display()))?;
    let mut all: Vec<(u64, String)> = entries
        .filter_map(|entry| {
            let entry = entry.ok()?;
            let name = entry.file_name().to_str()?.strip_suffix(".ptx")?.to_owned();
            Some((entry.metadata().ok()?.len(), name))
        })
        .collect();
    ensure!(!all.is_empty(), "no PTX in {}: fill it by `differ-gpu pack`", folder.display());
    all.sort_by(|a, b| b.cmp(a));
    Ok(all.into_iter().map(|(_, name)| name).collect())
}

/// Runs the modules in so many processes until `end`; what has not begun by then is missing.
///
/// # Errors
/// A process cannot be started, or none of them got the GPU.
pub fn run(
    folder: &Path,
    modules: &[String],
    workers: usize,
    end: Instant,
) -> anyhow::Result<(Vec<Outcome>, Seen)> {
    let state = Mutex::new((0, Vec::new(), Seen::default()));
    let lock = || state.lock().unwrap_or_else(PoisonError::into_inner);
    let work = || -> anyhow::Result<()> {
        let mut worker = Worker { folder: folder.to_owned(), running: None, seen: None };
        loop {
            let next = {
                let mut state = lock();
                state.0 += 1;
                state.0 - 1
            };
            let Some(module) = modules.get(next) else { break };
            let outcome = worker.module(module, end)?;
            let Outcome { kernels, cases, found, missing, .. } = &outcome;
            eprintln!(
                "{module}: {kernels} kernels, {cases} cases, {} differ, {} missing",
                found.len(),
                missing.0
            );
            lock().1.push(outcome);
        }
        if let Some(seen) = worker.seen.take() {
            let all = &mut lock().2;
            all.soiled = if all.name.is_empty() { seen.soiled } else { all.soiled.min(seen.soiled) };
            all.name = seen.name;
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..workers).map(|_| scope.spawn(work)).collect();
        let ended =
            threads.into_iter().map(|thread| thread.join().unwrap_or_else(|_| panic!("a worker panicked")));
        ended.collect::<anyhow::Result<Vec<()>>>()
    })?;
    let (_, mut outcomes, seen) = state.into_inner().unwrap_or_else(PoisonError::into_inner);
    outcomes.sort_by(|a, b| a.module.cmp(&b.module));
    Ok((outcomes, seen))
}

struct Running {
    child: Child,
    requests: ChildStdin,
    lines: Receiver<Line>,
}

/// One process at a time, replaced when it is lost.
struct Worker {
    folder: PathBuf,
    running: Option<Running>,
    seen: Option<Seen>,
}

impl Worker {
    fn start(&mut self) -> anyhow::Result<&mut Running> {
        if self.running.is_none() {
            let program = std::env::current_exe().context("finding this program")?;
            let mut command = Command::new(&program);
            command.arg("work").arg(&self.folder).stdin(Stdio::piped()).stdout(Stdio::piped());
            let mut child = command.spawn().with_context(|| format!("starting {}", program.display()))?;
            let (requests, out) = (child.stdin.take(), child.stdout.take());
            let (requests, out) = (requests.context("no stdin")?, out.context("no stdout")?);
            let (send, lines) = channel();
            std::thread::spawn(move || {
                for line in BufReader::new(out).lines().map_while(Result::ok) {
                    // What is no line of ours is the driver's.
                    if let Ok(line) = serde_json::from_str(&line)
                        && send.send(line).is_err()
                    {
                        return;
                    }
                }
            });
            self.running = Some(Running { child, requests, lines });
        }
        self.running.as_mut().context("no process")
    }

    /// Ends the process.
    fn drop_process(&mut self) {
        if let Some(mut running) = self.running.take() {
            let _ = running.child.kill();
            let _ = running.child.wait();
        }
    }

    fn module(&mut self, module: &str, end: Instant) -> anyhow::Result<Outcome> {
        let mut outcome = Outcome { module: module.to_owned(), ..Outcome::default() };
        let mut done = BTreeSet::new();
        for _ in 0..MOST_TRIES {
            if Instant::now() > end {
                outcome.reason = Some("there was no time left".to_owned());
                break;
            }
            let before = done.len();
            match self.try_module(module, &mut done, &mut outcome, end)? {
                None => return Ok(outcome),
                Some(reason) => {
                    self.drop_process();
                    outcome.reason = Some(reason);
                    if done.len() == before {
                        break;
                    }
                }
            }
        }
        // What is missing, after the last try.
        if let Some((path, _)) = worker::expected(&self.folder, module)
            && let Ok(cases) =
                std::fs::read(&path).map_err(anyhow::Error::from).and_then(|bytes| cases::read(&bytes))
        {
            let missing = || cases.iter().filter(|case| !done.contains(&case.kernel));
            let kernels: BTreeSet<&str> = missing().map(|case| case.kernel.as_str()).collect();
            outcome.missing = (kernels.len(), missing().count());
        }
        if outcome.missing.0 == 0 {
            outcome.reason = None;
        }
        Ok(outcome)
    }

    /// Runs the kernels that are not done; why it could not, if not all are done.
    fn try_module(
        &mut self,
        module: &str,
        done: &mut BTreeSet<String>,
        outcome: &mut Outcome,
        end: Instant,
    ) -> anyhow::Result<Option<String>> {
        let request = Request { module: module.to_owned(), without: done.clone() };
        let request = serde_json::to_string(&request).context("writing a request")?;
        let running = self.start()?;
        if writeln!(running.requests, "{request}").and_then(|()| running.requests.flush()).is_err() {
            return Ok(Some("the process that runs it died".to_owned()));
        }
        let (mut current, mut is_first, mut device) = (None, true, None);
        let reason = loop {
            let limit = if is_first { FIRST } else { LIMIT };
            let left = end.saturating_duration_since(Instant::now()) + LIMIT;
            match running.lines.recv_timeout(limit.min(left)) {
                Ok(Line::Device(name, soiled)) => device = Some(Seen { name, soiled }),
                Ok(Line::Begins(kernel)) => current = Some(kernel),
                Ok(Line::Ended { cases, found }) => {
                    is_first = false;
                    done.extend(current.take());
                    outcome.kernels += 1;
                    outcome.cases += cases;
                    outcome.found.extend(found);
                }
                Ok(Line::Done) => break None,
                Ok(Line::Refused(reason)) => break Some(reason),
                Err(error) => {
                    let how = match error {
                        std::sync::mpsc::RecvTimeoutError::Timeout => format!("no answer in {limit:?}"),
                        std::sync::mpsc::RecvTimeoutError::Disconnected => "the process died".to_owned(),
                    };
                    // The first kernel waits for the compiler, which may be what does not come back.
                    if let Some(kernel) = current.take()
                        && !(is_first && limit.min(left) < FIRST)
                    {
                        done.insert(kernel.clone());
                        outcome.kernels += 1;
                        let what = What::Fault(how.clone());
                        outcome.found.push(Difference { kernel, number: 0, input_len: 0, what });
                    }
                    break Some(how);
                }
            }
        };
        if let Some(device) = device {
            self.seen = Some(device);
        }
        Ok(reason)
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.drop_process();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_module_is_the_first() {
        let folder = std::env::temp_dir().join(format!("differ-runner-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        assert!(modules(&folder).is_err());
        for (name, text) in [("a.nvvm.ptx", "1"), ("b.llvm.ptx", "123"), ("b.cases", "1234")] {
            std::fs::write(folder.join(name), text).unwrap();
        }
        assert_eq!(modules(&folder).unwrap(), ["b.llvm", "a.nvvm"]);
        let (path, outputs) = worker::expected(&folder, "b.llvm").unwrap();
        assert_eq!((path, outputs), (folder.join("b.cases"), super::super::Outputs::Bytes));
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
