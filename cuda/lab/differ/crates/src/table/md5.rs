//! md-5.

use ::md5::{Digest, Md5};

use super::out::pieces;

pub fn hash(input: &[u8], _: u32, output: &mut [u8]) {
    output.copy_from_slice(&Md5::digest(input));
}

pub fn steps(input: &[u8], number: u32, output: &mut [u8]) {
    let mut hash = Md5::new();
    pieces(input, number).for_each(|piece| hash.update(piece));
    output.copy_from_slice(&hash.finalize());
}
