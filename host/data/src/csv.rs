//! CSV as in the MNIST copies on the web: a line per image with the label and then 784 pixels.
//!
//! An optional header line (its first field begins with a letter), blank lines, all three kinds of line ends and spaces
//! around fields are accepted. Everything else is an error with its line and column.

use std::borrow::Cow;
use std::io::{BufRead, Read};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use ferrowarp_csv::{Lines, PIXELS, SIDE, parse_line, split_header, with_line_feeds, without_mark};
use ferrowarp_report::pool;
use memchr::{memchr_iter, memchr2};
use rayon::prelude::*;

use super::limited::Limited;
use super::{DataError, Dataset, idx};

/// The longest line.
const MAX_LINE: usize = 1 << 20;
/// The longest text to read, in uncompressed bytes: MNIST's has 110 MB. With its pixels, a text takes twice its size.
const MAX_TEXT: u64 = 384 << 20;
/// Lines per parsing task.
const TASK: usize = 512;

/// A CSV file with its lines located. A line is parsed at its first use.
#[derive(Debug)]
pub struct CsvLines {
    path: PathBuf,
    text: Vec<u8>,
    classes: usize,
    lines: Vec<Line>,
}

#[derive(Debug)]
struct Line {
    /// The line's number, counted from 1 in the whole file.
    number: usize,
    bytes: Range<usize>,
    /// Label and pixels, once they have been parsed.
    parsed: OnceLock<(u8, Box<[u8]>)>,
}

/// Parses CSV, plain or gzip, with labels below `classes`, from `input`. Errors name it `path`.
///
/// # Errors
/// [`DataError`]: `input` cannot be read, is too long, has no lines, or has a bad one.
pub fn csv_from(input: impl BufRead, path: &Path, classes: usize) -> Result<Dataset, DataError> {
    CsvLines::read(input, path, classes)?.to_dataset()
}

fn read_text(input: impl BufRead, path: &Path) -> Result<Vec<u8>, DataError> {
    let failed = DataError::read(path);
    let mut input = Limited::new(idx::decompressed(input).map_err(&failed)?, MAX_TEXT);
    // Data that are not text may be long without a line end.
    let mut text = Vec::new();
    input.by_ref().take(MAX_LINE as u64).read_to_end(&mut text).map_err(&failed)?;
    if text.len() == MAX_LINE && memchr2(b'\n', b'\r', &text).is_none() {
        return Err(DataError::Csv {
            path: path.to_owned(),
            line: 1,
            column: 1,
            problem: format!("the line has more than {MAX_LINE} bytes, expected a label and {PIXELS} pixels"),
        });
    }
    input.read_to_end(&mut text).map_err(failed)?;
    Ok(text)
}

impl CsvLines {
    /// Height and width of an image.
    pub const SIDES: (usize, usize) = (SIDE, SIDE);

    /// Opens a file.
    pub fn open(path: &Path, classes: usize) -> Result<Self, DataError> {
        Self::read(idx::open(path)?, path, classes)
    }

    /// Reads a text, plain or gzip, and locates its lines. Errors name it `path`.
    pub fn read(input: impl BufRead, path: &Path, classes: usize) -> Result<Self, DataError> {
        let mut text = read_text(input, path)?;
        if let Cow::Owned(with_line_feeds) = with_line_feeds(&text) {
            text = with_line_feeds;
        }
        let (before, body) = split_header(without_mark(&text));
        let mut number = before + 1;
        let mut start = text.len() - body.len();
        let mut lines = Vec::new();
        let ends: Vec<usize> = memchr_iter(b'\n', &text[start..]).map(|at| start + at).collect();
        for end in ends.into_iter().chain([text.len()]) {
            if !text[start..end].trim_ascii().is_empty() {
                lines.push(Line { number, bytes: start..end, parsed: OnceLock::new() });
            }
            (start, number) = (end + 1, number + 1);
        }
        if lines.is_empty() {
            return Err(DataError::invalid(path, "is empty: it holds no lines; at least one is needed"));
        }
        Ok(Self { path: path.to_owned(), text, classes, lines })
    }

    pub fn len(&self) -> usize {
        self.lines.len()
    }

    /// Writes the pixels of an existing line to `pixels`, which has the same length, and returns its label.
    pub fn decode(&self, index: usize, pixels: &mut [u8]) -> Result<u8, DataError> {
        let line = &self.lines[index];
        if let Some((label, parsed)) = line.parsed.get() {
            pixels.copy_from_slice(parsed);
            return Ok(*label);
        }
        let one = self.parse(std::slice::from_ref(line))?;
        pixels.copy_from_slice(&one.pixels);
        // Another thread may have been faster.
        let (label, _) = line.parsed.get_or_init(|| (one.labels[0], one.pixels.into_boxed_slice()));
        Ok(*label)
    }

    /// Parses all lines, on all cores.
    pub fn to_dataset(&self) -> Result<Dataset, DataError> {
        let parsed: Vec<_> = match self.lines.len() {
            // A single task needs no second core.
            ..=TASK => vec![self.parse(&self.lines)],
            _ => pool::install(|| self.lines.par_chunks(TASK).map(|lines| self.parse(lines)).collect()),
        };
        let count = self.lines.len();
        let (mut images, mut labels) = (Vec::with_capacity(count * PIXELS), Vec::with_capacity(count));
        for lines in parsed {
            let lines = lines?;
            labels.extend(lines.labels);
            images.extend(lines.pixels);
        }
        Ok(Dataset { images, labels, rows: SIDE, cols: SIDE })
    }

    fn parse(&self, lines: &[Line]) -> Result<Lines, DataError> {
        let mut parsed = Lines {
            labels: Vec::with_capacity(lines.len()),
            pixels: Vec::with_capacity(lines.len() * PIXELS),
        };
        for Line { number, bytes, .. } in lines {
            let result = parse_line(&self.text[bytes.clone()], self.classes, &mut parsed);
            result.map_err(|(column, problem)| DataError::Csv {
                path: self.path.clone(),
                line: *number,
                column,
                problem,
            })?;
        }
        Ok(parsed)
    }
}

#[cfg(test)]
mod tests {
    use std::io::BufReader;

    use super::*;

    fn line(label: &str, pixel: impl Fn(usize) -> String) -> String {
        let pixels: Vec<String> = (0..PIXELS).map(pixel).collect();
        format!("{label},{}\n", pixels.join(","))
    }

    fn plain(label: usize) -> String {
        line(&label.to_string(), |i| ((i * 7 + label) % 256).to_string())
    }

    fn parse(text: &str) -> Result<Dataset, DataError> {
        csv_from(text.as_bytes(), Path::new("x.csv"), 10)
    }

    fn refusal(text: &str) -> String {
        parse(text).unwrap_err().to_string()
    }

    /// Parses the same with the standard library.
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
    fn lines_of_several_tasks_match_the_oracle() {
        let text: String = (0..2 * TASK + 7).map(|i| plain(i % 10)).collect();
        assert_eq!(parse(&text).unwrap(), oracle(&text));
    }

    #[test]
    fn header_blank_lines_and_line_ends_do_not_matter() {
        let both = plain(3) + &plain(4);
        let wanted = oracle(&both);
        let header = "label,1x1,1x2\n";
        let cr = both.replace('\n', "\r");
        for text in [
            format!("{header}{both}"),
            both.replace('\n', "\r\n"),
            cr.clone(),
            format!("label,p\r{cr}"),
            plain(3).replace(',', " , ") + &plain(4),
            both.trim_end().to_owned(),
            format!("{}\n\n{}\n", plain(3), plain(4)),
            format!("\u{feff}{header}{}", both.trim_end()),
        ] {
            assert_eq!(parse(&text).unwrap(), wanted, "{text:?}");
            // In any order, the lines are those of the whole file.
            let lines = CsvLines::read(text.as_bytes(), Path::new("x.csv"), 10).unwrap();
            for index in [1, 0, 0, 1] {
                let mut pixels = [0; PIXELS];
                assert_eq!(lines.decode(index, &mut pixels).unwrap(), wanted.labels[index]);
                assert_eq!(Some(&pixels[..]), wanted.image(index));
            }
        }
    }

    #[test]
    fn a_bad_field_is_named_by_line_and_column() {
        let good: String = (0..1200).map(|i| plain(i % 10)).collect();
        for (field, shown) in [("256", "256"), ("-1", "-1"), ("", ""), ("1.5", "1.5"), ("a\u{7}", "a\\u{7}")]
        {
            let bad = line("5", |i| if i == 15 { field.into() } else { "0".into() });
            let says = format!("x.csv, line 1202, column 17: `{shown}` is not a pixel from 0 to 255");
            let text = format!("label,pixel\n{good}{bad}{good}");
            assert_eq!(refusal(&text), says);
            let lines = CsvLines::read(text.as_bytes(), Path::new("x.csv"), 10).unwrap();
            assert_eq!(lines.decode(1200, &mut [0; PIXELS]).unwrap_err().to_string(), says);
            lines.decode(1201, &mut [0; PIXELS]).unwrap();
        }
        assert_eq!(refusal(&plain(10)), "x.csv, line 1, column 1: `10` is not a label from 0 to 9");
        let one_more = plain(1).replace('\n', ",7\n");
        let says = "x.csv, line 1, column 786: one field too many, expected a label and 784 pixels";
        assert_eq!(refusal(&one_more), says);
        for text in ["", "\n\n", "label,1x1\n", "label"] {
            assert_eq!(refusal(text), "x.csv is empty: it holds no lines; at least one is needed");
        }
    }

    /// A gzip file of a few kB that decompresses to too long a text, and an endless line.
    #[test]
    fn texts_that_are_too_long_are_refused() {
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        for _ in 0..=MAX_TEXT / MAX_LINE as u64 {
            std::io::Write::write_all(&mut gzip, &[b'\n'; MAX_LINE]).unwrap();
        }
        let bytes = gzip.finish().unwrap();
        assert!(bytes.len() < 8 << 20);
        let error = csv_from(&bytes[..], Path::new("x.csv"), 10).unwrap_err();
        let DataError::Read { source, .. } = &error else { panic!("{error}") };
        assert_eq!(source.kind(), std::io::ErrorKind::FileTooLarge);

        let error = csv_from(BufReader::new(std::io::repeat(0)), Path::new("x.csv"), 10).unwrap_err();
        assert!(
            error.to_string().contains("line 1, column 1: the line has more than 1048576 bytes"),
            "{error}"
        );
    }
}
