//! Parses a line eight bytes at a time, in a 64-bit register.
//!
//! Parsing one byte at a time costs a branch per digit, which the processor cannot predict. Instead of
//!
//! ```text
//! while the next byte is a digit { value = 10 * value + digit }
//! ```
//!
//! 1. one comparison checks four pixels that are 0, as most are: `0,0,0,0,` is a 64-bit number;
//! 2. otherwise arithmetic finds the first two commas in all eight bytes, which hold at least two fields, and shifts the
//!    bytes before each to the places of ones, tens and hundreds: the instructions are the same for any number of digits.
//!    The second comma gives the start of the next word, so the dependency chain has one link per two fields; it does not
//!    include the digits' values or checks.
//!
//! `bytes` parses any line with a field that is not one to three digits and a comma: spaces, leading zeros, and all errors.

use super::{Lines, PIXELS, bytes};

/// The value 1 in every byte.
const EVERY: u64 = 0x0101_0101_0101_0101;
/// The highest bit of every byte.
const HIGH: u64 = 0x80 * EVERY;
/// A comma in every byte.
const COMMAS: u64 = b',' as u64 * EVERY;
/// Four pixels that are 0.
const ZEROS: u64 = u64::from_le_bytes(*b"0,0,0,0,");

/// The fields of a line.
type Fields = [u8; 1 + PIXELS];

/// Parses a line in any accepted form.
pub(super) fn line(line: &[u8], classes: usize, lines: &mut Lines) -> Result<(), (usize, String)> {
    // Fields that are not stored remain 0.
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

/// Parses a line of plain numbers and returns their count; `None` if a field is anything else or there are too many.
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
    // The last fields, with fewer than eight bytes.
    for field in line[at..].split(|&byte| byte == b',') {
        let mut digits = [0; 4];
        digits[..3].get_mut(..field.len()).filter(|_| !field.is_empty())?.copy_from_slice(field);
        let (value, is_wrong) = number(u32::from_le_bytes(digits), 8 * field.len() as u32);
        *fields.get_mut(count)? = value;
        (count, wrong) = (count + 1, wrong | is_wrong);
    }
    (wrong == 0).then_some(count)
}

/// The bits of each of the first two fields in a word, without commas, and of both with commas; `None` if either does not
/// have one to three bytes. The first byte is the lowest.
#[inline(always)]
fn first_fields(word: u64) -> Option<([u32; 2], u32)> {
    // The highest bit of each comma byte, and possibly of another byte right after a comma (Warren, Hacker's Delight, 6-1):
    // the field between the two would be empty.
    let other = word ^ COMMAS;
    let commas = other.wrapping_sub(EVERY) & !other & HIGH;
    let first = commas.trailing_zeros() - 7;
    let both = (commas & commas.wrapping_sub(1)).trailing_zeros() + 1;
    let second = both.wrapping_sub(first + 16);
    let is_plain = |bits: u32| (8..=24).contains(&bits);
    (is_plain(first) && is_plain(second)).then_some(([first, second], both))
}

/// Returns the number with its one to three digits in the lowest `bits` of the word, and a nonzero value if they are not
/// digits or the number is above 255.
#[inline(always)]
fn number(word: u32, bits: u32) -> (u8, u32) {
    // The ones are in the highest byte, tens and hundreds below it; missing digits are 0.
    let digits = (word ^ 0x3030_3030) << (32 - bits);
    // A byte above 9 has its highest bit set, with or without the addition.
    let no_digits = (digits.wrapping_add(0x7676_7676) | digits) & 0x8080_8080;
    let value = (digits >> 24) + 10 * (digits >> 16 & 0xff) + 100 * (digits >> 8 & 0xff);
    (value as u8, no_digits | (value & !0xff))
}
