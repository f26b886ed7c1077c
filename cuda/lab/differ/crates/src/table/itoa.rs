//! itoa: integers of all widths as decimal text.

use ::itoa::Buffer;

use super::out::{Out, array};

pub fn all(input: &[u8], number: u32, output: &mut [u8]) {
    let wide = u128::from_le_bytes(array(input, 0)) >> (number % 120);
    let mut out = Out::new(output);
    let mut text = Buffer::new();
    out.bytes(text.format(wide as u8).as_bytes());
    out.bytes(text.format(wide as i8).as_bytes());
    out.bytes(text.format(wide as u16).as_bytes());
    out.bytes(text.format(wide as i16).as_bytes());
    out.bytes(text.format(wide as u32).as_bytes());
    out.bytes(text.format(wide as i32).as_bytes());
    out.bytes(text.format(wide as u64).as_bytes());
    out.bytes(text.format(wide as i64).as_bytes());
    out.bytes(text.format(wide).as_bytes());
    out.bytes(text.format(wide as i128).as_bytes());
}
