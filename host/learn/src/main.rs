//! `cargo xtask learn`: shows the puzzles, and judges the learner's kernels.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

mod build;
mod progress;

use anyhow::Context as _;
use ferrowarp_learn::predictions::questions;
use ferrowarp_learn::ptx::{self, Ptx};
use ferrowarp_learn::text::{self, Text};
use ferrowarp_learn::workspace;
use progress::Progress;

/// Puzzles for GPU programmers: you fill the hole in a kernel, and the judge says whether it is right and good. No GPU is
/// needed.
#[derive(Parser)]
#[command(bin_name = "cargo xtask learn")]
struct Arguments {
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Subcommand)]
enum Command {
    /// List the puzzles and how far you are (the default)
    List,
    /// Show a puzzle: its text, and the file to edit
    Show {
        /// The puzzle, by number or name [default: the first that is not done]
        puzzle: Option<String>,
    },
    /// Judge your kernel
    Check {
        /// The puzzle, or `all` for those that you have begun [default: the first that is not done]
        puzzle: Option<String>,
        /// Repeat the problems of this seed
        #[arg(long)]
        seed: Option<u64>,
    },
    /// Show a hint, one more at each call, and the solution at last
    Hint {
        /// The puzzle, by number or name [default: the first that is not done]
        puzzle: Option<String>,
        /// Show all
        #[arg(long)]
        all: bool,
    },
    /// Judge your kernel whenever you save its file
    Watch {
        /// The puzzle, by number or name [default: the first that is not done]
        puzzle: Option<String>,
    },
    /// Ask for a number that the emulator counts, and judge your prediction
    Predict {
        /// The question; without it all are listed
        question: Option<usize>,
        /// Your prediction
        value: Option<u64>,
    },
    /// Write the lists of puzzles in docs/learn again
    #[command(hide = true)]
    Pages,
    /// Give the file of a puzzle back as it was
    Reset {
        /// The puzzle
        puzzle: String,
    },
}

fn main() -> ExitCode {
    match run(Arguments::parse().command.unwrap_or(Command::List)) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Runs a command. Returns whether what it judged is right.
fn run(command: Command) -> anyhow::Result<bool> {
    let texts = text::all()?;
    let mut progress = Progress::read();
    match command {
        Command::List => list(&texts, &progress)?,
        Command::Show { puzzle } => show(progress.choose(&texts, puzzle.as_deref())?)?,
        Command::Check { puzzle, seed } => return check(&texts, &mut progress, puzzle.as_deref(), seed),
        Command::Hint { puzzle, all } => {
            let text = progress.choose(&texts, puzzle.as_deref())?;
            let hints = text.hints()?;
            let shown = if all { hints.len() } else { progress.one_more_hint(text).min(hints.len()) };
            for (i, hint) in hints[..shown].iter().enumerate() {
                say(&format!("{} of {}: {hint}\n\n", i + 1, hints.len()));
            }
        }
        Command::Watch { puzzle } => {
            let text = progress.choose(&texts, puzzle.as_deref())?;
            say(&format!(
                "judging {} whenever you save it; Ctrl+C ends this\n",
                workspace::shown(&text.mine())
            ));
            let mut last = None;
            loop {
                // An editor may replace the file: for a moment there is none.
                let now = if text.mine().exists() || last.is_none() { Some(text.read_mine()?) } else { None };
                if now.is_some() && last != now {
                    say("\n");
                    build::check(text, &mut progress, None)?;
                    last = now;
                }
                std::thread::sleep(std::time::Duration::from_millis(300));
            }
        }
        Command::Predict { question, value } => return predict(question, value),
        Command::Pages => {
            for path in text::pages()? {
                let old = std::fs::read_to_string(&path)?;
                let new = text::page(&texts, &old);
                if new != old {
                    std::fs::write(&path, new)?;
                }
            }
        }
        Command::Reset { puzzle } => {
            let text = progress.choose(&texts, Some(&puzzle))?;
            let before = text.reset()?;
            progress.forget(text);
            say(&format!("{} is as it was\n", workspace::shown(&text.mine())));
            if let Some(before) = before {
                say(&format!("what you had is in {}\n", workspace::shown(&before)));
            }
        }
    }
    Ok(true)
}

/// Prints a text; a reader such as `head` may have left.
pub(crate) fn say(text: &str) {
    let _ = std::io::stdout().write_all(text.as_bytes()).and_then(|()| std::io::stdout().flush());
}

fn list(texts: &[Text], progress: &Progress) -> anyhow::Result<()> {
    let (mut shown, mut chapter) = (String::new(), "");
    let mut done = 0;
    for text in texts {
        if text.chapter != chapter {
            let _ = writeln!(shown, "\n{}", text.chapter);
            chapter = &text.chapter;
        }
        let state = progress.state(text)?;
        done += usize::from(state == "good");
        let _ = writeln!(shown, "  {:02} {:<18} {:<10} {}", text.number, text.name, state, text.line);
    }
    say(&format!(
        "{shown}\n{done} of {} are good. `cargo xtask learn show` shows the next one, `check` judges it.\n",
        texts.len()
    ));
    Ok(())
}

fn show(text: &Text) -> anyhow::Result<()> {
    text.read_mine()?;
    say(&format!("Puzzle {:02}, {}: {}\n\n{}\n\n", text.number, text.name, text.line, text.task));
    say(&format!("edit:  {}\n", workspace::shown(&text.mine())));
    say(&format!("judge: cargo xtask learn check {}\n", text.number));
    Ok(())
}

fn check(
    texts: &[Text],
    progress: &mut Progress,
    puzzle: Option<&str>,
    seed: Option<u64>,
) -> anyhow::Result<bool> {
    if puzzle != Some("all") {
        let text = progress.choose(texts, puzzle)?;
        return build::check(text, progress, seed);
    }
    let mut all_right = true;
    for text in texts {
        if progress.state(text)? != "not tried" {
            all_right &= build::check(text, progress, seed)?;
            say("\n");
        }
    }
    Ok(all_right)
}

/// Shows a question, or judges a prediction.
fn predict(question: Option<usize>, value: Option<u64>) -> anyhow::Result<bool> {
    let questions = questions()?;
    let Some(number) = question else {
        let all =
            questions.iter().enumerate().map(|(i, question)| format!("{:2}  {}\n\n", i + 1, question.text));
        say(&all.collect::<String>());
        say("`cargo xtask learn predict 1 32` predicts 32 for the first.\n");
        return Ok(true);
    };
    let question = number.checked_sub(1).and_then(|i| questions.get(i));
    let question = question
        .with_context(|| format!("there is no question {number}; there are 1 to {}", questions.len()))?;
    say(&format!("{}\n\n", question.text));
    let Some(value) = value else {
        say(&format!("Predict it: cargo xtask learn predict {number} VALUE\n"));
        return Ok(true);
    };
    let counted = question.count(Ptx::new(ptx::build("predict")?)?)?;
    let verdict = if counted == value { "right" } else { "not right" };
    say(&format!("{verdict}: the emulator counts {counted}, and you predicted {value}.\n{}\n", question.why));
    say(&format!("The kernel is `{}` in gpu-kernels/puzzles/src/predict.rs.\n", question.kernel));
    Ok(counted == value)
}

/// The folder of what the judge keeps.
fn folder() -> PathBuf {
    workspace::target().join("learn")
}
