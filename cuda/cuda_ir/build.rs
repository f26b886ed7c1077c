//! Hashes the sources of this crate: what it makes of a module is kept until they change.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::{fs, io};

fn main() -> io::Result<()> {
    let mut hasher = DefaultHasher::new();
    hash(Path::new("src"), &mut hasher)?;
    println!("cargo:rerun-if-changed=src\ncargo:rustc-env=SOURCES={:016x}", hasher.finish());
    Ok(())
}

/// Hashes the names and contents of all files in a folder.
fn hash(folder: &Path, hasher: &mut DefaultHasher) -> io::Result<()> {
    let mut paths: Vec<PathBuf> =
        folder.read_dir()?.map(|entry| Ok(entry?.path())).collect::<io::Result<_>>()?;
    paths.sort();
    for path in paths {
        if path.is_dir() {
            hash(&path, hasher)?;
        } else {
            (&path, fs::read(&path)?).hash(hasher);
        }
    }
    Ok(())
}
