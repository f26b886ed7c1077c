//! poly1305: sums modulo 2^130 - 5.

use ::poly1305::Poly1305;
use ::poly1305::universal_hash::KeyInit;

pub fn tag(input: &[u8], number: u32, output: &mut [u8]) {
    let key = core::array::from_fn::<u8, 32, _>(|i| (i as u32 * 7 + number) as u8 ^ 0x5a);
    let mac = Poly1305::new(&key.into());
    output.copy_from_slice(&mac.compute_unpadded(input));
}
