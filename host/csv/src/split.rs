//! The simplest parsers: the standard library splits the text and parses the fields.

use std::str::FromStr;

use super::{BadField, Lines, collect, split_header, with_line_feeds, without_mark};

/// Parses each field as a float, as most tutorials do; the fraction is always 0.
pub(super) fn as_f32(text: &[u8], classes: usize) -> Result<Lines, BadField> {
    split(text, classes, |field| {
        let number: f32 = parsed(field)?;
        (number <= 255.0).then_some(number as u8)
    })
}

/// Parses each field as a number from 0 to 255.
pub(super) fn as_u8(text: &[u8], classes: usize) -> Result<Lines, BadField> {
    split(text, classes, parsed)
}

fn split(text: &[u8], classes: usize, number: fn(&str) -> Option<u8>) -> Result<Lines, BadField> {
    let text = with_line_feeds(without_mark(text));
    let (before, body) = split_header(&text);
    let body = String::from_utf8_lossy(body);
    let mut lines = Lines::default();
    for (line, text) in body.lines().enumerate().filter(|(_, line)| !line.trim_ascii().is_empty()) {
        let fields = text.split(',').map(str::as_bytes);
        collect(fields, classes, &mut lines, |field| number(std::str::from_utf8(field).ok()?))
            .map_err(|(column, problem)| BadField { line: before + line, column, problem })?;
    }
    Ok(lines)
}

/// Parses a field of digits.
fn parsed<T: FromStr>(field: &str) -> Option<T> {
    let digits = field.trim_ascii();
    // Signs, points and exponents are invalid in pixels.
    let is_plain = digits.bytes().all(|byte| byte.is_ascii_digit());
    digits.parse().ok().filter(|_| is_plain)
}
