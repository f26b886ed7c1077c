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
    /// [`DataError::Csv`] for a bad line.
    ///
    /// # Panics
    /// If there are not that many images, or `pixels` does not have an image's length.
    pub fn decode(&self, index: usize, pixels: &mut [u8]) -> Result<u8, DataError> {
        match &self.0 {
            Source::Decoded(dataset) => {
                let features = dataset.features();
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
        Some(Found::Csv([train, test])) => {
            let test = CsvLines::open(&test, CLASSES)?.to_dataset()?;
            Ok(LazyMnist { train: Samples(Source::Csv(CsvLines::open(&train, CLASSES)?)), test })
        }
        _ => crate::load(dir).map(LazyMnist::from),
    }
}
