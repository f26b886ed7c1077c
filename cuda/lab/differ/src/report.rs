//! Results, for people and for files.

use cuda_builder::NvvmArch;
use serde::{Deserialize, Serialize};

/// The results of a comparison.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// `programs`, `crates` or `planted`.
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
        let what = if self.part == "programs" { "programs" } else { "cases" };
        let line = |of: &OfBackend| {
            format!(
                "{}, opt level {}: {} {what}, {} differ, {} refused",
                of.backend, self.opt_level, of.compared, of.differ, of.refused
            )
        };
        let lines: Vec<String> = self.backends.iter().map(line).collect();
        format!("{} ({} seconds in all)", lines.join("\n"), self.seconds)
    }
}
