//! A line eight bytes at a time, in a register of 64 bits.
//!
//! A byte at a time costs a branch for every digit, which the processor cannot foretell. In place of
//!
//! ```text
//! while the next byte is a digit { value = 10 * value + digit }
//! ```
//!
//! 1. four pixels that are 0, as most are, are one comparison: `0,0,0,0,` is a number of 64 bits;
//! 2. else the first comma is found by arithmetic on all eight bytes, and the bytes before it are shifted to where ones, tens
//!    and hundreds belong: however many digits there are, the instructions are the same.
//!
//! What is not one to three digits and a comma is left to `bytes`, with the whole of its line: spaces, zeros in front, and all
//! that is wrong.

use super::{Lines, PIXELS, bytes};

/// A byte that is 1 in every place.
const EVERY: u64 = 0x0101_0101_0101_0101;
/// The highest bit of every byte.
const HIGH: u64 = 0x80 * EVERY;
/// A comma in every place.
const COMMAS: u64 = b',' as u64 * EVERY;
/// Four pixels that are 0.
const ZEROS: u64 = u64::from_le_bytes(*b"0,0,0,0,");

/// The fields of a line.
type Fields = [u8; 1 + PIXELS];

/// Parses a line of any form that is accepted.
pub(super) fn line(line: &[u8], classes: usize, lines: &mut Lines) -> Result<(), (usize, String)> {
    // What no field is stored to is 0.
    let mut fields = [0; 1 + PIXELS];
    let count = plain(line.strip_suffix(b"\r").unwrap_or(line), &mut fields);
    let [label, pixels @ ..] = &fields;
    if count == Some(fields.len()) && usize::from(*label) < classes {
        lines.labels.push(*label);
        lines.pixels.extend_from_slice(pixels);
        return Ok(());
    }
    bytes::line(line, classes, lines)
}

/// Reads a line of plain numbers, and gives how many; none where a field is anything else, or there are too many.
fn plain(line: &[u8], fields: &mut Fields) -> Option<usize> {
    let (mut at, mut count) = (0, 0);
    while let Some(word) = line.get(at..at + 8) {
        let word = u64::from_le_bytes(word.try_into().ok()?);
        if word == ZEROS {
            (at, count) = (at + 8, count + 4);
            continue;
        }
        let (value, digits) = first_field(word)?;
        *fields.get_mut(count)? = value;
        (at, count) = (at + digits + 1, count + 1);
    }
    // The last fields, with a comma behind the last of them.
    let mut rest = [b','; 8];
    let left = line.len() - at;
    rest[..left].copy_from_slice(&line[at..]);
    let (mut word, mut at) = (u64::from_le_bytes(rest), 0);
    while at <= left {
        let (value, digits) = first_field(word)?;
        *fields.get_mut(count)? = value;
        (at, count) = (at + digits + 1, count + 1);
        word >>= 8 * (digits + 1);
    }
    Some(count)
}

/// The number that the word begins with, and how many digits it has: one to three, of a number up to 255, with a comma behind
/// them; else none. The first byte is the lowest.
#[inline(always)]
fn first_field(word: u64) -> Option<(u8, usize)> {
    // The highest bit of each byte that is a comma; what is above the first may be wrong (Warren, Hacker's Delight, 6-1).
    let other = word ^ COMMAS;
    let commas = other.wrapping_sub(EVERY) & !other & HIGH;
    let digits = commas.trailing_zeros() as usize / 8;
    if !(1..=3).contains(&digits) {
        return None;
    }
    // The ones in the highest byte, tens and hundreds below it, and 0 where there are none.
    let number = (word as u32 ^ 0x3030_3030) << (32 - 8 * digits);
    // A byte above 9 sets its highest bit, with what is added or without.
    if (number.wrapping_add(0x7676_7676) | number) & 0x8080_8080 != 0 {
        return None;
    }
    let value = (number >> 24) + 10 * (number >> 16 & 0xff) + 100 * (number >> 8 & 0xff);
    Some((u8::try_from(value).ok()?, digits))
}
