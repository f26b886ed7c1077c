//! Where things are, and how files are written.

use std::path::Path;

use anyhow::Context;
use ferrowarp_report::output_file;

pub use xtask_ptx::workspace::*;

/// Writes the file `path`, whole or not at all.
pub fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    output_file::write(path, text.as_bytes()).with_context(|| format!("could not write {}", path.display()))
}
