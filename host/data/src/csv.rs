//! CSV as the MNIST copies on the web have it: a line per image, the label first, then 784 pixels.
//!
//! An optional header line (its first field begins with a letter), blank lines, all three kinds of line ends and
//! spaces around fields are accepted. Everything else is an error that names line and column.

use std::borrow::Cow;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use memchr::{memchr, memchr_iter};
use rayon::prelude::*;

use super::limited::Limited;
use super::pool;
use super::{DataError, Dataset, idx};

mod lines;

pub(super) use lines::CsvLines;

/// Height and width of an image: the format does not say, so it must be MNIST's.
const SIDE: usize = 28;
const PIXELS: usize = SIDE * SIDE;
/// Bytes a task parses: a few hundred lines, so that the cores stay evenly busy.
const CHUNK: usize = 1 << 20;
/// The longest text that is read, uncompressed, in bytes: MNIST's has 110 MB. With the pixels it takes twice that.
const MAX_TEXT: u64 = 384 << 20;

/// What some programs begin a text with.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// Reads a CSV file, plain or gzip, whose labels are below `classes`.
///
/// # Errors
/// [`DataError`]: the file cannot be read, or does not pass the checks of [`parse_csv`].
pub fn read_csv(path: &Path, classes: usize) -> Result<Dataset, DataError> {
    let (input, size) = open(path)?;
    from_sized(input, size, path, classes)
}

/// A file and its size in bytes.
fn open(path: &Path) -> Result<(BufReader<File>, u64), DataError> {
    let failed = |source| DataError::Read { path: path.to_owned(), source };
    let file = File::open(path).map_err(failed)?;
    let size = file.metadata().map_err(failed)?.len();
    Ok((BufReader::with_capacity(CHUNK, file), size))
}

/// Reads CSV, plain or gzip, whose labels are below `classes`, from `input`; `path` is what errors call it.
///
/// # Errors
/// As [`read_csv`].
pub fn csv_from(input: impl BufRead, path: &Path, classes: usize) -> Result<Dataset, DataError> {
    from_sized(input, 0, path, classes)
}

/// As [`csv_from`], with a guess of how many bytes there will be.
fn from_sized(input: impl BufRead, size: u64, path: &Path, classes: usize) -> Result<Dataset, DataError> {
    parse_csv(&read_text(input, size, path)?, path, classes)
}

fn read_text(input: impl BufRead, size: u64, path: &Path) -> Result<Vec<u8>, DataError> {
    let failed = |source| DataError::Read { path: path.to_owned(), source };
    let mut text = Vec::with_capacity(size.min(MAX_TEXT) as usize);
    let input = idx::decompressed(input).map_err(failed)?;
    Limited::new(input, MAX_TEXT).read_to_end(&mut text).map_err(failed)?;
    Ok(text)
}

/// Parses CSV text whose labels are below `classes`; `path` is what errors call it.
///
/// # Errors
/// [`DataError::Csv`] for the first bad line, [`DataError::Empty`] when there is no line.
pub fn parse_csv(text: &[u8], path: &Path, classes: usize) -> Result<Dataset, DataError> {
    let text = text.strip_prefix(BYTE_ORDER_MARK).unwrap_or(text);
    let text = with_line_feeds(text);
    let (first_line, body) = split_header(&text);
    let chunks = chunks_of_lines(body);
    let parsed: Vec<_> = match chunks[..] {
        // What is one piece needs no second core.
        [chunk] => vec![parse_lines(chunk, classes)],
        _ => pool::install(|| chunks.par_iter().map(|chunk| parse_lines(chunk, classes)).collect()),
    };

    let mut dataset = Dataset { images: Vec::new(), labels: Vec::new(), rows: SIDE, cols: SIDE };
    let count: usize = parsed.iter().flatten().map(|lines| lines.labels.len()).sum();
    dataset.labels.reserve_exact(count);
    dataset.images.reserve_exact(count * PIXELS);
    let mut line = first_line;
    for (chunk, lines) in chunks.iter().zip(parsed) {
        let lines = lines.map_err(|bad| DataError::Csv {
            path: path.to_owned(),
            line: line + bad.line,
            column: bad.column,
            problem: bad.problem,
        })?;
        dataset.labels.extend(lines.labels);
        dataset.images.extend(lines.pixels);
        line += memchr_iter(b'\n', chunk).count();
    }
    if dataset.is_empty() {
        return Err(DataError::Empty { path: path.to_owned(), kind: "lines" });
    }
    Ok(dataset)
}

/// The text with a line feed at the end of each line, where it has carriage returns alone.
fn with_line_feeds(text: &[u8]) -> Cow<'_, [u8]> {
    if memchr(b'\n', text).is_some() || memchr(b'\r', text).is_none() {
        return Cow::Borrowed(text);
    }
    Cow::Owned(text.iter().map(|&byte| if byte == b'\r' { b'\n' } else { byte }).collect())
}

/// The number of the first line of images, and the text from there on.
fn split_header(text: &[u8]) -> (usize, &[u8]) {
    let letter = text.iter().find(|byte| !matches!(byte, b' ' | b'\t' | b'"'));
    if !letter.is_some_and(u8::is_ascii_alphabetic) {
        return (1, text);
    }
    match memchr(b'\n', text) {
        Some(end) => (2, &text[end + 1..]),
        None => (2, &[]),
    }
}

/// Cuts the text at line ends into pieces of about [`CHUNK`] bytes.
fn chunks_of_lines(mut text: &[u8]) -> Vec<&[u8]> {
    let mut chunks = Vec::with_capacity(text.len() / CHUNK + 1);
    while !text.is_empty() {
        let from = CHUNK.min(text.len());
        let end = memchr(b'\n', &text[from..]).map_or(text.len(), |at| from + at + 1);
        let (chunk, rest) = text.split_at(end);
        chunks.push(chunk);
        text = rest;
    }
    chunks
}

struct Lines {
    labels: Vec<u8>,
    pixels: Vec<u8>,
}

/// A bad field: line counted from 0 within the piece, column from 1.
struct BadField {
    line: usize,
    column: usize,
    problem: String,
}

fn parse_lines(chunk: &[u8], classes: usize) -> Result<Lines, BadField> {
    let mut lines = Lines {
        labels: Vec::new(),
        // A pixel takes at least a digit and a comma.
        pixels: Vec::with_capacity(chunk.len() / 2),
    };
    let mut start = 0;
    for (number, end) in memchr_iter(b'\n', chunk).chain([chunk.len()]).enumerate() {
        let line = &chunk[start..end];
        start = end + 1;
        if line.trim_ascii().is_empty() {
            continue;
        }
        parse_line(line, classes, &mut lines).map_err(|(column, problem)| BadField {
            line: number,
            column,
            problem,
        })?;
    }
    Ok(lines)
}

/// Appends the label and the pixels of one line; the error is the column and what is wrong there.
fn parse_line(line: &[u8], classes: usize, lines: &mut Lines) -> Result<(), (usize, String)> {
    let mut rest = Some(line);
    let expected_label = || format!("a label from 0 to {}", classes - 1);
    let label = next_byte(&mut rest).map_err(|field| (1, not_a(&expected_label(), field)))?;
    if usize::from(label) >= classes {
        return Err((1, not_a(&expected_label(), label.to_string().as_bytes())));
    }
    lines.labels.push(label);
    for pixel in 0..PIXELS {
        let column = pixel + 2;
        if rest.is_none() {
            let problem =
                format!("the line ends after {} fields, expected a label and {PIXELS} pixels", column - 1);
            return Err((column, problem));
        }
        let value = next_byte(&mut rest).map_err(|field| (column, not_a("a pixel from 0 to 255", field)))?;
        lines.pixels.push(value);
    }
    match rest {
        None => Ok(()),
        Some(_) => Err((PIXELS + 2, format!("one field too many, expected a label and {PIXELS} pixels"))),
    }
}

/// Takes the next field off the line and reads it as a number from 0 to 255; the error is the field.
fn next_byte<'a>(rest: &mut Option<&'a [u8]>) -> Result<u8, &'a [u8]> {
    let line = rest.unwrap_or_default();
    // The common case by hand: at most three digits and a comma, without a search.
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
    let field = field.trim_ascii();
    let text = std::str::from_utf8(field).ok().filter(|text| !text.starts_with('+'));
    text.and_then(|text| text.parse().ok()).ok_or(field)
}

fn not_a(expected: &str, field: &[u8]) -> String {
    const SHOWN: usize = 20;
    let text = String::from_utf8_lossy(field);
    let shown: String = text.chars().take(SHOWN).flat_map(char::escape_debug).collect();
    let ellipsis = if text.chars().count() > SHOWN { "..." } else { "" };
    format!("`{shown}{ellipsis}` is not {expected}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(label: &str, pixel: impl Fn(usize) -> String) -> String {
        let pixels: Vec<String> = (0..PIXELS).map(pixel).collect();
        format!("{label},{}\n", pixels.join(","))
    }

    fn plain(label: usize) -> String {
        line(&label.to_string(), |i| ((i * 7 + label) % 256).to_string())
    }

    fn parse(text: &str) -> Result<Dataset, DataError> {
        parse_csv(text.as_bytes(), Path::new("x.csv"), 10)
    }

    fn refusal(text: &str) -> String {
        parse(text).unwrap_err().to_string()
    }

    /// The same by the standard library, with no attention to speed.
    fn oracle(text: &str) -> Dataset {
        let mut dataset = Dataset { images: Vec::new(), labels: Vec::new(), rows: SIDE, cols: SIDE };
        for line in text.lines() {
            let fields: Vec<u8> = line.split(',').map(|field| field.trim().parse().unwrap()).collect();
            dataset.labels.push(fields[0]);
            dataset.images.extend(&fields[1..]);
        }
        dataset
    }

    #[test]
    fn lines_over_many_chunks_match_the_oracle() {
        let text: String = (0..1500).map(|i| plain(i % 10)).collect();
        assert!(text.len() > 3 * CHUNK);
        assert_eq!(parse(&text).unwrap(), oracle(&text));
    }

    #[test]
    fn header_blank_lines_and_line_ends_do_not_matter() {
        let wanted = oracle(&(plain(3) + &plain(4)));
        let header = "label,1x1,1x2\n";
        let crlf = (plain(3) + &plain(4)).replace('\n', "\r\n");
        let cr = (plain(3) + &plain(4)).replace('\n', "\r");
        let (cr_header, cr_bad) = (format!("label,p\r{cr}"), format!("{cr}\r5,x\r"));
        assert!(refusal(&cr_bad).contains("line 4, column 2"), "{}", refusal(&cr_bad));
        let spaced = plain(3).replace(',', " , ") + &plain(4);
        let unended = plain(3) + plain(4).trim_end();
        let blank = format!("{}\n\n{}\n", plain(3), plain(4));
        let marked = format!("\u{feff}{header}{unended}");
        for text in
            [format!("{header}{}{}", plain(3), plain(4)), crlf, cr, cr_header, spaced, unended, blank, marked]
        {
            assert_eq!(parse(&text).unwrap(), wanted, "{text:?}");
        }
    }

    #[test]
    fn a_bad_field_is_named_by_line_and_column() {
        let good: String = (0..1200).map(|i| plain(i % 10)).collect();
        for (field, shown) in [("256", "256"), ("-1", "-1"), ("", ""), ("1.5", "1.5"), ("a\u{7}", "a\\u{7}")]
        {
            let bad = line("5", |i| if i == 15 { field.into() } else { "0".into() });
            assert_eq!(
                refusal(&format!("label,pixel\n{good}{bad}{good}")),
                format!("x.csv, line 1202, column 17: `{shown}` is not a pixel from 0 to 255")
            );
        }
        assert_eq!(refusal(&plain(10)), "x.csv, line 1, column 1: `10` is not a label from 0 to 9");
        assert_eq!(
            refusal(&format!("{}3,4,5\n", plain(1))),
            "x.csv, line 2, column 4: the line ends after 3 fields, expected a label and 784 pixels"
        );
        assert_eq!(
            refusal(&plain(1).replace('\n', ",7\n")),
            "x.csv, line 1, column 786: one field too many, expected a label and 784 pixels"
        );
    }

    /// A gzip file of a few kB that is too long a text once it is decompressed.
    #[test]
    fn a_bomb_is_refused() {
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        for _ in 0..=MAX_TEXT / CHUNK as u64 {
            std::io::Write::write_all(&mut gzip, &[b'\n'; CHUNK]).unwrap();
        }
        let bytes = gzip.finish().unwrap();
        assert!(bytes.len() < 8 << 20);
        let error = csv_from(&bytes[..], Path::new("x.csv"), 10).unwrap_err();
        let DataError::Read { source, .. } = &error else { panic!("{error}") };
        assert_eq!(source.kind(), std::io::ErrorKind::FileTooLarge);
    }

    #[test]
    fn a_file_without_lines_is_empty() {
        for text in ["", "\n\n", "label,1x1\n", "label"] {
            assert_eq!(refusal(text), "x.csv is empty: it holds no lines; at least one is needed");
        }
    }
}
