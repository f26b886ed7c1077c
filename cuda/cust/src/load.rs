//! Finds the driver's library and its functions.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use libloading::Library;

use crate::fork::is_forked;
use crate::sys::Functions;

/// The environment variable with the driver's library, which replaces the search.
pub const LIBRARY_VARIABLE: &str = "FERROWARP_LIBCUDA";

/// Names of the driver's library, in the order tried. The loader's own search path comes first. It does not always have the
/// folders of WSL2, Jetson, Debian, NixOS and containers. `cuda_builder` has the same list.
pub const LIBRARIES: &[&str] = if cfg!(windows) {
    &["nvcuda.dll"]
} else {
    &[
        "libcuda.so.1",
        "/usr/lib/wsl/lib/libcuda.so.1",
        "/usr/lib/x86_64-linux-gnu/libcuda.so.1",
        "/usr/lib/x86_64-linux-gnu/nvidia/current/libcuda.so.1",
        "/usr/lib/aarch64-linux-gnu/libcuda.so.1",
        "/usr/lib/aarch64-linux-gnu/tegra/libcuda.so.1",
        "/usr/lib/aarch64-linux-gnu/nvidia/libcuda.so.1",
        "/usr/lib64/libcuda.so.1",
        "/usr/lib64/nvidia/libcuda.so.1",
        "/run/opengl-driver/lib/libcuda.so.1",
        "/usr/local/nvidia/lib64/libcuda.so.1",
    ]
};

/// Proof that the driver's library is loaded.
#[derive(Clone, Copy, Debug)]
pub struct Driver {
    loaded: &'static Loaded,
}

impl Driver {
    /// The library's name or path, as passed to the loader.
    pub fn library(&self) -> &'static Path {
        &self.loaded.library
    }

    /// The number of functions in [`crate::sys`] that the library has.
    pub fn functions_found(&self) -> usize {
        self.loaded.functions.found()
    }
}

/// Why there is no driver.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// The loader did not find the library, or could not load it.
    #[error(
        "loading the CUDA driver library {library} failed: {loader}; install the NVIDIA driver (for WSL2, in Windows), or set \
         {LIBRARY_VARIABLE} to the library's path"
    )]
    Library {
        /// The requested library.
        library: String,
        /// The loader's message, and the other places that were searched.
        loader: String,
    },
    /// The environment names a library that the loader could not load.
    #[error(
        "loading the CUDA driver library {library}, which {LIBRARY_VARIABLE} names, failed: {loader}; install the NVIDIA driver \
         and unset {LIBRARY_VARIABLE}, or set it to the path of the driver's library"
    )]
    Named {
        /// The requested library.
        library: String,
        /// The loader's message.
        loader: String,
    },
    /// The library was loaded but is not a CUDA driver.
    #[error(
        "{library} is not a CUDA driver library: it has no function {symbol}; set {LIBRARY_VARIABLE} to the \
         path of the NVIDIA driver's library, or unset it"
    )]
    NotADriver {
        /// The library.
        library: String,
        /// The missing function.
        symbol: &'static str,
    },
}

impl LoadError {
    /// The library that could not be loaded.
    pub fn library(&self) -> &str {
        match self {
            LoadError::Library { library, .. }
            | LoadError::Named { library, .. }
            | LoadError::NotADriver { library, .. } => library,
        }
    }
}

#[derive(Debug)]
struct Loaded {
    library: PathBuf,
    functions: Functions,
}

/// Loads the driver's library once: later calls, from any thread, return the first result.
///
/// The library is `FERROWARP_LIBCUDA` from the environment, or the first of [`LIBRARIES`] that loads. It stays loaded until the
/// process ends.
///
/// # Errors
/// [`LoadError`] names the library, the loader's reason and the fix.
pub fn load() -> Result<Driver, LoadError> {
    match load_once() {
        Ok(loaded) => Ok(Driver { loaded }),
        Err(error) => Err(error.clone()),
    }
}

/// The driver's functions, if there is a driver that this process may call.
#[inline]
pub(crate) fn functions() -> Option<&'static Functions> {
    if is_forked() {
        return None;
    }
    load_once().as_ref().ok().map(|loaded| &loaded.functions)
}

fn load_once() -> &'static Result<Loaded, LoadError> {
    static LOADED: OnceLock<Result<Loaded, LoadError>> = OnceLock::new();
    LOADED.get_or_init(|| {
        let (path, library) =
            open_first(LIBRARY_VARIABLE, LIBRARIES).map_err(|NotLoaded { library, loader }| {
                match named(LIBRARY_VARIABLE) {
                    Some(_) => LoadError::Named { library, loader },
                    None => LoadError::Library { library, loader },
                }
            })?;
        let functions = Functions::of(&library);
        // The functions are in the library, so it is never unloaded.
        std::mem::forget(library);
        if functions.is_driver() {
            Ok(Loaded { library: path, functions })
        } else {
            Err(LoadError::NotADriver { library: path.display().to_string(), symbol: "cuInit" })
        }
    })
}

/// Why no library was loaded.
pub(crate) struct NotLoaded {
    /// The requested library.
    pub library: String,
    /// The loader's message.
    pub loader: String,
}

/// The library that the variable names.
fn named(variable: &str) -> Option<OsString> {
    std::env::var_os(variable).filter(|value| !value.is_empty())
}

/// Opens the library in `variable`, or the first of `libraries` that loads. The error is the first library's, which has the
/// usual name, and names the others.
pub(crate) fn open_first(variable: &str, libraries: &[&str]) -> Result<(PathBuf, Library), NotLoaded> {
    let asked = named(variable);
    let is_of_this_machine =
        |path: &&&str| !path.contains("-linux-gnu") || path.contains(std::env::consts::ARCH);
    let candidates: Vec<OsString> = match asked {
        Some(path) => vec![path],
        None => libraries.iter().filter(is_of_this_machine).map(OsString::from).collect(),
    };
    let (mut failed, mut absent): (Option<NotLoaded>, Vec<String>) = (None, Vec::new());
    for candidate in candidates {
        let path = Path::new(&candidate);
        let is_path = path.parent() != Some(Path::new(""));
        let reason = match path.metadata() {
            // The loader would wait for a pipe's writer.
            Ok(metadata) if is_path && !metadata.is_file() => "it is not a regular file".to_owned(),
            // SAFETY: loading runs the library's initialisers. The library is the system's, or the one that the user chose
            // instead.
            _ => match unsafe { Library::new(&candidate) } {
                Ok(library) => return Ok((candidate.into(), library)),
                Err(error) => loader_text(&error),
            },
        };
        match &mut failed {
            None => failed = Some(NotLoaded { library: path.display().to_string(), loader: reason }),
            Some(first) if path.exists() => {
                first.loader += &format!("; loading {} failed: {reason}", path.display());
            }
            Some(_) => absent.push(path.display().to_string()),
        }
    }
    let mut failed = failed.unwrap_or_else(|| unreachable!("there is always a candidate"));
    if !absent.is_empty() {
        failed.loader += &format!("; also searched: {}", absent.join(", "));
    }
    Err(failed)
}

/// The loader's own message, which libloading keeps as its error's source.
fn loader_text(error: &libloading::Error) -> String {
    match std::error::Error::source(error) {
        Some(source) => source.to_string(),
        None => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Nothing sets it.
    const UNSET: &str = "FERROWARP_TEST_NO_SUCH_VARIABLE";

    #[test]
    fn the_error_names_all_places_that_were_searched() {
        let folder = tempfile::tempdir().unwrap();
        let damaged = folder.path().join("damaged.so");
        std::fs::write(&damaged, "no library").unwrap();
        let damaged = damaged.to_str().unwrap();
        let other = if cfg!(target_arch = "x86_64") { "aarch64" } else { "x86_64" };
        let foreign = format!("/usr/lib/{other}-linux-gnu/libnothing.so");
        let list = ["libnothing.so", "/nowhere/libnothing.so", &foreign, damaged, "/usr", "/none/b.so"];
        let NotLoaded { library, loader } = open_first(UNSET, &list).map(drop).unwrap_err();
        assert_eq!(library, "libnothing.so");
        assert!(loader.contains("libnothing.so: cannot open shared object file"), "{loader}");
        assert!(loader.contains(&format!("; loading {damaged} failed: ")), "{loader}");
        let ending = "; loading /usr failed: it is not a regular file; also searched: /nowhere/libnothing.so, /none/b.so";
        assert!(loader.ends_with(ending), "{loader}");
        assert!(!loader.contains(other), "{loader}");
    }

    /// As in WSL2 and on a Jetson: the loader does not find the name, and a folder has the library.
    #[test]
    fn a_library_that_only_a_folder_has_is_found() {
        let folder = tempfile::tempdir().unwrap();
        let library = folder.path().join("libcuda.so.1");
        // Any library of the system.
        std::os::unix::fs::symlink(loaded_library(), &library).unwrap();
        let (path, _) = open_first(UNSET, &["libnothing.so", library.to_str().unwrap()]).ok().unwrap();
        assert_eq!(path, library);
        for place in ["/usr/lib/wsl/lib/", "-linux-gnu/tegra/", "-linux-gnu/nvidia/", "/usr/lib64/"] {
            assert!(LIBRARIES.iter().any(|path| path.contains(place)), "{place}");
        }
    }

    /// The C library of this process.
    fn loaded_library() -> String {
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        let path = maps
            .lines()
            .filter_map(|line| line.split_whitespace().nth(5))
            .find(|path| path.contains("libc.so"));
        path.unwrap().to_owned()
    }
}
