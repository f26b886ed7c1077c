//! memchr: words at a time where there are no vectors, and substrings.

use ::memchr::memmem::Finder;
use ::memchr::{memchr, memchr_iter, memchr2, memchr3, memrchr};

use super::out::Out;

pub fn find(input: &[u8], number: u32, output: &mut [u8]) {
    let mut out = Out::new(output);
    let mut put = |found: Option<usize>| out.bytes(&found.map_or(u16::MAX, |at| at as u16).to_le_bytes());
    let wanted = number as u8;
    put(memchr(wanted, input));
    put(memrchr(wanted, input));
    put(memchr2(wanted, wanted ^ 0x80, input));
    put(memchr3(wanted, 1, 2, input));
    put(Some(memchr_iter(input.first().copied().unwrap_or(0), input).count()));
    let half = input.len() / 2;
    let needle = &input[half..(half + number as usize % 7).min(input.len())];
    put(Finder::new(needle).find(input));
    put(::memchr::memmem::rfind(input, needle));
}
