//! Files that appear whole or not at all: each is written beside its destination and renamed into place.

use std::fs;
use std::io;
use std::path::Path;

use tempfile::NamedTempFile;

/// A file being written in the folder of its destination, under a temporary name. Dropping it removes it.
pub(crate) fn begin(folder: &Path) -> io::Result<NamedTempFile> {
    begin_as(folder, ".ferrowarp-")
}

/// As [`begin`], under a temporary name that starts with `prefix`.
pub(crate) fn begin_as(folder: &Path, prefix: &str) -> io::Result<NamedTempFile> {
    let mut builder = tempfile::Builder::new();
    builder.prefix(prefix);
    // A temporary file is private by default; what becomes of it is an ordinary file, so the umask decides.
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
    builder.tempfile_in(folder)
}

/// Gives a file that was written completely its name, replacing what had that name. After that, the file and its name
/// outlast a loss of power.
pub(crate) fn finish(file: NamedTempFile, destination: &Path) -> io::Result<()> {
    // Some file systems report a full disk only here.
    file.as_file().sync_all()?;
    file.persist(destination).map_err(|error| error.error)?;
    sync_folder(folder_of(destination))
}

/// Waits until the names in `folder` are on the disk.
#[cfg(unix)]
pub(crate) fn sync_folder(folder: &Path) -> io::Result<()> {
    match fs::File::open(folder).and_then(|folder| folder.sync_all()) {
        // Some file systems know no such thing, and a folder may allow writing but not reading.
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

/// A folder cannot be opened as a file here.
#[cfg(not(unix))]
pub(crate) fn sync_folder(_: &Path) -> io::Result<()> {
    Ok(())
}

/// Writes `contents` to `destination`, whole or not at all. The folder must exist.
pub(crate) fn write(destination: &Path, contents: &[u8]) -> io::Result<()> {
    let mut file = begin(folder_of(destination))?;
    io::Write::write_all(&mut file, contents)?;
    finish(file, destination)
}

/// The folder `path` lies in; the current folder for a bare file name.
pub(crate) fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

/// Checks that `destination` can be written later: its folder exists and the name is not a folder's.
pub(crate) fn check_destination(destination: &Path) -> io::Result<()> {
    if destination.is_dir() {
        return Err(io::Error::new(io::ErrorKind::IsADirectory, "it is a folder"));
    }
    if destination.file_name().is_none() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it names no file"));
    }
    let folder = folder_of(destination);
    if !fs::metadata(folder)?.is_dir() {
        return Err(io::Error::new(io::ErrorKind::NotADirectory, "its parent is no folder"));
    }
    // The only sure test of permissions is to make a file.
    begin(folder).map(drop)
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
