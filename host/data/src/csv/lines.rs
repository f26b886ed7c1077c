//! The lines of a CSV file, parsed one by one.

use std::borrow::Cow;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use ferrowarp_csv::{Lines, PIXELS, SIDE, parse_line, split_header, with_line_feeds, without_mark};
use memchr::memchr_iter;

use super::{open, parse_csv, read_text};
use crate::{DataError, Dataset};

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

impl CsvLines {
    /// Height and width of an image.
    pub const SIDES: (usize, usize) = (SIDE, SIDE);

    /// Reads a file, plain or gzip, and locates its lines.
    pub fn read(path: &Path, classes: usize) -> Result<Self, DataError> {
        let (input, size) = open(path)?;
        let mut text = read_text(input, size, path)?;
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
            return Err(DataError::Empty { path: path.to_owned(), kind: "lines" });
        }
        Ok(Self { path: path.to_owned(), text, classes, lines })
    }

    pub fn len(&self) -> usize {
        self.lines.len()
    }

    /// Writes the pixels of an existing line to `pixels`, which has the same length, and returns its label.
    pub fn decode(&self, index: usize, pixels: &mut [u8]) -> Result<u8, DataError> {
        let Line { number, bytes, parsed } = &self.lines[index];
        if let Some((label, parsed)) = parsed.get() {
            pixels.copy_from_slice(parsed);
            return Ok(*label);
        }
        let mut one = Lines { labels: Vec::with_capacity(1), pixels: Vec::with_capacity(PIXELS) };
        let result = parse_line(&self.text[bytes.clone()], self.classes, &mut one);
        result.map_err(|(column, problem)| DataError::Csv {
            path: self.path.clone(),
            line: *number,
            column,
            problem,
        })?;
        pixels.copy_from_slice(&one.pixels);
        // Another thread may have been faster.
        let (label, _) = parsed.get_or_init(|| (one.labels[0], one.pixels.into_boxed_slice()));
        Ok(*label)
    }

    /// Parses all lines.
    pub fn to_dataset(&self) -> Result<Dataset, DataError> {
        parse_csv(&self.text, &self.path, self.classes)
    }
}
