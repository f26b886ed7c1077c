//! ryu: the shortest decimal text of a float.

use ::ryu::Buffer;

use super::out::{Out, array};

pub fn all(input: &[u8], number: u32, output: &mut [u8]) {
    let bits = u64::from_le_bytes(array(input, 0));
    let mut out = Out::new(output);
    let mut text = Buffer::new();
    let double = if number.is_multiple_of(3) { (bits % 1_000_000) as f64 / 1000.0 } else { f64::from_bits(bits) };
    out.bytes(text.format(double).as_bytes());
    out.bytes(b" ");
    out.bytes(text.format(f32::from_bits(bits as u32)).as_bytes());
}
