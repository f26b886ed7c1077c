//! Errors of loading and fetching data.

use std::io;
use std::path::{Path, PathBuf};

/// Why a data set could not be loaded or fetched.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DataError {
    /// A file or folder could not be read, or its gzip stream is damaged.
    #[error("could not read {}", path.display())]
    Read {
        /// The file or folder.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The folder holds no data set.
    #[error(
        "no data set in {}: expected the four files train-images-idx3-ubyte, train-labels-idx1-ubyte, \
         t10k-images-idx3-ubyte and t10k-labels-idx1-ubyte (plain or .gz), or mnist_train.csv and \
         mnist_test.csv",
        dir.display()
    )]
    NotFound {
        /// The folder.
        dir: PathBuf,
    },
    /// Only some files of a data set are there.
    #[error(
        "the data set in {} is incomplete: {} {} (plain or .gz), or empty the folder",
        dir.display(), missing.join(", "),
        if missing.len() == 1 { "is missing; put it there" } else { "are missing; put them there" }
    )]
    Incomplete {
        /// The folder.
        dir: PathBuf,
        /// The missing files.
        missing: Vec<&'static str>,
    },
    /// The contents of a file are invalid.
    #[error("{} {problem}", path.display())]
    Invalid {
        /// The file.
        path: PathBuf,
        /// What is wrong with it, and the fix.
        problem: String,
    },
    /// A line of a CSV file is not a label and 784 pixels.
    #[error("{}, line {line}, column {column}: {problem}", path.display())]
    Csv {
        /// The file.
        path: PathBuf,
        /// The line, counted from 1.
        line: usize,
        /// The comma-separated column, counted from 1; the label is column 1.
        column: usize,
        /// What is wrong, and what was expected.
        problem: String,
    },
    /// A PNG file could not be decoded.
    #[error("{} is a damaged PNG file; copy or export the picture again", path.display())]
    Picture {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: Box<png::DecodingError>,
    },
    /// The images cannot be held out.
    #[error(
        "cannot hold {held_out} of {images} training images out; hold at least 1 out and leave at least 1 to learn from"
    )]
    HoldOut {
        /// The number of images to hold out.
        held_out: usize,
        /// The number of training images.
        images: usize,
    },
    /// A file could not be written while fetching.
    #[error("could not write {}, nothing was kept", path.display())]
    Write {
        /// The file or folder.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// No source could provide the data set.
    #[error(
        "could not fetch MNIST: {}; put the four files train-images-idx3-ubyte, train-labels-idx1-ubyte, \
         t10k-images-idx3-ubyte and t10k-labels-idx1-ubyte (plain or .gz) into {} by hand, or name the folder \
         they are in with --data",
        failures.join("; "), dir.display()
    )]
    Fetch {
        /// The folder for the files.
        dir: PathBuf,
        /// The sources that were tried, in order, and why each failed.
        failures: Vec<String>,
    },
    /// The user ended the program while the data set was fetched.
    #[error(
        "stopped while fetching MNIST, nothing was kept; start again, or name a folder with the data with --data"
    )]
    Interrupted,
}

impl DataError {
    pub(crate) fn invalid(path: &Path, problem: impl Into<String>) -> DataError {
        DataError::Invalid { path: path.to_owned(), problem: problem.into() }
    }

    /// The error of a file that cannot be read.
    pub(crate) fn read(path: &Path) -> impl Fn(io::Error) -> DataError {
        move |source| DataError::Read { path: path.to_owned(), source }
    }
}
