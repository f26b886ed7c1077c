//! Reads weight files and snapshots. Checks a file's type and the length in its header before it reads the rest, so that it
//! does not read endless files, or files that do not fit in memory.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::Path;

use safetensors::tensor::Metadata;
use safetensors::{SafeTensorError, SafeTensors};

use super::{CheckpointError, SnapshotError, file_format};

/// The bytes that identify a file: the part of a snapshot's header up to its length.
const FIRST: u64 = 20;

/// The longest header that the format allows (safetensors, "Format").
const MOST_HEADER: u64 = 100_000_000;

/// A file that is being read, and its length.
struct Reading {
    file: File,
    len: u64,
    bytes: Vec<u8>,
}

impl Reading {
    fn open(path: &Path) -> io::Result<Reading> {
        // This comes before opening it, because opening a pipe waits for its writer.
        if !fs::metadata(path)?.is_file() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file"));
        }
        let file = File::open(path)?;
        let len = file.metadata()?.len();
        let mut reading = Reading { file, len, bytes: Vec::new() };
        reading.up_to(FIRST)?;
        Ok(reading)
    }

    /// Reads until there are `len` bytes, or the file ends.
    fn up_to(&mut self, len: u64) -> io::Result<()> {
        let missing = len.saturating_sub(self.bytes.len() as u64);
        self.file.by_ref().take(missing).read_to_end(&mut self.bytes).map(drop)
    }
}

/// Reads a snapshot, or the first bytes of any other file.
pub(super) fn read_snapshot(path: &Path) -> Result<Vec<u8>, CheckpointError> {
    let failed = |source| CheckpointError::Read { path: path.to_owned(), source };
    let mut reading = Reading::open(path).map_err(failed)?;
    if file_format::is_one(&reading.bytes) {
        check_length(path, &reading)?;
        reading.up_to(reading.len).map_err(failed)?;
    }
    Ok(reading.bytes)
}

/// Reads a safetensors file or a snapshot.
pub(super) fn read_weights(path: &Path) -> Result<Vec<u8>, CheckpointError> {
    let failed = |source| CheckpointError::Read { path: path.to_owned(), source };
    let corrupt = |source| CheckpointError::Corrupt { path: path.to_owned(), source };
    let mut reading = Reading::open(path).map_err(failed)?;
    if file_format::is_one(&reading.bytes) {
        check_length(path, &reading)?;
    } else if let Some(len) = reading.bytes.first_chunk().map(|&len| u64::from_le_bytes(len)) {
        reading.up_to(8 + len.min(MOST_HEADER)).map_err(failed)?;
        match SafeTensors::read_metadata(&reading.bytes) {
            // The header is valid; the data after it are not read yet.
            Err(SafeTensorError::MetadataIncompleteBuffer)
                if reading.len.checked_sub(8 + len) == data_of(&reading.bytes, len) => {}
            Err(error) => return Err(corrupt(error)),
            Ok(_) => {}
        }
    }
    reading.up_to(reading.len).map_err(failed)?;
    Ok(reading.bytes)
}

/// The number of tensor bytes according to the header of `len` bytes.
fn data_of(first: &[u8], len: u64) -> Option<u64> {
    let header = first.get(8..)?.get(..usize::try_from(len).ok()?)?;
    Some(serde_json::from_slice::<Metadata>(header).ok()?.data_len() as u64)
}

fn check_length(path: &Path, reading: &Reading) -> Result<(), CheckpointError> {
    let wrong =
        |source: SnapshotError| CheckpointError::Snapshot { path: path.to_owned(), source: Box::new(source) };
    file_format::check_length(&reading.bytes, reading.len).map_err(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Makes a sparse file of 1 TiB that begins with these bytes.
    fn huge(folder: &Path, first: &[u8]) -> std::path::PathBuf {
        let path = folder.join("huge");
        fs::write(&path, first).unwrap();
        File::options().write(true).open(&path).unwrap().set_len(1 << 40).unwrap();
        path
    }

    #[test]
    fn a_file_longer_than_its_header_says_is_not_read() {
        let folder = tempfile::tempdir().unwrap();
        let snapshot = huge(folder.path(), &file_format::seal(b"payload"));
        for read in [read_snapshot, read_weights] {
            let CheckpointError::Snapshot { source, .. } = read(&snapshot).unwrap_err() else {
                panic!("another error")
            };
            assert!(matches!(*source, SnapshotError::TooLong { found, .. } if found == 1 << 40), "{source}");
        }
        let header = br#"{"0.bias":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}"#;
        let weights = [&(header.len() as u64).to_le_bytes()[..], header].concat();
        for first in [&weights[..], b"text that is no header", b""] {
            let error = read_weights(&huge(folder.path(), first)).unwrap_err();
            assert!(matches!(error, CheckpointError::Corrupt { .. }), "{error}");
        }
        assert!(read_snapshot(&huge(folder.path(), b"text")).unwrap().len() as u64 <= FIRST);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn what_is_no_regular_file_is_not_read() {
        for read in [read_snapshot, read_weights] {
            for path in ["/dev/zero", "/"] {
                let error = read(Path::new(path)).unwrap_err();
                assert!(matches!(error, CheckpointError::Read { .. }), "{path}: {error}");
            }
        }
    }
}
