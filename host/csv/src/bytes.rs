//! Parses a line by hand: at most three digits and a comma per field, without searching for the comma.

use memchr::memchr;

use super::{Lines, PIXEL, PIXELS, label_below, not_a, too_long, too_short};

/// Parses a line in any accepted form.
pub(super) fn line(line: &[u8], classes: usize, lines: &mut Lines) -> Result<(), (usize, String)> {
    let mut rest = Some(line);
    let label = number(&mut rest).map_err(|field| (1, not_a(&label_below(classes), field)))?;
    if usize::from(label) >= classes {
        return Err((1, not_a(&label_below(classes), label.to_string().as_bytes())));
    }
    lines.labels.push(label);
    for column in 2..PIXELS + 2 {
        if rest.is_none() {
            return Err((column, too_short(column - 1)));
        }
        lines.pixels.push(number(&mut rest).map_err(|field| (column, not_a(PIXEL, field)))?);
    }
    if rest.is_some() { Err((PIXELS + 2, too_long())) } else { Ok(()) }
}

/// Removes the next field from the line and parses it as a number from 0 to 255; the error is the field.
fn number<'a>(rest: &mut Option<&'a [u8]>) -> Result<u8, &'a [u8]> {
    let line = rest.unwrap_or_default();
    // The common case.
    let mut value = 0u32;
    let mut digits = 0;
    while let Some(digit) = line.get(digits).map(|byte| byte.wrapping_sub(b'0')).filter(|&digit| digit < 10) {
        value = value * 10 + u32::from(digit);
        digits += 1;
        if digits == 3 {
            break;
        }
    }
    if digits > 0 && value <= 255 {
        match line.get(digits) {
            Some(b',') => {
                *rest = Some(&line[digits + 1..]);
                return Ok(value as u8);
            }
            None => {
                *rest = None;
                return Ok(value as u8);
            }
            Some(_) => {}
        }
    }
    let (field, after) = match memchr(b',', line) {
        Some(comma) => (&line[..comma], Some(&line[comma + 1..])),
        None => (line, None),
    };
    *rest = after;
    let text = std::str::from_utf8(field.trim_ascii()).ok().filter(|text| !text.starts_with('+'));
    text.and_then(|text| text.parse().ok()).ok_or(field)
}
