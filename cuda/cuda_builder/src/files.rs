//! Files that are either complete or absent.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Write};
use std::path::Path;

use crate::error::{CudaBuilderError, IoContext};

/// Writes a file of the user's choice, as [`replace`] does. A special file, such as `/dev/stdout`, is written directly and
/// stays as it is.
pub(crate) fn write(path: &Path, bytes: &[u8]) -> Result<(), CudaBuilderError> {
    if path.metadata().is_ok_and(|metadata| !metadata.is_file()) {
        return std::fs::write(path, bytes).during("writing", path);
    }
    replace(path, bytes)
}

/// Writes `bytes` to a temporary file next to `path` and renames it; replaces whatever is there, even a folder.
pub(crate) fn replace(path: &Path, bytes: &[u8]) -> Result<(), CudaBuilderError> {
    replace_with_mode(path, bytes, 0o644)
}

/// Same as [`replace`], and makes the file executable.
pub(crate) fn replace_executable(path: &Path, bytes: &[u8]) -> Result<(), CudaBuilderError> {
    replace_with_mode(path, bytes, 0o755)
}

fn replace_with_mode(path: &Path, bytes: &[u8], mode: u32) -> Result<(), CudaBuilderError> {
    let folder = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    create_dir(folder)?;
    if path.symlink_metadata().is_ok_and(|metadata| metadata.is_dir()) {
        remove(path)?;
    }
    let mut file = tempfile::NamedTempFile::new_in(folder).during("creating a file in", folder)?;
    file.write_all(bytes).during("writing", path)?;
    // Temporary files are private to their owner; the result is as readable as other build outputs.
    set_mode(file.as_file(), mode).during("writing", path)?;
    file.persist(path).map_err(|e| e.error).during("writing", path)?;
    Ok(())
}

#[cfg(unix)]
pub(crate) fn set_mode(file: &File, mode: u32) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    file.set_permissions(std::fs::Permissions::from_mode(mode))
}

#[cfg(not(unix))]
pub(crate) fn set_mode(_file: &File, _mode: u32) -> io::Result<()> {
    Ok(())
}

/// Opens a regular file to read it. Opening a pipe would wait for its writer.
pub(crate) fn open(path: &Path) -> io::Result<File> {
    open_with(path, File::options().read(true))
}

fn open_with(path: &Path, options: &OpenOptions) -> io::Result<File> {
    match path.metadata() {
        Ok(metadata) if !metadata.is_file() => {
            Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file"))
        }
        _ => options.open(path),
    }
}

/// Reads a regular file.
pub(crate) fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open(path)?.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Removes a folder with all in it, or a file or link, if it exists.
pub(crate) fn remove(path: &Path) -> Result<(), CudaBuilderError> {
    let is_folder = path.symlink_metadata().is_ok_and(|metadata| metadata.is_dir());
    let removed = if is_folder { std::fs::remove_dir_all(path) } else { std::fs::remove_file(path) };
    match removed {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed.during("removing", path),
    }
}

/// Whether the file system of the folder lets programs run, as far as the system says.
#[cfg(target_os = "linux")]
pub(crate) fn runs_programs(folder: &Path) -> bool {
    use rustix::fs::StatVfsMountFlags;
    !rustix::fs::statvfs(folder).is_ok_and(|system| system.f_flag.contains(StatVfsMountFlags::NOEXEC))
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn runs_programs(_folder: &Path) -> bool {
    true
}

/// Whether files can be created in the folder, which is created if it does not exist.
pub(crate) fn is_writable(folder: &Path) -> bool {
    std::fs::create_dir_all(folder).is_ok() && tempfile::tempfile_in(folder).is_ok()
}

pub(crate) fn create_dir(path: &Path) -> Result<(), CudaBuilderError> {
    std::fs::create_dir_all(path).during("creating the folder", path)
}

/// Waits until no other process or thread holds the lock file at `path`. The lock is held until the file is dropped.
pub(crate) fn lock(path: &Path) -> Result<File, CudaBuilderError> {
    if let Some(folder) = path.parent() {
        create_dir(folder)?;
    }
    let file = open_with(path, File::options().create(true).truncate(false).write(true));
    let file = file.during("opening the lock", path)?;
    file.lock().during("locking", path)?;
    Ok(file)
}

pub(crate) fn hex(digest: &[u8]) -> String {
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}
