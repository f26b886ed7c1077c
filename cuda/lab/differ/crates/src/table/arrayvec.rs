//! arrayvec: a vector and a string within an array, some of whose elements nothing was written to.

use core::fmt::Write as _;

use ::arrayvec::{ArrayString, ArrayVec};

use super::out::Out;

pub fn edits(input: &[u8], number: u32, output: &mut [u8]) {
    let mut all: ArrayVec<u16, 37> = ArrayVec::new();
    for (i, &byte) in input.iter().enumerate() {
        let at = usize::from(byte) % (all.len() + 1);
        match (byte.wrapping_add(number as u8)) % 7 {
            0 => drop(all.try_insert(at, u16::from(byte) * 3)),
            1 => drop(all.pop_at(at)),
            2 => drop(all.drain(at / 2..at).count()),
            3 => all.retain(|value| *value % 5 != u16::from(byte) % 5),
            4 => drop(all.swap_pop(at)),
            _ => drop(all.try_push(i as u16 ^ u16::from(byte))),
        }
    }
    let mut out = Out::new(output);
    out.bytes(&[all.len() as u8]);
    all.sort_unstable();
    all.iter().for_each(|value| out.bytes(&value.to_be_bytes()));
}

pub fn string(input: &[u8], number: u32, output: &mut [u8]) {
    let mut text: ArrayString<40> = ArrayString::new();
    for &byte in input {
        let c = char::from_u32(u32::from(byte) * 37 % 0x800).unwrap_or('?');
        if text.try_push(c).is_err() {
            text.truncate(0);
        }
        if byte % 16 == 3 {
            text.pop();
        }
    }
    // Formatted text needs trait objects.
    let _ = write!(text, "{}", number % 10);
    let mut out = Out::new(output);
    out.bytes(&[text.len() as u8, text.chars().count() as u8]);
    out.bytes(text.as_bytes());
}
