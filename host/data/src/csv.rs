//! CSV as in the MNIST copies on the web: a line per image with the label and then 784 pixels.
//!
//! An optional header line (its first field begins with a letter), blank lines, all three kinds of line ends and spaces
//! around fields are accepted. Everything else is an error with its line and column.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use ferrowarp_csv::{PIXELS, SIDE, parse_lines, split_header, with_line_feeds, without_mark};
use ferrowarp_report::pool;
use memchr::{memchr, memchr_iter, memchr2};
use rayon::prelude::*;

use super::limited::Limited;
use super::{DataError, Dataset, idx};

mod lines;

pub(super) use lines::CsvLines;

/// Bytes per parsing task: a few hundred lines, so that the cores stay evenly busy.
const CHUNK: usize = 1 << 20;
/// The longest text to read, in uncompressed bytes: MNIST's has 110 MB. With its pixels, a text takes twice its size.
const MAX_TEXT: u64 = 384 << 20;

/// Reads a CSV file, plain or gzip, with labels below `classes`.
///
/// # Errors
/// [`DataError`]: the file cannot be read, or does not pass the checks of [`parse_csv`].
pub fn read_csv(path: &Path, classes: usize) -> Result<Dataset, DataError> {
    let (input, size) = open(path)?;
    from_sized(input, size, path, classes)
}

/// Opens a file and returns its size in bytes.
fn open(path: &Path) -> Result<(BufReader<File>, u64), DataError> {
    let failed = |source| DataError::Read { path: path.to_owned(), source };
    let file = File::open(path).map_err(failed)?;
    let size = file.metadata().map_err(failed)?.len();
    Ok((BufReader::with_capacity(CHUNK, file), size))
}

/// Reads CSV, plain or gzip, with labels below `classes`, from `input`. Errors name it `path`.
///
/// # Errors
/// Same as for [`read_csv`].
pub fn csv_from(input: impl BufRead, path: &Path, classes: usize) -> Result<Dataset, DataError> {
    from_sized(input, 0, path, classes)
}

/// Same as [`csv_from`], with a guess of the number of bytes.
fn from_sized(input: impl BufRead, size: u64, path: &Path, classes: usize) -> Result<Dataset, DataError> {
    parse_csv(&read_text(input, size, path)?, path, classes)
}

fn read_text(input: impl BufRead, size: u64, path: &Path) -> Result<Vec<u8>, DataError> {
    let failed = |source| DataError::Read { path: path.to_owned(), source };
    let mut input = Limited::new(idx::decompressed(input).map_err(failed)?, MAX_TEXT);
    // Data that are not text may be long without a line end.
    let mut text = Vec::new();
    input.by_ref().take(CHUNK as u64).read_to_end(&mut text).map_err(failed)?;
    if text.len() == CHUNK && memchr2(b'\n', b'\r', &text).is_none() {
        return Err(DataError::Csv {
            path: path.to_owned(),
            line: 1,
            column: 1,
            problem: format!("the line has more than {CHUNK} bytes, expected a label and {PIXELS} pixels"),
        });
    }
    text.reserve(size.min(MAX_TEXT) as usize);
    input.read_to_end(&mut text).map_err(failed)?;
    Ok(text)
}

/// Parses CSV text with labels below `classes`. Errors name it `path`.
///
/// # Errors
/// [`DataError::Csv`] for the first bad line, [`DataError::Empty`] if there are no lines.
pub fn parse_csv(text: &[u8], path: &Path, classes: usize) -> Result<Dataset, DataError> {
    let text = with_line_feeds(without_mark(text));
    let (before, body) = split_header(&text);
    let chunks = chunks_of_lines(body);
    let parsed: Vec<_> = match chunks[..] {
        // A single piece needs no second core.
        [chunk] => vec![parse_lines(chunk, classes)],
        _ => pool::install(|| chunks.par_iter().map(|chunk| parse_lines(chunk, classes)).collect()),
    };

    let mut dataset = Dataset { images: Vec::new(), labels: Vec::new(), rows: SIDE, cols: SIDE };
    let count: usize = parsed.iter().flatten().map(|lines| lines.labels.len()).sum();
    dataset.labels.reserve_exact(count);
    dataset.images.reserve_exact(count * PIXELS);
    let mut line = before + 1;
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

    /// Parses the same with the standard library, without regard for speed.
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

    /// A gzip file of a few kB that decompresses to too long a text.
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
    fn what_has_no_lines_is_not_read_to_its_end() {
        let error = csv_from(BufReader::new(std::io::repeat(0)), Path::new("x.csv"), 10).unwrap_err();
        let text =
            "x.csv, line 1, column 1: the line has more than 1048576 bytes, expected a label and 784 pixels";
        assert_eq!(error.to_string(), text);
    }

    #[test]
    fn a_file_without_lines_is_empty() {
        for text in ["", "\n\n", "label,1x1\n", "label"] {
            assert_eq!(refusal(text), "x.csv is empty: it holds no lines; at least one is needed");
        }
    }
}
