//! What of a long hunt is done, in a file: a hunt that was ended goes on where it was.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use serde::{Deserialize, Serialize};

use super::hunt::Found;

/// A batch that was judged.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Done {
    /// How many programs.
    pub count: u64,
    /// What was found in them.
    pub found: Vec<Found>,
}

/// A line of the file; the first one says what is compared.
#[derive(Serialize, Deserialize)]
enum Line {
    Of(String),
    Batch { first: u64, done: Done, elapsed: Duration },
}

/// The file, and what it held at first.
#[derive(Debug)]
pub struct Journal {
    path: PathBuf,
    file: Mutex<File>,
    done: BTreeMap<u64, Done>,
    earlier: Duration,
    start: Instant,
}

impl Journal {
    /// Starts the file `path` from scratch, or goes on with it. `of` says what is compared.
    ///
    /// # Errors
    /// The file cannot be written, or is to be gone on with and is that of another comparison.
    pub fn open(path: &Path, of: &str, resume: bool) -> anyhow::Result<Journal> {
        let (mut done, mut earlier) = (BTreeMap::new(), Duration::ZERO);
        let is_kept = resume && path.exists();
        if is_kept {
            let text =
                std::fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))?;
            // The last line may be cut off where the hunt was ended.
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
        // After a line that was cut off this begins a new one.
        journal.write(if is_kept {
            String::new()
        } else {
            serde_json::to_string(&Line::Of(of.to_owned()))?
        })?;
        Ok(journal)
    }

    /// What was found in the batch of this first seed, if it was judged before.
    pub fn done(&self, first: u64, count: u64) -> Option<&Done> {
        self.done.get(&first).filter(|done| done.count == count)
    }

    /// Notes that a batch is done.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn note(&self, first: u64, done: Done) -> anyhow::Result<()> {
        self.write(serde_json::to_string(&Line::Batch { first, done, elapsed: self.elapsed() })?)
    }

    /// How long the hunt has taken so far, with all that went before.
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
        // It was ended within a line.
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
