//! The file format of a snapshot: a magic number, the version, the length, a checksum over all of it, and the payload.
//!
//! | bytes | what |
//! | --- | --- |
//! | 8 | [`MAGIC`] |
//! | 4 | the version of the payload, little endian |
//! | 8 | length of the payload in bytes, little endian |
//! | 32 | SHA-256 of the 20 bytes before it and of the payload |
//! | the rest | the payload |
//!
//! The format is the same in every version. So a reader can distinguish a damaged file from a newer program's file, and
//! detects a truncated file before it reads the content.

use std::cmp::Ordering;

use sha2::{Digest, Sha256};

use super::SnapshotError;

/// The first bytes of a snapshot. A transfer as text damages them.
pub const MAGIC: [u8; 8] = *b"\x89FWRUN\r\n";

/// The version that this program writes, and the only one that it reads.
pub const VERSION: u32 = 1;

/// Bytes that the checksum covers in addition to the payload.
const COVERED: usize = 20;

/// Bytes before the payload.
const HEADER: usize = COVERED + 32;

/// Wraps `payload` in the file format with this program's [`VERSION`].
pub fn seal(payload: &[u8]) -> Vec<u8> {
    seal_as(VERSION, payload)
}

pub(super) fn seal_as(version: u32, payload: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(HEADER + payload.len());
    bytes.extend(MAGIC);
    bytes.extend(version.to_le_bytes());
    bytes.extend((payload.len() as u64).to_le_bytes());
    bytes.extend(checksum(&bytes, payload));
    bytes.extend(payload);
    bytes
}

/// Whether a file that begins with these bytes is a snapshot.
pub(super) fn is_one(first: &[u8]) -> bool {
    first.starts_with(&MAGIC)
}

/// Checks that a file of `found` bytes has the length that its `first` bytes state, if they contain it.
pub(super) fn check_length(first: &[u8], found: u64) -> Result<(), SnapshotError> {
    let len = first.get(12..20).and_then(|len| len.first_chunk());
    let expected = len.map_or(HEADER as u64, |&len| u64::from_le_bytes(len).saturating_add(HEADER as u64));
    match found.cmp(&expected) {
        Ordering::Less => Err(SnapshotError::Truncated { found, expected }),
        Ordering::Equal => Ok(()),
        Ordering::Greater => Err(SnapshotError::TooLong { found, expected }),
    }
}

/// Checks all bytes and returns the payload.
///
/// # Errors
/// [`SnapshotError`]: a byte has changed, there are too few or too many bytes, or the version is not [`VERSION`].
pub fn open(bytes: &[u8]) -> Result<&[u8], SnapshotError> {
    if bytes.is_empty() {
        return Err(SnapshotError::Empty);
    }
    let magic_len = bytes.len().min(MAGIC.len());
    if bytes[..magic_len] != MAGIC[..magic_len] {
        return Err(SnapshotError::NoSnapshot);
    }
    let Some((header, payload)) = bytes.split_first_chunk::<HEADER>() else {
        return Err(SnapshotError::Truncated { found: bytes.len() as u64, expected: HEADER as u64 });
    };
    check_length(header, bytes.len() as u64)?;
    if checksum(&header[..COVERED], payload) != *sub_array::<32>(header, COVERED) {
        return Err(SnapshotError::Checksum);
    }
    match u32::from_le_bytes(*sub_array(header, 8)) {
        VERSION => Ok(payload),
        version => Err(SnapshotError::Version { found: version, known: VERSION }),
    }
}

fn checksum(covered: &[u8], payload: &[u8]) -> [u8; 32] {
    Sha256::new().chain_update(covered).chain_update(payload).finalize().into()
}

/// `N` bytes of the header, starting at `at`.
fn sub_array<const N: usize>(header: &[u8; HEADER], at: usize) -> &[u8; N] {
    // Both numbers are constants at every call.
    header[at..].first_chunk().unwrap_or_else(|| unreachable!("{N} bytes at {at} lie in the header"))
}
