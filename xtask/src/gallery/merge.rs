//! Merges runs of the gallery. New figures replace the old ones of the same lessons, and all figures are joined with their
//! entries in the current table of lessons.

use std::path::Path;

use anyhow::{Context, ensure};
use serde::Deserialize;

use crate::gallery::entry::{Entry, lessons};
use crate::gallery::predictions::Prediction;
use crate::gallery::report::Results;

/// The output of the gallery's program without running anything.
#[derive(Debug, Default, Deserialize)]
pub struct Theory {
    /// Each rung on each problem of a GPU.
    pub entries: Vec<Entry>,
    pub predictions: Vec<Prediction>,
}

impl Theory {
    pub fn read(path: &Path) -> anyhow::Result<Self> {
        let text = std::fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))?;
        serde_json::from_str(&text)
            .with_context(|| format!("{} was not written by `gallery --theory`", path.display()))
    }

    /// The entries with their times; bytes, operations and words are from the current table. A rung that is no longer in the
    /// table is omitted, and one that has not run yet has no time.
    pub fn with_times(&self, measured: &[Entry]) -> Vec<Entry> {
        let mut merged = Vec::new();
        for lesson in lessons(&self.entries) {
            let of_lesson = |entries: &[Entry]| -> Vec<Entry> {
                entries.iter().filter(|entry| entry.lesson == lesson).cloned().collect()
            };
            let (planned, timed) = (of_lesson(&self.entries), of_lesson(measured));
            for plan in &planned {
                let is_same = |entry: &&Entry| entry.name == plan.name && entry.problem == plan.problem;
                match timed.iter().find(is_same) {
                    Some(entry) => merged.push(with_time(plan, entry)),
                    // A host's problem may contain the host's name, so that it differs here.
                    None if plan.kernels.is_empty() => {
                        let of_rung = timed.iter().filter(|entry| entry.name == plan.name);
                        let is_there = |entry: &Entry| {
                            let same = (&entry.lesson, &entry.name, &entry.problem);
                            merged.iter().any(|known| (&known.lesson, &known.name, &known.problem) == same)
                        };
                        let new: Vec<Entry> =
                            of_rung.clone().filter(|entry| !is_there(entry)).cloned().collect();
                        if of_rung.count() == 0 {
                            merged.push(plan.clone());
                        }
                        merged.extend(new);
                    }
                    None => merged.push(plan.clone()),
                }
            }
        }
        merged
    }
}

/// The planned entry with the measured values of `timed`.
fn with_time(plan: &Entry, timed: &Entry) -> Entry {
    let Entry { peak, resident_blocks, microseconds, samples, lacking, timeline, error, measured, .. } =
        timed.clone();
    Entry { peak, resident_blocks, microseconds, samples, lacking, timeline, error, measured, ..plan.clone() }
}

/// Merges the committed figures with `new`, which replaces the figures of the same lessons.
///
/// # Errors
/// The two are from different machines.
pub fn update(kept: Option<Results>, mut new: Results) -> anyhow::Result<Results> {
    let source = format!("commit {}, {}", new.commit, new.date);
    for entry in new.ours.iter_mut().chain(&mut new.peers) {
        entry.measured.get_or_insert_with(|| source.clone());
    }
    let Some(kept) = kept else { return Ok(new) };
    ensure!(
        kept.machine == new.machine,
        "the committed figures are those of {}, the new ones of {}; measure on the same machine, or delete the file first",
        kept.machine,
        new.machine
    );
    let keep = |old: Vec<Entry>, new: &mut Vec<Entry>| {
        let there = lessons(new);
        let mut all: Vec<Entry> = old.into_iter().filter(|entry| !there.contains(&entry.lesson)).collect();
        all.append(new);
        *new = all;
    };
    keep(kept.ours, &mut new.ours);
    keep(kept.peers, &mut new.peers);
    for (name, version) in kept.versions {
        new.versions.entry(name).or_insert(version);
    }
    Ok(new)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn results(commit: &str, ours: Vec<Entry>) -> Results {
        Results {
            machine: "a GPU".to_owned(),
            cpu: None,
            driver: "1".to_owned(),
            date: "2026-01-01".to_owned(),
            commit: commit.to_owned(),
            l2_bytes: None,
            versions: Default::default(),
            missing: Default::default(),
            changed_since: Vec::new(),
            profiles: Vec::new(),
            ours,
            peers: Vec::new(),
        }
    }

    fn entry(lesson: &str, name: &str, microseconds: Option<f64>) -> Entry {
        let kernels = vec![name.to_owned()];
        Entry { lesson: lesson.to_owned(), kernels, ..Entry::of_test(name, 1.0, microseconds) }
    }

    #[test]
    fn a_run_of_one_lesson_leaves_the_others_with_their_commit() {
        let first = results("old", vec![entry("copies", "a", Some(1.0)), entry("sums", "b", Some(2.0))]);
        let first = update(None, first).unwrap();
        let both = update(Some(first), results("new", vec![entry("sums", "c", Some(3.0))])).unwrap();
        let told: Vec<_> =
            both.ours.iter().map(|e| (&*e.name, e.measured.as_deref().unwrap_or_default())).collect();
        assert_eq!(told, [("a", "commit old, 2026-01-01"), ("c", "commit new, 2026-01-01")]);
        let mut other = results("new", Vec::new());
        other.machine = "another GPU".to_owned();
        assert!(update(Some(both), other).unwrap_err().to_string().contains("another GPU"));
    }

    #[test]
    fn bytes_are_those_of_todays_table() {
        let theory = Theory {
            entries: vec![
                Entry { bytes: 5.0, ..entry("copies", "a", None) },
                entry("copies", "not_run", None),
            ],
            predictions: Vec::new(),
        };
        let merged =
            theory.with_times(&[entry("copies", "a", Some(7.0)), entry("copies", "gone", Some(1.0))]);
        let told: Vec<_> = merged.iter().map(|e| (&*e.name, e.bytes, e.microseconds)).collect();
        assert_eq!(told, [("a", 5.0, Some(7.0)), ("not_run", 1e6, None)]);
    }
}
