//! Finds the default folder, and the files of a data set in a folder.

use std::io;
use std::path::{Path, PathBuf};

use super::csv::CsvLines;
use super::{CLASSES, DataError, Dataset, FILES, idx, images_from, labels_from};

/// The files of a data set.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Found {
    /// The four IDX files, in the order of [`FILES`].
    Idx([PathBuf; 4]),
    /// The CSV files for training and for testing.
    Csv([PathBuf; 2]),
}

impl Found {
    /// The files.
    pub fn paths(&self) -> impl Iterator<Item = &Path> {
        let paths = match self {
            Found::Idx(paths) => paths.as_slice(),
            Found::Csv(paths) => paths,
        };
        paths.iter().map(PathBuf::as_path)
    }

    /// Reads the half for training.
    ///
    /// # Errors
    /// [`DataError`]: a file cannot be read or is invalid.
    pub fn load_train(&self) -> Result<Dataset, DataError> {
        match self {
            Found::Idx([images, labels, ..]) => load_idx(images, labels),
            Found::Csv([train, _]) => CsvLines::open(train, CLASSES)?.to_dataset(),
        }
    }

    /// Reads the half for testing.
    ///
    /// # Errors
    /// [`DataError`]: a file cannot be read or is invalid.
    pub fn load_test(&self) -> Result<Dataset, DataError> {
        match self {
            Found::Idx([.., images, labels]) => load_idx(images, labels),
            Found::Csv([_, test]) => CsvLines::open(test, CLASSES)?.to_dataset(),
        }
    }
}

fn load_idx(images_path: &Path, labels_path: &Path) -> Result<Dataset, DataError> {
    let images = images_from(idx::open(images_path)?, images_path)?;
    let labels = labels_from(idx::open(labels_path)?, labels_path, CLASSES)?;
    if images.count != labels.len() {
        let problem = format!(
            "holds {} images but {} holds {} labels; the two files must belong together",
            images.count,
            labels_path.display(),
            labels.len()
        );
        return Err(DataError::invalid(images_path, problem));
    }
    Ok(Dataset { images: images.pixels, labels, rows: images.rows, cols: images.cols })
}

const CSV_FILES: [&str; 2] = ["mnist_train.csv", "mnist_test.csv"];

/// Looks for a data set in the folder `dir`: the IDX files first, then the CSV files. Returns `None` if the folder is
/// missing or has no file of either.
///
/// # Errors
/// [`DataError::Incomplete`] if only a part of a data set is there; [`DataError::Read`] if the folder or its contents cannot
/// be read.
pub fn find(dir: &Path) -> Result<Option<Found>, DataError> {
    match dir.metadata() {
        Ok(metadata) if metadata.is_dir() => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(DataError::read(dir)(error)),
        Ok(_) => {
            let error = io::Error::new(io::ErrorKind::NotADirectory, "it is not a folder");
            return Err(DataError::read(dir)(error));
        }
    }
    if let Some(paths) = all_of(dir, FILES.map(|file| file.name))? {
        return Ok(Some(Found::Idx(paths)));
    }
    Ok(all_of(dir, CSV_FILES)?.map(Found::Csv))
}

/// The paths of all files; `None` if all are missing, an error if some are.
fn all_of<const N: usize>(dir: &Path, names: [&'static str; N]) -> Result<Option<[PathBuf; N]>, DataError> {
    let mut paths = [const { None }; N];
    let mut missing = Vec::new();
    for (path, name) in paths.iter_mut().zip(names) {
        *path = spelling_in(dir, name)?;
        missing.extend(path.is_none().then_some(name));
    }
    match missing.len() {
        0 => Ok(Some(paths.map(Option::unwrap_or_default))),
        len if len == N => Ok(None),
        _ => Err(DataError::Incomplete { dir: dir.to_owned(), missing }),
    }
}

/// Finds the file in any spelling: `train-images-idx3-ubyte` is also known as `train-images.idx3-ubyte`, and each may be
/// compressed.
fn spelling_in(dir: &Path, name: &str) -> Result<Option<PathBuf>, DataError> {
    let dotted = name.replace("-idx", ".idx");
    let spellings = [name.to_owned(), dotted.clone(), format!("{name}.gz"), format!("{dotted}.gz")];
    for path in spellings.iter().map(|spelling| dir.join(spelling)) {
        match path.metadata() {
            Ok(metadata) if metadata.is_file() => return Ok(Some(path)),
            Err(source) if source.kind() != io::ErrorKind::NotFound => {
                return Err(DataError::Read { path, source });
            }
            _ => {}
        }
    }
    Ok(None)
}

/// The default folder of the data set: `data/mnist` in the nearest of `from` and its parents that has one, otherwise in the
/// nearest with a `Cargo.lock` (the workspace root), otherwise in `from`. In a parent, only what belongs to the owner of
/// `from` or to root counts: in `/tmp`, for example, any user can create a folder.
pub fn default_dir(from: &Path) -> PathBuf {
    let data = |folder: &Path| folder.join("data").join("mnist");
    let is_trusted =
        |folder: &Path, name: &str| folder == from || has_trusted_owner(&folder.join(name), from);
    let existing = from.ancestors().find(|folder| {
        data(folder).is_dir() && is_trusted(folder, "data") && is_trusted(folder, "data/mnist")
    });
    let workspace = || {
        from.ancestors()
            .find(|folder| folder.join("Cargo.lock").is_file() && is_trusted(folder, "Cargo.lock"))
    };
    data(existing.or_else(workspace).unwrap_or(from))
}

/// Whether `path`, or the link of this name, belongs to the owner of the folder `from` or to root.
#[cfg(unix)]
fn has_trusted_owner(path: &Path, from: &Path) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    let (owner, expected) = (path.symlink_metadata(), from.metadata());
    owner.is_ok_and(|owner| owner.uid() == 0 || expected.is_ok_and(|from| from.uid() == owner.uid()))
}

#[cfg(not(unix))]
fn has_trusted_owner(_: &Path, _: &Path) -> bool {
    true
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn touch(dir: &Path, names: &[&str]) {
        for name in names {
            fs::write(dir.join(name), "").unwrap();
        }
    }

    #[test]
    fn every_spelling_is_found() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(find(dir.path()).unwrap(), None);
        assert_eq!(find(&dir.path().join("missing")).unwrap(), None);
        touch(dir.path(), &["mnist_train.csv", "mnist_test.csv.gz"]);
        let csv = ["mnist_train.csv", "mnist_test.csv.gz"].map(|name| dir.path().join(name));
        assert_eq!(find(dir.path()).unwrap(), Some(Found::Csv(csv)));
        assert!(matches!(find(&dir.path().join("mnist_train.csv")), Err(DataError::Read { .. })));

        touch(dir.path(), &["train-images-idx3-ubyte", "train-labels.idx1-ubyte"]);
        let refused = find(dir.path()).unwrap_err().to_string();
        let says = "t10k-images-idx3-ubyte, t10k-labels-idx1-ubyte are missing; put them there";
        assert!(refused.contains(says), "{refused}");
        touch(dir.path(), &["t10k-images-idx3-ubyte.gz", "t10k-labels.idx1-ubyte.gz"]);
        let Some(Found::Idx(paths)) = find(dir.path()).unwrap() else { panic!("no IDX files") };
        assert_eq!(paths[1], dir.path().join("train-labels.idx1-ubyte"));
        assert_eq!(paths[2], dir.path().join("t10k-images-idx3-ubyte.gz"));
    }

    #[test]
    fn the_default_folder_is_the_workspace_s() {
        let root = tempfile::tempdir().unwrap();
        let inner = root.path().join("host").join("src");
        fs::create_dir_all(&inner).unwrap();
        assert_eq!(default_dir(&inner), inner.join("data").join("mnist"));
        touch(root.path(), &["Cargo.lock"]);
        assert_eq!(default_dir(&inner), root.path().join("data").join("mnist"));
        fs::create_dir_all(root.path().join("host").join("data").join("mnist")).unwrap();
        assert_eq!(default_dir(&inner), root.path().join("host").join("data").join("mnist"));
    }

    /// Only root can create what belongs to another user.
    #[cfg(unix)]
    #[test]
    fn what_another_user_left_in_a_parent_does_not_count() {
        use std::os::unix::fs::{MetadataExt as _, chown};
        let shared = tempfile::tempdir().unwrap();
        let (own, data) = (shared.path().join("own"), shared.path().join("data"));
        fs::create_dir(&own).unwrap();
        fs::create_dir_all(data.join("mnist")).unwrap();
        touch(shared.path(), &["Cargo.lock"]);
        if own.metadata().unwrap().uid() != 0 {
            return;
        }
        let (lock, mnist) = (shared.path().join("Cargo.lock"), data.join("mnist"));
        for (of_data, of_mnist, of_lock, expected) in [
            (1001, 1001, 1001, &own),
            (1000, 1001, 1001, &own),
            (1001, 1000, 1001, &own),
            (1001, 1001, 1000, &shared.path().to_owned()),
            (1000, 1000, 1001, &shared.path().to_owned()),
        ] {
            for (path, owner) in [(&own, 1000), (&data, of_data), (&mnist, of_mnist), (&lock, of_lock)] {
                chown(path, Some(owner), None).unwrap();
            }
            assert_eq!(default_dir(&own), expected.join("data/mnist"), "{of_data} {of_mnist} {of_lock}");
        }
        // The current folder is the user's choice.
        assert_eq!(default_dir(shared.path()), mnist);
    }
}
