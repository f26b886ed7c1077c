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

/// Reads a file of images, plain or gzip.
///
/// # Errors
/// [`DataError`]: the file cannot be read, or does not pass the checks of [`parse_images`].
pub fn read_images(path: &Path) -> Result<Images, DataError> {
    images_from(open(path)?, path)
}

/// Reads images, plain or gzip, from `input`. Errors name it `path`.
///
/// # Errors
/// Same as for [`read_images`].
pub fn images_from(input: impl BufRead, path: &Path) -> Result<Images, DataError> {
    parse_images(plain(input, path)?, path)
}

/// Reads a file of labels below `classes`, plain or gzip.
///
/// # Errors
/// [`DataError`]: the file cannot be read, or does not pass the checks of [`parse_labels`].
pub fn read_labels(path: &Path, classes: usize) -> Result<Vec<u8>, DataError> {
    labels_from(open(path)?, path, classes)
}

/// Reads labels below `classes`, plain or gzip, from `input`. Errors name it `path`.
///
/// # Errors
/// Same as for [`read_labels`].
pub fn labels_from(input: impl BufRead, path: &Path, classes: usize) -> Result<Vec<u8>, DataError> {
    parse_labels(plain(input, path)?, path, classes)
}

/// Parses images from uncompressed bytes. Errors name them `path`.
///
/// # Errors
/// [`DataError`]: wrong magic number, fewer or more bytes than the header states, no images, an unsupported image size, or
/// more than half a GiB of pixels.
pub fn parse_images(input: impl Read, path: &Path) -> Result<Images, DataError> {
    let mut items = Items { input, path, offset: 0 };
    items.magic(IMAGES_MAGIC, "images")?;
    let [count, rows, cols] = items.extents::<3>("header of images")?;
    if rows == 0 || cols == 0 || rows > MAX_SIDE || cols > MAX_SIDE {
        return Err(DataError::ImageSize { path: path.to_owned(), rows, cols, limit: MAX_SIDE });
    }
    if count == 0 {
        return Err(DataError::Empty { path: path.to_owned(), kind: "images" });
    }
    let promise = format!("header of {count} images of {rows} x {cols} pixels");
    let pixels = items.data(u64::from(count) * u64::from(rows) * u64::from(cols), promise)?;
    Ok(Images { pixels, count: count as usize, rows: rows as usize, cols: cols as usize })
}

/// Parses labels below `classes` from uncompressed bytes. Errors name them `path`.
///
/// # Errors
/// [`DataError`]: wrong magic number, fewer or more bytes than the header states, no labels, or a label that is not below
/// `classes`.
pub fn parse_labels(input: impl Read, path: &Path, classes: usize) -> Result<Vec<u8>, DataError> {
    let mut items = Items { input, path, offset: 0 };
    items.magic(LABELS_MAGIC, "labels")?;
    let [count] = items.extents::<1>("header of labels")?;
    if count == 0 {
        return Err(DataError::Empty { path: path.to_owned(), kind: "labels" });
    }
    let data_offset = items.offset;
    let labels = items.data(u64::from(count), format!("header of {count} labels"))?;
    match labels.iter().position(|&label| usize::from(label) >= classes) {
        Some(index) => Err(DataError::Label {
            path: path.to_owned(),
            offset: data_offset + index as u64,
            index,
            value: labels[index],
            classes,
        }),
        None => Ok(labels),
    }
}

fn open(path: &Path) -> Result<BufReader<File>, DataError> {
    let file = File::open(path).map_err(|source| DataError::Read { path: path.to_owned(), source })?;
    Ok(BufReader::with_capacity(1 << 18, file))
}

fn plain<'a>(input: impl BufRead + 'a, path: &Path) -> Result<Box<dyn Read + 'a>, DataError> {
    decompressed(input).map_err(|source| DataError::Read { path: path.to_owned(), source })
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
    fn magic(&mut self, expected: u32, kind: &'static str) -> Result<(), DataError> {
        let found = self.number("header")?;
        if found != expected {
            return Err(DataError::Magic { path: self.path.to_owned(), kind, found, expected });
        }
        Ok(())
    }

    fn extents<const N: usize>(&mut self, what: &str) -> Result<[u32; N], DataError> {
        let mut extents = [0; N];
        for extent in &mut extents {
            *extent = self.number(what)?;
        }
        Ok(extents)
    }

    fn number(&mut self, what: &str) -> Result<u32, DataError> {
        let bytes = self.upto(4)?;
        let number = <[u8; 4]>::try_from(bytes.as_slice()).map_err(|_| DataError::Truncated {
            path: self.path.to_owned(),
            promise: what.to_owned(),
            expected: self.offset - bytes.len() as u64 + 4,
            found: self.offset,
        })?;
        Ok(u32::from_be_bytes(number))
    }

    /// Reads the rest of the input, which must be `len` bytes long.
    fn data(mut self, len: u64, promise: String) -> Result<Vec<u8>, DataError> {
        let expected = self.offset + len;
        if len > MAX_DATA {
            return Err(DataError::TooLarge {
                path: self.path.to_owned(),
                promise,
                expected,
                limit: MAX_DATA,
            });
        }
        let bytes = self.upto(len)?;
        let path = self.path.to_owned();
        if self.offset < expected {
            return Err(DataError::Truncated { path, promise, expected, found: self.offset });
        }
        if !self.upto(1)?.is_empty() {
            return Err(DataError::TrailingBytes { path, promise, expected });
        }
        Ok(bytes)
    }

    /// Reads at most `len` bytes; fewer if the input ends.
    fn upto(&mut self, len: u64) -> Result<Vec<u8>, DataError> {
        let mut bytes = Vec::with_capacity(len.min(MAX_RESERVE) as usize);
        let read = (&mut self.input).take(len).read_to_end(&mut bytes);
        let read = read.map_err(|source| DataError::Read { path: self.path.to_owned(), source })?;
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
    fn good_files_are_read() {
        let parsed = parse(&images(3, 2, 5, 30)).unwrap();
        assert_eq!((parsed.count, parsed.rows, parsed.cols), (3, 2, 5));
        assert_eq!(parsed.pixels, (0..30).collect::<Vec<u8>>());
        assert_eq!(parse_labels(&labels(3, &[0, 9, 5])[..], Path::new("x"), 10).unwrap(), [0, 9, 5]);
    }

    #[test]
    fn gzip_is_told_by_its_content() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("named-without-an-ending");
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gzip.write_all(&images(3, 2, 5, 30)).unwrap();
        let bytes = gzip.finish().unwrap();
        std::fs::write(&path, &bytes).unwrap();
        assert_eq!(read_images(&path).unwrap(), parse(&images(3, 2, 5, 30)).unwrap());

        std::fs::write(&path, &bytes[..bytes.len() - 9]).unwrap();
        assert!(refusal(read_images(&path)).starts_with("could not read"));
    }

    #[test]
    fn every_prefix_is_an_error() {
        let (image_bytes, label_bytes) = (images(3, 2, 5, 30), labels(3, &[0, 9, 5]));
        for end in 0..image_bytes.len() {
            assert!(matches!(parse(&image_bytes[..end]), Err(DataError::Truncated { .. })), "{end}");
        }
        for end in 0..label_bytes.len() {
            let parsed = parse_labels(&label_bytes[..end], Path::new("x"), 10);
            assert!(matches!(parsed, Err(DataError::Truncated { .. })), "{end}");
        }
    }

    #[test]
    fn errors_name_offset_and_value() {
        assert_eq!(
            refusal(parse(&images(3, 2, 5, 29))),
            "x is truncated: it ends at offset 45, its header of 3 images of 2 x 5 pixels needs 46 bytes; fetch \
             it again"
        );
        assert_eq!(
            refusal(parse(&images(3, 2, 5, 31))),
            "x is too long: its header of 3 images of 2 x 5 pixels needs 46 bytes, but more follow at \
             offset 46; fetch it again"
        );
        assert_eq!(
            refusal(parse(&labels(3, &[0, 9, 5]))),
            "x does not hold IDX images: the magic number at offset 0 is 0x00000801, expected 0x00000803; check that \
             the file is the right one and fetch it again"
        );
        assert_eq!(
            refusal(parse_labels(&labels(3, &[0, 10, 5])[..], Path::new("x"), 10)),
            "x has the label 10 at offset 9 (item 1); labels go from 0 to 9"
        );
        assert_eq!(
            refusal(parse(&images(0, 2, 5, 0))),
            "x is empty: it holds no images; at least one is needed"
        );
        assert_eq!(
            refusal(parse(&images(1, 0, 5, 0))),
            "x has images of 0 x 5 pixels; each side must be 1 to 4096 pixels"
        );
    }

    #[test]
    fn a_header_that_promises_the_world_claims_no_memory() {
        assert_eq!(
            refusal(parse(&images(u32::MAX, MAX_SIDE, MAX_SIDE, 7))),
            "x is too large: its header of 4294967295 images of 4096 x 4096 pixels needs 72057594021150736 bytes, \
             at most 536870912 are read; split it"
        );
        let refused = parse(&images(MAX_DATA as u32 / 16, 4, 4, 7));
        assert!(matches!(refused, Err(DataError::Truncated { found: 23, .. })));
        let refused = parse_labels(&labels(u32::MAX, &[0])[..], Path::new("x"), 10);
        assert!(matches!(refused, Err(DataError::TooLarge { .. })));
    }
}
