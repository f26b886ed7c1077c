//! Runs many modules on one GPU in several processes: while one compiles, another runs, and a kernel that hangs or faults
//! only takes its own process down.

use std::collections::{BTreeMap, VecDeque};
use std::ffi::OsString;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};

use super::worker::{self, Assembler, Line, Request};
use crate::cases;
use crate::difference::{Difference, What};

/// The driver's time limit for compiling.
const COMPILING: Duration = Duration::from_secs(60);

/// The time limit of a kernel.
const LIMIT: Duration = Duration::from_secs(20);

/// Kernels compiled together. If the driver's compiler crashes on one, all of them are compiled again.
const AT_ONCE: usize = 12;

/// The results of a module.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Its name: the batch and the back end, with a dot between them.
    pub module: String,
    /// The number of kernels that ran.
    pub kernels: usize,
    /// The number of their cases.
    pub cases: usize,
    /// Cases that differ.
    pub found: Vec<Difference>,
    /// Kernels that did not run, their number of cases, and the reason.
    pub missing: Vec<(String, usize, String)>,
}

/// The device, from the reports of all processes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// Its name.
    pub name: String,
    /// The smallest percentage of its unwritten memory that was soiled.
    pub soiled: usize,
}

/// The modules in the folder. Crates are first: they take the longest to compile.
///
/// # Errors
/// The folder cannot be read or holds no PTX.
pub fn modules(folder: &Path) -> anyhow::Result<Vec<String>> {
    let entries = std::fs::read_dir(folder).with_context(|| format!("reading {}", folder.display()))?;
    let mut all: Vec<String> = entries
        .filter_map(|entry| Some(entry.ok()?.file_name().to_str()?.strip_suffix(".ptx")?.to_owned()))
        .collect();
    ensure!(!all.is_empty(), "no PTX in {}: fill it by `differ-gpu pack`", folder.display());
    all.sort_by_key(|name| (!name.starts_with("crates"), name.clone()));
    Ok(all)
}

/// Some kernels of a module.
#[derive(Clone, Debug)]
struct Part {
    module: String,
    kernels: Vec<String>,
}

/// All kernels of the modules, in parts of a few.
fn parts(folder: &Path, modules: &[String]) -> anyhow::Result<VecDeque<Part>> {
    let mut all = VecDeque::new();
    for module in modules {
        let kernels: Vec<String> = kernels(folder, module)?.into_iter().map(|(kernel, _)| kernel).collect();
        all.extend(
            kernels.chunks(AT_ONCE).map(|some| Part { module: module.clone(), kernels: some.to_vec() }),
        );
    }
    Ok(all)
}

/// The kernels of a module, and the number of cases of each.
fn kernels(folder: &Path, module: &str) -> anyhow::Result<Vec<(String, usize)>> {
    let (path, _) =
        worker::expected(folder, module).with_context(|| format!("no outputs of {module} are known"))?;
    let bytes = std::fs::read(&path).with_context(|| format!("reading {}", path.display()))?;
    let cases = cases::read(&bytes).with_context(|| format!("reading {}", path.display()))?;
    Ok(cases::by_kernel(&cases).iter().map(|cases| (cases[0].kernel.clone(), cases.len())).collect())
}

/// Runs the modules in several processes until `end`. A module that has not begun by then is missing from the result.
///
/// # Errors
/// The outputs of a module cannot be read, or a process cannot be started.
pub fn run(
    folder: &Path,
    modules: &[String],
    assembler: &Assembler,
    workers: usize,
    end: Instant,
) -> anyhow::Result<(Vec<Outcome>, Seen)> {
    let open = Mutex::new(parts(folder, modules)?);
    let state = Mutex::new((Vec::<Outcome>::new(), Seen::default()));
    let (count, done) = (lock(&open).len(), AtomicUsize::new(0));
    let work = || -> anyhow::Result<()> {
        let mut worker =
            Worker { folder: folder.to_owned(), arguments: assembler.arguments(), running: None, seen: None };
        while let Some(part) = { lock(&open).pop_front() } {
            let outcome = worker.part(&part, end)?;
            lock(&state).0.push(outcome);
            let done = done.fetch_add(1, Ordering::Relaxed) + 1;
            if done.is_multiple_of(50) {
                eprintln!("{done} of {count} parts");
            }
        }
        if let Some(seen) = worker.seen.take() {
            let all = &mut lock(&state).1;
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
    let (outcomes, seen) = state.into_inner().unwrap_or_else(PoisonError::into_inner);
    Ok((merged(folder, outcomes)?, seen))
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// One outcome per module, with the number of missing cases.
fn merged(folder: &Path, outcomes: Vec<Outcome>) -> anyhow::Result<Vec<Outcome>> {
    let mut all: BTreeMap<String, Outcome> = BTreeMap::new();
    for one in outcomes {
        let of = all
            .entry(one.module.clone())
            .or_insert_with(|| Outcome { module: one.module, ..Outcome::default() });
        of.kernels += one.kernels;
        of.cases += one.cases;
        of.found.extend(one.found);
        of.missing.extend(one.missing);
    }
    for of in all.values_mut().filter(|of| !of.missing.is_empty()) {
        let known: BTreeMap<String, usize> = kernels(folder, &of.module)?.into_iter().collect();
        of.missing.iter_mut().for_each(|(kernel, cases, _)| *cases = known.get(kernel).copied().unwrap_or(0));
    }
    Ok(all.into_values().collect())
}

struct Running {
    child: Child,
    requests: ChildStdin,
    lines: Receiver<Line>,
}

/// One process at a time, restarted when it is lost.
struct Worker {
    folder: PathBuf,
    arguments: Vec<OsString>,
    running: Option<Running>,
    seen: Option<Seen>,
}

impl Worker {
    fn start(&mut self) -> anyhow::Result<&mut Running> {
        if self.running.is_none() {
            let program = std::env::current_exe().context("finding this program")?;
            let mut command = Command::new(&program);
            command
                .arg("work")
                .arg(&self.folder)
                .args(&self.arguments)
                .stdin(Stdio::piped())
                .stdout(Stdio::piped());
            let mut child = command.spawn().with_context(|| format!("starting {}", program.display()))?;
            let (requests, out) = (child.stdin.take(), child.stdout.take());
            let (requests, out) = (requests.context("no stdin")?, out.context("no stdout")?);
            let (send, lines) = channel();
            std::thread::spawn(move || {
                for line in BufReader::new(out).lines().map_while(Result::ok) {
                    // Any other line is the driver's.
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

    /// Runs the kernels, in smaller parts if they cannot all be compiled together.
    fn part(&mut self, part: &Part, end: Instant) -> anyhow::Result<Outcome> {
        let mut outcome = Outcome { module: part.module.clone(), ..Outcome::default() };
        let mut open = vec![part.clone()];
        while let Some(part) = open.pop() {
            if Instant::now() > end {
                let reason = "there was no time left";
                outcome.missing.extend(part.kernels.into_iter().map(|kernel| (kernel, 0, reason.to_owned())));
                continue;
            }
            let Some((left, reason)) = self.try_part(&part, &mut outcome)? else { continue };
            let Part { module, kernels } = part;
            if left.len() < kernels.len() {
                open.extend((!left.is_empty()).then_some(Part { module, kernels: left }));
            } else if let [kernel] = &left[..] {
                outcome.missing.push((kernel.clone(), 0, reason));
            } else {
                let (a, b) = left.split_at(left.len() / 2);
                let part = |some: &[String]| Part { module: module.clone(), kernels: some.to_vec() };
                open.extend([part(b), part(a)]);
            }
        }
        Ok(outcome)
    }

    /// Runs the kernels. Returns the remaining ones and the reason, if not all ran.
    fn try_part(
        &mut self,
        part: &Part,
        outcome: &mut Outcome,
    ) -> anyhow::Result<Option<(Vec<String>, String)>> {
        let request = Request { module: part.module.clone(), kernels: part.kernels.clone() };
        let request = serde_json::to_string(&request).context("writing a request")?;
        let running = self.start()?;
        let mut left = part.kernels.clone();
        // A process that has already ended is detected by its missing answer.
        let _ = writeln!(running.requests, "{request}").and_then(|()| running.requests.flush());
        let (mut current, mut device) = (None::<String>, None);
        let reason = loop {
            let limit = if current.is_none() { COMPILING } else { LIMIT };
            match running.lines.recv_timeout(limit) {
                Ok(Line::Device(name, soiled)) => device = Some(Seen { name, soiled }),
                Ok(Line::Begins(kernel)) => current = Some(kernel),
                Ok(Line::Ended { cases, found }) => {
                    left.retain(|kernel| current.as_ref() != Some(kernel));
                    current = None;
                    outcome.kernels += 1;
                    outcome.cases += cases;
                    outcome.found.extend(found);
                }
                Ok(Line::Done) => break None,
                Ok(Line::Refused(reason)) => break Some((false, reason)),
                Err(error) => {
                    let what = if current.is_some() { "the kernel" } else { "the driver's compiler" };
                    let how = match error {
                        RecvTimeoutError::Timeout => format!("{what} does not end in {limit:?}"),
                        RecvTimeoutError::Disconnected => format!("{what} ends the process"),
                    };
                    if let Some(kernel) = current.take() {
                        left.retain(|other| *other != kernel);
                        outcome.kernels += 1;
                        let what = What::Fault(how.clone());
                        outcome.found.push(Difference { kernel, number: 0, input_len: 0, what });
                    }
                    break Some((true, how));
                }
            }
        };
        if let Some(device) = device {
            self.seen = Some(device);
        }
        Ok(reason.map(|(is_lost, reason)| {
            if is_lost {
                self.drop_process();
            }
            (left, reason)
        }))
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
    fn crates_are_the_first() {
        let folder = std::env::temp_dir().join(format!("differ-runner-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        assert!(modules(&folder).is_err());
        for name in ["b1-0.nvvm.ptx", "crates-0.llvm-O3.ptx", "crates-0.cases"] {
            std::fs::write(folder.join(name), "1").unwrap();
        }
        assert_eq!(modules(&folder).unwrap(), ["crates-0.llvm-O3", "b1-0.nvvm"]);
        let (path, outputs) = worker::expected(&folder, "crates-0.llvm-O3").unwrap();
        assert_eq!((path, outputs), (folder.join("crates-0.cases"), super::super::Outputs::Bytes));
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
