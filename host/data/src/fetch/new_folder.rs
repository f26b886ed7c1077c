//! Folders for data that may not come.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::DataError;

/// A folder that exists from now on; when it is dropped without [`NewFolder::keep`], the folders that were made
/// for it are removed again.
pub(super) struct NewFolder {
    /// The folders that were made, outermost first.
    made: Vec<PathBuf>,
}

impl NewFolder {
    pub fn create(dir: &Path) -> Result<Self, DataError> {
        let missing = dir.ancestors().filter(|folder| !folder.as_os_str().is_empty() && !folder.exists());
        let mut missing: Vec<PathBuf> = missing.map(Path::to_owned).collect();
        missing.reverse();
        let mut folder = NewFolder { made: Vec::new() };
        for path in missing {
            match fs::create_dir(&path) {
                Ok(()) => folder.made.push(path),
                // Another process made it meanwhile: not ours to remove.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(source) => return Err(DataError::Write { path, source }),
            }
        }
        Ok(folder)
    }

    pub fn keep(&mut self) {
        self.made.clear();
    }
}

impl Drop for NewFolder {
    fn drop(&mut self) {
        for path in self.made.iter().rev() {
            // A folder that is no longer empty belongs to somebody else too.
            let _ = fs::remove_dir(path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_are_removed_unless_kept() {
        let root = tempfile::tempdir().unwrap();
        let deep = root.path().join("data").join("mnist");
        drop(NewFolder::create(&deep).unwrap());
        assert_eq!(fs::read_dir(root.path()).unwrap().count(), 0);
        NewFolder::create(&deep).unwrap().keep();
        drop(NewFolder::create(&deep).unwrap());
        assert!(deep.is_dir());
    }
}
