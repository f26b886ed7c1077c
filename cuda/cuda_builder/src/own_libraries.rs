//! Rust's own libraries for the device, which are compiled once for all architectures.
//!
//! Each architecture has a build folder, and no flag of an architecture reaches these libraries. So a new folder gets a copy
//! of another one's. Cargo checks the copy as it checks everything in its folder, and compiles what does not fit.

use std::fs::File;
use std::io;
use std::path::Path;

use crate::files;

/// Their packages.
const LIBRARIES: [&str; 3] = ["core", "alloc", "compiler_builtins"];

/// The folders with their parts, in the folder of a profile. Cargo writes a fingerprint last, so it is copied first.
const PARTS: [&str; 3] = [".fingerprint", "build", "deps"];

/// Copies the libraries into the build folder `work` from a folder beside it that has them, if `work` is new. `profiles` are
/// the folders of the profile in each, for the device and for build scripts.
pub(crate) fn copy(work: &Path, profiles: [&Path; 2]) {
    let Some(all) = work.parent().filter(|_| !work.join(profiles[0]).exists()) else { return };
    let Ok(entries) = all.read_dir() else { return };
    for other in entries.flatten().map(|entry| entry.path()).filter(|other| other != work) {
        // Another process or thread may be compiling there. Nobody waits for it: it could be waiting for this one.
        let Ok(lock) = files::open(&other.join("lock")) else { continue };
        if lock.try_lock().is_err() || !other.join(profiles[0]).join("deps").is_dir() {
            continue;
        }
        // If not all could be copied, cargo compiles the rest.
        let _ =
            profiles.iter().try_for_each(|profile| copy_profile(&other.join(profile), &work.join(profile)));
        return;
    }
}

fn copy_profile(from: &Path, to: &Path) -> io::Result<()> {
    for part in PARTS {
        let Ok(entries) = from.join(part).read_dir() else { continue };
        for entry in entries.flatten() {
            if entry.file_name().to_str().is_some_and(is_of_a_library) {
                copy_all(&entry.path(), &to.join(part).join(entry.file_name()))?;
            }
        }
    }
    Ok(())
}

/// Whether cargo's name of a file or folder is that of a library's: `core-HASH`, `libcore-HASH.rlib`.
fn is_of_a_library(name: &str) -> bool {
    let package = name.rsplit_once('-').map_or("", |(package, _)| package);
    LIBRARIES.contains(&package) || package.strip_prefix("lib").is_some_and(|it| LIBRARIES.contains(&it))
}

/// Copies a file, or a folder and all in it, with their times, by which cargo sees what is older than what it depends on.
fn copy_all(from: &Path, to: &Path) -> io::Result<()> {
    if !from.is_dir() {
        std::fs::create_dir_all(to.parent().unwrap_or(to))?;
        std::fs::copy(from, to)?;
        return File::options().write(true).open(to)?.set_modified(from.metadata()?.modified()?);
    }
    std::fs::create_dir_all(to)?;
    from.read_dir()?.flatten().try_for_each(|entry| copy_all(&entry.path(), &to.join(entry.file_name())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_folder_gets_the_libraries_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let [from, to] = ["compute_75", "compute_90"].map(|name| folder.path().join(name));
        let device = Path::new("nvptx/release");
        let write = |path: &str| {
            let path = from.join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "text").unwrap();
        };
        write("lock");
        let parts = [
            "nvptx/release/.fingerprint/core-0a/lib-core",
            "nvptx/release/deps/libcore-0a.rlib",
            "nvptx/release/deps/compiler_builtins-1b.d",
            "release/build/compiler_builtins-2c/build-script-build",
        ];
        let others = ["nvptx/release/deps/libcuda_std-3d.rlib", "nvptx/release/.fingerprint/core-x-4e/lib"];
        parts.into_iter().chain(others).for_each(write);
        copy(&to, [device, Path::new("release")]);
        assert!(parts.iter().all(|part| to.join(part).is_file()));
        assert!(!others.iter().any(|other| to.join(other).exists()));

        // A folder that cargo has used stays as it is.
        write("nvptx/release/deps/liballoc-5f.rlib");
        copy(&to, [device, Path::new("release")]);
        assert!(!to.join("nvptx/release/deps/liballoc-5f.rlib").exists());
    }

    #[test]
    fn a_folder_that_is_in_use_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let [from, to] = ["compute_75", "compute_90"].map(|name| folder.path().join(name));
        std::fs::create_dir_all(from.join("release/deps")).unwrap();
        std::fs::write(from.join("release/deps/libcore-0a.rlib"), "text").unwrap();
        let lock = files::lock(&from.join("lock")).unwrap();
        copy(&to, [Path::new("release"); 2]);
        assert!(!to.exists());
        drop(lock);
        copy(&to, [Path::new("release"); 2]);
        assert!(to.join("release/deps/libcore-0a.rlib").is_file());
    }
}
