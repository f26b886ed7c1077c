//! hex.

#[cfg(not(target_arch = "nvptx64"))]
use crate::inputs::Case;

use super::out::Out;

#[cfg(not(target_arch = "nvptx64"))]
pub fn texts() -> Vec<Case> {
    let sound = (0..100usize).map(|len| (0..2 * len).map(|i| b"0123456789abcdefABCDEF"[(i * len + i) % 22]).collect());
    let unsound = ["a", "0g", "0 ", "zz", "00\u{e9}"].map(|text| text.as_bytes().to_vec());
    crate::inputs::texts(sound.chain(unsound).collect::<Vec<Vec<u8>>>())
}

pub fn encode(input: &[u8], _: u32, output: &mut [u8]) {
    output.fill(b'.');
    let len = 2 * input.len();
    if ::hex::encode_to_slice(input, &mut output[..len]).is_err() {
        output[0] = b'!';
    }
}

pub fn decode(input: &[u8], number: u32, output: &mut [u8]) {
    let mut bytes = [0; 128];
    let wrong = usize::from(number % 11 == 10);
    let result = ::hex::decode_to_slice(input, &mut bytes[..input.len() / 2 + wrong]);
    let mut out = Out::new(output);
    match result {
        Ok(()) => out.bytes(&bytes[..input.len() / 2]),
        Err(::hex::FromHexError::InvalidHexCharacter { c, index }) => out.number(c as u64 + 1000 * index as u64),
        Err(::hex::FromHexError::OddLength) => out.bytes(b"odd"),
        Err(::hex::FromHexError::InvalidStringLength) => out.bytes(b"length"),
    }
}
