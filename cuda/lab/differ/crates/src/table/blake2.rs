//! blake2: words of 64 and of 32 bits.

use ::blake2::{Blake2b512, Blake2s256, Digest};

use super::out::pieces;

fn in_pieces<D: Digest>(input: &[u8], number: u32, output: &mut [u8]) {
    let mut hash = D::new();
    pieces(input, number).for_each(|piece| hash.update(piece));
    output.copy_from_slice(&hash.finalize());
}

pub fn big(input: &[u8], _: u32, output: &mut [u8]) {
    output.copy_from_slice(&Blake2b512::digest(input));
}

pub fn big_steps(input: &[u8], number: u32, output: &mut [u8]) {
    in_pieces::<Blake2b512>(input, number, output);
}

pub fn small(input: &[u8], _: u32, output: &mut [u8]) {
    output.copy_from_slice(&Blake2s256::digest(input));
}

pub fn small_steps(input: &[u8], number: u32, output: &mut [u8]) {
    in_pieces::<Blake2s256>(input, number, output);
}
