//! Hashes of everything that a build depends on.

use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use crate::error::{CudaBuilderError, IoContext};
use crate::files::{self, hex};
use crate::packages::KernelCrate;

/// Folders of a crate that do not contribute to a library.
const NO_SOURCE: &[&str] = &["target", "tests", "benches", "examples", "src/bin"];

/// A hash of texts. Each is hashed with its length, so that different lists have different hashes.
pub(crate) fn of_parts(parts: &[&str]) -> String {
    let mut hasher = Sha256::new();
    for part in parts {
        hasher.update((part.len() as u64).to_le_bytes());
        hasher.update(part);
    }
    hex(&hasher.finalize())
}

/// Identifies a large file without reading it: by its path, length and time.
pub(crate) fn of_tool(path: &Path) -> String {
    let metadata = path.metadata();
    let modified = metadata.as_ref().ok().and_then(|m| m.modified().ok());
    format!("{} {} {modified:?}", path.display(), metadata.map_or(0, |m| m.len()))
}

/// A hash of all source files of the crate and its path dependencies, and of what cargo reads for them.
pub(crate) fn of_sources(kernel_crate: &KernelCrate) -> Result<String, CudaBuilderError> {
    let mut hasher = Sha256::new();
    let mut add = |path: &Path| -> Result<(), CudaBuilderError> {
        let content = files::read(path).during("reading", path)?;
        for part in [path.display().to_string().as_bytes(), &content] {
            hasher.update((part.len() as u64).to_le_bytes());
            hasher.update(part);
        }
        Ok(())
    };
    for folder in &kernel_crate.sources {
        files(folder)?.iter().try_for_each(|path| add(path))?;
    }
    for name in ["Cargo.toml", "Cargo.lock", ".cargo/config.toml"] {
        let path = kernel_crate.workspace_root.join(name);
        if path.is_file() {
            add(&path)?;
        }
    }
    Ok(hex(&hasher.finalize()))
}

/// The files in a source folder that may contribute to a library, in order.
pub(crate) fn files(folder: &Path) -> Result<Vec<PathBuf>, CudaBuilderError> {
    let mut sources = Vec::new();
    collect(folder, folder, &mut sources)?;
    sources.sort();
    Ok(sources)
}

/// The entries of a source folder that a build script has to watch: all that may contribute to a library. Watching the
/// folder itself would include the build's own output in `target`.
pub(crate) fn entries(folder: &Path) -> Vec<PathBuf> {
    let entries = folder.read_dir().into_iter().flatten().flatten().map(|entry| entry.path());
    let mut entries: Vec<PathBuf> = entries.filter(|path| may_be_source(folder, path)).collect();
    entries.sort();
    entries
}

fn may_be_source(root: &Path, path: &Path) -> bool {
    let hidden = path.file_name().is_some_and(|name| name.to_string_lossy().starts_with('.'));
    let relative = path.strip_prefix(root).unwrap_or(path);
    let is_output = path.join("CACHEDIR.TAG").is_file();
    !hidden && !is_output && !NO_SOURCE.iter().any(|name| relative == Path::new(name))
}

fn collect(root: &Path, folder: &Path, sources: &mut Vec<PathBuf>) -> Result<(), CudaBuilderError> {
    for entry in folder.read_dir().during("reading the folder", folder)? {
        let path = entry.during("reading the folder", folder)?.path();
        if !may_be_source(root, &path) {
            continue;
        }
        if path.is_dir() {
            collect(root, &path, sources)?;
        } else {
            sources.push(path);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_that_join_to_one_text_differ() {
        assert_ne!(of_parts(&["ab", "c"]), of_parts(&["a", "bc"]));
    }
}
