//! Files that are either complete or absent.

use std::fs::File;
use std::io::Write;
use std::path::Path;

use sha2::{Digest, Sha256};

use crate::error::{CudaBuilderError, IoContext};

/// Writes `bytes` to a temporary file next to `path` and renames it. A special file, such as `/dev/stdout`, is written
/// directly and stays as it is.
pub(crate) fn write(path: &Path, bytes: &[u8]) -> Result<(), CudaBuilderError> {
    write_with_mode(path, bytes, 0o644)
}

/// Same as [`write`], and makes the file executable.
pub(crate) fn write_executable(path: &Path, bytes: &[u8]) -> Result<(), CudaBuilderError> {
    write_with_mode(path, bytes, 0o755)
}

fn write_with_mode(path: &Path, bytes: &[u8], mode: u32) -> Result<(), CudaBuilderError> {
    let folder = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    create_dir(folder)?;
    if path.metadata().is_ok_and(|metadata| !metadata.is_file()) {
        return std::fs::write(path, bytes).during("writing", path);
    }
    let mut file = tempfile::NamedTempFile::new_in(folder).during("creating a file in", folder)?;
    file.write_all(bytes).during("writing", path)?;
    // Temporary files are private to their owner; the result is as readable as other build outputs.
    set_mode(file.as_file(), mode).during("writing", path)?;
    file.persist(path).map_err(|e| e.error).during("writing", path)?;
    Ok(())
}

#[cfg(unix)]
pub(crate) fn set_mode(file: &File, mode: u32) -> std::io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    file.set_permissions(std::fs::Permissions::from_mode(mode))
}

#[cfg(not(unix))]
pub(crate) fn set_mode(_file: &File, _mode: u32) -> std::io::Result<()> {
    Ok(())
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
    let file = File::options()
        .create(true)
        .truncate(false)
        .write(true)
        .open(path)
        .during("opening the lock", path)?;
    file.lock().during("locking", path)?;
    Ok(file)
}

pub(crate) fn hex(digest: &[u8]) -> String {
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The sha256 of the file at `path`, in hexadecimal.
pub(crate) fn sha256_of(path: &Path) -> Result<String, CudaBuilderError> {
    // Opening a pipe would wait for its writer.
    if !path.metadata().during("opening", path)?.is_file() {
        let error = std::io::Error::new(std::io::ErrorKind::InvalidInput, "it is not a regular file");
        return Err(error).during("opening", path);
    }
    let mut file = File::open(path).during("opening", path)?;
    let mut hasher = Sha256::new();
    std::io::copy(&mut file, &mut Hashing(&mut hasher)).during("reading", path)?;
    Ok(hex(&hasher.finalize()))
}

struct Hashing<'a>(&'a mut Sha256);

impl Write for Hashing<'_> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
