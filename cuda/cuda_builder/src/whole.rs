//! Checks that unpacked files are unchanged.
//!
//! Loading a truncated or altered library kills the program without a message. So a package's folder holds a manifest with
//! the hash of each file when it was unpacked, and a file is hashed again whenever its metadata has changed since the last
//! check.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::error::CudaBuilderError;
use crate::files;

/// The manifest's name in the folder.
const MANIFEST: &str = "manifest.json";
/// The name of the file with the metadata at the last successful check.
const CHECKED: &str = "checked.json";

/// A file and the hash it must have.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Entry {
    name: String,
    sha256: String,
}

/// A file's metadata at the last successful check.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Seen {
    name: String,
    len: u64,
    /// Nanoseconds since 1970: of the contents and, if the system reports it, of the file itself.
    times: [i128; 2],
}

/// Writes the manifest of the files `names` in `folder`.
pub(crate) fn record(folder: &Path, names: &[&str]) -> Result<(), CudaBuilderError> {
    let entry =
        |name: &&str| Ok(Entry { name: (*name).to_owned(), sha256: files::sha256_of(&folder.join(name))? });
    let entries = names.iter().map(entry).collect::<Result<Vec<_>, CudaBuilderError>>()?;
    files::replace(&folder.join(MANIFEST), json(&entries).as_bytes())
}

/// Checks the files `names` in `folder`. The error is about the first one that has changed since it was unpacked.
pub(crate) fn check(folder: &Path, names: &[&str]) -> Result<(), CudaBuilderError> {
    let seen: Option<Vec<Seen>> = names.iter().map(|name| see(folder, name)).collect();
    let read = |name: &str| files::read(&folder.join(name)).ok();
    let before = read(CHECKED).and_then(|text| serde_json::from_slice::<Vec<Seen>>(&text).ok());
    if seen.is_some() && seen == before {
        return Ok(());
    }
    let entries = read(MANIFEST).and_then(|text| serde_json::from_slice::<Vec<Entry>>(&text).ok());
    let entries = entries.unwrap_or_default();
    for name in names {
        let path = folder.join(name);
        let damaged = |found: String, expected: &str| CudaBuilderError::Damaged {
            path: path.clone(),
            expected: expected.to_owned(),
            found,
        };
        let Some(entry) = entries.iter().find(|entry| entry.name == *name) else {
            return Err(damaged("in no manifest".to_owned(), "in the manifest beside it"));
        };
        let found = files::sha256_of(&path)?;
        if found != entry.sha256 {
            return Err(damaged(found, &entry.sha256));
        }
    }
    if let Some(seen) = seen {
        // In a folder that is not writable, they are hashed every time.
        let _ = files::replace(&folder.join(CHECKED), json(&seen).as_bytes());
    }
    Ok(())
}

fn json(value: &impl Serialize) -> String {
    // These types have no map with keys other than strings, the only possible error.
    serde_json::to_string_pretty(value).unwrap_or_default() + "\n"
}

fn see(folder: &Path, name: &str) -> Option<Seen> {
    let path: PathBuf = folder.join(name);
    let metadata = path.metadata().ok()?;
    let modified = metadata.modified().ok()?.duration_since(std::time::UNIX_EPOCH).ok()?;
    let modified = i128::try_from(modified.as_nanos()).ok()?;
    Some(Seen { name: name.to_owned(), len: metadata.len(), times: [modified, changed(&metadata)] })
}

#[cfg(unix)]
fn changed(metadata: &std::fs::Metadata) -> i128 {
    use std::os::unix::fs::MetadataExt;
    i128::from(metadata.ctime()) * 1_000_000_000 + i128::from(metadata.ctime_nsec())
}

#[cfg(not(unix))]
fn changed(_metadata: &std::fs::Metadata) -> i128 {
    0
}

/// Whether the file is a complete ELF file of this machine's word size: its section headers, which are last, lie within it.
/// A truncated library is not.
pub(crate) fn is_whole_elf(path: &Path) -> bool {
    use std::io::{Read, Seek, SeekFrom};
    let Ok(mut file) = files::open(path) else { return false };
    let mut header = [0u8; 64];
    if file.read_exact(&mut header).is_err() || header[..5] != *b"\x7fELF\x02" {
        return false;
    }
    let number =
        |at: usize, len: usize| header[at..at + len].iter().rev().fold(0u64, |n, b| n << 8 | u64::from(*b));
    let (sections_at, each, count) = (number(0x28, 8), number(0x3a, 2), number(0x3c, 2));
    let len = file.seek(SeekFrom::End(0)).unwrap_or(0);
    sections_at > 0 && sections_at.checked_add(each * count).is_some_and(|end| end <= len)
}

/// Whether `bytes` are a complete LLVM bitcode file: its outermost blocks, which each state their length in words, fill it
/// to the end (LLVM Bitcode File Format, "ENTER_SUBBLOCK Encoding"). libNVVM aborts on a truncated one.
pub(crate) fn is_whole_bitcode(bytes: &[u8]) -> bool {
    let Some(mut rest) = bytes.strip_prefix(b"BC\xc0\xde") else { return false };
    while let Some((head, tail)) = rest.split_first_chunk::<8>() {
        let [first, .., a, b, c, d] = *head;
        let len = u32::from_le_bytes([a, b, c, d]) as usize * 4;
        // The two lowest bits mark the start of a block.
        if first & 3 != 1 || tail.len() < len {
            return false;
        }
        rest = &tail[len..];
    }
    rest.is_empty() && bytes.len() > 4
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Opening it would wait for its writer.
    #[cfg(unix)]
    #[test]
    fn a_pipe_in_place_of_a_library_is_not_opened() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        assert!(!is_whole_elf(&pipe));
        assert!(files::sha256_of(&pipe).is_err());
        assert!(files::lock(&pipe).is_err());
        std::fs::write(folder.path().join("one"), "one").unwrap();
        for name in [MANIFEST, CHECKED] {
            std::fs::rename(&pipe, folder.path().join(name)).unwrap();
            assert_eq!(check(folder.path(), &["one"]).is_ok(), name == CHECKED);
            record(folder.path(), &["one"]).unwrap();
            check(folder.path(), &["one"]).unwrap();
            assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
            std::fs::remove_file(folder.path().join(CHECKED)).unwrap();
        }
    }

    #[test]
    fn an_altered_or_shortened_file_is_found() {
        let folder = tempfile::tempdir().unwrap();
        let names = ["one", "two"];
        for name in names {
            std::fs::write(folder.path().join(name), name).unwrap();
        }
        assert!(check(folder.path(), &names).is_err(), "there is no manifest");
        record(folder.path(), &names).unwrap();
        check(folder.path(), &names).unwrap();
        check(folder.path(), &names).unwrap();
        // The same length as before.
        std::fs::write(folder.path().join("two"), "owt").unwrap();
        let error = check(folder.path(), &names).unwrap_err().to_string();
        assert!(error.contains("two") && error.contains("sha256"), "{error}");
        std::fs::write(folder.path().join("two"), "tw").unwrap();
        assert!(check(folder.path(), &names).is_err());
        std::fs::remove_file(folder.path().join("two")).unwrap();
        assert!(check(folder.path(), &names).is_err());
        std::fs::write(folder.path().join("two"), "two").unwrap();
        check(folder.path(), &names).unwrap();
    }

    #[test]
    fn bitcode_that_was_cut_short_is_told() {
        let mut bytes = b"BC\xc0\xde".to_vec();
        for (id, words) in [(0x35, 2u32), (0x21, 0)] {
            bytes.extend([id, 0, 0, 0]);
            bytes.extend(words.to_le_bytes());
            bytes.extend(vec![7; words as usize * 4]);
        }
        assert!(is_whole_bitcode(&bytes));
        assert!((0..bytes.len()).all(|len| len == 20 || !is_whole_bitcode(&bytes[..len])));
        bytes[4] = 0x36;
        assert!(!is_whole_bitcode(&bytes));
    }

    #[test]
    fn elf_files_that_were_cut_short_are_told() {
        let whole = std::env::current_exe().unwrap();
        assert!(is_whole_elf(&whole));
        let folder = tempfile::tempdir().unwrap();
        let bytes = std::fs::read(&whole).unwrap();
        for len in [0, 10, 64, bytes.len() / 2, bytes.len() - 65] {
            let path = folder.path().join(len.to_string());
            std::fs::write(&path, &bytes[..len]).unwrap();
            assert!(!is_whole_elf(&path), "{len} of {} bytes", bytes.len());
        }
    }
}
