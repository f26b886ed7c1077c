//! The result of a fault, as a line and as JSON.

use std::fmt;
use std::path::Path;

use anyhow::{Context as _, Result};
use ferrowarp_report::output_file;
use serde_json::json;

use crate::faults::Fault;

/// One fault and its result.
pub struct Outcome {
    name: &'static str,
    what: &'static str,
    verdict: Verdict,
    ended: Option<Ended>,
}

/// Whether the result was as expected.
pub enum Verdict {
    /// It was.
    Passed,
    /// It was not, and the reason.
    Failed(String),
    /// It could not be provoked here, and the reason.
    NotRun(String),
}

/// How a child ended.
pub struct Ended {
    /// Its exit code; `None` after a signal.
    pub code: Option<i32>,
    /// Whether it ended without being killed.
    pub in_time: bool,
    /// Wall time from its start to its end.
    pub seconds: f64,
    /// Its standard error.
    pub text: String,
}

impl Outcome {
    pub fn of(fault: &Fault, verdict: Verdict, ended: Option<Ended>) -> Outcome {
        Outcome { name: fault.name, what: fault.what, verdict, ended }
    }

    pub fn has_failed(&self) -> bool {
        matches!(self.verdict, Verdict::Failed(_))
    }

    /// The verdict as a word, and the reason unless it passed.
    fn verdict(&self) -> (&'static str, Option<&str>) {
        match &self.verdict {
            Verdict::Passed => ("ok", None),
            Verdict::Failed(reason) => ("FAIL", Some(reason)),
            Verdict::NotRun(reason) => ("not run", Some(reason)),
        }
    }

    fn message(&self) -> Option<&str> {
        self.ended.as_ref().map(|ended| ended.text.trim_end())
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (verdict, reason) = self.verdict();
        write!(f, "{verdict:<8} {:<20}", self.name)?;
        if let Some(ended) = &self.ended {
            let code = ended.code.map_or_else(|| "-".to_owned(), |code| code.to_string());
            write!(f, " exit {code}, {:5.2} s", ended.seconds)?;
        }
        if let Some(reason) = reason {
            write!(f, " {reason}")?;
        }
        if let Some(message) = self.message() {
            write!(f, "\n         {}", message.replace('\n', "\n         "))?;
        }
        Ok(())
    }
}

/// The number of outcomes per verdict, as a line.
pub fn summary(outcomes: &[Outcome]) -> String {
    let count = |wanted: &str| outcomes.iter().filter(|outcome| outcome.verdict().0 == wanted).count();
    format!("{} passed, {} failed, {} not run", count("ok"), count("FAIL"), count("not run"))
}

/// Writes all outcomes to `path`, atomically.
///
/// # Errors
/// The file cannot be written.
pub fn write_json(path: &Path, device: &str, outcomes: &[Outcome]) -> Result<()> {
    let row = |outcome: &Outcome| {
        let (verdict, reason) = outcome.verdict();
        json!({
            "fault": outcome.name,
            "what": outcome.what,
            "verdict": verdict,
            "reason": reason,
            "exit_code": outcome.ended.as_ref().and_then(|ended| ended.code),
            "seconds": outcome.ended.as_ref().map(|ended| ended.seconds),
            "message": outcome.message(),
        })
    };
    let all = json!({
        "device": device,
        "summary": summary(outcomes),
        "faults": outcomes.iter().map(row).collect::<Vec<_>>(),
    });
    output_file::write(path, format!("{all:#}\n").as_bytes())
        .with_context(|| format!("could not write the results to {}", path.display()))
}
