//! The SHA-2 family, from RustCrypto's unmodified crate.

use cuda_std::prelude::*;
use sha2::{Digest, Sha224, Sha256, Sha384, Sha512};

/// The digest of the first `len` bytes with the algorithm `D`, all at once.
unsafe fn digest<D: Digest>(bytes: &[u8], len: u32, out: *mut u8) {
    let hash = D::digest(&bytes[..len as usize]);
    core::ptr::copy_nonoverlapping(hash.as_ptr(), out, hash.len());
}

macro_rules! digests {
    ($($name:ident: $algorithm:ty, $bytes:literal;)*) => {$(
        /// `digests[i]` = the hash of the first `lens[i]` bytes.
        #[kernel]
        #[allow(improper_ctypes_definitions, clippy::missing_safety_doc)]
        pub unsafe fn $name(bytes: &[u8], lens: &[u32], digests: *mut [u8; $bytes]) {
            let i = thread::index_1d() as usize;
            if i < lens.len() {
                digest::<$algorithm>(bytes, lens[i], digests.add(i).cast());
            }
        }
    )*};
}

digests! {
    sha224_digests: Sha224, 28;
    sha256_digests: Sha256, 32;
    sha384_digests: Sha384, 48;
    sha512_digests: Sha512, 64;
}

/// `digests[i]` = the SHA-512 of the first `lens[i]` bytes, fed in parts of at most `part` bytes.
#[kernel]
#[allow(improper_ctypes_definitions, clippy::missing_safety_doc)]
pub unsafe fn sha512_in_parts(bytes: &[u8], lens: &[u32], part: usize, digests: *mut [u8; 64]) {
    let i = thread::index_1d() as usize;
    if i >= lens.len() {
        return;
    }
    let mut hasher = Sha512::new();
    for part in bytes[..lens[i] as usize].chunks(part) {
        hasher.update(part);
    }
    *digests.add(i) = hasher.finalize().into();
}
