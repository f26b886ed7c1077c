//! Finds the driver's library and its functions.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use libloading::Library;

use crate::fork::is_forked;
use crate::sys::Functions;

/// The environment variable with the driver's library, which replaces the search.
pub const LIBRARY_VARIABLE: &str = "FERROWARP_LIBCUDA";

/// Names of the driver's library, in the order tried. The loader's own search path comes first; WSL keeps its driver in a
/// directory that the loader does not always search.
const LIBRARIES: &[&str] =
    if cfg!(windows) { &["nvcuda.dll"] } else { &["libcuda.so.1", "/usr/lib/wsl/lib/libcuda.so.1"] };

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
        "loading the CUDA driver library {library} failed: {loader}; install the NVIDIA driver, or set \
         {LIBRARY_VARIABLE} to the library's path"
    )]
    Library {
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
            LoadError::Library { library, .. } | LoadError::NotADriver { library, .. } => library,
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
/// The library is `FERROWARP_LIBCUDA` from the environment, or `libcuda.so.1` (`nvcuda.dll` on Windows) wherever the
/// system's loader finds it. It stays loaded until the process ends.
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
        let (path, library) = open_first(LIBRARY_VARIABLE, LIBRARIES)
            .map_err(|NotLoaded { library, loader }| LoadError::Library { library, loader })?;
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

/// Opens the library in `variable`, or the first of `libraries` that loads. The error is the first library's, which has the
/// usual name.
pub(crate) fn open_first(variable: &str, libraries: &[&str]) -> Result<(PathBuf, Library), NotLoaded> {
    let asked = std::env::var_os(variable).filter(|value| !value.is_empty());
    let candidates: Vec<OsString> = match asked {
        Some(path) => vec![path],
        None => libraries.iter().map(OsString::from).collect(),
    };
    let mut first_error = None;
    for candidate in candidates {
        // The loader would wait for a pipe's writer.
        let path = Path::new(&candidate);
        if path.parent() != Some(Path::new("")) && path.metadata().is_ok_and(|metadata| !metadata.is_file()) {
            first_error.get_or_insert_with(|| NotLoaded {
                library: path.display().to_string(),
                loader: "it is not a regular file".to_owned(),
            });
            continue;
        }
        // SAFETY: loading runs the library's initialisers. The library is the system's, or the one that the user chose
        // instead.
        match unsafe { Library::new(&candidate) } {
            Ok(library) => return Ok((candidate.into(), library)),
            Err(error) => {
                first_error.get_or_insert_with(|| NotLoaded {
                    library: candidate.to_string_lossy().into_owned(),
                    loader: loader_text(&error),
                });
            }
        }
    }
    Err(first_error.unwrap_or_else(|| unreachable!("there is always a candidate")))
}

/// The loader's own message, which libloading keeps as its error's source.
fn loader_text(error: &libloading::Error) -> String {
    match std::error::Error::source(error) {
        Some(source) => source.to_string(),
        None => error.to_string(),
    }
}
