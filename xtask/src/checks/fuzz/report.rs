//! The results of fuzzing: `docs/results/fuzz.json`, and a table of it.

use std::fmt::Write as _;
use std::path::PathBuf;

use anyhow::Context;
use serde::{Deserialize, Serialize};

use crate::workspace;

/// The result of an entry without findings.
const CLEAN: &str = "clean";

/// The last run of every target.
#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Results {
    pub targets: Vec<Entry>,
}

/// The last run of one target.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    pub target: String,
    pub inputs: u64,
    pub seconds: f64,
    pub inputs_per_second: u64,
    /// Seconds of the slowest input.
    pub slowest_seconds: u64,
    /// Peak memory, including the fuzzer's and the sanitizer's own.
    pub peak_mib: u64,
    /// Covered edges of the program.
    pub edges: u64,
    /// Inputs in the corpus at the end; each reaches something that no other does.
    pub corpus: u64,
    /// `clean`, or the finding.
    pub result: String,
    pub machine: String,
    pub cores: usize,
    pub date: String,
    pub commit: String,
}

impl Entry {
    /// Reads libFuzzer's output.
    pub fn read(target: &str, log: &str, seconds: f64, success: bool) -> anyhow::Result<Entry> {
        let stat = |name: &str| -> anyhow::Result<u64> {
            let line = log.lines().find_map(|line| line.strip_prefix(&format!("stat::{name}:")));
            let number = line.with_context(|| format!("it has no stat::{name}"))?.trim();
            number.parse().with_context(|| format!("stat::{name} is `{number}`"))
        };
        // `#17 NEW cov: 120 ft: 340 corp: 12/3456b lim: 4096 exec/s: 0 rss: 50Mb`; the last one counts.
        let status = log.lines().rfind(|line| line.starts_with('#') && line.contains(" cov: "));
        let number_behind = |mark: &str| -> Option<u64> {
            let rest = status?.split_once(mark)?.1;
            rest.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
        };
        let found = || {
            let line = log.lines().find(|line| line.starts_with("SUMMARY: "));
            let panic = log.lines().find(|line| line.starts_with("thread ") && line.contains("panicked at"));
            panic.or(line).unwrap_or("it failed and did not say why").to_owned()
        };
        Ok(Entry {
            target: target.to_owned(),
            inputs: stat("number_of_executed_units")?,
            seconds: (seconds * 10.0).round() / 10.0,
            inputs_per_second: stat("average_exec_per_sec")?,
            slowest_seconds: stat("slowest_unit_time_sec")?,
            peak_mib: stat("peak_rss_mb")?,
            edges: number_behind(" cov: ").unwrap_or_default(),
            corpus: number_behind(" corp: ").unwrap_or_default(),
            result: if success { CLEAN.to_owned() } else { found() },
            ..Entry::default()
        })
    }

    /// Whether there is no finding.
    pub fn is_clean(&self) -> bool {
        self.result == CLEAN
    }

    /// A line for the console.
    pub fn summary(&self) -> String {
        format!(
            "{}: {} inputs in {:.0} s, {} a second, {} MiB, {} edges, {} in the corpus: {}",
            self.target,
            self.inputs,
            self.seconds,
            self.inputs_per_second,
            self.peak_mib,
            self.edges,
            self.corpus,
            self.result
        )
    }
}

impl Results {
    /// Reads the stored results of the targets in `known`.
    pub fn read(known: &[String]) -> anyhow::Result<Results> {
        let path = path("fuzz.json");
        if !path.exists() {
            return Ok(Results::default());
        }
        let text = std::fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
        let mut results: Results = serde_json::from_str(&text)
            .with_context(|| format!("{} holds no results of fuzzing", path.display()))?;
        results.targets.retain(|entry| known.contains(&entry.target));
        Ok(results)
    }

    /// Stores the entry, replacing an older one.
    pub fn put(&mut self, entry: Entry) {
        self.targets.retain(|old| old.target != entry.target);
        self.targets.push(entry);
        self.targets.sort_by(|a, b| a.target.cmp(&b.target));
    }

    /// Writes the results and their table.
    pub fn write(&self) -> anyhow::Result<()> {
        let json = serde_json::to_string_pretty(self).context("writing the results as JSON")?;
        std::fs::create_dir_all(path("")).context("making the folder docs/results")?;
        workspace::write(&path("fuzz.json"), &(json + "\n"))?;
        workspace::write(&path("fuzz.md"), &self.table())
    }

    fn table(&self) -> String {
        let mut table = String::from(
            "# Fuzzing\n\n\
             Each parser of outside bytes under libFuzzer and AddressSanitizer: its last run, which by default ends \
             after 10 million inputs or 15 minutes, whichever comes first. An input fails by a panic, an error of memory, 30 seconds, or 1 GiB of memory. \
             Peak memory is with the fuzzer's own. Written by `cargo xtask fuzz`.\n\n\
             | target | inputs | seconds | inputs/s | slowest input | peak MiB | edges | corpus | result | machine \
             | date | commit |\n| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | --- | --- | --- | --- |\n",
        );
        for entry in &self.targets {
            // Writing to a String cannot fail.
            let _ = writeln!(
                table,
                "| {} | {} | {:.0} | {} | {} s | {} | {} | {} | {} | {}, {} cores | {} | {} |",
                entry.target,
                entry.inputs,
                entry.seconds,
                entry.inputs_per_second,
                entry.slowest_seconds,
                entry.peak_mib,
                entry.edges,
                entry.corpus,
                entry.result.replace('|', "\\|"),
                entry.machine,
                entry.cores,
                entry.date,
                entry.commit
            );
        }
        table
    }
}

fn path(name: &str) -> PathBuf {
    workspace::root().join("docs/results").join(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOG: &str = "INFO: Seed: 7\n\
        #2\tINITED cov: 10 ft: 11 corp: 1/1b exec/s: 0 rss: 40Mb\n\
        #17\tNEW    cov: 120 ft: 340 corp: 12/3456b lim: 4096 exec/s: 0 rss: 50Mb L: 3/9 MS: 1 EraseBytes-\n\
        Done 100 runs in 2 second(s)\n\
        stat::number_of_executed_units: 100\nstat::average_exec_per_sec:     50\n\
        stat::new_units_added:          11\nstat::slowest_unit_time_sec:    0\nstat::peak_rss_mb:              51\n";

    #[test]
    fn a_log_is_read() {
        let entry = Entry::read("idx", LOG, 2.04, true).unwrap();
        let expected = Entry {
            target: "idx".to_owned(),
            inputs: 100,
            seconds: 2.0,
            inputs_per_second: 50,
            slowest_seconds: 0,
            peak_mib: 51,
            edges: 120,
            corpus: 12,
            result: CLEAN.to_owned(),
            ..Entry::default()
        };
        assert_eq!(entry, expected);
        let panic =
            format!("thread '<unnamed>' panicked at src/a.rs:1:2:\nSUMMARY: libFuzzer: deadly signal\n{LOG}");
        let entry = Entry::read("idx", &panic, 2.0, false).unwrap();
        assert_eq!(entry.result, "thread '<unnamed>' panicked at src/a.rs:1:2:");
        assert!(!entry.is_clean());
        let hang = format!("SUMMARY: libFuzzer: timeout\n{LOG}");
        assert_eq!(Entry::read("idx", &hang, 2.0, false).unwrap().result, "SUMMARY: libFuzzer: timeout");
        assert!(Entry::read("idx", "killed", 2.0, false).is_err());
    }

    #[test]
    fn a_later_run_takes_the_place_of_an_earlier_one() {
        let entry = |target: &str, inputs| Entry { target: target.to_owned(), inputs, ..Entry::default() };
        let mut results = Results::default();
        for (target, inputs) in [("b", 1), ("a", 2), ("b", 3)] {
            results.put(entry(target, inputs));
        }
        assert_eq!(results.targets, [entry("a", 2), entry("b", 3)]);
        let table = results.table();
        assert!(table.contains("\n| b | 3 | 0 |"), "{table}");
    }
}
