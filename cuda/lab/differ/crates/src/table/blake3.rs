//! blake3: chunks of 1024 bytes in a tree.

#[cfg(not(target_arch = "nvptx64"))]
use crate::inputs::{Case, Random, lengths};

use super::out::{array, pieces};

#[cfg(not(target_arch = "nvptx64"))]
pub fn cases() -> Vec<Case> {
    let around = [1023usize, 1024, 1025, 2047, 2048, 2049, 3072, 3073, 4096, 5000];
    let long = around.iter().map(|&len| (len as u32, Random::new(len as u64).bytes(len)));
    lengths(130).into_iter().chain(long).collect()
}

pub fn hash(input: &[u8], _: u32, output: &mut [u8]) {
    output.copy_from_slice(::blake3::hash(input).as_bytes());
}

pub fn steps(input: &[u8], number: u32, output: &mut [u8]) {
    let key = [input, &[number as u8; 32]].concat_key();
    let mut hash = ::blake3::Hasher::new_keyed(&key);
    for piece in pieces(input, number) {
        hash.update(piece);
    }
    hash.finalize_xof().fill(output);
}

trait ConcatKey {
    fn concat_key(&self) -> [u8; 32];
}

impl ConcatKey for [&[u8]; 2] {
    /// The first 32 bytes of both.
    fn concat_key(&self) -> [u8; 32] {
        let mut all = [0; 64];
        let first = self[0].len().min(32);
        all[..first].copy_from_slice(&self[0][..first]);
        all[first..first + 32].copy_from_slice(self[1]);
        array(&all, 0)
    }
}
