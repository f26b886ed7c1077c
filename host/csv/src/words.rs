//! A line eight bytes at a time, in a register of 64 bits.
//!
//! One byte at a time costs a branch per digit, which the processor cannot predict. In place of
//!
//! ```text
//! while the next byte is a digit { value = 10 * value + digit }
//! ```
//!
//! 1. four pixels that are 0, as most are, are one comparison: `0,0,0,0,` is a number of 64 bits;
//! 2. else the first two commas are found by arithmetic on all eight bytes, which hold two fields or more, and the bytes before
//!    each are shifted to where ones, tens and hundreds belong: however many digits there are, the instructions are the same.
//!    Where the next word begins is known with the second comma, so a chain of instructions that wait for each other is one for
//!    two fields; no instruction waits for the value of the digits, or whether they are digits.
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
    let (mut at, mut count, mut wrong) = (0, 0, 0);
    while let Some(word) = line.get(at..at + 8) {
        let word = u64::from_le_bytes(word.try_into().ok()?);
        if word == ZEROS {
            (at, count) = (at + 8, count + 4);
            continue;
        }
        let ([first, second], bits) = first_fields(word)?;
        let pair = [number(word as u32, first), number((word >> (first + 8)) as u32, second)];
        *fields.get_mut(count..)?.first_chunk_mut()? = pair.map(|(value, _)| value);
        wrong |= pair[0].1 | pair[1].1;
        (at, count) = (at + bits as usize / 8, count + 2);
    }
    // The last fields, which have no eight bytes any more.
    for field in line[at..].split(|&byte| byte == b',') {
        let mut digits = [0; 4];
        digits[..3].get_mut(..field.len()).filter(|_| !field.is_empty())?.copy_from_slice(field);
        let (value, is_wrong) = number(u32::from_le_bytes(digits), 8 * field.len() as u32);
        *fields.get_mut(count)? = value;
        (count, wrong) = (count + 1, wrong | is_wrong);
    }
    (wrong == 0).then_some(count)
}

/// The bits of the first two fields in a word, without their commas, and of both with them; none where either is not of one to
/// three bytes. The first byte is the lowest.
#[inline(always)]
fn first_fields(word: u64) -> Option<([u32; 2], u32)> {
    // The highest bit of each byte that is a comma, and maybe of one right behind a comma that is none (Warren, Hacker's
    // Delight, 6-1): the field between the two would be empty.
    let other = word ^ COMMAS;
    let commas = other.wrapping_sub(EVERY) & !other & HIGH;
    let first = commas.trailing_zeros() - 7;
    let both = (commas & commas.wrapping_sub(1)).trailing_zeros() + 1;
    let second = both.wrapping_sub(first + 16);
    let is_plain = |bits: u32| (8..=24).contains(&bits);
    (is_plain(first) && is_plain(second)).then_some(([first, second], both))
}

/// The number whose one to three digits are the lowest `bits` of the word; and a value that is not 0 if they are not
/// digits, or the number is above 255.
#[inline(always)]
fn number(word: u32, bits: u32) -> (u8, u32) {
    // The ones in the highest byte, tens and hundreds below it, and 0 where there are none.
    let digits = (word ^ 0x3030_3030) << (32 - bits);
    // A byte above 9 sets its highest bit, with what is added or without.
    let no_digits = (digits.wrapping_add(0x7676_7676) | digits) & 0x8080_8080;
    let value = (digits >> 24) + 10 * (digits >> 16 & 0xff) + 100 * (digits >> 8 & 0xff);
    (value as u8, no_digits | (value & !0xff))
}
