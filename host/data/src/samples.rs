//! Samples that are accessible one by one, before all are decoded.

use std::borrow::Cow;
use std::path::Path;

use super::csv::CsvLines;
use super::{CLASSES, DataError, Dataset, Found, Mnist, files};

/// Labelled images of the same size, with access to each. Images of IDX files are in memory. The lines of a CSV file are
/// located, and each is parsed and checked at its first use.
///
/// ```
/// use ferrowarp_data::{Dataset, Samples};
///
/// let dataset = Dataset { images: vec![1, 2, 3, 4], labels: vec![7, 9], rows: 1, cols: 2 };
/// let samples = Samples::from(dataset);
/// let mut pixels = [0; 2];
/// assert_eq!(samples.decode(1, &mut pixels)?, 9);
/// assert_eq!(pixels, [3, 4]);
/// # Ok::<(), ferrowarp_data::DataError>(())
/// ```
#[derive(Debug)]
pub struct Samples(Source);

#[derive(Debug)]
enum Source {
    Decoded(Dataset),
    Csv(CsvLines),
}

/// The two halves of the data set; the training half may not be decoded yet.
#[derive(Debug)]
pub struct LazyMnist {
    /// The training images.
    pub train: Samples,
    /// The test images.
    pub test: Dataset,
}

impl From<Dataset> for Samples {
    fn from(dataset: Dataset) -> Self {
        Samples(Source::Decoded(dataset))
    }
}

impl From<Mnist> for LazyMnist {
    fn from(Mnist { train, test }: Mnist) -> Self {
        LazyMnist { train: train.into(), test }
    }
}

impl LazyMnist {
    /// Replaces the test images with the last `images` training images, which are removed from the training half. The
    /// samples are decoded.
    ///
    /// ```
    /// use ferrowarp_data::{Dataset, Mnist};
    ///
    /// let half = |labels: &[u8]| Dataset { images: labels.to_vec(), labels: labels.to_vec(), rows: 1, cols: 1 };
    /// let mnist = ferrowarp_data::LazyMnist::from(Mnist { train: half(&[1, 2, 3]), test: half(&[4]) });
    /// let mnist = mnist.hold_out(1)?;
    /// assert_eq!((mnist.train.len(), mnist.test.labels), (2, vec![3]));
    /// # Ok::<(), ferrowarp_data::DataError>(())
    /// ```
    ///
    /// # Errors
    /// [`DataError::HoldOut`] for no images or all of them; [`DataError::Csv`] for a bad line.
    pub fn hold_out(self, images: usize) -> Result<LazyMnist, DataError> {
        let len = self.train.len();
        if images == 0 || images >= len {
            return Err(DataError::HoldOut { held_out: images, images: len });
        }
        let mut train = self.train.to_dataset()?.into_owned();
        let left = len - images;
        let (rows, cols) = (train.rows, train.cols);
        let (pixels, labels) = (train.images.split_off(left * rows * cols), train.labels.split_off(left));
        Ok(LazyMnist { train: train.into(), test: Dataset { images: pixels, labels, rows, cols } })
    }
}

impl Samples {
    /// Reads a CSV file, plain or gzip, with labels below `classes`, and locates its lines.
    ///
    /// # Errors
    /// [`DataError`]: the file cannot be read, is larger than [`read_csv`](crate::read_csv) accepts, or has no lines.
    pub fn of_csv(path: &Path, classes: usize) -> Result<Samples, DataError> {
        CsvLines::read(path, classes).map(|lines| Samples(Source::Csv(lines)))
    }

    /// Number of images.
    pub fn len(&self) -> usize {
        match &self.0 {
            Source::Decoded(dataset) => dataset.len(),
            Source::Csv(lines) => lines.len(),
        }
    }

    /// Whether there are no images. [`open`] never returns an empty data set.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Height and width of an image in pixels.
    pub fn sides(&self) -> (usize, usize) {
        match &self.0 {
            Source::Decoded(dataset) => (dataset.rows, dataset.cols),
            Source::Csv(_) => CsvLines::SIDES,
        }
    }

    /// Pixels per image.
    pub fn features(&self) -> usize {
        let (rows, cols) = self.sides();
        rows * cols
    }

    /// Writes the pixels of image `index`, `[rows, cols]`, to `pixels`, and returns its label.
    ///
    /// # Errors
    /// [`DataError::NoSample`]: there are not that many images, or `pixels` does not have an image's length;
    /// [`DataError::Csv`] for a bad line.
    pub fn decode(&self, index: usize, pixels: &mut [u8]) -> Result<u8, DataError> {
        let (len, features) = (self.len(), self.features());
        if index >= len || pixels.len() != features {
            return Err(DataError::NoSample { index, len, pixels: pixels.len(), features });
        }
        match &self.0 {
            Source::Decoded(dataset) => {
                pixels.copy_from_slice(&dataset.images[index * features..][..features]);
                Ok(dataset.labels[index])
            }
            Source::Csv(lines) => lines.decode(index, pixels),
        }
    }

    /// Decodes all samples.
    ///
    /// # Errors
    /// [`DataError::Csv`] for the first bad line.
    pub fn to_dataset(&self) -> Result<Cow<'_, Dataset>, DataError> {
        match &self.0 {
            Source::Decoded(dataset) => Ok(Cow::Borrowed(dataset)),
            Source::Csv(lines) => lines.to_dataset().map(Cow::Owned),
        }
    }
}

/// Opens the data set in the folder `dir`, like [`load`](crate::load), except that the training lines of a CSV file are
/// parsed and checked at their first use.
///
/// # Errors
/// [`DataError`]: the folder holds neither format, or a file in it is invalid.
pub fn open(dir: &Path) -> Result<LazyMnist, DataError> {
    match files::find(dir)? {
        Some(found @ Found::Csv(_)) => {
            let test = found.load_test()?;
            let Found::Csv([train, _]) = &found else { unreachable!("it was just found to be CSV") };
            Ok(LazyMnist { train: Samples::of_csv(train, CLASSES)?, test })
        }
        _ => crate::load(dir).map(LazyMnist::from),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PIXELS: usize = 784;

    fn line(label: usize) -> String {
        let pixels: Vec<String> = (0..PIXELS).map(|i| ((i * 7 + label) % 256).to_string()).collect();
        format!("{label},{}", pixels.join(","))
    }

    fn of_text(text: &str) -> Result<Samples, DataError> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.csv");
        std::fs::write(&path, text).unwrap();
        Samples::of_csv(&path, CLASSES)
    }

    #[test]
    fn lines_are_those_of_the_whole_file_in_any_order() {
        let lines: Vec<String> = [3, 1, 4, 1, 5, 9].map(line).into();
        for (header, end) in [("", "\n"), ("label,pixels\n", "\r\n"), ("\u{feff}", "\r"), ("", "\n \n\n")] {
            let text = header.to_owned() + &lines.join(end);
            let samples = of_text(&text).unwrap();
            let whole = crate::parse_csv(text.as_bytes(), Path::new("x.csv"), CLASSES).unwrap();
            assert_eq!((samples.len(), samples.features()), (6, PIXELS));
            assert_eq!(*samples.to_dataset().unwrap(), whole);
            for index in [5, 0, 3, 3, 1, 5, 2, 4] {
                let mut pixels = [0; PIXELS];
                assert_eq!(samples.decode(index, &mut pixels).unwrap(), whole.labels[index]);
                assert_eq!(Some(&pixels[..]), whole.image(index));
            }
        }
    }

    #[test]
    fn a_bad_line_is_told_when_it_is_asked_for() {
        let text = format!("label\n{}\n\n{}\n{}", line(1), line(2).replacen(",9,", ",x,", 1), line(3));
        let samples = of_text(&text).unwrap();
        let mut pixels = [0; PIXELS];
        assert_eq!(samples.decode(2, &mut pixels).unwrap(), 3);
        for _ in 0..2 {
            let refused = samples.decode(1, &mut pixels).unwrap_err().to_string();
            assert!(refused.contains("x.csv, line 4, column 3: `x` is not a pixel"), "{refused}");
        }
        let refused = samples.to_dataset().unwrap_err().to_string();
        assert!(refused.contains("x.csv, line 4, column 3: `x` is not a pixel"), "{refused}");
        assert_eq!(samples.decode(0, &mut pixels).unwrap(), 1);
    }

    #[test]
    fn what_is_not_there_is_refused() {
        let samples = of_text(&line(1)).unwrap();
        let refused = samples.decode(1, &mut [0; PIXELS]).unwrap_err().to_string();
        assert_eq!(refused, "no image 1 of 784 pixels: there are 1 images, counted from 0, of 784 pixels");
        let refused = samples.decode(0, &mut [0; 3]).unwrap_err().to_string();
        assert_eq!(refused, "no image 0 of 3 pixels: there are 1 images, counted from 0, of 784 pixels");
        for text in ["", "label\n", "\n\n \n"] {
            let refused = of_text(text).unwrap_err().to_string();
            assert!(refused.contains("is empty: it holds no lines"), "{refused}");
        }
    }
}
