//! Errors of loading and fetching data.

use std::io;
use std::path::PathBuf;

use super::fetch::FetchFailure;

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
    /// An IDX file does not begin with the magic number of its kind.
    #[error(
        "{} does not hold IDX {kind}: the magic number at offset 0 is {found:#010x}, expected {expected:#010x}; \
         check that the file is the right one and fetch it again",
        path.display()
    )]
    Magic {
        /// The file.
        path: PathBuf,
        /// `images` or `labels`.
        kind: &'static str,
        /// The first four bytes, big-endian.
        found: u32,
        /// The expected number.
        expected: u32,
    },
    /// An IDX file ends before the data that its header states.
    #[error(
        "{} is truncated: it ends at offset {found}, its {promise} needs {expected} bytes; fetch it again",
        path.display()
    )]
    Truncated {
        /// The file.
        path: PathBuf,
        /// The part that needs the bytes: the header itself or the counts in it.
        promise: String,
        /// The expected number of uncompressed bytes.
        expected: u64,
        /// The actual number of uncompressed bytes.
        found: u64,
    },
    /// An IDX file's header states more data than the limit.
    #[error(
        "{} is too large: its {promise} needs {expected} bytes, at most {limit} are read; split it",
        path.display()
    )]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// The counts in the header.
        promise: String,
        /// The expected number of uncompressed bytes.
        expected: u64,
        /// The limit of the data in bytes.
        limit: u64,
    },
    /// An IDX file continues after the data that its header states.
    #[error(
        "{} is too long: its {promise} needs {expected} bytes, but more follow at offset {expected}; \
         fetch it again",
        path.display()
    )]
    TrailingBytes {
        /// The file.
        path: PathBuf,
        /// The counts in the header.
        promise: String,
        /// The expected number of uncompressed bytes.
        expected: u64,
    },
    /// An IDX header states an unsupported image size.
    #[error(
        "{} has images of {rows} x {cols} pixels; each side must be 1 to {limit} pixels",
        path.display()
    )]
    ImageSize {
        /// The file.
        path: PathBuf,
        /// Height in the header.
        rows: u32,
        /// Width in the header.
        cols: u32,
        /// The longest supported side.
        limit: u32,
    },
    /// A file holds no images or labels.
    #[error("{} is empty: it holds no {kind}; at least one is needed", path.display())]
    Empty {
        /// The file.
        path: PathBuf,
        /// `images`, `labels` or `lines`.
        kind: &'static str,
    },
    /// The numbers of images and labels differ.
    #[error(
        "{} holds {images} images but {} holds {labels} labels; the two files must belong together",
        images_path.display(), labels_path.display()
    )]
    CountsDisagree {
        /// The file of the images.
        images_path: PathBuf,
        /// Its count.
        images: usize,
        /// The file of the labels.
        labels_path: PathBuf,
        /// Its count.
        labels: usize,
    },
    /// The images for training and for testing have different sizes.
    #[error(
        "the data set in {} mixes sizes: training images of {} x {} pixels, test images of {} x {}",
        dir.display(), train.0, train.1, test.0, test.1
    )]
    SizesDisagree {
        /// The folder.
        dir: PathBuf,
        /// Height and width of the training images.
        train: (usize, usize),
        /// Height and width of the test images.
        test: (usize, usize),
    },
    /// A label names a class that does not exist.
    #[error(
        "{} has the label {value} at offset {offset} (item {index}); labels go from 0 to {}",
        path.display(), classes - 1
    )]
    Label {
        /// The file.
        path: PathBuf,
        /// The offset in the uncompressed file.
        offset: u64,
        /// The position of the label, counted from 0.
        index: usize,
        /// The label.
        value: u8,
        /// The number of classes.
        classes: usize,
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
    /// A picture is not a PNG.
    #[error("{} {found}, not a PNG file; convert the picture to PNG", path.display())]
    NoPng {
        /// The file.
        path: PathBuf,
        /// The file type according to its first bytes.
        found: &'static str,
    },
    /// A PNG file needs more memory than a picture may take.
    #[error("{} takes more than {mib} MiB of memory; scale the picture down", path.display())]
    LargePicture {
        /// The file.
        path: PathBuf,
        /// The most memory that a picture may take, in MiB.
        mib: usize,
    },
    /// A PNG file could not be decoded.
    #[error("{} is a damaged PNG file; copy or export the picture again", path.display())]
    Picture {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: Box<png::DecodingError>,
    },
    /// There is no such image.
    #[error(
        "no image {index} of {pixels} pixels: there are {len} images, counted from 0, of {features} pixels"
    )]
    NoSample {
        /// The requested index.
        index: usize,
        /// The number of images.
        len: usize,
        /// The requested pixels.
        pixels: usize,
        /// The pixels per image.
        features: usize,
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
        join(failures), dir.display()
    )]
    Fetch {
        /// The folder for the files.
        dir: PathBuf,
        /// The sources that were tried, in order, and why each failed.
        failures: Vec<FetchFailure>,
    },
    /// The user ended the program while the data set was fetched.
    #[error(
        "stopped while fetching MNIST, nothing was kept; start again, or name a folder with the data with --data"
    )]
    Interrupted,
}

fn join(failures: &[FetchFailure]) -> String {
    failures.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}
