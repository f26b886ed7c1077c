//! adler2.

use ::adler2::{Adler32, adler32_slice};

use super::out::pieces;

pub fn sum(input: &[u8], _: u32, output: &mut [u8]) {
    output.copy_from_slice(&adler32_slice(input).to_le_bytes());
}

pub fn steps(input: &[u8], number: u32, output: &mut [u8]) {
    let mut sum = Adler32::from_checksum(number | 1);
    pieces(input, number).for_each(|piece| sum.write_slice(piece));
    output.copy_from_slice(&sum.checksum().to_le_bytes());
}
