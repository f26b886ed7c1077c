//! Checks that files are complete: loading a truncated library kills the program without a message.

use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

use crate::files;

/// Whether the file is a complete ELF file, or with the extension `bc` complete bitcode.
pub(crate) fn is_whole(path: &Path) -> bool {
    match path.extension() {
        Some(extension) if extension == "bc" => files::read(path).is_ok_and(|bytes| is_whole_bitcode(&bytes)),
        _ => is_whole_elf(path),
    }
}

/// Whether the file is a complete ELF file of this machine's word size: its section headers, which are last, lie within it.
/// A truncated library is not.
pub(crate) fn is_whole_elf(path: &Path) -> bool {
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
    fn a_pipe_in_place_of_a_file_is_not_opened() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        assert!(!is_whole_elf(&pipe) && files::read(&pipe).is_err() && files::lock(&pipe).is_err());
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
