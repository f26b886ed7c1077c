//! xxhash-rust: all three of the family, in one go and in pieces.

use ::xxhash_rust::xxh3::{Xxh3, xxh3_64, xxh3_64_with_seed};
use ::xxhash_rust::xxh32::xxh32;
use ::xxhash_rust::xxh64::{Xxh64, xxh64};

use super::out::{Out, pieces};

pub fn all(input: &[u8], number: u32, output: &mut [u8]) {
    let mut out = Out::new(output);
    out.bytes(&xxh32(input, number).to_le_bytes());
    let mut steps = Xxh64::new(u64::from(number));
    pieces(input, number).for_each(|piece| steps.update(piece));
    out.number(xxh64(input, u64::from(number)) ^ steps.digest().rotate_left(1));
    out.number(xxh3_64(input));
    out.number(xxh3_64_with_seed(input, u64::from(number)));
    let mut steps = Xxh3::new();
    pieces(input, number).for_each(|piece| steps.update(piece));
    out.number(steps.digest());
}
