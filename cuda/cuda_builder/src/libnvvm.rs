//! Finds libNVVM.

use std::env;
use std::path::{Path, PathBuf};

use crate::arch::NvvmArch;
use crate::error::CudaBuilderError;
use crate::fetch;
use crate::nvvm::Nvvm;

/// A library and its libdevice.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Place {
    library: PathBuf,
    libdevice: PathBuf,
}

/// Loads the first usable libNVVM: `LIBNVVM_PATH`, a CUDA toolkit that is new enough, or the pinned package in `tools`.
pub(crate) fn find(tools: &Path) -> Result<(Nvvm, PathBuf), CudaBuilderError> {
    let mut tried = Vec::new();
    if let Some(path) = env::var_os("LIBNVVM_PATH").filter(|path| !path.is_empty()) {
        return named(Path::new(&path), tools);
    }
    for place in toolkits() {
        match usable(&place, tools) {
            Ok(nvvm) => return Ok((nvvm, place.library)),
            Err(e) => tried.push(e.to_string()),
        }
    }
    match pinned(tools) {
        Some(place) => {
            fetch::NVVM.check(tools)?;
            Ok((Nvvm::load(&place.library, &place.libdevice, tools)?, place.library))
        }
        None => {
            tried.push(format!("the pinned package is not in {}", tools.display()));
            Err(CudaBuilderError::NvvmMissing(tried.join("; ")))
        }
    }
}

/// Whether [`find`] would need the pinned package and it is missing or incomplete.
pub(crate) fn needs_package(tools: &Path) -> bool {
    env::var_os("LIBNVVM_PATH").is_none_or(|path| path.is_empty())
        && fetch::NVVM.check(tools).is_err()
        && !toolkits().iter().any(|place| usable(place, tools).is_ok())
}

/// The libdevice that [`find`] would use with its library, whether the library is usable or not.
pub(crate) fn libdevice(tools: &Path) -> Option<PathBuf> {
    let named = env::var_os("LIBNVVM_PATH").filter(|path| !path.is_empty());
    let beside_named = named.and_then(|path| libdevice_of(Path::new(&path)));
    let of_toolkit = || toolkits().into_iter().map(|place| place.libdevice).next();
    let of_package =
        || pinned(tools).filter(|_| fetch::NVVM.check(tools).is_ok()).map(|place| place.libdevice);
    beside_named.or_else(of_toolkit).or_else(of_package)
}

fn pinned(tools: &Path) -> Option<Place> {
    let file = |n| fetch::NVVM.file(tools, n);
    Some(Place { library: file(0)?, libdevice: file(1)? })
}

/// Loads the user's library. If it is unusable, that is an error, and no other is tried.
fn named(path: &Path, tools: &Path) -> Result<(Nvvm, PathBuf), CudaBuilderError> {
    let path = path.to_owned();
    let missing =
        |what: &str| CudaBuilderError::NvvmMissing(format!("LIBNVVM_PATH is {}: {what}", path.display()));
    if !path.is_file() {
        return Err(missing("there is no such file"));
    }
    let libdevice = libdevice_of(&path).ok_or_else(|| missing("no libdevice.10.bc beside it"))?;
    let nvvm = Nvvm::load(&path, &libdevice, tools)?;
    nvvm.accepts(NvvmArch::Compute75)?;
    Ok((nvvm, path))
}

fn usable(place: &Place, tools: &Path) -> Result<Nvvm, CudaBuilderError> {
    let nvvm = Nvvm::load(&place.library, &place.libdevice, tools)?;
    nvvm.accepts(NvvmArch::Compute75)?;
    Ok(nvvm)
}

/// The toolkits from the environment, then those in `/usr/local`, newest first.
fn toolkits() -> Vec<Place> {
    let named = ["CUDA_HOME", "CUDA_PATH"].into_iter().filter_map(env::var_os).map(PathBuf::from);
    let entries = Path::new("/usr/local").read_dir().into_iter().flatten().flatten();
    let mut installed: Vec<PathBuf> = entries
        .filter(|entry| entry.file_name().to_string_lossy().starts_with("cuda"))
        .map(|entry| entry.path())
        .collect();
    // `cuda` is the user's choice among `cuda-12.8`, `cuda-13.5` and so on.
    installed.sort_by_key(|path| (path.file_name() == Some("cuda".as_ref()), version_in(path)));
    named.chain(installed.into_iter().rev()).filter_map(|root| in_toolkit(&root)).collect()
}

/// The numbers in a folder's name: 13 and 5 in `cuda-13.5`.
fn version_in(path: &Path) -> Vec<u32> {
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    name.split(|c: char| !c.is_ascii_digit()).filter_map(|number| number.parse().ok()).collect()
}

fn in_toolkit(root: &Path) -> Option<Place> {
    let named = ["nvvm/lib64/libnvvm.so", "nvvm/lib/libnvvm.so", "nvvm/lib64/libnvvm.so.4"];
    // On Windows the name has a number: `nvvm64_40_0.dll`.
    let files = ["nvvm/bin", "nvvm/bin/x64"].into_iter().flat_map(|folder| root.join(folder).read_dir());
    let is_dll = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.starts_with("nvvm64_") && name.ends_with(".dll")
    };
    let dlls = files.flatten().flatten().map(|entry| entry.path()).filter(is_dll);
    let library = named.iter().map(|name| root.join(name)).chain(dlls).find(|path| path.is_file())?;
    let libdevice = libdevice_of(&library)?;
    Some(Place { library, libdevice })
}

/// The libdevice of a library, in the layout of the toolkit or of the pip package, relative to the path as given or with
/// links resolved.
fn libdevice_of(library: &Path) -> Option<PathBuf> {
    let roots = [Some(library.to_owned()), library.canonicalize().ok()];
    // The library is one folder deep, or two in `bin/x64`.
    let roots = roots.iter().flatten().flat_map(|path| path.ancestors().skip(2).take(2));
    let names = ["libdevice/libdevice.10.bc", "nvvm/libdevice/libdevice.10.bc"];
    roots.flat_map(|root| names.map(|name| root.join(name))).find(|path| path.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn newer_toolkits_come_first() {
        assert!(
            version_in(Path::new("/usr/local/cuda-13.5")) > version_in(Path::new("/usr/local/cuda-12.10"))
        );
        assert!(
            version_in(Path::new("/usr/local/cuda-12.10")) > version_in(Path::new("/usr/local/cuda-12.8"))
        );
    }

    #[test]
    fn what_the_user_names_must_be_usable() {
        let folder = tempfile::tempdir().unwrap();
        let library = folder.path().join("lib64/libnvvm.so");
        let refusal =
            |library: &Path| named(library, folder.path()).err().map(|e| e.to_string()).unwrap_or_default();
        assert!(refusal(&library).contains("there is no such file"));
        std::fs::create_dir_all(library.parent().unwrap()).unwrap();
        std::fs::write(&library, "no library").unwrap();
        assert!(refusal(&library).contains("no libdevice.10.bc beside it"));
        std::fs::create_dir(folder.path().join("libdevice")).unwrap();
        std::fs::write(folder.path().join("libdevice/libdevice.10.bc"), "").unwrap();
        assert!(refusal(&library).starts_with("loading libNVVM from"));
    }

    #[test]
    fn the_library_of_windows_is_found() {
        for file in ["nvvm/bin/nvvm64_40_0.dll", "nvvm/bin/x64/nvvm64_40_0.dll"] {
            let folder = tempfile::tempdir().unwrap();
            let (library, libdevice) =
                (folder.path().join(file), folder.path().join("nvvm/libdevice/libdevice.10.bc"));
            for path in [&library, &libdevice] {
                std::fs::create_dir_all(path.parent().unwrap()).unwrap();
                std::fs::write(path, "").unwrap();
            }
            assert_eq!(in_toolkit(folder.path()), Some(Place { library, libdevice }));
        }
    }

    #[test]
    fn a_library_without_libdevice_is_none() {
        let folder = tempfile::tempdir().unwrap();
        let library = folder.path().join("nvvm/lib64/libnvvm.so");
        std::fs::create_dir_all(library.parent().unwrap()).unwrap();
        std::fs::write(&library, "no library").unwrap();
        assert_eq!(in_toolkit(folder.path()), None);
        let libdevice = folder.path().join("nvvm/libdevice/libdevice.10.bc");
        std::fs::create_dir_all(libdevice.parent().unwrap()).unwrap();
        std::fs::write(&libdevice, "").unwrap();
        let place = in_toolkit(folder.path()).unwrap();
        assert_eq!(place.libdevice, libdevice);
        assert!(usable(&place, folder.path()).is_err());
    }
}
