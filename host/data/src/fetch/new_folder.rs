//! Folders for data that may not arrive.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::DataError;

/// Creates a folder. Dropping it without [`NewFolder::keep`] removes the folders that were created for it.
pub(super) struct NewFolder {
    /// The created folders, outermost first.
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
                // Another process has created it meanwhile, so we must not remove it.
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
            // This fails if the folder is not empty, because another program uses it too.
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
