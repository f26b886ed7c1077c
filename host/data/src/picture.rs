//! Converts pictures of digits to the form of MNIST's images.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Seek};
use std::path::Path;

use super::DataError;

/// The most memory a decoded picture may take, in bytes: enough for a photograph of 89 megapixels.
const MAX_BYTES: usize = 256 << 20;
/// In MNIST a digit fills 20 of the 28 pixels of its longer side.
const FILLED: f64 = 20.0 / 28.0;
/// Ink fainter than this share of the darkest counts as paper when the digit's extent is determined.
const FAINT: f64 = 0.2;
/// The least difference of the darkest ink and the paper, of 255; below it, the picture is blank.
const LEAST_CONTRAST: f64 = 16.0;
/// How far, in pixels of 28, MNIST's digits deviate from its rule: there, even the faintest ink counts for the size, and
/// digits were moved by whole pixels.
const TOLERANCE: f64 = 3.0;

/// A picture as ink on paper: 0 is blank, 255 is full ink.
#[derive(Clone, Debug, PartialEq)]
pub struct Picture {
    /// `[height, width]`, row-major.
    ink: Vec<u8>,
    width: usize,
    height: usize,
}

#[cfg(unix)]
fn is_pipe(metadata: &std::fs::Metadata) -> bool {
    use std::os::unix::fs::FileTypeExt as _;
    metadata.file_type().is_fifo()
}

#[cfg(not(unix))]
fn is_pipe(_: &std::fs::Metadata) -> bool {
    false
}

impl Picture {
    /// Reads a PNG file of any size and colour type. A picture with a light border is dark on light, and is inverted.
    ///
    /// # Errors
    /// [`DataError::Read`] if the file cannot be opened, and the errors of [`Picture::from_png`].
    pub fn read(path: &Path) -> Result<Picture, DataError> {
        let failed = DataError::read(path);
        // Opening a named pipe waits for its writer. The pipe of a shell's `<(..)` is already open.
        if is_pipe(&std::fs::symlink_metadata(path).map_err(&failed)?) {
            let reason = "it is a pipe; save the picture as a file, or pass it as <(command)";
            return Err(failed(io::Error::new(io::ErrorKind::InvalidInput, reason)));
        }
        let file = File::open(path).map_err(failed)?;
        Self::from_png(BufReader::new(file), path)
    }

    /// Reads a picture like [`Picture::read`], from `input`. Errors name it `path`.
    ///
    /// # Errors
    /// [`DataError::Invalid`] if it is not a PNG file or too large, [`DataError::Picture`] if it cannot be decoded.
    pub fn from_png(mut input: impl BufRead + Seek, path: &Path) -> Result<Picture, DataError> {
        let first = input.fill_buf().map_err(DataError::read(path))?;
        if !first.starts_with(b"\x89PNG") {
            let problem = format!("{}, not a PNG file; convert the picture to PNG", kind_of(first));
            return Err(DataError::invalid(path, problem));
        }
        Self::decode(input).map_err(|source| match source {
            png::DecodingError::LimitsExceeded => {
                let mib = MAX_BYTES >> 20;
                let problem = format!("takes more than {mib} MiB of memory; scale the picture down");
                DataError::invalid(path, problem)
            }
            source => DataError::Picture { path: path.to_owned(), source: Box::new(source) },
        })
    }

    fn decode(input: impl BufRead + Seek) -> Result<Picture, png::DecodingError> {
        let mut decoder = png::Decoder::new_with_limits(input, png::Limits { bytes: MAX_BYTES });
        decoder.set_transformations(png::Transformations::normalize_to_color8());
        let mut reader = decoder.read_info()?;
        // The decoder does not check these lengths, and panics.
        if let Some(palette) = &reader.info().palette {
            let (colours, rest) = (palette.len() / 3, palette.len() % 3);
            let alphas = reader.info().trns.as_ref().map_or(0, |trns| trns.len());
            let is_indexed = reader.info().color_type == png::ColorType::Indexed;
            if rest != 0 || colours > 256 || is_indexed && alphas > colours {
                let problem =
                    format!("a palette of {} bytes, for which there are {alphas} alphas", palette.len());
                return Err(io::Error::new(io::ErrorKind::InvalidData, problem).into());
            }
        }
        let size = reader.output_buffer_size().filter(|&size| size <= MAX_BYTES);
        let mut bytes = vec![0; size.ok_or(png::DecodingError::LimitsExceeded)?];
        let frame = reader.next_frame(&mut bytes)?;
        bytes.truncate(frame.buffer_size());
        let light: Vec<u8> = match frame.color_type.samples() {
            1 => bytes,
            2 => over_contrast(bytes.as_chunks::<2>().0.iter().map(|&[gray, alpha]| (gray, alpha))),
            3 => bytes.as_chunks::<3>().0.iter().map(|&rgb| luma(rgb)).collect(),
            _ => over_contrast(bytes.as_chunks::<4>().0.iter().map(|&[r, g, b, a]| (luma([r, g, b]), a))),
        };
        Ok(Self::from_light(light, frame.width as usize, frame.height as usize))
    }

    fn from_light(light: Vec<u8>, width: usize, height: usize) -> Picture {
        let mut picture = Picture { ink: light, width, height };
        if picture.paper() >= 128 {
            picture.ink.iter_mut().for_each(|value| *value = 255 - *value);
        }
        picture
    }

    /// The ink of a picture of `side` by `side` pixels; `None` for another size.
    pub fn as_is(&self, side: usize) -> Option<&[u8]> {
        ((self.width, self.height) == (side, side)).then_some(&self.ink)
    }

    /// Converts the digit to `side` by `side` pixels: cropped to its ink, scaled so that the longer side fills 20 of 28
    /// pixels, and moved so that its centre of mass is in the middle, like MNIST's (LeCun et al., "Gradient-based learning
    /// applied to document recognition", 1998, section III.A). A picture that already has this form is used unchanged.
    /// Returns `None` for a blank picture.
    pub fn to_digit(&self, side: usize) -> Option<Vec<u8>> {
        let contrast = self.stretched()?;
        let extent = self.extent(&contrast)?;
        let longer = extent.width().max(extent.height());
        let scale = side as f64 * FILLED / longer;
        let (mut x_sum, mut y_sum, mut sum) = (0.0, 0.0, f64::MIN_POSITIVE);
        for y in extent.top..extent.bottom {
            for x in extent.left..extent.right {
                let ink = contrast[usize::from(self.ink[y * self.width + x])];
                x_sum += ink * (x as f64 + 0.5);
                y_sum += ink * (y as f64 + 0.5);
                sum += ink;
            }
        }
        let middle = side as f64 / 2.0;
        let (x_middle, y_middle) = (x_sum / sum, y_sum / sum);
        let off = [x_middle - middle, y_middle - middle, longer - side as f64 * FILLED];
        let tolerance = TOLERANCE * side as f64 / 28.0;
        let is_so = off.iter().all(|off| off.abs() <= tolerance);
        if let Some(ink) = self.as_is(side).filter(|_| is_so) {
            return Some(ink.to_owned());
        }
        let mut digit = Vec::with_capacity(side * side);
        for row in 0..side {
            for col in 0..side {
                // The part of the picture that this pixel covers.
                let left = x_middle + (col as f64 - middle) / scale;
                let top = y_middle + (row as f64 - middle) / scale;
                let ink = self.mean(&contrast, &extent, left, top, 1.0 / scale);
                digit.push((255.0 * ink).round() as u8);
            }
        }
        Some(digit)
    }

    /// The brightness of the paper: the median of the border.
    fn paper(&self) -> u8 {
        let (width, height) = (self.width, self.height);
        let rows = [0, height - 1].into_iter().flat_map(|y| (0..width).map(move |x| (x, y)));
        let cols = [0, width - 1].into_iter().flat_map(|x| (0..height).map(move |y| (x, y)));
        let mut border: Vec<u8> = rows.chain(cols).map(|(x, y)| self.ink[y * width + x]).collect();
        let middle = border.len() / 2;
        *border.select_nth_unstable(middle).1
    }

    /// Maps each ink value to 0 (like the paper) to 1 (the darkest); `None` without contrast.
    fn stretched(&self) -> Option<[f64; 256]> {
        let paper = f64::from(self.paper());
        let darkest = self.ink.iter().copied().max().map_or(0.0, f64::from);
        let range = darkest - paper;
        (range >= LEAST_CONTRAST)
            .then(|| std::array::from_fn(|ink| ((ink as f64 - paper) / range).clamp(0.0, 1.0)))
    }

    /// The smallest rectangle with all the ink; `None` on blank paper.
    fn extent(&self, contrast: &[f64; 256]) -> Option<Extent> {
        let mut extent = Extent { left: usize::MAX, top: usize::MAX, right: 0, bottom: 0 };
        for (y, row) in self.ink.chunks(self.width).enumerate() {
            for x in (0..self.width).filter(|&x| contrast[usize::from(row[x])] > FAINT) {
                extent.left = extent.left.min(x);
                extent.right = extent.right.max(x + 1);
                extent.top = extent.top.min(y);
                extent.bottom = y + 1;
            }
        }
        (extent.right > 0).then_some(extent)
    }

    /// The mean of the square with the corner (`left`, `top`), where everything outside `extent` is paper.
    fn mean(&self, contrast: &[f64; 256], extent: &Extent, left: f64, top: f64, size: f64) -> f64 {
        let cells = |from: f64, lowest: usize, end: usize| {
            let first = (from.floor().max(0.0) as usize).max(lowest);
            let last = ((from + size).ceil().max(0.0) as usize).min(end);
            first..last
        };
        let overlap = |cell: usize, from: f64| {
            let cell = cell as f64;
            ((cell + 1.0).min(from + size) - cell.max(from)).max(0.0)
        };
        let mut sum = 0.0;
        for y in cells(top, extent.top, extent.bottom) {
            let height = overlap(y, top);
            for x in cells(left, extent.left, extent.right) {
                let ink = contrast[usize::from(self.ink[y * self.width + x])];
                sum += ink * height * overlap(x, left);
            }
        }
        (sum / (size * size)).min(1.0)
    }
}

struct Extent {
    left: usize,
    top: usize,
    right: usize,
    bottom: usize,
}

impl Extent {
    fn width(&self) -> f64 {
        (self.right - self.left) as f64
    }

    fn height(&self) -> f64 {
        (self.bottom - self.top) as f64
    }
}

/// Describes the type of a file by its first bytes.
fn kind_of(first: &[u8]) -> &'static str {
    const KINDS: [(usize, &[u8], &str); 6] = [
        (0, b"\xff\xd8\xff", "is a JPEG picture"),
        (0, b"GIF8", "is a GIF picture"),
        (8, b"WEBP", "is a WebP picture"),
        (4, b"ftyp", "is a HEIC or AVIF picture"),
        (0, b"<svg", "is an SVG drawing"),
        (0, b"%PDF", "is a PDF document"),
    ];
    let is_one =
        |(at, magic, _): &(usize, &[u8], _)| first.get(*at..).is_some_and(|rest| rest.starts_with(magic));
    match KINDS.into_iter().find(is_one) {
        Some((_, _, name)) => name,
        None if first.is_empty() => "is empty",
        None => "is something else",
    }
}

/// Brightness of a colour (ITU-R BT.601).
fn luma([r, g, b]: [u8; 3]) -> u8 {
    ((299 * u32::from(r) + 587 * u32::from(g) + 114 * u32::from(b) + 500) / 1000) as u8
}

/// Blends translucent pixels (brightness, alpha) over black if the opaque parts are light, otherwise over white, so that a
/// digit on a transparent background remains visible.
fn over_contrast(pixels: impl Iterator<Item = (u8, u8)> + Clone) -> Vec<u8> {
    let weigh = |(light, alpha): (u8, u8)| (u64::from(light) * u64::from(alpha), u64::from(alpha));
    let (light, alpha) = pixels.clone().map(weigh).fold((0, 0), |sum, next| (sum.0 + next.0, sum.1 + next.1));
    let ground: u32 = if light >= 128 * alpha { 0 } else { 255 };
    let lay = |(light, alpha): (u8, u8)| {
        let alpha = u32::from(alpha);
        ((u32::from(light) * alpha + ground * (255 - alpha) + 127) / 255) as u8
    };
    pixels.map(lay).collect()
}

#[cfg(test)]
#[path = "picture_tests.rs"]
mod tests;
