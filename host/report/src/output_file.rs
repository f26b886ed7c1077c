//! Output files. A regular file is written atomically: next to its destination, then renamed into place, with the
//! permissions of the file it replaces. A symbolic link stays, and its target is replaced. Anything else, such as a pipe or
//! `/dev/null`, is written to directly.

use std::ffi::OsStr;
use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use tempfile::NamedTempFile;

/// The prefix of an incomplete file's name.
pub const TEMPORARY: &str = ".ferrowarp-";

/// The number of random letters or digits at the end of a temporary name.
const RANDOM: usize = 6;

/// A temporary file of this age without a lock belongs to a killed program.
const HUNG: Duration = Duration::from_secs(60);

/// Where the system shows a process's open files (proc(5)).
const OPEN_FILES: [&str; 4] = ["/dev/stdout", "/dev/stderr", "/dev/fd", "/proc"];

/// More links than this count as a cycle, as on Linux.
const MOST_LINKS: usize = 40;

/// Creates a file with a temporary name in the folder of its destination. Dropping it removes it.
pub fn begin(folder: &Path) -> io::Result<NamedTempFile> {
    begin_as(folder, TEMPORARY)
}

/// Same as [`begin`], with a temporary name that starts with `prefix`.
pub fn begin_as(folder: &Path, prefix: &str) -> io::Result<NamedTempFile> {
    let mut builder = tempfile::Builder::new();
    builder.prefix(prefix).rand_bytes(RANDOM);
    // Temporary files are private by default. This one becomes an ordinary file, so the umask decides its permissions.
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
    let file = builder.tempfile_in(folder).map_err(without_path)?;
    // The lock distinguishes it from an abandoned file. File systems without locks keep abandoned files.
    let _ = file.as_file().try_lock();
    Ok(file)
}

/// Removes the temporary name, which means nothing to the user, from an error.
fn without_path(error: io::Error) -> io::Error {
    let text = error.to_string();
    match text.rsplit_once(" at path ") {
        Some((reason, _)) => io::Error::new(error.kind(), reason),
        None => error,
    }
}

/// Whether the name may come from [`begin_as`]: `prefix` and six letters or digits.
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
        let mut stream = OpenOptions::new().append(true).open(destination)?;
        stream.write_all(contents)?;
        return stream.flush();
    }
    let destination = without_links(destination)?;
    let mut file = begin(folder_of(&destination))?;
    file.as_file_mut().write_all(contents)?;
    if let Some(replaced) = existing(&destination)? {
        keep_owner(file.as_file(), &replaced);
        file.as_file().set_permissions(replaced.permissions())?;
    }
    finish(file, &destination)
}

/// Whether `destination` exists and is not a regular file: writes append to it and cannot replace it. This includes open
/// files that the system shows, such as `/dev/stdout`.
pub fn is_stream(destination: &Path) -> io::Result<bool> {
    // This excludes the rest of /dev: /dev/shm has ordinary files.
    let is_open_file = OPEN_FILES.iter().any(|folder| destination.starts_with(folder));
    Ok(existing(destination)?.is_some_and(|metadata| is_open_file || !metadata.is_file()))
}

fn existing(path: &Path) -> io::Result<Option<Metadata>> {
    match fs::metadata(path) {
        Ok(metadata) => Ok(Some(metadata)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Follows symbolic links from `path` to their target, which need not exist.
pub fn without_links(path: &Path) -> io::Result<PathBuf> {
    let mut path = path.to_owned();
    for _ in 0..MOST_LINKS {
        match fs::read_link(&path) {
            Ok(target) => path = folder_of(&path).join(target),
            Err(_) => return Ok(path),
        }
    }
    Err(io::Error::new(io::ErrorKind::InvalidInput, "its symbolic links go in a circle"))
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
    if destination.as_os_str().as_encoded_bytes().ends_with(std::path::MAIN_SEPARATOR_STR.as_bytes()) {
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
mod tests {
    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).unwrap();
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn a_file_replaces_what_was_there() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        write(&path, b"old").unwrap();
        write(&path, b"new").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"new");
        assert_eq!(names(folder.path()), ["a"]);
    }

    #[test]
    fn an_unfinished_file_leaves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        drop(begin(folder.path()).unwrap());
        check_destination(&folder.path().join("a")).unwrap();
        assert!(names(folder.path()).is_empty());
    }

    #[test]
    fn a_destination_that_cannot_be_written_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let is_a_folder = check_destination(folder.path()).unwrap_err();
        assert_eq!(is_a_folder.kind(), io::ErrorKind::IsADirectory);
        let no_folder = check_destination(&folder.path().join("missing").join("a")).unwrap_err();
        assert_eq!(no_folder.kind(), io::ErrorKind::NotFound);
        let temporary = begin(&folder.path().join("missing")).unwrap_err();
        assert_eq!(temporary.kind(), io::ErrorKind::NotFound);
        assert!(!temporary.to_string().contains(TEMPORARY), "{temporary}");
    }

    #[test]
    fn what_killed_programs_left_is_removed_and_what_is_being_written_stays() {
        let folder = tempfile::tempdir().unwrap();
        let name = |path: &Path| path.file_name().unwrap().to_str().unwrap().to_owned();
        let old = std::time::SystemTime::now() - 2 * HUNG;
        for left in [".ferrowarp-oldOLD", ".ferrowarp-my-notes", ".ferrowarp-my-old", "other-old"] {
            File::create(folder.path().join(left)).unwrap().set_modified(old).unwrap();
        }
        let begun = begin(folder.path()).unwrap();
        begun.as_file().set_modified(old).unwrap();
        File::create(folder.path().join(".ferrowarp-new123")).unwrap();
        check_destination(&folder.path().join("a")).unwrap();
        let mut expected = vec![name(begun.path())];
        expected.extend(
            [".ferrowarp-new123", ".ferrowarp-my-notes", ".ferrowarp-my-old", "other-old"].map(str::to_owned),
        );
        expected.sort();
        assert_eq!(names(folder.path()), expected);
    }

    #[test]
    fn names_that_cannot_be_files_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let message = |name: &str| check_destination(&folder.path().join(name)).unwrap_err().to_string();
        assert!(message("a/").contains("ends like a folder"), "{}", message("a/"));
        assert!(!message(&"a".repeat(256)).is_empty());
        assert!(names(folder.path()).is_empty());
    }

    #[test]
    fn two_ways_to_write_a_file_are_the_same() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        assert!(is_same(&path, &folder.path().join(".").join("a")));
        assert!(!is_same(&path, &folder.path().join("b")));
    }

    #[cfg(unix)]
    #[test]
    fn what_is_no_regular_file_is_written_to() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        let made = std::process::Command::new("mkfifo").arg(&pipe).status().unwrap();
        assert!(made.success());
        check_destination(&pipe).unwrap();
        let reader = std::thread::spawn({
            let pipe = pipe.clone();
            move || fs::read(pipe).unwrap()
        });
        write(&pipe, b"through").unwrap();
        assert_eq!(reader.join().unwrap(), b"through");
        assert!(!fs::metadata(&pipe).unwrap().is_file());
        let full = write(Path::new("/dev/full"), b"lost").unwrap_err();
        assert_eq!(full.kind(), io::ErrorKind::StorageFull);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_file_in_shared_memory_is_a_file() {
        let folder = tempfile::tempdir_in("/dev/shm").unwrap();
        let path = folder.path().join("a");
        write(&path, b"longer").unwrap();
        write(&path, b"new").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"new");
    }

    #[cfg(unix)]
    #[test]
    fn a_link_stays_and_the_file_it_names_keeps_its_permissions() {
        use std::os::unix::fs::{PermissionsExt, symlink};
        let folder = tempfile::tempdir().unwrap();
        let [file, link, dangling] = ["file", "link", "dangling"].map(|name| folder.path().join(name));
        fs::write(&file, "old").unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
        symlink("file", &link).unwrap();
        symlink("new", &dangling).unwrap();
        write(&link, b"1").unwrap();
        write(&dangling, b"2").unwrap();
        assert_eq!(fs::read(&file).unwrap(), b"1");
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::read(folder.path().join("new")).unwrap(), b"2");
        assert!([&link, &dangling].iter().all(|path| path.is_symlink()));
        assert!(is_same(&link, &file));
        let circle = folder.path().join("circle");
        symlink("circle", &circle).unwrap();
        assert!(check_destination(&circle).is_err());
    }

    #[cfg(unix)]
    #[test]
    fn permissions_are_those_of_an_ordinary_file() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let (ours, plain) = (folder.path().join("ours"), folder.path().join("plain"));
        write(&ours, b"").unwrap();
        fs::write(&plain, b"").unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode();
        assert_eq!(mode(&ours), mode(&plain));
    }
}
