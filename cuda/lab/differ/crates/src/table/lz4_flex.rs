//! lz4_flex: copies that overlap themselves. The host compresses, both decompress.

#[cfg(not(target_arch = "nvptx64"))]
use crate::inputs::{Case, Random};

use super::out::Out;

/// Compressed texts of all lengths with repetitions near and far, and some that are damaged.
#[cfg(not(target_arch = "nvptx64"))]
pub fn cases() -> Vec<Case> {
    let mut random = Random::new(21);
    let mut all = Vec::new();
    for number in 0..180usize {
        let text = text(&mut random, number * 5);
        let mut packed = ::lz4_flex::block::compress(&text);
        if number % 9 == 8 {
            let at = random.word() as usize % packed.len();
            packed[at] ^= 1 << (number % 8);
        }
        all.push(packed);
    }
    crate::inputs::texts(all)
}

/// A text that repeats parts of itself.
#[cfg(not(target_arch = "nvptx64"))]
pub fn text(random: &mut Random, len: usize) -> Vec<u8> {
    let mut text = random.bytes(len.min(9));
    while text.len() < len {
        let count = random.word() as usize % 40 + 1;
        if random.word().is_multiple_of(4) {
            text.extend(random.bytes(count));
        } else {
            let from = text.len() - 1 - random.word() as usize % text.len().min(60);
            (0..count).for_each(|i| text.push(text[from + i]));
        }
    }
    text.truncate(len);
    text
}

pub fn inflate(input: &[u8], _: u32, output: &mut [u8]) {
    let mut plain = [0; 1024];
    let result = ::lz4_flex::block::decompress_into(input, &mut plain);
    let mut out = Out::new(output);
    match result {
        Ok(len) => {
            out.number(len as u64);
            out.bytes(&plain[..len]);
        }
        Err(_) => out.bytes(b"refused"),
    }
}
