//! cobs: frames without a zero, and back.

use super::out::Out;

pub fn round(input: &[u8], number: u32, output: &mut [u8]) {
    let mut sparse = [0; 280];
    let sparse = &mut sparse[..input.len()];
    for (to, &byte) in sparse.iter_mut().zip(input) {
        *to = if u32::from(byte) % 5 < number % 5 { 0 } else { byte };
    }
    let mut frame = [0; 300];
    let len = ::cobs::encode(sparse, &mut frame);
    let mut out = Out::new(output);
    out.bytes(&frame[..len]);
    let mut back = [0; 300];
    match ::cobs::decode(&frame[..len], &mut back) {
        Ok(len) => out.bytes(&back[..len]),
        Err(_) => out.bytes(b"cannot be decoded"),
    }
}
