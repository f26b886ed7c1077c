//! A registry crate that hashes inside a kernel.

use core::hash::Hasher;
use cuda_std::prelude::*;
use siphasher::sip::SipHasher13;

/// hashes = SipHash-1-3 of each record of `width` bytes; the record's number is half of the key.
#[kernel]
#[allow(improper_ctypes_definitions, clippy::missing_safety_doc)]
pub unsafe fn hash_records(records: &[u8], width: usize, hashes: *mut u64) {
    let i = thread::index_1d() as usize;
    if i >= records.len() / width {
        return;
    }
    let mut hasher = SipHasher13::new_with_keys(i as u64, 0x0123_4567_89ab_cdef);
    hasher.write(&records[i * width..(i + 1) * width]);
    *hashes.add(i) = hasher.finish();
}
