//! MNIST as CSV: a line per image with the label and then 784 pixels, all numbers from 0 to 255.
//!
//! [`RUNGS`] has parsers for it, from the simplest to the one that `ferrowarp-data` uses. All accept the same texts and
//! report the same bad fields. They accept an optional header line (its first field begins with a letter), blank lines, all
//! three kinds of line ends and spaces around fields, but no quoted fields.

use std::borrow::Cow;

use memchr::{memchr, memchr_iter};

mod bytes;
mod split;
mod words;

/// Height and width of an image. The format does not contain them, so they must be MNIST's.
pub const SIDE: usize = 28;

/// Pixels per image.
pub const PIXELS: usize = SIDE * SIDE;

/// The mark with which some programs begin a text.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// The contents of parsed lines.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lines {
    /// One label per line, below the number of classes.
    pub labels: Vec<u8>,
    /// [`PIXELS`] numbers per line.
    pub pixels: Vec<u8>,
}

/// The first invalid field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadField {
    /// Its line, counted from 0 at the beginning of the parsed text.
    pub line: usize,
    /// Its column, counted from 1.
    pub column: usize,
    /// What is wrong, and what was expected.
    pub problem: String,
}

/// A parser.
#[derive(Clone, Copy, Debug)]
pub struct Rung {
    /// Its name.
    pub name: &'static str,
    /// What it does, in a line.
    pub idea: &'static str,
    /// Parses a whole text with labels below the given number.
    pub parse: fn(&[u8], usize) -> Result<Lines, BadField>,
}

/// The parsers, each faster than the one before.
pub const RUNGS: &[Rung] = &[
    Rung { name: "split_f32", idea: "`lines`, `split` and `parse::<f32>`", parse: split::as_f32 },
    Rung { name: "split_u8", idea: "`parse::<u8>`", parse: split::as_u8 },
    Rung {
        name: "bytes",
        idea: "a digit at a time, by hand",
        parse: |text, classes| parse_by(text, classes, bytes::line),
    },
    Rung {
        name: "words",
        idea: "eight bytes at a time",
        parse: |text, classes| parse_by(text, classes, words::line),
    },
];

/// Parses a line and appends its contents; the error is the column and what is wrong there.
type Line = fn(&[u8], usize, &mut Lines) -> Result<(), (usize, String)>;

fn parse_by(text: &[u8], classes: usize, line: Line) -> Result<Lines, BadField> {
    let text = with_line_feeds(without_mark(text));
    let (before, body) = split_header(&text);
    lines_by(body, classes, line).map_err(|bad| BadField { line: before + bad.line, ..bad })
}

fn lines_by(text: &[u8], classes: usize, parse: Line) -> Result<Lines, BadField> {
    // A pixel takes at least a digit and a comma.
    let mut lines = Lines { labels: Vec::new(), pixels: Vec::with_capacity(text.len() / 2) };
    let mut start = 0;
    for (number, end) in memchr_iter(b'\n', text).chain([text.len()]).enumerate() {
        let line = &text[start..end];
        start = end + 1;
        if line.trim_ascii().is_empty() {
            continue;
        }
        parse(line, classes, &mut lines).map_err(|(column, problem)| BadField {
            line: number,
            column,
            problem,
        })?;
    }
    Ok(lines)
}

/// Parses one line without its end, with the fastest of [`RUNGS`], and appends its contents to `lines`. After an error,
/// `lines` may hold a part of the line.
///
/// ```
/// let (line, mut lines) = (format!("7{}", ",0".repeat(784)), ferrowarp_csv::Lines::default());
/// ferrowarp_csv::parse_line(line.as_bytes(), 10, &mut lines).unwrap();
/// assert_eq!(lines.labels, [7]);
/// ```
///
/// # Errors
/// The column, counted from 1, and what is wrong there.
pub fn parse_line(line: &[u8], classes: usize, lines: &mut Lines) -> Result<(), (usize, String)> {
    words::line(line, classes, lines)
}

/// The text without a byte order mark at its beginning.
pub fn without_mark(text: &[u8]) -> &[u8] {
    text.strip_prefix(BYTE_ORDER_MARK).unwrap_or(text)
}

/// The text with a line feed at the end of each line, if its lines end with carriage returns only.
pub fn with_line_feeds(text: &[u8]) -> Cow<'_, [u8]> {
    if memchr(b'\n', text).is_some() || memchr(b'\r', text).is_none() {
        return Cow::Borrowed(text);
    }
    Cow::Owned(text.iter().map(|&byte| if byte == b'\r' { b'\n' } else { byte }).collect())
}

/// Splits off the header. Returns its number of lines, 0 or 1, and the rest of the text.
pub fn split_header(text: &[u8]) -> (usize, &[u8]) {
    let letter = text.iter().find(|byte| !matches!(byte, b' ' | b'\t' | b'"'));
    if !letter.is_some_and(u8::is_ascii_alphabetic) {
        return (0, text);
    }
    match memchr(b'\n', text) {
        Some(end) => (1, &text[end + 1..]),
        None => (1, &[]),
    }
}

/// Collects a line from its fields, each parsed by `number`. The error is the column of a field that is not a number from 0
/// to 255, and what is wrong there.
fn collect<'a>(
    mut fields: impl Iterator<Item = &'a [u8]>,
    classes: usize,
    lines: &mut Lines,
    number: impl Fn(&[u8]) -> Option<u8>,
) -> Result<(), (usize, String)> {
    let field = fields.next().unwrap_or_default();
    let label = number(field).ok_or_else(|| (1, not_a(&label_below(classes), field)))?;
    if usize::from(label) >= classes {
        return Err((1, not_a(&label_below(classes), label.to_string().as_bytes())));
    }
    lines.labels.push(label);
    for column in 2..PIXELS + 2 {
        let field = fields.next().ok_or_else(|| (column, too_short(column - 1)))?;
        lines.pixels.push(number(field).ok_or_else(|| (column, not_a(PIXEL, field)))?);
    }
    if fields.next().is_some() { Err((PIXELS + 2, too_long())) } else { Ok(()) }
}

/// The expected form of a pixel.
const PIXEL: &str = "a pixel from 0 to 255";

fn label_below(classes: usize) -> String {
    format!("a label from 0 to {}", classes - 1)
}

fn too_short(fields: usize) -> String {
    format!("the line ends after {fields} fields, expected a label and {PIXELS} pixels")
}

fn too_long() -> String {
    format!("one field too many, expected a label and {PIXELS} pixels")
}

fn not_a(expected: &str, field: &[u8]) -> String {
    const SHOWN: usize = 20;
    let text = String::from_utf8_lossy(field.trim_ascii());
    let shown: String = text.chars().take(SHOWN).flat_map(char::escape_debug).collect();
    let ellipsis = if text.chars().count() > SHOWN { "..." } else { "" };
    format!("`{shown}{ellipsis}` is not {expected}")
}
