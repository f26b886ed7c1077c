//! Locations of files, and writing them.

use std::path::Path;

use anyhow::Context;
use ferrowarp_report::output_file;

pub use xtask_ptx::workspace::*;

/// Writes the file `path` atomically.
pub fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    output_file::write(path, text.as_bytes()).with_context(|| format!("could not write {}", path.display()))
}
