//! The IDX format: a magic number, the extents, and the bytes; all numbers are big-endian.
//!
//! Images: magic 0x803, count, rows, columns, then `count * rows * columns` pixels. Labels: magic 0x801, count,
//! then `count` bytes. (Format: Yann LeCun, "The MNIST database of handwritten digits".)

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

use flate2::bufread::MultiGzDecoder;

use super::DataError;

const IMAGES_MAGIC: u32 = 0x803;
const LABELS_MAGIC: u32 = 0x801;
/// The longest side of an image; a header with a longer one is garbage.
const MAX_SIDE: u32 = 4096;
/// The most memory that a header may reserve before its data have been read.
const MAX_RESERVE: u64 = 64 << 20;
/// The most pixels or labels to read: eleven times MNIST. A gzip file of 500 kB can hold that many.
const MAX_DATA: u64 = 512 << 20;

/// The images of an IDX file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Images {
    /// The pixels, `[count, rows, cols]`, row-major.
    pub pixels: Vec<u8>,
    /// Number of images, at least 1.
    pub count: usize,
    /// Height of an image in pixels.
    pub rows: usize,
    /// Width of an image in pixels.
    pub cols: usize,
}

/// Reads images, plain or gzip, from `input`. Errors name it `path`.
///
/// # Errors
/// [`DataError`]: `input` cannot be read, or does not pass the checks of [`parse_images`].
pub fn images_from(input: impl BufRead, path: &Path) -> Result<Images, DataError> {
    parse_images(decompressed(input).map_err(DataError::read(path))?, path)
}

/// Reads labels below `classes`, plain or gzip, from `input`. Errors name it `path`.
///
/// # Errors
/// [`DataError`]: `input` cannot be read, or does not pass the checks of [`parse_labels`].
pub fn labels_from(input: impl BufRead, path: &Path, classes: usize) -> Result<Vec<u8>, DataError> {
    parse_labels(decompressed(input).map_err(DataError::read(path))?, path, classes)
}

/// Parses images from uncompressed bytes. Errors name them `path`.
///
/// # Errors
/// [`DataError`]: wrong magic number, fewer or more bytes than the header states, no images, an unsupported image size, or
/// more than half a GiB of pixels.
pub fn parse_images(input: impl Read, path: &Path) -> Result<Images, DataError> {
    let mut items = Items { input, path, offset: 0 };
    let [count, rows, cols] = items.header(IMAGES_MAGIC, "images")?;
    if rows == 0 || cols == 0 || rows > MAX_SIDE || cols > MAX_SIDE {
        let problem =
            format!("has images of {rows} x {cols} pixels; each side must be 1 to {MAX_SIDE} pixels");
        return Err(DataError::invalid(path, problem));
    }
    let promise = format!("header of {count} images of {rows} x {cols} pixels");
    let pixels = items.data(u64::from(count) * u64::from(rows) * u64::from(cols), &promise)?;
    Ok(Images { pixels, count: count as usize, rows: rows as usize, cols: cols as usize })
}

/// Parses labels below `classes` from uncompressed bytes. Errors name them `path`.
///
/// # Errors
/// [`DataError`]: wrong magic number, fewer or more bytes than the header states, no labels, or a label that is not below
/// `classes`.
pub fn parse_labels(input: impl Read, path: &Path, classes: usize) -> Result<Vec<u8>, DataError> {
    let mut items = Items { input, path, offset: 0 };
    let [count] = items.header(LABELS_MAGIC, "labels")?;
    let first = items.offset;
    let labels = items.data(u64::from(count), &format!("header of {count} labels"))?;
    match labels.iter().position(|&label| usize::from(label) >= classes) {
        Some(index) => {
            let (value, offset, last) = (labels[index], first + index as u64, classes - 1);
            let problem = format!(
                "has the label {value} at offset {offset} (item {index}); labels go from 0 to {last}"
            );
            Err(DataError::invalid(path, problem))
        }
        None => Ok(labels),
    }
}

/// Opens a file.
pub(super) fn open(path: &Path) -> Result<BufReader<File>, DataError> {
    Ok(BufReader::with_capacity(1 << 18, File::open(path).map_err(DataError::read(path))?))
}

/// The bytes of `input`, decompressed if they begin with gzip's magic number.
pub(super) fn decompressed<'a>(mut input: impl BufRead + 'a) -> io::Result<Box<dyn Read + 'a>> {
    // A pipe may deliver a single byte first; files and server replies do not.
    let gzip = input.fill_buf()?.starts_with(&[0x1f, 0x8b]);
    Ok(if gzip { Box::new(MultiGzDecoder::new(input)) } else { Box::new(input) })
}

/// A reader that counts bytes, so that errors can name offsets.
struct Items<'a, R> {
    input: R,
    path: &'a Path,
    offset: u64,
}

impl<R: Read> Items<'_, R> {
    /// Reads the magic number and the extents, of which the first is the number of items.
    fn header<const N: usize>(&mut self, magic: u32, kind: &str) -> Result<[u32; N], DataError> {
        let found = self.number("header")?;
        if found != magic {
            let problem = format!(
                "does not hold IDX {kind}: the magic number at offset 0 is {found:#010x}, expected {magic:#010x}; check \
                 that the file is the right one and fetch it again"
            );
            return Err(DataError::invalid(self.path, problem));
        }
        let mut extents = [0; N];
        for extent in &mut extents {
            *extent = self.number(&format!("header of {kind}"))?;
        }
        if extents[0] == 0 {
            let problem = format!("is empty: it holds no {kind}; at least one is needed");
            return Err(DataError::invalid(self.path, problem));
        }
        Ok(extents)
    }

    fn number(&mut self, what: &str) -> Result<u32, DataError> {
        let expected = self.offset + 4;
        let bytes = self.upto(4)?;
        let number = <[u8; 4]>::try_from(bytes.as_slice()).map_err(|_| self.truncated(what, expected))?;
        Ok(u32::from_be_bytes(number))
    }

    /// Reads the rest of the input, which must be `len` bytes long.
    fn data(mut self, len: u64, promise: &str) -> Result<Vec<u8>, DataError> {
        let expected = self.offset + len;
        if len > MAX_DATA {
            let problem = format!(
                "is too large: its {promise} needs {expected} bytes, at most {MAX_DATA} are read; split it"
            );
            return Err(DataError::invalid(self.path, problem));
        }
        let bytes = self.upto(len)?;
        if self.offset < expected {
            return Err(self.truncated(promise, expected));
        }
        if !self.upto(1)?.is_empty() {
            let problem = format!(
                "is too long: its {promise} needs {expected} bytes, but more follow at offset {expected}; fetch it again"
            );
            return Err(DataError::invalid(self.path, problem));
        }
        Ok(bytes)
    }

    fn truncated(&self, promise: &str, expected: u64) -> DataError {
        let end = self.offset;
        let problem = format!(
            "is truncated: it ends at offset {end}, its {promise} needs {expected} bytes; fetch it again"
        );
        DataError::invalid(self.path, problem)
    }

    /// Reads at most `len` bytes; fewer if the input ends.
    fn upto(&mut self, len: u64) -> Result<Vec<u8>, DataError> {
        let mut bytes = Vec::with_capacity(len.min(MAX_RESERVE) as usize);
        let read = (&mut self.input).take(len).read_to_end(&mut bytes);
        let read = read.map_err(DataError::read(self.path))?;
        self.offset += read as u64;
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn images(count: u32, rows: u32, cols: u32, pixels: usize) -> Vec<u8> {
        let mut bytes: Vec<u8> =
            [IMAGES_MAGIC, count, rows, cols].iter().flat_map(|n| n.to_be_bytes()).collect();
        bytes.extend((0..pixels).map(|i| i as u8));
        bytes
    }

    fn labels(count: u32, values: &[u8]) -> Vec<u8> {
        let mut bytes: Vec<u8> = [LABELS_MAGIC, count].iter().flat_map(|n| n.to_be_bytes()).collect();
        bytes.extend(values);
        bytes
    }

    fn refusal<T: std::fmt::Debug>(result: Result<T, DataError>) -> String {
        result.unwrap_err().to_string()
    }

    fn parse(bytes: &[u8]) -> Result<Images, DataError> {
        parse_images(bytes, Path::new("x"))
    }

    #[test]
    fn good_files_are_read_plain_or_gzip() {
        let bytes = images(3, 2, 5, 30);
        let parsed = parse(&bytes).unwrap();
        assert_eq!((parsed.count, parsed.rows, parsed.cols), (3, 2, 5));
        assert_eq!(parsed.pixels, (0..30).collect::<Vec<u8>>());
        assert_eq!(parse_labels(&labels(3, &[0, 9, 5])[..], Path::new("x"), 10).unwrap(), [0, 9, 5]);

        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gzip.write_all(&bytes).unwrap();
        let gzip = gzip.finish().unwrap();
        assert_eq!(images_from(&gzip[..], Path::new("x")).unwrap(), parsed);
        let cut = &gzip[..gzip.len() - 9];
        assert!(refusal(images_from(cut, Path::new("x"))).starts_with("could not read"));
    }

    #[test]
    fn every_prefix_is_an_error() {
        let (image_bytes, label_bytes) = (images(3, 2, 5, 30), labels(3, &[0, 9, 5]));
        for end in 0..image_bytes.len() {
            assert!(refusal(parse(&image_bytes[..end])).contains("is truncated"), "{end}");
        }
        for end in 0..label_bytes.len() {
            let parsed = parse_labels(&label_bytes[..end], Path::new("x"), 10);
            assert!(refusal(parsed).contains("is truncated"), "{end}");
        }
    }

    /// The other messages are in the trainer's test of damaged data.
    #[test]
    fn a_header_that_promises_too_much_claims_no_memory() {
        assert_eq!(
            refusal(parse(&images(u32::MAX, MAX_SIDE, MAX_SIDE, 7))),
            "x is too large: its header of 4294967295 images of 4096 x 4096 pixels needs 72057594021150736 bytes, \
             at most 536870912 are read; split it"
        );
        let text = "x is truncated: it ends at offset 23";
        assert!(refusal(parse(&images(MAX_DATA as u32 / 16, 4, 4, 7))).starts_with(text));
        let sides = "x has images of 0 x 5 pixels; each side must be 1 to 4096 pixels";
        assert_eq!(refusal(parse(&images(1, 0, 5, 0))), sides);
    }
}
