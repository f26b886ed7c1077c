//! Results, for people and for files: `docs/results/differ.json`, and a page of it.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, ensure};
use cuda_builder::NvvmArch;
use serde::{Deserialize, Serialize};

/// The results of a comparison.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// `planted`, `crates`, `programs`, `gpu-crates` or `gpu-programs`.
    pub part: String,
    /// The back ends' optimisation level.
    pub opt_level: u8,
    /// The architecture.
    pub arch: String,
    /// The first and the last seed, of programs.
    pub seeds: Option<(u64, u64)>,
    /// The crates, if they were compared.
    pub crates: Vec<String>,
    /// The results by back end.
    pub backends: Vec<OfBackend>,
    /// The time in seconds.
    pub seconds: u64,
    /// The findings, one per line; for planted edits these are the expected ones.
    pub found: Vec<String>,
}

/// The results of one back end.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OfBackend {
    /// `nvvm` or `llvm`.
    pub backend: String,
    /// Programs, cases, or kinds of planted edits.
    pub compared: u64,
    /// The number that differ.
    pub differ: usize,
    /// The number that could not be compiled.
    pub refused: usize,
}

impl Report {
    /// A report without results.
    pub fn new(part: &str, opt_level: u8, arch: NvvmArch) -> Report {
        Report { part: part.to_owned(), opt_level, arch: arch.to_string(), ..Report::default() }
    }

    /// The results, one line per back end.
    pub fn summary(&self) -> String {
        let what = self.unit();
        let line = |of: &OfBackend| {
            format!(
                "{}, opt level {}: {} {what}, {} differ, {} refused",
                of.backend, self.opt_level, of.compared, of.differ, of.refused
            )
        };
        let lines: Vec<String> = self.backends.iter().map(line).collect();
        format!("{} ({} seconds in all)", lines.join("\n"), self.seconds)
    }

    fn what(&self) -> String {
        let place = if self.part.starts_with("gpu-") { " on the GPU" } else { "" };
        match self.seeds {
            Some((first, last)) => format!("random programs{place}, seeds {first} to {last}"),
            None => format!("{} crates{place}", self.crates.len()),
        }
    }

    /// The results of one back end.
    pub fn of(&mut self, backend: &str) -> &mut OfBackend {
        let at = self.backends.iter().position(|of| of.backend == backend).unwrap_or_else(|| {
            self.backends.push(OfBackend { backend: backend.to_owned(), ..OfBackend::default() });
            self.backends.len() - 1
        });
        &mut self.backends[at]
    }

    /// The number that differ or did not run.
    pub fn wrong(&self) -> usize {
        self.backends.iter().map(|of| of.differ + of.refused).sum()
    }

    fn unit(&self) -> &'static str {
        if self.seeds.is_some() { "programs" } else { "cases" }
    }
}

/// Where, when and at which commit a comparison ran.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Origin {
    /// The processor, or the GPU and its driver.
    pub machine: String,
    /// The host's cores.
    pub cores: usize,
    /// The day.
    pub date: String,
    /// The commit.
    pub commit: String,
}

/// A comparison, and where it ran.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// The comparison.
    #[serde(flatten)]
    pub report: Report,
    /// Where it ran.
    #[serde(flatten)]
    pub origin: Origin,
}

/// The last comparison of each kind.
#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Results {
    comparisons: Vec<Entry>,
}

fn path(extension: &str) -> PathBuf {
    root().join("docs/results/differ").with_extension(extension)
}

impl Results {
    /// Reads the stored results.
    ///
    /// # Errors
    /// The file cannot be read, or holds no results.
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
        let key = |entry: &Entry| (entry.report.part.clone(), entry.report.opt_level, entry.report.seeds);
        self.comparisons.retain(|old| key(old) != key(&entry));
        self.comparisons.push(entry);
        self.comparisons.sort_by_key(key);
    }

    /// Writes the comparisons and their page.
    ///
    /// # Errors
    /// A file cannot be written.
    pub fn write(&self) -> anyhow::Result<()> {
        let json = serde_json::to_string_pretty(self).context("writing the results as JSON")?;
        write(&path("json"), &(json + "\n"))?;
        write(&path("md"), &self.page())
    }

    fn page(&self) -> String {
        let mut page = "# Host and device, bit for bit\n\n\
            The same source compiled natively and as PTX by both back ends. The PTX runs on the emulator, where a result \
            that depends on unwritten memory or registers is a difference too, and on a GPU, with 0xab in local and \
            shared memory before every launch. Kernels use crates of the registry unchanged, each over many inputs and \
            all lengths; programs are generated at random from a seed. Written by \
            `cargo lab differ PART --write`.\n\n\
            | what | opt level | back end | compared | different | refused | seconds for both | machine | date | commit |\n\
            | --- | ---: | --- | ---: | ---: | ---: | ---: | --- | --- | --- |\n"
            .to_owned();
        // Writing to a String cannot fail.
        for Entry { report, origin } in self.comparisons.iter().filter(|entry| entry.report.part != "planted")
        {
            for of in &report.backends {
                let _ = writeln!(
                    page,
                    "| {} | {} | {} | {} {} | {} | {} | {} | {}, {} cores | {} | {} |",
                    report.what(),
                    report.opt_level,
                    of.backend,
                    of.compared,
                    report.unit(),
                    of.differ,
                    of.refused,
                    report.seconds,
                    origin.machine,
                    origin.cores,
                    origin.date,
                    origin.commit
                );
            }
        }
        for Entry { report, .. } in self.comparisons.iter().filter(|entry| entry.report.part == "crates") {
            let (count, names) = (report.crates.len(), report.crates.join(", "));
            let _ = writeln!(page, "\nThe {count} crates at opt level {}: {names}.", report.opt_level);
        }
        for Entry { report, origin } in &self.comparisons {
            let heading = if report.part == "planted" {
                format!(
                    "Errors planted in the LLVM IR and the PTX, and the program that shows each ({}, {}, commit {})",
                    origin.machine, origin.date, origin.commit
                )
            } else {
                format!("What differs in {}, opt level {}", report.what(), report.opt_level)
            };
            if !report.found.is_empty() {
                let _ = writeln!(page, "\n{heading}:\n");
            }
            for line in &report.found {
                let _ = writeln!(page, "- `{}`", line.replace(['`', '\n'], " "));
            }
        }
        page
    }
}

impl Origin {
    /// This machine, today, and the commit with a note if sources have changed.
    ///
    /// # Errors
    /// It cannot be determined.
    pub fn now() -> anyhow::Result<Origin> {
        let cores = std::thread::available_parallelism().map_or(1, |n| n.get());
        let info = std::fs::read_to_string("/proc/cpuinfo").context("reading what processor this is")?;
        let model = info.lines().find_map(|line| line.strip_prefix("model name")?.split_once(':'));
        let machine = model.map_or("an unknown processor", |(_, name)| name.trim()).to_owned();
        let date = output("date", &["-u", "+%Y-%m-%d"])?;
        let hash = output("git", &["rev-parse", "--short", "HEAD"])?;
        let sources = output("git", &["status", "--porcelain", "--", ".", ":!README.md", ":!docs"])?;
        let commit = if sources.is_empty() { hash } else { format!("{hash} with uncommitted changes") };
        Ok(Origin { machine, cores, date, commit })
    }
}

/// What a command prints, run in the repository if it is here.
///
/// # Errors
/// It does not start, or fails.
pub fn output(program: &str, arguments: &[&str]) -> anyhow::Result<String> {
    let folder = if root().exists() { root() } else { Path::new(".") };
    let output = Command::new(program).args(arguments).current_dir(folder).output();
    let output = output.with_context(|| format!("starting {program}"))?;
    ensure!(output.status.success(), "{program} {} failed", arguments.join(" "));
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// The root of the repository.
fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(3).unwrap_or(Path::new("."))
}

fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    std::fs::write(path, text).with_context(|| format!("writing {}", path.display()))
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
        let report =
            Report { part, opt_level, seeds, crates, backends: vec![of], found, ..Report::default() };
        Entry { report, origin: Origin { commit: "abc".to_owned(), ..Origin::default() } }
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
            report: Report { part: "gpu-programs".to_owned(), ..entry("programs", 3, 1).report },
            ..Entry::default()
        });
        assert!(results.page().contains("| random programs on the GPU, seeds 5 to 44 | 3 |"));
        assert_eq!(results.comparisons[0].report.wrong(), 0);
        results.comparisons.retain(|entry| entry.report.part != "gpu-programs");
        results.put(entry("programs", 3, 0));
        assert_eq!(results.comparisons.len(), 3);
        assert!(!results.page().contains("seed 7"));
        let text = serde_json::to_string(&results).unwrap();
        assert_eq!(serde_json::from_str::<Results>(&text).unwrap(), results);
    }

    #[test]
    fn the_page_is_that_of_the_stored_results() {
        let found = std::fs::read_to_string(path("md")).unwrap();
        assert!(found == Results::read().unwrap().page(), "write docs/results/differ.md again");
    }
}
