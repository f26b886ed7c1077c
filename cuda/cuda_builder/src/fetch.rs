//! NVIDIA's compilers as pinned packages, fetched with pip into the tools folder.
//!
//! A package is a wheel, a zip file with a pinned hash. The needed files are unpacked into a temporary folder that is
//! renamed at the end, so a folder with the final name is always complete. A lock file lets one process fetch while others
//! wait.

use std::fmt;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use flate2::read::DeflateDecoder;
use rawzip::{CompressionMethod, ZipArchive};

use crate::cache::FellBack;
use crate::error::{CudaBuilderError, IoContext};
use crate::stack::UnboundedStack;
use crate::{files, pip, whole};

/// The progress of downloads and other long steps, and warnings about the result.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Progress {
    /// This many bytes of `total` have arrived.
    Downloading {
        /// Name and version of the package.
        package: String,
        /// Bytes that have arrived.
        bytes: u64,
        /// Bytes of the whole package.
        total: u64,
    },
    /// The download is complete and is being checked and unpacked.
    Unpacking {
        /// Name and version of the package.
        package: String,
    },
    /// The package is ready for use.
    Ready {
        /// Name and version of the package.
        package: String,
    },
    /// Nothing was reported for a while: the step that has been running longest.
    Working {
        /// The tool, with its optimisation level if it has one.
        stage: String,
        /// Its input, such as the names of kernels.
        what: String,
        /// Its time so far.
        elapsed: Duration,
        /// The number of parts compiled so far.
        done: usize,
    },
    /// A part was compiled at a lower optimisation level than requested.
    FellBack(FellBack),
    /// A kernel has a stack whose size is unknown at compile time.
    UnboundedStack(UnboundedStack),
}

impl fmt::Display for Progress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Progress::Downloading { package, total, .. } => {
                let megabytes = total / 1_000_000;
                write!(f, "fetching {package} with pip ({megabytes} MB), for this and all later builds")
            }
            Progress::Unpacking { package } => write!(f, "unpacking {package}"),
            Progress::Ready { package } => write!(f, "{package} is ready"),
            Progress::Working { stage, what, elapsed, done } => {
                let seconds = elapsed.as_secs();
                write!(
                    f,
                    "{stage} has been working on {what} for {seconds} s (parts compiled so far: {done})"
                )
            }
            Progress::FellBack(fell_back) => fell_back.fmt(f),
            Progress::UnboundedStack(stack) => write!(
                f,
                "{stack}; on a GPU, FERROWARP_STACK_BYTES or Device::with_stack_bytes sets the size for each thread"
            ),
        }
    }
}

/// Receives reports of a build's progress, from any of its threads.
pub type ProgressFn<'a> = dyn Fn(Progress) + Sync + 'a;

/// A wheel for one kind of machine.
#[derive(Clone, Copy, Debug)]
struct Wheel {
    architecture: &'static str,
    sha256: &'static str,
    bytes: u64,
}

/// Maximum bytes that pip may write in addition to two temporary copies of the wheel: logs and scripts.
const PIP_EXTRA: u64 = 16 << 20;
/// Maximum unpacked size of a wheel's file, in bytes.
const LONGEST_FILE: u64 = 512 << 20;

/// A pinned package.
#[derive(Clone, Copy, Debug)]
pub struct Package {
    name: &'static str,
    version: &'static str,
    wheels: &'static [Wheel],
    /// The files to unpack; those under `bin/` are executable.
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

    /// Checks that all files of the package are in `tools` and unchanged since they were unpacked.
    pub(crate) fn check(&self, tools: &Path) -> Result<(), CudaBuilderError> {
        whole::check(&self.folder(tools), self.files)
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
    let file = download(package, wheel, temporary.path(), progress).map_err(|error| match error {
        CudaBuilderError::Download { package, reason } if !is_new => CudaBuilderError::Download {
            package,
            reason: format!("{reason} (it was needed because {damage})"),
        },
        error => error,
    })?;
    progress(Progress::Unpacking { package: package.title() });
    unpack(package, &file, wheel.sha256, temporary.path(), &folder, LONGEST_FILE)?;
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

/// Makes pip download the wheel into `folder`. Returns its path.
fn download(
    package: &Package,
    wheel: Wheel,
    folder: &Path,
    progress: &ProgressFn<'_>,
) -> Result<PathBuf, CudaBuilderError> {
    let fail = |reason: String| CudaBuilderError::Download { package: package.title(), reason };
    let scratch = folder.join("pip");
    files::create_dir(&scratch)?;
    let mut pip = pip::command().ok_or_else(|| fail(format!("there is no pip: {}", pip::INSTALL)))?;
    pip.args([
        "download",
        "--quiet",
        "--no-deps",
        "--only-binary=:all:",
        "--no-input",
        "--disable-pip-version-check",
    ])
    .arg("--dest")
    .arg(folder)
    .arg(format!("{}=={}", package.name, package.version))
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
        if size > 2 * wheel.bytes + PIP_EXTRA {
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
    let entries = folder.read_dir().during("reading the folder", folder)?;
    let files = entries.flatten().filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_file()));
    let found = files.map(|entry| entry.path()).find(|path| path.extension().is_some_and(|e| e == "whl"));
    found.ok_or_else(|| fail("pip ended well but left no wheel".to_owned()))
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

/// Checks the wheel and unpacks the package's files into `folder`, through `temporary`.
///
/// Only the package's files are written, whatever else the wheel contains and however it is named.
fn unpack(
    package: &Package,
    wheel: &Path,
    sha256: &str,
    temporary: &Path,
    folder: &Path,
    longest: u64,
) -> Result<(), CudaBuilderError> {
    let found = files::sha256_of(wheel)?;
    if found != sha256 {
        return Err(CudaBuilderError::Damaged { path: wheel.to_owned(), expected: sha256.to_owned(), found });
    }
    let fail = |reason: String| CudaBuilderError::Download { package: package.title(), reason };
    let file = File::open(wheel).during("opening", wheel)?;
    let mut buffer = vec![0; rawzip::RECOMMENDED_BUFFER_SIZE];
    let archive = ZipArchive::from_file(file, &mut buffer);
    let archive = archive.map_err(|e| fail(format!("the wheel is no zip file: {e}")))?;
    let unpacked = temporary.join("unpacked");
    for name in package.files {
        let broken = |e: rawzip::Error| fail(format!("{name} in the wheel: {e}"));
        let mut entries = archive.entries(&mut buffer);
        let entry = loop {
            match entries.next_entry().map_err(broken)? {
                Some(entry) if entry.file_path().as_bytes() == name.as_bytes() => break entry,
                Some(_) => {}
                None => return Err(fail(format!("{name} is not in the wheel"))),
            }
        };
        if entry.is_dir() || entry.mode().is_symlink() {
            return Err(fail(format!("{name} in the wheel is no ordinary file")));
        }
        let member = archive.get_entry(entry.wayfinder()).map_err(broken)?;
        let contents: Box<dyn Read> = match entry.compression_method() {
            CompressionMethod::STORE => Box::new(member.reader()),
            CompressionMethod::DEFLATE => Box::new(DeflateDecoder::new(member.reader())),
            other => return Err(fail(format!("{name} in the wheel is compressed as {other:?}"))),
        };
        // At the end this reader compares the length and the checksum.
        let contents = member.verifying_reader(contents);
        let path = unpacked.join(name);
        files::create_dir(path.parent().unwrap_or(&unpacked))?;
        let mut out = File::create_new(&path).during("creating", &path)?;
        // The size stated in the wheel may be wrong.
        let copied = std::io::copy(&mut contents.take(longest + 1), &mut out);
        if copied.during("unpacking", &path)? > longest {
            return Err(fail(format!("{name} in the wheel has more than {longest} bytes")));
        }
        let mode = if name.contains("/bin/") { 0o755 } else { 0o644 };
        files::set_mode(&out, mode).during("unpacking", &path)?;
        out.sync_data().during("writing", &path)?;
    }
    whole::record(&unpacked, package.files)?;
    if folder.symlink_metadata().is_ok() {
        files::remove(folder)?;
    }
    std::fs::rename(&unpacked, folder).during("naming the folder", folder)
}

#[cfg(test)]
#[path = "fetch_tests.rs"]
mod tests;
