//! A folder of snapshots: `step-0000000042.checkpoint` is the state after the run's 42nd step.
//!
//! A snapshot is written next to its destination, synced and renamed, and then the folder is synced. Older snapshots are
//! removed only after that. So the newest reported snapshot survives a power failure at any time.

use std::fs::{self, File, TryLockError};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use super::{CheckpointError, Kind, Snapshot, last_good};
use ferrowarp_report::in_one_line;
use ferrowarp_report::output_file;

/// The prefix of an incomplete file's name.
const TEMPORARY: &str = ".checkpoint-incomplete-";

/// The newest intact snapshot of a folder.
#[derive(Clone, Debug)]
pub struct Found {
    /// The folder.
    pub dir: PathBuf,
    /// The file.
    pub path: PathBuf,
    /// Its contents.
    pub snapshot: Snapshot,
    /// What is wrong with each newer snapshot.
    pub skipped: Vec<String>,
}

/// Finds the newest intact snapshot in `dir`.
///
/// # Errors
/// [`CheckpointError`]: the folder cannot be read, it has no intact snapshot, or the newest intact one has a version that
/// this program does not know.
pub fn newest(dir: &Path) -> Result<Found, CheckpointError> {
    let files = list(dir).map_err(|source| folder_error(dir, source))?;
    let mut skipped = Vec::new();
    for (steps, path) in files.iter().rev() {
        match read(*steps, path) {
            Ok(snapshot) => {
                let skipped = skipped.iter().map(|error| in_one_line(error)).collect();
                return Ok(Found { dir: dir.to_owned(), path: path.clone(), snapshot, skipped });
            }
            Err(error) if error.kind() == Kind::Version => return Err(error),
            Err(error) => skipped.push(error),
        }
    }
    let (shown, count) = (dir.display(), files.len());
    Err(match skipped.into_iter().next() {
        Some(newest) => CheckpointError::new(format!(
            "none of the {count} checkpoints in {shown} can be used; copy them again, or start without --resume and with \
             another folder for --checkpoint"
        ))
        .because(newest),
        None => CheckpointError::new(format!(
            "there is no checkpoint in {shown}; pass the folder of --checkpoint, or start without --resume"
        )),
    })
}

/// Reads a checkpoint, unless it has another step's name, such as a copy, because it would hide newer ones.
fn read(steps: u64, path: &Path) -> Result<Snapshot, CheckpointError> {
    let snapshot = Snapshot::parse(&super::read(path)?, path)?;
    let found = snapshot.steps();
    if found == steps {
        return Ok(snapshot);
    }
    let name = file_name(found);
    let problem = format!("its name is that of step {steps}, but it holds step {found}; rename it to {name}");
    Err(CheckpointError::invalid(path, problem))
}

/// A folder to which a run writes its snapshots, locked against other processes.
#[derive(Debug)]
pub struct Folder {
    dir: PathBuf,
    keep: usize,
    /// Complete snapshots by their number of steps, oldest first.
    complete: Vec<(u64, PathBuf)>,
    /// The locked folder, until this is dropped; `None` if the file system has no locks.
    _lock: Option<File>,
}

impl Folder {
    /// Checks that `dir` can become a run's folder, without creating it: it exists or can be created, it is writable, and it
    /// holds no snapshots, unless the run resumes from there.
    ///
    /// # Errors
    /// [`CheckpointError`].
    pub fn check(dir: &Path, resumed: Option<&Found>) -> Result<(), CheckpointError> {
        check_writable(dir).map_err(|source| folder_error(dir, source))?;
        if !dir.exists() || resumed.is_some_and(|found| output_file::is_same(dir, &found.dir)) {
            return Ok(());
        }
        match list(dir).map_err(|source| folder_error(dir, source))?.pop() {
            Some((_, newest)) => Err(CheckpointError::new(format!(
                "{} already holds checkpoints of a run, the newest {}; continue that run with --resume {0}, or name another \
                 folder with --checkpoint",
                dir.display(),
                newest.display()
            ))),
            None => Ok(()),
        }
    }

    /// Creates the folder if it is missing, and locks it. The last `keep` snapshots will be kept.
    ///
    /// # Errors
    /// [`CheckpointError`]: same as for [`Self::check`], or another process uses the folder.
    pub fn open(dir: &Path, keep: usize, resumed: Option<&Found>) -> Result<Folder, CheckpointError> {
        let failed = |source| folder_error(dir, source);
        make(dir).map_err(failed)?;
        let lock = lock(dir)?;
        Self::check(dir, resumed)?;
        remove_temporaries(dir).map_err(failed)?;
        let steps = resumed.map_or(0, |found| found.snapshot.steps());
        let mut complete = list(dir).map_err(failed)?;
        // Files newer than the snapshot that the run resumes from are damaged.
        complete.retain(|&(step, _)| step <= steps);
        let mut folder = Folder { dir: dir.to_owned(), keep, complete, _lock: lock };
        // A run that was killed between a write and the following removal has left one too many.
        folder.remove_old()?;
        Ok(folder)
    }

    /// Whether `path` is, or would be, a snapshot in the folder `dir`.
    pub fn has(dir: &Path, path: &Path) -> bool {
        path.file_name().and_then(|name| steps_of(name.to_str()?)).is_some()
            && output_file::is_same(dir, output_file::folder_of(path))
    }

    /// The newest complete snapshot.
    pub fn newest(&self) -> Option<&Path> {
        self.complete.last().map(|(_, path)| path.as_path())
    }

    /// Writes `snapshot` atomically, and then removes the oldest snapshots beyond those to keep.
    ///
    /// # Errors
    /// The snapshot could not be written, which leaves all older snapshots unchanged, or an old one not removed.
    pub fn write(&mut self, snapshot: &Snapshot) -> Result<(), CheckpointError> {
        let steps = snapshot.steps();
        let path = self.dir.join(file_name(steps));
        let written = snapshot.to_bytes().and_then(|bytes| {
            let mut file = output_file::begin_as(&self.dir, TEMPORARY)?;
            file.as_file_mut().write_all(&bytes)?;
            output_file::finish(file, &path)
        });
        if let Err(error) = written {
            let (path, last_good) = (path.display(), last_good(self.newest()));
            let text = format!(
                "could not write the checkpoint {path}; {last_good}; make room, or name another folder with --checkpoint"
            );
            return Err(CheckpointError::new(text).of(Kind::Unwritten).because(error));
        }
        self.complete.retain(|&(step, _)| step != steps);
        self.complete.push((steps, path));
        self.remove_old()
    }

    fn remove_old(&mut self) -> Result<(), CheckpointError> {
        let surplus = self.complete.len().saturating_sub(self.keep.max(1));
        self.complete.drain(..surplus);
        let Some(&(oldest, _)) = self.complete.first() else { return Ok(()) };
        let files = list(&self.dir).map_err(|source| folder_error(&self.dir, source))?;
        for (_, path) in files.into_iter().filter(|&(step, _)| step < oldest) {
            match fs::remove_file(&path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    let text = format!(
                        "could not remove the old checkpoint {}; remove it, or name another folder with --checkpoint",
                        path.display()
                    );
                    return Err(CheckpointError::new(text).of(Kind::Unwritten).because(error));
                }
                _ => {}
            }
        }
        Ok(())
    }
}

fn folder_error(dir: &Path, source: io::Error) -> CheckpointError {
    let dir = dir.display();
    let text = format!(
        "{dir} cannot be used as a folder of checkpoints; choose one that can be created and written"
    );
    CheckpointError::new(text).of(Kind::Folder).because(source)
}

fn file_name(steps: u64) -> String {
    format!("step-{steps:010}.checkpoint")
}

/// The number of steps in a file's name; `None` if the file is not a snapshot.
fn steps_of(name: &str) -> Option<u64> {
    let digits = name.strip_prefix("step-")?.strip_suffix(".checkpoint")?;
    let steps = digits.parse().ok()?;
    (file_name(steps) == name).then_some(steps)
}

/// The snapshots in `dir` by their number of steps, oldest first.
fn list(dir: &Path) -> io::Result<Vec<(u64, PathBuf)>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        if let Some(steps) = entry.file_name().to_str().and_then(steps_of) {
            files.push((steps, entry.path()));
        }
    }
    files.sort_unstable();
    Ok(files)
}

/// Creates `dir` and its parents, so that they survive a power failure.
fn make(dir: &Path) -> io::Result<()> {
    let is_missing = |folder: &&Path| !folder.as_os_str().is_empty() && !folder.exists();
    let missing: Vec<&Path> = dir.ancestors().take_while(is_missing).collect();
    fs::create_dir_all(dir)?;
    missing.into_iter().try_for_each(|made| output_file::sync_folder(output_file::folder_of(made)))
}

/// Removes files that a killed run left incomplete.
fn remove_temporaries(dir: &Path) -> io::Result<()> {
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        if output_file::is_temporary(&entry.file_name(), TEMPORARY) {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

/// Checks that files can be created in `dir` or, if it is missing, in its nearest existing parent.
fn check_writable(dir: &Path) -> io::Result<()> {
    let mut folder = dir;
    while !folder.as_os_str().is_empty() {
        match fs::metadata(folder) {
            Ok(metadata) if metadata.is_dir() => break,
            Ok(_) => {
                return Err(io::Error::new(io::ErrorKind::NotADirectory, "there is a file of this name"));
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                folder = folder.parent().unwrap_or(Path::new(""));
            }
            Err(error) => return Err(error),
        }
    }
    let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    output_file::begin_as(folder, TEMPORARY).map(drop)
}

/// Locks `dir` against other processes. The system releases the lock however this process ends.
#[cfg(unix)]
fn lock(dir: &Path) -> Result<Option<File>, CheckpointError> {
    let handle = File::open(dir).map_err(|source| folder_error(dir, source))?;
    match handle.try_lock() {
        Ok(()) => Ok(Some(handle)),
        Err(TryLockError::WouldBlock) => Err(CheckpointError::new(format!(
            "{} is in use by another run; wait for it, stop it, or name another folder",
            dir.display()
        ))),
        // Without locks in the file system, train unlocked.
        Err(TryLockError::Error(_)) => Ok(None),
    }
}

/// This system cannot open a folder as a file.
#[cfg(not(unix))]
fn lock(_: &Path) -> Result<Option<File>, CheckpointError> {
    Ok(None)
}
