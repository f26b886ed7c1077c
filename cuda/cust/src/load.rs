//! Finding the driver's library and its functions.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use libloading::Library;

use crate::sys::Functions;

/// The environment variable that names the driver's library, instead of the places it is looked for in.
pub const LIBRARY_VARIABLE: &str = "FERROWARP_LIBCUDA";

/// Where the driver's library is, in the order tried. The loader's own search path comes first; Windows' Linux
/// subsystem keeps its driver in a directory that the loader does not always search.
const LIBRARIES: &[&str] =
    if cfg!(windows) { &["nvcuda.dll"] } else { &["libcuda.so.1", "/usr/lib/wsl/lib/libcuda.so.1"] };

/// Proof that the driver's library is loaded.
#[derive(Clone, Copy, Debug)]
pub struct Driver {
    loaded: &'static Loaded,
}

impl Driver {
    /// The library's name or path, as the loader was given it.
    pub fn library(&self) -> &'static Path {
        &self.loaded.library
    }

    /// How many of the functions in [`crate::sys`] the library has.
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
        /// The library that was asked for.
        library: String,
        /// The loader's text.
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
        /// The function it lacks.
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

/// Loads the driver's library, once: later calls, from any thread, give the first one's answer.
///
/// The library is the one that the environment variable `FERROWARP_LIBCUDA` names, else `libcuda.so.1`
/// (`nvcuda.dll` on Windows) wherever the system's loader finds it. It stays loaded until the process ends.
///
/// # Errors
/// [`LoadError`] names the library, the loader's reason and the cure.
pub fn load() -> Result<Driver, LoadError> {
    match load_once() {
        Ok(loaded) => Ok(Driver { loaded }),
        Err(error) => Err(error.clone()),
    }
}

/// The driver's functions, if there is a driver.
#[inline]
pub(crate) fn functions() -> Option<&'static Functions> {
    load_once().as_ref().ok().map(|loaded| &loaded.functions)
}

fn load_once() -> &'static Result<Loaded, LoadError> {
    static LOADED: OnceLock<Result<Loaded, LoadError>> = OnceLock::new();
    LOADED.get_or_init(|| {
        let (path, library) = open_first(LIBRARY_VARIABLE, LIBRARIES)
            .map_err(|NotLoaded { library, loader }| LoadError::Library { library, loader })?;
        let functions = Functions::of(&library);
        // The functions lie in the library, so it is never unloaded.
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
    /// The library that was asked for.
    pub library: String,
    /// The loader's text.
    pub loader: String,
}

/// The library that `variable` names, else the first of `libraries` that loads. The error is the first one's, which names
/// the usual place.
pub(crate) fn open_first(variable: &str, libraries: &[&str]) -> Result<(PathBuf, Library), NotLoaded> {
    let asked = std::env::var_os(variable).filter(|value| !value.is_empty());
    let candidates: Vec<OsString> = match asked {
        Some(path) => vec![path],
        None => libraries.iter().map(OsString::from).collect(),
    };
    let mut first_error = None;
    for candidate in candidates {
        // The loader would wait for the writer of a pipe.
        let path = Path::new(&candidate);
        if path.parent() != Some(Path::new("")) && path.metadata().is_ok_and(|metadata| !metadata.is_file()) {
            first_error.get_or_insert_with(|| NotLoaded {
                library: path.display().to_string(),
                loader: "it is not a regular file".to_owned(),
            });
            continue;
        }
        // SAFETY: loading runs the library's initialisers; it is the system's library or the one that the user named in
        // its place.
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

/// The loader's own words, which libloading keeps as the source of its own.
fn loader_text(error: &libloading::Error) -> String {
    match std::error::Error::source(error) {
        Some(source) => source.to_string(),
        None => error.to_string(),
    }
}
