//! The finished batches of a long hunt, in a file: an interrupted hunt can resume.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use serde::{Deserialize, Serialize};

use super::hunt::Found;

/// A finished batch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Done {
    /// The number of programs.
    pub count: u64,
    /// The findings.
    pub found: Vec<Found>,
}

/// A line of the file; the first one identifies the comparison.
#[derive(Serialize, Deserialize)]
enum Line {
    Of(String),
    Batch { first: u64, done: Done, elapsed: Duration },
}

/// The file, and its initial content.
#[derive(Debug)]
pub struct Journal {
    path: PathBuf,
    file: Mutex<File>,
    done: BTreeMap<u64, Done>,
    earlier: Duration,
    start: Instant,
}

impl Journal {
    /// Starts the file `path` from scratch, or resumes it. `of` identifies the comparison.
    ///
    /// # Errors
    /// The file cannot be written, or it is to be resumed and belongs to another comparison.
    pub fn open(path: &Path, of: &str, resume: bool) -> anyhow::Result<Journal> {
        let (mut done, mut earlier) = (BTreeMap::new(), Duration::ZERO);
        let is_kept = resume && path.exists();
        if is_kept {
            let text =
                std::fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))?;
            // The last line may be truncated if the hunt was interrupted.
            let mut lines = text.lines().map_while(|line| serde_json::from_str::<Line>(line).ok());
            let first = lines.next();
            ensure!(
                matches!(&first, Some(Line::Of(other)) if other == of),
                "{} is of another comparison, or of other sources: begin anew without --resume",
                path.display()
            );
            for line in lines {
                let Line::Batch { first, done: batch, elapsed } = line else { continue };
                done.insert(first, batch);
                earlier = earlier.max(elapsed);
            }
        }
        let mut options = OpenOptions::new();
        options.create(true).write(true).append(is_kept).truncate(!is_kept);
        let file = options.open(path).with_context(|| format!("opening {}", path.display()))?;
        let journal =
            Journal { path: path.to_owned(), file: Mutex::new(file), done, earlier, start: Instant::now() };
        // Starts a new line after a truncated one.
        journal.write(if is_kept {
            String::new()
        } else {
            serde_json::to_string(&Line::Of(of.to_owned()))?
        })?;
        Ok(journal)
    }

    /// The findings of the batch with this first seed, if it was finished before.
    pub fn done(&self, first: u64, count: u64) -> Option<&Done> {
        self.done.get(&first).filter(|done| done.count == count)
    }

    /// Records a finished batch.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn note(&self, first: u64, done: Done) -> anyhow::Result<()> {
        self.write(serde_json::to_string(&Line::Batch { first, done, elapsed: self.elapsed() })?)
    }

    /// The time of the hunt so far, including earlier runs.
    pub fn elapsed(&self) -> Duration {
        self.earlier + self.start.elapsed()
    }

    fn write(&self, line: String) -> anyhow::Result<()> {
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        file.write_all((line + "\n").as_bytes()).with_context(|| format!("writing {}", self.path.display()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::programs::judge::{Finding, Verdict};

    #[test]
    fn a_hunt_goes_on_where_it_was() {
        let path = std::env::temp_dir().join(format!("differ-journal-{}", std::process::id()));
        let verdict = Verdict { program: 3, backend: None, finding: Finding::Refused("no".to_owned()) };
        let done = Done { count: 40, found: vec![Found { seed: 43, verdict }] };
        let journal = Journal::open(&path, "a", false).unwrap();
        journal.note(40, done.clone()).unwrap();
        drop(journal);
        // Interrupted within a line.
        std::fs::write(&path, std::fs::read_to_string(&path).unwrap() + "{\"Batch\":{\"fir").unwrap();
        let journal = Journal::open(&path, "a", true).unwrap();
        assert_eq!(
            (journal.done(40, 40), journal.done(0, 40), journal.done(40, 10)),
            (Some(&done), None, None)
        );
        assert!(Journal::open(&path, "b", true).is_err());
        assert!(Journal::open(&path, "b", false).unwrap().done(40, 40).is_none());
        std::fs::remove_file(&path).unwrap();
    }
}
