//! Builds the learner's file for the CPU and to PTX, and starts the program that judges it.

use std::fs::File;
use std::io::{BufRead as _, BufReader, IsTerminal as _, Read};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::Context;
use cuda_builder::CudaBuilderError;
use ferrowarp_learn::VERDICT;
use ferrowarp_learn::judge::State;
use ferrowarp_learn::ptx;
use ferrowarp_learn::text::Text;
use ferrowarp_learn::workspace;

use crate::progress::Progress;
use crate::say;

/// How long the judge may take.
const TIME_LIMIT: Duration = Duration::from_secs(60);
/// The most lines that a kernel's threads may print.
const MAX_PRINTED: usize = 20;

/// Judges the learner's file, prints the verdict and keeps it. Returns whether the kernel is right.
pub fn check(text: &Text, progress: &mut Progress, seed: Option<u64>) -> anyhow::Result<bool> {
    let content = text.read_mine()?;
    say(&format!("Puzzle {:02}, {}, {}\n", text.number, text.name, workspace::shown(&text.mine())));
    if content == text.hole {
        say(&format!("the file is as it was: `cargo xtask learn show {}` says what to do\n", text.number));
    }
    let has_kernel = content.contains("#[kernel");
    let is_same =
        has_kernel && Text::signature(&content, &text.name) == Text::signature(&text.hole, &text.name);
    let (verdict, message) = if is_same {
        judge(text, seed.unwrap_or_else(new_seed))?
    } else {
        let why = if has_kernel && content.contains(&format!("fn {}", text.name)) {
            "the judge calls the kernel with the parameters that it had at first; declare it so again"
                .to_owned()
        } else {
            format!("the file has no kernel `{}`; declare it so", text.name)
        };
        (State::Wrong, format!("wrong: {why}:\n\n{}", text.declaration()))
    };
    say(&format!("{}\n", message.trim_end()));
    progress.keep(text, verdict.name(), &content);
    Ok(verdict != State::Wrong)
}

fn judge(text: &Text, seed: u64) -> anyhow::Result<(State, String)> {
    // Another check would write the same files.
    std::fs::create_dir_all(crate::folder()).context("creating the folder of the judge")?;
    let lock = crate::folder().join("lock");
    let lock = File::create(&lock).with_context(|| format!("creating {}", lock.display()))?;
    lock.lock().context("waiting for another check")?;
    text.select()?;
    let (program, ptx) = std::thread::scope(|scope| {
        let ptx = scope.spawn(|| ptx::build("mine"));
        (build_judge(), ptx.join())
    });
    let program = match program? {
        Ok(program) => program,
        Err(messages) => {
            let is_index = messages.contains("usize") && messages.contains("u32");
            let hint = if is_index { " An index is a `usize`: `i as usize` converts it." } else { "" };
            return Ok((State::Wrong, format!("wrong: the file does not compile.{hint}\n\n{messages}")));
        }
    };
    let mut notes = String::new();
    let path = match ptx.unwrap_or_else(|_| Err(CudaBuilderError::Options("the builder panicked".to_owned())))
    {
        Ok(text) => {
            let path = crate::folder().join("mine.ptx");
            std::fs::write(&path, text).with_context(|| format!("writing {}", path.display()))?;
            path
        }
        Err(CudaBuilderError::CargoFailed { log, .. }) => {
            let is_noise =
                |line: &&str| line.starts_with("For more") || line.starts_with("error: could not compile");
            let lines =
                log.lines().skip_while(|line| !line.starts_with("error")).filter(|line| !is_noise(line));
            let errors = lines.collect::<Vec<_>>().join("\n");
            let words = "wrong: the file compiles for the CPU, but not for a GPU, which has no standard library. Methods of \
                         floats such as exp and sqrt need `use cuda_std::GpuFloat as _;`.";
            return Ok((State::Wrong, format!("{words}\n\n{errors}")));
        }
        Err(error) => {
            notes = format!("\nnothing was counted, because there is no PTX: {error}");
            PathBuf::from("-")
        }
    };
    let mut command = Command::new(program);
    command.arg(text.number.to_string()).arg(seed.to_string()).arg(path);
    let (state, message) = run_judge(&mut command)?;
    let again = format!("\n(problems of seed {seed}; repeat with --seed {seed})");
    Ok((state, format!("{message}{again}{notes}")))
}

/// Builds the program that judges. The inner error has rustc's messages about the learner's file.
fn build_judge() -> anyhow::Result<Result<PathBuf, String>> {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args([
        "build",
        "--quiet",
        "--package",
        "ferrowarp-puzzles",
        "--example",
        "judge",
        "--no-default-features",
    ]);
    let format = if std::io::stdout().is_terminal() { "json-diagnostic-rendered-ansi" } else { "json" };
    command.args(["--features", "mine", "--message-format", format]);
    let output = command.current_dir(workspace::root()).output().context("starting cargo")?;
    let (mut program, mut messages) = (None, String::new());
    for line in String::from_utf8_lossy(&output.stdout).lines() {
        let Ok(value) = serde_json::from_str::<serde_json::Value>(line) else { continue };
        if let Some(path) = value["executable"].as_str() {
            program = Some(PathBuf::from(path));
        }
        let message = &value["message"];
        let has_place = message["spans"].as_array().is_some_and(|spans| !spans.is_empty());
        if message["level"] == "error" && has_place {
            messages.push_str(message["rendered"].as_str().unwrap_or_default());
        }
    }
    match program {
        Some(program) if output.status.success() => Ok(Ok(program)),
        _ if !messages.is_empty() => Ok(Err(messages)),
        _ => anyhow::bail!("building the judge failed:\n{}", String::from_utf8_lossy(&output.stderr)),
    }
}

/// Runs the judge in a process of its own, which a kernel may end.
fn run_judge(command: &mut Command) -> anyhow::Result<(State, String)> {
    let mut child =
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().context("starting the judge")?;
    let printed = child.stdout.take().context("the judge has no output")?;
    let errors = child.stderr.take().context("the judge has no messages")?;
    let [printed, errors] =
        [std::thread::spawn(|| read_output(printed)), std::thread::spawn(|| read_output(errors))];
    let start = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().context("waiting for the judge")? {
            break Some(status);
        }
        if start.elapsed() > TIME_LIMIT {
            child.kill().context("ending the judge")?;
            child.wait().context("waiting for the judge")?;
            break None;
        }
        std::thread::sleep(Duration::from_millis(10));
    };
    let [printed, errors] = [printed, errors].map(|reader| reader.join().unwrap_or_default());
    let Some(status) = status else {
        let seconds = TIME_LIMIT.as_secs();
        return Ok((
            State::Wrong,
            format!("wrong: the kernel still ran after {seconds} s; is there a loop without an end?"),
        ));
    };
    let state = [State::Wrong, State::Right, State::Good]
        .into_iter()
        .find(|&state| status.code() == Some(10 + state as i32));
    match state {
        Some(state) => Ok((state, printed.trim_start().to_owned())),
        None => Ok((
            State::Wrong,
            format!("wrong: the kernel ended the judge ({status}). Its last message:\n{printed}{errors}"),
        )),
    }
}

/// Reads what the judge prints: the first lines that the kernel's threads print, and the verdict.
fn read_output(output: impl Read) -> String {
    let (mut lines, mut count, mut is_verdict) = (String::new(), 0, false);
    for line in BufReader::new(output).split(b'\n').map_while(Result::ok) {
        let line = String::from_utf8_lossy(&line);
        if line == VERDICT {
            is_verdict = true;
            if count > MAX_PRINTED {
                lines.push_str(&format!("... ({} more lines, of all runs)\n", count - MAX_PRINTED));
            }
            continue;
        }
        count += 1;
        if is_verdict || count <= MAX_PRINTED {
            lines.push_str(&line);
            lines.push('\n');
        }
    }
    lines
}

fn new_seed() -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    now.map_or(1, |now| now.subsec_nanos() as u64 % 100_000)
}
