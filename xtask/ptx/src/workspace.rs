//! Locations of files.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context;

/// The root of this crate's workspace.
pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap_or(Path::new("."))
}

/// Cargo's target directory.
pub fn target() -> PathBuf {
    match std::env::var_os("CARGO_TARGET_DIR") {
        Some(folder) => std::path::absolute(&folder).unwrap_or_else(|_| PathBuf::from(folder)),
        None => root().join("target"),
    }
}

/// The cargo that runs this program, without the variables that describe this package. A build script that reads such a
/// variable would run again whenever it changes, and its dependents would compile again.
pub fn cargo() -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    for (name, _) in std::env::vars_os() {
        let is_of_package =
            |name: &str| name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_");
        if name.to_str().is_some_and(is_of_package) {
            command.env_remove(name);
        }
    }
    command
}

/// A file's path as shown to users: relative to the root.
pub fn shown(path: &Path) -> String {
    path.strip_prefix(root()).unwrap_or(path).display().to_string()
}

/// Every file under `folder` for which `wanted` returns true, in order; hidden folders and `target` are skipped.
pub fn files(folder: &Path, wanted: &dyn Fn(&Path) -> bool) -> anyhow::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut open = vec![folder.to_owned()];
    while let Some(folder) = open.pop() {
        let entries =
            folder.read_dir().with_context(|| format!("reading the folder {}", folder.display()))?;
        for entry in entries {
            let entry = entry.with_context(|| format!("reading the folder {}", folder.display()))?;
            let (path, name) = (entry.path(), entry.file_name());
            let left_out = name.to_string_lossy().starts_with('.') || name == "target" || name == "data";
            if path.is_dir() {
                open.extend((!left_out).then_some(path));
            } else if wanted(&path) {
                found.push(path);
            }
        }
    }
    found.sort();
    Ok(found)
}
