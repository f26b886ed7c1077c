//! Output files. A regular file is written atomically: next to its destination, then renamed into place, with the
//! permissions of the file it replaces. A symbolic link stays, and its target is replaced. Anything else, such as a pipe or
//! `/dev/null`, is written to directly.

use std::ffi::OsStr;
use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
#[cfg(unix)]
use std::sync::{Arc, Once};
use std::time::Duration;

use tempfile::NamedTempFile;

/// The prefix of an incomplete file's name.
pub const TEMPORARY: &str = ".ferrowarp-incomplete-";

/// The number of random letters or digits at the end of a temporary name.
const RANDOM: usize = 12;

/// A temporary file of this age without a lock belongs to a killed program.
const HUNG: Duration = Duration::from_secs(60);

/// More links than this count as a cycle, as on Linux.
const MOST_LINKS: usize = 40;

/// Creates a file with a temporary name in the folder of its destination. Dropping it removes it.
pub fn begin(folder: &Path) -> io::Result<NamedTempFile> {
    begin_as(folder, TEMPORARY)
}

/// Same as [`begin`], with a temporary name that starts with `prefix`.
pub fn begin_as(folder: &Path, prefix: &str) -> io::Result<NamedTempFile> {
    create(folder, prefix, 0o666)
}

/// Creates a temporary file with the permissions `mode`, without those that the umask excludes.
fn create(folder: &Path, prefix: &str, mode: u32) -> io::Result<NamedTempFile> {
    fail_at_size_limit();
    let mut builder = tempfile::Builder::new();
    builder.prefix(prefix).rand_bytes(RANDOM);
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(mode));
    let file = builder.tempfile_in(folder).map_err(without_path)?;
    // The lock distinguishes it from an abandoned file. File systems without locks keep abandoned files.
    let _ = file.as_file().try_lock();
    Ok(file)
}

/// Makes a write beyond the file size limit (`ulimit -f`) fail. By default its signal ends the program.
#[cfg(unix)]
fn fail_at_size_limit() {
    static ONCE: Once = Once::new();
    // Any handler has this effect. Without one, the signal keeps its default.
    ONCE.call_once(|| drop(signal_hook::flag::register(signal_hook::consts::SIGXFSZ, Arc::default())));
}

#[cfg(not(unix))]
fn fail_at_size_limit() {}

/// Removes the temporary name, which means nothing to the user, from an error.
fn without_path(error: io::Error) -> io::Error {
    let text = error.to_string();
    match text.rsplit_once(" at path ") {
        Some((reason, _)) => io::Error::new(error.kind(), reason),
        None => error,
    }
}

/// Whether the name may come from [`begin_as`]: `prefix` and its number of letters or digits.
pub fn is_temporary(name: &OsStr, prefix: &str) -> bool {
    let random = name.to_str().and_then(|name| name.strip_prefix(prefix));
    random.is_some_and(|random| random.len() == RANDOM && random.bytes().all(|b| b.is_ascii_alphanumeric()))
}

/// Removes temporary files of killed programs from `folder`. Files that cannot be removed stay.
pub fn remove_abandoned(folder: &Path) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        if is_temporary(&entry.file_name(), TEMPORARY) && is_abandoned(&entry.path()) {
            let _ = fs::remove_file(entry.path());
        }
    }
}

fn is_abandoned(path: &Path) -> bool {
    let age = |metadata: Metadata| metadata.modified().ok()?.elapsed().ok();
    let is_old = fs::symlink_metadata(path).ok().filter(Metadata::is_file).and_then(age) > Some(HUNG);
    is_old && File::open(path).is_ok_and(|file| file.try_lock().is_ok())
}

/// Renames a complete file to `destination`, and replaces an existing file. After that, the file and its name survive a
/// power failure.
pub fn finish(file: NamedTempFile, destination: &Path) -> io::Result<()> {
    // Some file systems report a full disk only here.
    file.as_file().sync_all()?;
    file.persist(destination).map_err(|error| error.error)?;
    sync_folder(folder_of(destination))
}

/// Waits until the names in `folder` are on disk.
#[cfg(unix)]
pub fn sync_folder(folder: &Path) -> io::Result<()> {
    match File::open(folder).and_then(|folder| folder.sync_all()) {
        // Some file systems do not support this, and a folder may be writable but not readable.
        Err(error)
            if matches!(
                error.kind(),
                io::ErrorKind::InvalidInput | io::ErrorKind::Unsupported | io::ErrorKind::PermissionDenied
            ) =>
        {
            Ok(())
        }
        result => result,
    }
}

/// This system cannot open a folder as a file.
#[cfg(not(unix))]
pub fn sync_folder(_: &Path) -> io::Result<()> {
    Ok(())
}

/// Writes `contents` to `destination`: atomically to a regular file, directly to anything else. The folder must exist.
pub fn write(destination: &Path, contents: &[u8]) -> io::Result<()> {
    if is_stream(destination)? {
        fail_at_size_limit();
        let mut stream = OpenOptions::new().append(true).open(destination)?;
        stream.write_all(contents)?;
        return stream.flush();
    }
    let destination = without_links(destination)?;
    let replaced = existing(&destination)?;
    // A new file has the umask's permissions. A replaced one may be private, so its contents are until the end.
    let mode = if replaced.is_some() { 0o600 } else { 0o666 };
    let mut file = create(folder_of(&destination), TEMPORARY, mode)?;
    file.as_file_mut().write_all(contents)?;
    if let Some(replaced) = replaced {
        keep_owner(file.as_file(), &replaced);
        file.as_file().set_permissions(replaced.permissions())?;
    }
    finish(file, &destination)
}

/// Whether `destination` exists and is not a regular file: writes append to it and cannot replace it. This includes open
/// files that the system shows, such as `/dev/stdout`.
pub fn is_stream(destination: &Path) -> io::Result<bool> {
    let metadata = existing(destination)?;
    Ok(metadata.is_some_and(|metadata| {
        !metadata.is_file() || links(destination).iter().any(|path| is_open_file(path))
    }))
}

/// Whether the system shows a process's open file at `path` (proc(5)).
fn is_open_file(path: &Path) -> bool {
    let folder = folder_of(path).canonicalize().unwrap_or_default();
    folder == Path::new("/dev/fd") || folder.starts_with("/proc") && folder.ends_with("fd")
}

fn existing(path: &Path) -> io::Result<Option<Metadata>> {
    match fs::metadata(path) {
        Ok(metadata) => Ok(Some(metadata)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// `path`, then the target of each symbolic link. The last target need not exist.
fn links(path: &Path) -> Vec<PathBuf> {
    let target = |link: &PathBuf| Some(folder_of(link).join(fs::read_link(link).ok()?));
    std::iter::successors(Some(path.to_owned()), target).take(MOST_LINKS).collect()
}

/// Follows symbolic links from `path` to their target, which need not exist.
pub fn without_links(path: &Path) -> io::Result<PathBuf> {
    match links(path).pop() {
        Some(target) if !target.is_symlink() => Ok(target),
        _ => Err(io::Error::new(io::ErrorKind::InvalidInput, "its symbolic links go in a circle")),
    }
}

/// Root can write to other users' files, which must keep their owner.
#[cfg(unix)]
fn keep_owner(file: &File, replaced: &Metadata) {
    use std::os::unix::fs::{MetadataExt as _, fchown};
    let _ = fchown(file, Some(replaced.uid()), Some(replaced.gid()));
}

#[cfg(not(unix))]
fn keep_owner(_: &File, _: &Metadata) {}

/// The folder of `path`; the current folder for a bare file name.
pub fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

/// Checks that `destination` can be written later: it is a writable file, a device or a pipe, or a possible name in an
/// existing folder. Removes files that killed programs have left in the folder.
pub fn check_destination(destination: &Path) -> io::Result<()> {
    let refuse = |kind, reason: &str| Err(io::Error::new(kind, reason));
    if destination.is_dir() {
        return refuse(io::ErrorKind::IsADirectory, "it is a folder");
    }
    if destination.file_name().is_none() {
        return refuse(io::ErrorKind::InvalidInput, "it has no file name");
    }
    // `Path` ignores both endings.
    let name = destination.as_os_str().as_encoded_bytes();
    if [b"/".as_slice(), b"/."].iter().any(|ending| name.ends_with(ending)) {
        return refuse(io::ErrorKind::InvalidInput, "it ends like a folder; name a file");
    }
    // This fails if the name is too long.
    let metadata = existing(destination)?;
    if is_disk(metadata.as_ref()) {
        return refuse(io::ErrorKind::InvalidInput, "it is a disk");
    }
    if is_stream(destination)? {
        // Opening a pipe would wait for its reader.
        return Ok(());
    }
    let destination = without_links(destination)?;
    if metadata.is_some() {
        OpenOptions::new().append(true).open(&destination)?;
    }
    let folder = folder_of(&destination);
    if !fs::metadata(folder)?.is_dir() {
        return refuse(io::ErrorKind::NotADirectory, "its parent is not a folder");
    }
    remove_abandoned(folder);
    // Creating a file is the only reliable test of permissions.
    begin(folder).map(drop)
}

#[cfg(unix)]
fn is_disk(metadata: Option<&Metadata>) -> bool {
    use std::os::unix::fs::FileTypeExt as _;
    metadata.is_some_and(|metadata| metadata.file_type().is_block_device())
}

#[cfg(not(unix))]
fn is_disk(_: Option<&Metadata>) -> bool {
    false
}

/// Whether both paths name the same file, which need not exist.
pub fn is_same(a: &Path, b: &Path) -> bool {
    let place = |path: &Path| {
        let path = without_links(path).ok()?;
        Some((folder_of(&path).canonicalize().ok()?, path.file_name()?.to_owned()))
    };
    match (a.canonicalize(), b.canonicalize()) {
        (Ok(a), Ok(b)) => a == b,
        _ => a == b || place(a).is_some_and(|a| Some(a) == place(b)),
    }
}

#[cfg(test)]
#[path = "output_file_tests.rs"]
mod tests;
