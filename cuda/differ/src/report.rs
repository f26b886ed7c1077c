//! What came out, for people and for files.

use cuda_builder::NvvmArch;
use serde::{Deserialize, Serialize};

/// What came of a comparison.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// `programs` or `crates`.
    pub part: String,
    /// How much the back ends optimised.
    pub opt_level: u8,
    /// The architecture.
    pub arch: String,
    /// The first and the last seed, of programs.
    pub seeds: Option<(u64, u64)>,
    /// The crates, where they were compared.
    pub crates: Vec<String>,
    /// By back end.
    pub backends: Vec<OfBackend>,
    /// How long it took.
    pub seconds: u64,
    /// What was found, in a line each.
    pub found: Vec<String>,
}

/// What came of one back end.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OfBackend {
    /// `nvvm` or `llvm`.
    pub backend: String,
    /// Programs, or cases.
    pub compared: u64,
    /// How many differ.
    pub differ: usize,
    /// How many could not be compiled.
    pub refused: usize,
}

impl Report {
    /// A report without results.
    pub fn new(part: &str, opt_level: u8, arch: NvvmArch) -> Report {
        Report { part: part.to_owned(), opt_level, arch: arch.to_string(), ..Report::default() }
    }

    /// All of it in a line for each back end.
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
