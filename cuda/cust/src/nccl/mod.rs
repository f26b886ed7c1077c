//! NVIDIA's NCCL, loaded at run time: the functions and types of `nccl.h` that collective operations between GPUs need.
//!
//! Upstream's cust has no such module. [`load`] finds the library, checks its version, and returns the functions as methods
//! of [`Nccl`]. NCCL 2.18 is the oldest supported version: it came with CUDA 12.2, and later versions accept its
//! configuration.
//!
//! ```
//! match cust::nccl::load() {
//!     Ok(nccl) => println!("NCCL {} in {}", nccl.version(), nccl.library().display()),
//!     Err(error) => println!("no NCCL: {error}"),
//! }
//! ```

#![expect(non_snake_case, non_camel_case_types, reason = "the names are those of nccl.h")]

mod types;

use std::ffi::{CStr, c_char, c_int, c_void};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use libloading::Library;

use crate::load::{NotLoaded, open_first};
use crate::sys::CUstream;
pub use types::*;

/// The environment variable with NCCL's library, which replaces the loader's search path.
pub const LIBRARY_VARIABLE: &str = "FERROWARP_NCCL";

/// NCCL's library on the loader's search path.
const LIBRARIES: &[&str] = &["libnccl.so.2"];

/// The oldest supported version.
pub const OLDEST: NcclVersion = NcclVersion(21800);

/// A symbol that NCCL itself does not have: a library with it reads and writes host memory, and runs without a GPU.
const HOST_MEMORY: &[u8] = b"ferrowarp_nccl_takes_host_memory\0";

/// Why there is no NCCL.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NcclLoadError {
    /// The loader did not find the library, or could not load it.
    #[error(
        "loading NCCL from {library} failed: {loader}; install NCCL {OLDEST} or later (`pip install nvidia-nccl-cu12` \
         has it), or set {LIBRARY_VARIABLE} to the path of libnccl.so.2"
    )]
    Library {
        /// The requested library.
        library: String,
        /// The loader's message.
        loader: String,
    },
    /// The library is too old.
    #[error(
        "{library} is NCCL {found}, and {OLDEST} is the oldest supported version; install a later one, or set \
         {LIBRARY_VARIABLE} to its path"
    )]
    TooOld {
        /// The library.
        library: String,
        /// Its version.
        found: NcclVersion,
    },
    /// The library lacks a function.
    #[error(
        "{library} has no function {symbol}, so it is not a complete NCCL; set {LIBRARY_VARIABLE} to the path of \
         libnccl.so.2 of NCCL {OLDEST} or later"
    )]
    Missing {
        /// The library.
        library: String,
        /// The missing function.
        symbol: &'static str,
    },
    /// The library does not report its version.
    #[error(
        "{library} does not report its version ({status}); set {LIBRARY_VARIABLE} to the path of another NCCL"
    )]
    NoVersion {
        /// The library.
        library: String,
        /// The result of its query.
        status: ncclResult_t,
    },
}

/// Declares functions of NCCL: a field with the library's function, and a method that calls it.
macro_rules! functions {
    ($($(#[$doc:meta])* fn $name:ident($($parameter:ident: $ty:ty),* $(,)?) -> $result:ty;)*) => {
        #[derive(Debug)]
        struct Functions {
            $($name: unsafe extern "C" fn($($ty),*) -> $result,)*
        }

        impl Functions {
            /// Finds the functions of this library, which is never unloaded. The error is the first missing function.
            fn of(library: &Library) -> Result<Self, &'static str> {
                Ok(Self {
                    $($name: {
                        // SAFETY: the C function of that name has this signature in every NCCL that has it.
                        let symbol = unsafe { library.get(concat!(stringify!($name), "\0").as_bytes()) };
                        *symbol.map_err(|_| stringify!($name))?
                    },)*
                })
            }
        }

        impl Nccl {
            $(
                $(#[$doc])*
                ///
                /// # Safety
                /// As documented in NCCL's reference.
                #[allow(clippy::too_many_arguments, reason = "the parameters of the C function")]
                pub unsafe fn $name(&self, $($parameter: $ty),*) -> $result {
                    // SAFETY: the caller's contract is NCCL's.
                    unsafe { (self.functions.$name)($($parameter),*) }
                }
            )*
        }
    };
}

functions! {
    /// The library's version.
    fn ncclGetVersion(version: *mut c_int) -> ncclResult_t;
    /// The description of a code.
    fn ncclGetErrorString(code: ncclResult_t) -> *const c_char;
    /// The text of the last error, of any communicator if `comm` is null.
    fn ncclGetLastError(comm: ncclComm_t) -> *const c_char;
    /// Creates a name for a new communicator.
    fn ncclGetUniqueId(id: *mut ncclUniqueId) -> ncclResult_t;
    /// Creates this rank's part of a communicator.
    fn ncclCommInitRankConfig(comm: *mut ncclComm_t, ranks: c_int, id: ncclUniqueId, rank: c_int,
        config: *mut ncclConfig_t) -> ncclResult_t;
    /// Ends a communicator's work; [`Self::ncclCommDestroy`] then frees it.
    fn ncclCommFinalize(comm: ncclComm_t) -> ncclResult_t;
    /// Frees a communicator.
    fn ncclCommDestroy(comm: ncclComm_t) -> ncclResult_t;
    /// Frees a communicator and ends the operations that it still works on.
    fn ncclCommAbort(comm: ncclComm_t) -> ncclResult_t;
    /// The state of a communicator's last call or of its work.
    fn ncclCommGetAsyncError(comm: ncclComm_t, state: *mut ncclResult_t) -> ncclResult_t;
    /// Combines the elements of all ranks.
    fn ncclAllReduce(input: *const c_void, output: *mut c_void, count: usize, data_type: ncclDataType_t,
        reduction: ncclRedOp_t, comm: ncclComm_t, stream: CUstream) -> ncclResult_t;
    /// Gathers the elements of all ranks, in rank order, on every rank. `count` is one rank's.
    fn ncclAllGather(input: *const c_void, output: *mut c_void, count: usize, data_type: ncclDataType_t,
        comm: ncclComm_t, stream: CUstream) -> ncclResult_t;
    /// Combines the elements of all ranks and scatters the parts to the ranks. `count` is one part's.
    fn ncclReduceScatter(input: *const c_void, output: *mut c_void, count: usize, data_type: ncclDataType_t,
        reduction: ncclRedOp_t, comm: ncclComm_t, stream: CUstream) -> ncclResult_t;
    /// Sends the elements of `root` to every rank.
    fn ncclBroadcast(input: *const c_void, output: *mut c_void, count: usize, data_type: ncclDataType_t,
        root: c_int, comm: ncclComm_t, stream: CUstream) -> ncclResult_t;
    /// Sends elements to a rank.
    fn ncclSend(input: *const c_void, count: usize, data_type: ncclDataType_t, to: c_int, comm: ncclComm_t,
        stream: CUstream) -> ncclResult_t;
    /// Receives elements from a rank.
    fn ncclRecv(output: *mut c_void, count: usize, data_type: ncclDataType_t, from: c_int, comm: ncclComm_t,
        stream: CUstream) -> ncclResult_t;
    /// Starts collecting this thread's calls.
    fn ncclGroupStart() -> ncclResult_t;
    /// Performs the collected calls as one.
    fn ncclGroupEnd() -> ncclResult_t;
}

/// NCCL's library, loaded.
#[derive(Debug)]
pub struct Nccl {
    library: PathBuf,
    version: NcclVersion,
    takes_host_memory: bool,
    functions: Functions,
}

impl Nccl {
    /// The library's name or path, as passed to the loader.
    pub fn library(&self) -> &Path {
        &self.library
    }

    /// Its version.
    pub fn version(&self) -> NcclVersion {
        self.version
    }

    /// Whether the library works on host memory and needs no GPU, as a library for tests does. NCCL itself does not.
    pub fn takes_host_memory(&self) -> bool {
        self.takes_host_memory
    }

    /// A code with the library's description, and the library's last error.
    ///
    /// # Safety
    /// `comm` is null or a live communicator.
    pub unsafe fn describe(&self, code: ncclResult_t, comm: ncclComm_t) -> String {
        // SAFETY: the call accepts any code.
        let description = text(unsafe { self.ncclGetErrorString(code) });
        // SAFETY: the caller guarantees the communicator.
        let last = text(unsafe { self.ncclGetLastError(comm) });
        match (description, last) {
            (None, None) => code.to_string(),
            (Some(one), None) | (None, Some(one)) => format!("{code}: {one}"),
            (Some(description), Some(last)) => format!("{code}: {description}; NCCL's last error: {last}"),
        }
    }
}

fn text(raw: *const c_char) -> Option<String> {
    if raw.is_null() {
        return None;
    }
    // SAFETY: NCCL returns a NUL-terminated string that lives at least until this thread's next call.
    let text = unsafe { CStr::from_ptr(raw) }.to_string_lossy().trim().to_owned();
    Some(text).filter(|text| !text.is_empty())
}

/// Loads NCCL's library once: later calls, from any thread, return the first result.
///
/// The library is `FERROWARP_NCCL` from the environment, or `libnccl.so.2` wherever the system's loader finds it. It stays
/// loaded until the process ends.
///
/// # Errors
/// [`NcclLoadError`] names the library, the reason and the fix.
pub fn load() -> Result<&'static Nccl, NcclLoadError> {
    static LOADED: OnceLock<Result<Nccl, NcclLoadError>> = OnceLock::new();
    LOADED.get_or_init(load_once).as_ref().map_err(Clone::clone)
}

fn load_once() -> Result<Nccl, NcclLoadError> {
    let (library, loaded) = open_first(LIBRARY_VARIABLE, LIBRARIES)
        .map_err(|NotLoaded { library, loader }| NcclLoadError::Library { library, loader })?;
    let shown = library.display().to_string();
    // Checks the version first, because an old library lacks functions, too.
    let version = match version(&loaded) {
        None => return Err(NcclLoadError::Missing { library: shown, symbol: "ncclGetVersion" }),
        Some(Err(status)) => return Err(NcclLoadError::NoVersion { library: shown, status }),
        Some(Ok(found)) if found < OLDEST => return Err(NcclLoadError::TooOld { library: shown, found }),
        Some(Ok(version)) => version,
    };
    let functions =
        Functions::of(&loaded).map_err(|symbol| NcclLoadError::Missing { library: shown, symbol })?;
    // SAFETY: the symbol is only looked up.
    let takes_host_memory = unsafe { loaded.get::<*const c_void>(HOST_MEMORY) }.is_ok();
    // The functions are in the library, so it is never unloaded.
    std::mem::forget(loaded);
    Ok(Nccl { library, version, takes_host_memory, functions })
}

fn version(library: &Library) -> Option<Result<NcclVersion, ncclResult_t>> {
    type GetVersion = unsafe extern "C" fn(*mut c_int) -> ncclResult_t;
    // SAFETY: the C function of that name has this signature in every NCCL.
    let get = unsafe { library.get::<GetVersion>(b"ncclGetVersion\0") }.ok()?;
    let mut version = 0;
    // SAFETY: the out parameter is valid.
    let status = unsafe { get(&mut version) };
    Some(if status == ncclResult_t::SUCCESS { Ok(NcclVersion(version)) } else { Err(status) })
}
