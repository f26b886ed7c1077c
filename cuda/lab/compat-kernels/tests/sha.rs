//! RustCrypto's SHA-2 in kernels, at every length around its blocks, against the same crate on the host.

use crate::common::{self, on_all};
use compat_kernels::*;
use cuda_std::launch::{LaunchConfig, LaunchError, Launcher};
use sha2::{Digest, Sha224, Sha256, Sha384, Sha512};

on_all! {
    digests_are_the_hosts
    parts_make_no_difference
}

/// More than two blocks of SHA-512, and of SHA-256.
const LENS: std::ops::RangeInclusive<u32> = 0..=300;

fn message() -> Vec<u8> {
    (0..*LENS.end()).map(|i| (i * 37 + i / 7) as u8).collect()
}

fn check<D: Digest, const BYTES: usize>(
    launch: impl Fn(LaunchConfig, &[u8], &[u32], &mut [[u8; BYTES]]) -> Result<(), LaunchError>,
) {
    let (bytes, lens) = (message(), LENS.collect::<Vec<u32>>());
    let mut digests = vec![[0xab; BYTES]; lens.len()];
    launch(LaunchConfig::cover(lens.len(), 64), &bytes, &lens, &mut digests).unwrap();
    for (&len, seen) in lens.iter().zip(&digests) {
        let expected = D::digest(&bytes[..len as usize]);
        assert_eq!(seen[..], expected[..], "{} of {len} bytes", std::any::type_name::<D>());
    }
}

fn digests_are_the_hosts(on: &dyn Launcher) {
    // SAFETY: as many digests as lengths, none beyond the message.
    check::<Sha224, 28>(|config, bytes, lens, out| unsafe {
        sha224_digests::launch(on, config, bytes, lens, out)
    });
    // SAFETY: as above.
    check::<Sha256, 32>(|config, bytes, lens, out| unsafe {
        sha256_digests::launch(on, config, bytes, lens, out)
    });
    // SAFETY: as above.
    check::<Sha384, 48>(|config, bytes, lens, out| unsafe {
        sha384_digests::launch(on, config, bytes, lens, out)
    });
    // SAFETY: as above.
    check::<Sha512, 64>(|config, bytes, lens, out| unsafe {
        sha512_digests::launch(on, config, bytes, lens, out)
    });
}

fn parts_make_no_difference(on: &dyn Launcher) {
    for part in [1, 13, 128, 1000] {
        // SAFETY: as many digests as lengths, none beyond the message.
        check::<Sha512, 64>(|config, bytes, lens, out| unsafe {
            sha512_in_parts::launch(on, config, bytes, lens, part, out)
        });
    }
}

/// The oracle itself, by the standard's example (FIPS 180-4, "abc").
#[test]
fn the_host_knows_its_own() {
    let digest = Sha512::digest(b"abc");
    assert_eq!(digest[..8], [0xdd, 0xaf, 0x35, 0xa1, 0x93, 0x61, 0x7a, 0xba]);
}
