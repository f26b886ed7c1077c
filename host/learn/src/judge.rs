//! Judges a kernel: right or wrong on problems of many sizes in many orders of the threads, and good by its counts.

use std::fmt::Write as _;

use cuda_std::launch::KernelMeta;

use crate::explain::Context;
use crate::problem::{Draw, Problem, Puzzle, Sizes};
use crate::ptx::{MAX_STEPS, Ptx};
use crate::rules::{Measure, Rule};
use crate::run::{On, Run};
use crate::spread;

/// What a kernel is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum State {
    /// A result is wrong, or the kernel breaks a rule.
    Wrong,
    /// All results are right, but a count is not that of a good kernel, or was not made.
    Right,
    /// All results are right, and so are the counts.
    Good,
}

impl State {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            State::Wrong => "wrong",
            State::Right => "right",
            State::Good => "good",
        }
    }
}

/// A verdict, and why.
pub struct Verdict {
    /// What the kernel is.
    pub state: State,
    /// The words for the learner.
    pub text: String,
}

/// Judges a kernel of the puzzle. Without PTX nothing is counted.
pub fn judge(puzzle: &Puzzle, meta: &'static KernelMeta, ptx: Option<&Ptx>, seed: u64) -> Verdict {
    for sizes in Sizes::ALL {
        let problem = (puzzle.problem)(&mut Draw::new(seed, sizes));
        if let Some(why) = wrong(meta, &problem, ptx, seed) {
            let text = format!("wrong: {why}\n    the launch: {}", problem.words());
            return Verdict { state: State::Wrong, text };
        }
    }
    let Some(ptx) = ptx else {
        let text = "right, as far as the CPU shows. Nothing was counted, because there is no PTX".to_owned();
        return Verdict { state: State::Right, text };
    };
    let (mut good, mut poor) = (String::new(), String::new());
    // Double work may show only where blocks are not full.
    for sizes in [Sizes::Counted, Sizes::Above] {
        let problem = (puzzle.problem)(&mut Draw::new(seed, sizes));
        let counts = match (Run { meta, problem: &problem }).counts(&ptx.emulator) {
            Ok(counts) => counts,
            Err(error) => return Verdict { state: State::Wrong, text: format!("wrong: {error:?}") },
        };
        let is_counted = sizes == Sizes::Counted;
        let is_first = poor.is_empty();
        let applies = |rule: &&Rule| is_counted || is_first && rule.measure == Measure::Writes;
        for rule in puzzle.rules.iter().filter(applies) {
            let value = rule.measure.of(&counts, &problem);
            let (name, most, advice) = (rule.measure.name(), rule.most, rule.advice);
            if value <= most * 1.001 {
                if is_counted {
                    let _ = write!(good, "\n    {name}: {}", few_digits(value));
                }
                continue;
            }
            let line = rule.measure.line(&counts, meta.file).map_or_else(String::new, |(line, value)| {
                let ratio = rule.measure.is_ratio().then(|| format!("{} at", few_digits(value)));
                format!(" ({} {}:{line})", ratio.as_deref().unwrap_or("most at"), meta.file)
            });
            let (value, most, launch) = (few_digits(value), few_digits(most), problem.words());
            let _ = write!(poor, "\n    {name}: {value}, and {most} are enough{line}\n    {advice}");
            let _ = write!(poor, "\n    counted for the launch: {launch}");
        }
    }
    if poor.is_empty() {
        poor = spread::why_not(meta, puzzle, ptx).unwrap_or_default();
    }
    if poor.is_empty() {
        Verdict { state: State::Good, text: format!("good.{good}") }
    } else {
        Verdict { state: State::Right, text: format!("right, but not good yet.{poor}") }
    }
}

/// Why the kernel is wrong for the problem.
fn wrong(meta: &'static KernelMeta, problem: &Problem, ptx: Option<&Ptx>, seed: u64) -> Option<String> {
    let run = Run { meta, problem };
    let context = Context { meta, problem, ptx };
    let mut unexplained = None;
    // The emulator comes first: it survives what would end this process.
    let mut was_right = false;
    if let Some(ptx) = ptx {
        match run.outputs(On::Emulator(&ptx.emulator)) {
            Ok(outputs) => {
                if let Some(why) = context.difference(&outputs, None) {
                    return Some(why);
                }
                was_right = true;
            }
            Err((error, addresses)) => match context.error(&error, &addresses) {
                // An element that no thread writes says more than that two threads write another one.
                Some(why) if why.contains("two threads write") => {
                    return match run.outputs(On::Emulator(&ptx.with_max_steps(MAX_STEPS))) {
                        Ok(outputs) => context
                            .difference(&outputs, None)
                            .filter(|why| why.contains("no thread wrote it")),
                        Err((error, addresses)) => context.error(&error, &addresses),
                    }
                    .or(Some(why));
                }
                Some(why) => return Some(why),
                None => unexplained = Some(format!("{error:?}")),
            },
        }
    }
    for schedule in [None, Some(seed), Some(seed.wrapping_add(1)), Some(seed.wrapping_add(2))] {
        match run.outputs(On::Executor(schedule)) {
            Ok(outputs) => {
                let other = schedule.filter(|_| was_right);
                if let Some(why) = context.difference(&outputs, other) {
                    return Some(why);
                }
                was_right = true;
            }
            Err((error, addresses)) => {
                return context.error(&error, &addresses).or(Some(format!("{error:?}")));
            }
        }
    }
    unexplained
}

/// A count with at most one digit after the point.
fn few_digits(value: f64) -> String {
    if value == value.trunc() { format!("{value}") } else { format!("{value:.1}") }
}
