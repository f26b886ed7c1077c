//! miniz_oxide: a state machine with Huffman tables. The host compresses, both decompress.

use ::miniz_oxide::inflate::TINFLStatus;
use ::miniz_oxide::inflate::core::{DecompressorOxide, decompress, inflate_flags};

#[cfg(not(target_arch = "nvptx64"))]
use crate::inputs::{Case, Random};

use super::out::Out;

/// Compressed texts at all levels, and some that are damaged.
#[cfg(not(target_arch = "nvptx64"))]
pub fn cases() -> Vec<Case> {
    let mut random = Random::new(22);
    let mut all = Vec::new();
    for number in 0..80usize {
        let mut text = random.bytes(number * 6);
        for i in 20..text.len() {
            if random.word() % 5 < 3 {
                text[i] = text[i - 1 - random.word() as usize % 20];
            }
        }
        let mut packed = ::miniz_oxide::deflate::compress_to_vec_zlib(&text, (number % 11) as u8);
        if number % 9 == 8 {
            let at = random.word() as usize % packed.len();
            packed[at] ^= 1 << (number % 8);
        }
        all.push(packed);
    }
    crate::inputs::texts(all)
}

pub fn inflate(input: &[u8], _: u32, output: &mut [u8]) {
    let mut plain = [0; 1024];
    let mut state = DecompressorOxide::new();
    let flags = inflate_flags::TINFL_FLAG_PARSE_ZLIB_HEADER | inflate_flags::TINFL_FLAG_USING_NON_WRAPPING_OUTPUT_BUF;
    let (status, used, made) = decompress(&mut state, input, &mut plain, 0, flags);
    let mut out = Out::new(output);
    out.bytes(&[u8::from(status == TINFLStatus::Done), used as u8, made as u8]);
    out.bytes(&plain[..made]);
}
