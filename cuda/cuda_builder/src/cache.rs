//! Caches the output of compiling a module. The key covers everything that the output depends on.

use std::path::{Path, PathBuf};
use std::time::SystemTime;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::error::{CudaBuilderError, IoContext};
use crate::files;
use crate::progress::FellBack;
use crate::ptxas::KernelResources;

/// Maximum number of entries. The least recently used ones are removed.
const MOST_ENTRIES: usize = 2000;

const PTX: &str = "module.ptx";
const CUBIN: &str = "module.cubin";
const RECORD: &str = "module.json";

/// The output of a compiler for a module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Made {
    pub ptx: String,
    /// Machine code and each kernel's resources, if ptxas ran.
    pub assembled: Option<(Vec<u8>, Vec<KernelResources>)>,
    /// Set if it was compiled at a lower level than requested.
    pub fell_back: Option<FellBack>,
}

/// The hashes of an entry's files, to detect a damaged one.
#[derive(Serialize, Deserialize)]
struct Record {
    ptx: String,
    cubin: Option<String>,
    resources: Vec<KernelResources>,
    #[serde(default)]
    fell_back: Option<FellBack>,
}

/// A folder of entries.
#[derive(Clone, Debug)]
pub(crate) struct Cache {
    folder: PathBuf,
}

impl Cache {
    /// The cache in the builder's folder `work`.
    pub fn in_folder(work: &Path) -> Cache {
        Cache { folder: work.join("cache") }
    }

    /// Returns the entry of `key`, if it exists and is undamaged.
    pub fn get(&self, key: &str) -> Option<Made> {
        let entry = self.folder.join(key);
        let record: Record = serde_json::from_slice(&files::read(&entry.join(RECORD)).ok()?).ok()?;
        let ptx = files::read(&entry.join(PTX)).ok()?;
        let is_whole = |bytes: &[u8], hash: &str| files::hex(&Sha256::digest(bytes)) == hash;
        if !is_whole(&ptx, &record.ptx) {
            return None;
        }
        let assembled = match &record.cubin {
            Some(hash) => {
                let cubin = files::read(&entry.join(CUBIN)).ok().filter(|cubin| is_whole(cubin, hash))?;
                Some((cubin, record.resources))
            }
            None => None,
        };
        // Marks the entry as used; if that fails, it is only removed earlier.
        let _ = files::open(&entry.join(RECORD)).and_then(|file| file.set_modified(SystemTime::now()));
        Some(Made { ptx: String::from_utf8(ptx).ok()?, assembled, fell_back: record.fell_back })
    }

    /// Whether [`Self::get`] would find an entry; does not check its contents.
    pub fn has(&self, key: &str) -> bool {
        self.folder.join(key).join(RECORD).is_file()
    }

    /// Stores `made` under `key`, atomically.
    pub fn put(&self, key: &str, made: &Made) -> Result<(), CudaBuilderError> {
        files::create_dir(&self.folder)?;
        let temporary = tempfile::Builder::new().prefix(".new-").tempdir_in(&self.folder);
        let temporary = temporary.during("creating a folder in", &self.folder)?;
        let hash = |bytes: &[u8]| files::hex(&Sha256::digest(bytes));
        files::write(&temporary.path().join(PTX), made.ptx.as_bytes())?;
        let (mut cubin, mut resources) = (None, Vec::new());
        if let Some((code, needs)) = &made.assembled {
            files::write(&temporary.path().join(CUBIN), code)?;
            (cubin, resources) = (Some(hash(code)), needs.clone());
        }
        let fell_back = made.fell_back.clone();
        let record = Record { ptx: hash(made.ptx.as_bytes()), cubin, resources, fell_back };
        let record = serde_json::to_vec_pretty(&record).unwrap_or_default();
        files::write(&temporary.path().join(RECORD), &record)?;
        let entry = self.folder.join(key);
        // Another process may have been first. Its entry is the same, or damaged or worse and then replaced.
        if self.get(key).is_none_or(|there| there.fell_back.is_some()) {
            files::remove(&entry)?;
        }
        let kept = temporary.keep();
        if std::fs::rename(&kept, &entry).is_err() {
            let _ = std::fs::remove_dir_all(&kept);
        }
        Ok(())
    }

    /// Removes the least recently used entries, if there are too many.
    pub fn prune(&self) {
        let entries = self.folder.read_dir().into_iter().flatten().flatten();
        let used = |path: &Path| path.join(RECORD).metadata().and_then(|metadata| metadata.modified());
        let mut entries: Vec<(SystemTime, PathBuf)> = entries
            .map(|entry| entry.path())
            .map(|path| (used(&path).unwrap_or(SystemTime::UNIX_EPOCH), path))
            .collect();
        if entries.len() <= MOST_ENTRIES {
            return;
        }
        entries.sort();
        for (_, path) in &entries[..entries.len() - MOST_ENTRIES] {
            // An entry that cannot be removed only takes space.
            let _ = files::remove(path);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn entries_come_back_whole_or_not_at_all() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::in_folder(folder.path());
        let resources = KernelResources { kernel: "k".to_owned(), registers: 7, ..Default::default() };
        let assembled = Some((vec![1, 2, 3], vec![resources]));
        let with_code = Made { ptx: "text".to_owned(), assembled, fell_back: None };
        let fell_back = Some(FellBack {
            kernels: vec!["k".to_owned()],
            opt_level: 1,
            took: Duration::from_millis(2500),
            tool: "libNVVM".to_owned(),
            tried: vec![3],
            limit: Duration::from_secs(120),
        });
        let without = Made { ptx: "other".to_owned(), assembled: None, fell_back };
        assert!(cache.get("a").is_none() && !cache.has("a"));
        cache.put("a", &with_code).unwrap();
        cache.put("b", &without).unwrap();
        cache.put("a", &with_code).unwrap();
        assert!(cache.has("a"));
        assert_eq!((cache.get("a").unwrap(), cache.get("b").unwrap()), (with_code.clone(), without));
        let entry = folder.path().join("cache/a");
        for (file, text) in [(PTX, "texT"), (CUBIN, "12"), (RECORD, "{")] {
            std::fs::write(entry.join(file), text).unwrap();
            assert!(cache.get("a").is_none(), "{file}");
            cache.put("a", &with_code).unwrap();
            assert_eq!(cache.get("a").unwrap(), with_code, "{file}");
        }
        let left = folder.path().join("cache").read_dir().unwrap().count();
        assert_eq!(left, 2, "nothing temporary is left");
    }

    #[cfg(unix)]
    #[test]
    fn whatever_is_in_the_place_of_an_entry_is_replaced() {
        let pipe = |path: &Path| {
            assert!(std::process::Command::new("mkfifo").arg(path).status().unwrap().success());
        };
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::in_folder(folder.path());
        let made = Made { ptx: "text".to_owned(), assembled: None, fell_back: None };
        let entry = folder.path().join("cache/a");
        let spoilers: [&dyn Fn(); 6] = [
            &|| std::fs::write(&entry, "file").unwrap(),
            &|| std::os::unix::fs::symlink("nowhere", &entry).unwrap(),
            &|| pipe(&entry),
            &|| pipe(&entry.join(RECORD)),
            &|| pipe(&entry.join(PTX)),
            &|| std::fs::create_dir(entry.join(RECORD)).unwrap(),
        ];
        for (n, spoil) in spoilers.iter().enumerate() {
            cache.put("a", &made).unwrap();
            match n {
                0..=2 => std::fs::remove_dir_all(&entry).unwrap(),
                3 | 5 => std::fs::remove_file(entry.join(RECORD)).unwrap(),
                _ => std::fs::remove_file(entry.join(PTX)).unwrap(),
            }
            spoil();
            assert!(cache.get("a").is_none(), "{n}");
            cache.put("a", &made).unwrap();
            assert_eq!(cache.get("a").as_ref(), Some(&made), "{n}");
        }
    }
}
