//! Finds the default folder, and the files of a data set in a folder.

use std::io;
use std::path::{Path, PathBuf};

use super::{CLASSES, DataError, Dataset, FILES, read_csv, read_images, read_labels};

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
            Found::Csv([train, _]) => read_csv(train, CLASSES),
        }
    }

    /// Reads the half for testing.
    ///
    /// # Errors
    /// [`DataError`]: a file cannot be read or is invalid.
    pub fn load_test(&self) -> Result<Dataset, DataError> {
        match self {
            Found::Idx([.., images, labels]) => load_idx(images, labels),
            Found::Csv([_, test]) => read_csv(test, CLASSES),
        }
    }
}

fn load_idx(images_path: &Path, labels_path: &Path) -> Result<Dataset, DataError> {
    let images = read_images(images_path)?;
    let labels = read_labels(labels_path, CLASSES)?;
    if images.count != labels.len() {
        return Err(DataError::CountsDisagree {
            images_path: images_path.to_owned(),
            images: images.count,
            labels_path: labels_path.to_owned(),
            labels: labels.len(),
        });
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
        Ok(_) => {
            let source = io::Error::new(io::ErrorKind::NotADirectory, "it is not a folder");
            return Err(DataError::Read { path: dir.to_owned(), source });
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(source) => {
            return Err(DataError::Read { path: dir.to_owned(), source });
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
    for (path, name) in paths.iter_mut().zip(names) {
        *path = spelling_in(dir, name)?;
    }
    let missing: Vec<&str> =
        names.iter().zip(&paths).filter(|(_, path)| path.is_none()).map(|(name, _)| *name).collect();
    if missing.len() == N {
        return Ok(None);
    }
    if !missing.is_empty() {
        return Err(DataError::Incomplete { dir: dir.to_owned(), missing });
    }
    Ok(Some(paths.map(Option::unwrap_or_default)))
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
        touch(dir.path(), &["train-images-idx3-ubyte", "train-labels.idx1-ubyte"]);
        let refused = find(dir.path()).unwrap_err().to_string();
        assert!(
            refused.contains("t10k-images-idx3-ubyte, t10k-labels-idx1-ubyte are missing; put them there"),
            "{refused}"
        );
        touch(dir.path(), &["t10k-images-idx3-ubyte.gz", "t10k-labels.idx1-ubyte.gz"]);
        let Some(Found::Idx(paths)) = find(dir.path()).unwrap() else { panic!("no IDX files") };
        assert_eq!(paths[1], dir.path().join("train-labels.idx1-ubyte"));
        assert_eq!(paths[2], dir.path().join("t10k-images-idx3-ubyte.gz"));
    }

    /// Simulates a folder without permissions, in which no file can be inspected.
    #[cfg(unix)]
    #[test]
    fn a_file_that_cannot_be_looked_at_is_not_taken_for_missing() {
        let dir = tempfile::tempdir().unwrap();
        let circle = dir.path().join("train-images-idx3-ubyte");
        std::os::unix::fs::symlink(&circle, &circle).unwrap();
        let error = find(dir.path()).unwrap_err();
        assert!(matches!(&error, DataError::Read { path, .. } if *path == circle), "{error}");
    }

    #[test]
    fn csv_files_are_found_when_there_is_no_idx_file() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(find(dir.path()).unwrap(), None);
        assert_eq!(find(&dir.path().join("missing")).unwrap(), None);
        touch(dir.path(), &["mnist_train.csv", "mnist_test.csv.gz"]);
        let paths = ["mnist_train.csv", "mnist_test.csv.gz"].map(|name| dir.path().join(name));
        assert_eq!(find(dir.path()).unwrap(), Some(Found::Csv(paths)));
        assert!(matches!(find(&dir.path().join("mnist_train.csv")), Err(DataError::Read { .. })));
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
        let lock = shared.path().join("Cargo.lock");
        let give = |path: &Path, owner| chown(path, Some(owner), None).unwrap();
        let here = |folder: &Path| folder.join("data/mnist");
        for (of_data, of_mnist, of_lock, expected) in [
            (1001, 1001, 1001, &own),
            (1000, 1001, 1001, &own),
            (1001, 1000, 1001, &own),
            (1001, 1001, 1000, &shared.path().to_owned()),
            (1000, 1000, 1001, &shared.path().to_owned()),
            (0, 0, 1001, &shared.path().to_owned()),
        ] {
            for (path, owner) in
                [(&own, 1000), (&data, of_data), (&here(shared.path()), of_mnist), (&lock, of_lock)]
            {
                give(path, owner);
            }
            assert_eq!(default_dir(&own), here(expected), "{of_data} {of_mnist} {of_lock}");
        }
        // The current folder is the user's choice.
        assert_eq!(default_dir(shared.path()), here(shared.path()));
    }
}
