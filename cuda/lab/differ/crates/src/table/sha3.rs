//! sha3: Keccak's permutation of 25 words.

use ::sha3::digest::{ExtendableOutput, Update, XofReader};
use ::sha3::{Digest, Sha3_256, Shake128};

use super::out::pieces;

pub fn hash(input: &[u8], _: u32, output: &mut [u8]) {
    output.copy_from_slice(&Sha3_256::digest(input));
}

pub fn steps(input: &[u8], number: u32, output: &mut [u8]) {
    let mut hash = Sha3_256::new();
    pieces(input, number).for_each(|piece| Digest::update(&mut hash, piece));
    output.copy_from_slice(&hash.finalize());
}

pub fn extended(input: &[u8], number: u32, output: &mut [u8]) {
    let mut hash = Shake128::default();
    hash.update(input);
    let mut reader = hash.finalize_xof();
    let (first, rest) = output.split_at_mut(number as usize % 197);
    reader.read(first);
    reader.read(rest);
}
