//! The results of comparing host and device: `docs/results/differ.json`, and a page of it.

use std::fmt::Write as _;
use std::path::PathBuf;

use anyhow::Context;
use serde::{Deserialize, Serialize};

/// The last comparison of each kind.
#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Results {
    comparisons: Vec<Entry>,
}

/// One comparison.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    #[serde(flatten)]
    pub outcome: Outcome,
    #[serde(flatten)]
    pub origin: Origin,
}

/// Where, when and at which commit a comparison ran.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Origin {
    pub machine: String,
    pub cores: usize,
    pub date: String,
    pub commit: String,
}

/// The output of `differ --json`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// `planted`, `crates`, `programs`, `gpu-crates` or `gpu-programs`.
    part: String,
    opt_level: u8,
    arch: String,
    /// The first and the last seed, of programs.
    seeds: Option<(u64, u64)>,
    /// The crates, if they were compared.
    crates: Vec<String>,
    backends: Vec<OfBackend>,
    seconds: u64,
    /// One per line.
    found: Vec<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct OfBackend {
    backend: String,
    /// Programs, cases, or kinds of planted errors.
    compared: u64,
    differ: usize,
    /// Programs or cases that a compiler rejected.
    refused: usize,
}

fn path(extension: &str) -> PathBuf {
    crate::root().join("docs/results/differ").with_extension(extension)
}

impl Results {
    /// Reads the stored results.
    pub fn read() -> anyhow::Result<Results> {
        let path = path("json");
        if !path.exists() {
            return Ok(Results::default());
        }
        let text = std::fs::read(&path).with_context(|| format!("reading {}", path.display()))?;
        serde_json::from_slice(&text)
            .with_context(|| format!("{} holds no results of comparisons", path.display()))
    }

    /// Stores the comparison, replacing an older one of the same part and level.
    pub fn put(&mut self, entry: Entry) {
        let key = |entry: &Entry| (entry.outcome.part.clone(), entry.outcome.opt_level, entry.outcome.seeds);
        self.comparisons.retain(|old| key(old) != key(&entry));
        self.comparisons.push(entry);
        self.comparisons.sort_by_key(key);
    }

    /// Writes the comparisons and their page.
    pub fn write(&self) -> anyhow::Result<()> {
        let json = serde_json::to_string_pretty(self).context("writing the results as JSON")?;
        crate::write(&path("json"), &(json + "\n"))?;
        crate::write(&path("md"), &self.page())
    }

    fn page(&self) -> String {
        let mut page = "# Host and device, bit for bit\n\n\
            The same source compiled natively and as PTX by both back ends. The PTX runs on the emulator, where a result \
            that depends on unwritten memory or registers is a difference too, and on a GPU, with 0xab in local and \
            shared memory before every launch. Kernels use crates of the registry unchanged, each over many inputs and \
            all lengths; programs are generated at random from a seed. Written by \
            `cargo lab differ --write`.\n\n\
            | what | opt level | back end | compared | different | refused | seconds for both | machine | date | commit |\n\
            | --- | ---: | --- | ---: | ---: | ---: | ---: | --- | --- | --- |\n"
            .to_owned();
        // Writing to a String cannot fail.
        for Entry { outcome, origin } in self.comparisons.iter().filter(|entry| !entry.is_planted()) {
            for of in &outcome.backends {
                let _ = writeln!(
                    page,
                    "| {} | {} | {} | {} {} | {} | {} | {} | {}, {} cores | {} | {} |",
                    outcome.what(),
                    outcome.opt_level,
                    of.backend,
                    of.compared,
                    outcome.unit(),
                    of.differ,
                    of.refused,
                    outcome.seconds,
                    origin.machine,
                    origin.cores,
                    origin.date,
                    origin.commit
                );
            }
        }
        for Entry { outcome, .. } in self.comparisons.iter().filter(|entry| entry.outcome.part == "crates") {
            let (count, names) = (outcome.crates.len(), outcome.crates.join(", "));
            let _ = writeln!(page, "\nThe {count} crates at opt level {}: {names}.", outcome.opt_level);
        }
        for Entry { outcome, origin } in &self.comparisons {
            let heading = if outcome.part == "planted" {
                format!(
                    "Errors planted in the LLVM IR and the PTX, and the program that shows each ({}, {}, commit {})",
                    origin.machine, origin.date, origin.commit
                )
            } else {
                format!("What differs in {}, opt level {}", outcome.what(), outcome.opt_level)
            };
            if !outcome.found.is_empty() {
                let _ = writeln!(page, "\n{heading}:\n");
            }
            for line in &outcome.found {
                let _ = writeln!(page, "- `{}`", line.replace(['`', '\n'], " "));
            }
        }
        page
    }
}

impl Entry {
    fn is_planted(&self) -> bool {
        self.outcome.part == "planted"
    }
}

impl Outcome {
    fn what(&self) -> String {
        let place = if self.part.starts_with("gpu-") { " on the GPU" } else { "" };
        match self.seeds {
            Some((first, last)) => format!("random programs{place}, seeds {first} to {last}"),
            None => format!("{} crates{place}", self.crates.len()),
        }
    }

    /// Replaces the lines of late cases by one line with their number.
    pub fn sum_up_late(&mut self) {
        let before = self.found.len();
        self.found.retain(|line| !line.ends_with("did not run: there was no time left"));
        let late = before - self.found.len();
        self.found.extend((late > 0).then(|| format!("{late} did not run: there was no time left")));
    }

    /// The number that differ or did not run.
    pub fn wrong(&self) -> usize {
        self.backends.iter().map(|of| of.differ + of.refused).sum()
    }

    fn unit(&self) -> &'static str {
        if self.seeds.is_some() { "programs" } else { "cases" }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(part: &str, opt_level: u8, differ: usize) -> Entry {
        let of = OfBackend { backend: "nvvm".to_owned(), compared: 40, differ, refused: 0 };
        let (seeds, crates) =
            if part == "programs" { (Some((5, 44)), vec![]) } else { (None, vec!["hex".to_owned()]) };
        let found = vec!["seed 7: `a`\nb".to_owned(); differ];
        let part = part.to_owned();
        let outcome =
            Outcome { part, opt_level, seeds, crates, backends: vec![of], found, ..Outcome::default() };
        Entry { outcome, origin: Origin { commit: "abc".to_owned(), ..Origin::default() } }
    }

    #[test]
    fn the_newest_of_each_kind_is_shown() {
        let mut results = Results::default();
        for entry in [entry("programs", 3, 1), entry("crates", 3, 0), entry("programs", 0, 0)] {
            results.put(entry);
        }
        let page = results.page();
        assert!(
            page.contains("| random programs, seeds 5 to 44 | 3 | nvvm | 40 programs | 1 | 0 |"),
            "{page}"
        );
        assert!(page.contains("- `seed 7:  a  b`"), "{page}");
        assert!(
            page.contains("| 1 crates | 3 | nvvm | 40 cases | 0 |") && page.contains("level 3: hex."),
            "{page}"
        );
        results.put(Entry {
            outcome: Outcome { part: "gpu-programs".to_owned(), ..entry("programs", 3, 1).outcome },
            ..Entry::default()
        });
        assert!(results.page().contains("| random programs on the GPU, seeds 5 to 44 | 3 |"));
        assert_eq!(results.comparisons[0].outcome.wrong(), 0);
        results.comparisons.retain(|entry| entry.outcome.part != "gpu-programs");
        results.put(entry("programs", 3, 0));
        assert_eq!(results.comparisons.len(), 3);
        assert!(!results.page().contains("seed 7"));
        let text = serde_json::to_string(&results).unwrap();
        assert_eq!(serde_json::from_str::<Results>(&text).unwrap(), results);
    }
}
