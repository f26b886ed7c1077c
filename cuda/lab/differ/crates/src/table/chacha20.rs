//! chacha20: a stream cipher of 64-byte blocks, from any place in its stream.

use ::chacha20::cipher::{KeyIvInit, StreamCipher, StreamCipherSeek};
use ::chacha20::{ChaCha20, XChaCha12};

pub fn stream(input: &[u8], number: u32, output: &mut [u8]) {
    let key = core::array::from_fn::<u8, 32, _>(|i| (i as u32 * number) as u8);
    let mut cipher = ChaCha20::new(&key.into(), &[number as u8; 12].into());
    output.fill(0);
    output[..input.len()].copy_from_slice(input);
    cipher.apply_keystream(&mut output[..input.len()]);
    cipher.seek(u64::from(number) * 3);
    cipher.apply_keystream(&mut output[input.len()..]);
}

pub fn extended(input: &[u8], number: u32, output: &mut [u8]) {
    let mut cipher = XChaCha12::new(&[number as u8; 32].into(), &[!number as u8; 24].into());
    output.fill(7);
    output[..input.len()].copy_from_slice(input);
    for piece in output.chunks_mut(number as usize % 70 + 1) {
        cipher.apply_keystream(piece);
    }
}
