//! base64: engines are trait objects' kin, with tables made when the crate is compiled.

use ::base64::Engine as _;
use ::base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};

#[cfg(not(target_arch = "nvptx64"))]
use crate::inputs::{Case, Random};

use super::out::Out;

#[cfg(not(target_arch = "nvptx64"))]
pub fn texts() -> Vec<Case> {
    let mut random = Random::new(3);
    let encoded = |random: &mut Random, len| {
        let mut text = vec![0; 128];
        let len = STANDARD.encode_slice(random.bytes(len), &mut text).unwrap_or_default();
        text.truncate(len);
        text
    };
    let mut all: Vec<Vec<u8>> = (0..90).map(|len| encoded(&mut random, len)).collect();
    for text in all.clone().into_iter().skip(1).step_by(2) {
        let mut damaged = text;
        let at = random.word() as usize % damaged.len();
        damaged[at] = random.word() as u8;
        all.push(damaged);
    }
    crate::inputs::texts(all)
}

pub fn encode(input: &[u8], number: u32, output: &mut [u8]) {
    output.fill(0);
    let engine_says = if number.is_multiple_of(2) {
        STANDARD.encode_slice(input, output)
    } else {
        URL_SAFE_NO_PAD.encode_slice(input, output)
    };
    if engine_says.is_err() {
        output[0] = 1;
    }
}

pub fn decode(input: &[u8], _: u32, output: &mut [u8]) {
    let mut bytes = [0; 140];
    let mut out = Out::new(output);
    for engine in [&STANDARD, &URL_SAFE_NO_PAD] {
        match engine.decode_slice(input, &mut bytes) {
            Ok(len) => out.bytes(&bytes[..len]),
            Err(_) => out.bytes(b"!"),
        }
    }
}
