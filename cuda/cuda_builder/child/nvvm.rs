//! The child process in which libNVVM compiles one module, so that its parent can stop it, and it may crash.
//!
//! `nvvm-child LIBRARY` loads the library and looks up its functions. `nvvm-child LIBRARY LIBDEVICE OPTION...` compiles the
//! module on standard input to PTX on standard output; `-` for LIBDEVICE links none. The exit status is 0, [`REFUSED`] with
//! libNVVM's name of the error on the first line of the output and its log on the others, or [`UNUSABLE`] with the reason as
//! output.

use std::io::{Read, Write};
use std::process::ExitCode;

/// libNVVM rejected the module.
const REFUSED: u8 = 70;
/// The library could not be loaded, or the arguments are invalid.
const UNUSABLE: u8 = 71;

fn main() -> ExitCode {
    let (code, output) = match run() {
        Ok(ptx) => (0, ptx),
        Err(Failure::Refused { reason, log }) => (REFUSED, format!("{reason}\n{log}")),
        Err(Failure::Unusable(reason)) => (UNUSABLE, reason),
    };
    match std::io::stdout().write_all(output.as_bytes()) {
        Ok(()) => ExitCode::from(code),
        Err(_) => ExitCode::from(UNUSABLE),
    }
}

enum Failure {
    Refused { reason: String, log: String },
    Unusable(String),
}

fn run() -> Result<String, Failure> {
    let unusable = |reason: String| Failure::Unusable(reason);
    system::die_with_parent();
    // If memory runs out, the system kills this process before others.
    let _ = std::fs::write("/proc/self/oom_score_adj", "1000");
    let mut arguments = std::env::args_os().skip(1);
    let library = arguments.next().ok_or_else(|| unusable("no library is named".to_owned()))?;
    let nvvm = system::Nvvm::load(&library).map_err(unusable)?;
    let Some(libdevice) = arguments.next() else { return Ok(String::new()) };
    let mut modules = vec![Vec::new()];
    std::io::stdin()
        .read_to_end(&mut modules[0])
        .map_err(|error| unusable(format!("reading the module: {error}")))?;
    if libdevice != "-" {
        let read = std::fs::read(&libdevice);
        modules.push(read.map_err(|error| unusable(format!("reading {}: {error}", libdevice.display())))?);
    }
    let options: Vec<_> = arguments.map(|option| option.to_string_lossy().into_owned()).collect();
    nvvm.compile(&modules, &options).map_err(|(reason, log)| Failure::Refused { reason, log })
}

/// The system's loader.
#[cfg(unix)]
mod loader {
    use std::ffi::{CStr, CString, OsStr, c_char, c_int, c_void};
    use std::os::unix::ffi::OsStrExt;

    // The standard library links the C library, which has these.
    unsafe extern "C" {
        fn dlopen(name: *const c_char, flags: c_int) -> *mut c_void;
        fn dlsym(library: *mut c_void, name: *const c_char) -> *mut c_void;
        fn dlerror() -> *const c_char;
    }

    const RTLD_NOW: c_int = 2;

    /// Loads the library at `path`, for good.
    pub fn open(path: &OsStr) -> Result<*mut c_void, String> {
        let name = CString::new(path.as_bytes()).map_err(|error| error.to_string())?;
        // SAFETY: the name is terminated; libNVVM's initialisers only touch the library's own state.
        let library = unsafe { dlopen(name.as_ptr(), RTLD_NOW) };
        if library.is_null() { Err(last_error()) } else { Ok(library) }
    }

    /// The address of a function of a library from [`open`].
    pub fn find(library: *mut c_void, name: &CStr) -> Result<*mut c_void, String> {
        // SAFETY: the library is loaded, and the name is terminated.
        let address = unsafe { dlsym(library, name.as_ptr()) };
        if address.is_null() { Err(last_error()) } else { Ok(address) }
    }

    /// The loader's message for the last failure.
    fn last_error() -> String {
        // SAFETY: the call has no precondition, and returns null or a terminated string that lives until the next call.
        unsafe { super::system::text_of(dlerror()) }
            .unwrap_or_else(|| "the loader gives no reason".to_owned())
    }
}

/// The system's loader.
#[cfg(windows)]
mod loader {
    use std::ffi::{CStr, OsStr, c_char, c_void};
    use std::io::Error;
    use std::os::windows::ffi::OsStrExt;

    // The standard library links kernel32, which has these.
    unsafe extern "system" {
        fn LoadLibraryW(name: *const u16) -> *mut c_void;
        fn GetProcAddress(library: *mut c_void, name: *const c_char) -> *mut c_void;
    }

    /// Loads the library at `path`, for good.
    pub fn open(path: &OsStr) -> Result<*mut c_void, String> {
        let name: Vec<u16> = path.encode_wide().chain([0]).collect();
        // SAFETY: the name is terminated; libNVVM's initialisers only touch the library's own state.
        let library = unsafe { LoadLibraryW(name.as_ptr()) };
        if library.is_null() { Err(Error::last_os_error().to_string()) } else { Ok(library) }
    }

    /// The address of a function of a library from [`open`].
    pub fn find(library: *mut c_void, name: &CStr) -> Result<*mut c_void, String> {
        // SAFETY: the library is loaded, and the name is terminated.
        let address = unsafe { GetProcAddress(library, name.as_ptr()) };
        if address.is_null() { Err(Error::last_os_error().to_string()) } else { Ok(address) }
    }
}

mod system {
    use std::ffi::{CStr, CString, OsStr, c_char, c_int, c_void};

    use super::loader;

    #[cfg(target_os = "linux")]
    unsafe extern "C" {
        // The standard library links the C library, which has it.
        fn prctl(option: c_int, ...) -> c_int;
    }

    /// Makes the system kill this process when its parent ends, even if the parent is killed.
    pub fn die_with_parent() {
        #[cfg(target_os = "linux")]
        {
            const PR_SET_PDEATHSIG: c_int = 1;
            const SIGKILL: std::ffi::c_ulong = 9;
            // SAFETY: this option takes one number, a signal.
            unsafe { prctl(PR_SET_PDEATHSIG, SIGKILL) };
        }
    }

    type Program = *mut c_void;
    type Status = c_int;

    /// A loaded libNVVM, never unloaded.
    pub struct Nvvm {
        library: *mut c_void,
    }

    impl Nvvm {
        /// Loads the library at `path`.
        ///
        /// # Errors
        /// The loader's message, or the name of a missing function.
        pub fn load(path: &OsStr) -> Result<Nvvm, String> {
            let nvvm = Nvvm { library: loader::open(path)? };
            for name in [c"nvvmCreateProgram", c"nvvmLazyAddModuleToProgram", c"nvvmCompileProgram"] {
                nvvm.address(name).map_err(|error| {
                    format!("it is not libNVVM: it has no {} ({error})", name.to_string_lossy())
                })?;
            }
            Ok(nvvm)
        }

        /// Compiles the first module, with everything it calls in the others. The error is libNVVM's name of it and its log.
        pub fn compile(&self, modules: &[Vec<u8>], options: &[String]) -> Result<String, (String, String)> {
            let no_log = |reason: String| (reason, String::new());
            let program = self.create().map_err(no_log)?;
            let with_log = |reason: String| (reason, program.log());
            let adds =
                [(c"nvvmAddModuleToProgram", c"kernels"), (c"nvvmLazyAddModuleToProgram", c"libdevice")];
            for (module, (function, name)) in modules.iter().zip(adds) {
                program.add(function, module, name).map_err(with_log)?;
            }
            program.compile(options).map_err(with_log)?;
            program.text(c"nvvmGetCompiledResultSize", c"nvvmGetCompiledResult").map_err(no_log)
        }

        fn create(&self) -> Result<OwnedProgram<'_>, String> {
            let mut handle: Program = std::ptr::null_mut();
            // SAFETY: nvvmCreateProgram has this type in nvvm.h; the pointer is to a live handle.
            let status = unsafe {
                self.symbol::<unsafe extern "C" fn(*mut Program) -> Status>(c"nvvmCreateProgram")?(
                    &mut handle,
                )
            };
            self.check(status)?;
            Ok(OwnedProgram { nvvm: self, handle })
        }

        fn address(&self, name: &CStr) -> Result<*mut c_void, String> {
            loader::find(self.library, name)
        }

        /// Looks up the function `name`. The error is the loader's message.
        ///
        /// # Safety
        /// `F` must be a function pointer, with the function's type in nvvm.h.
        unsafe fn symbol<F: Copy>(&self, name: &CStr) -> Result<F, String> {
            const { assert!(size_of::<F>() == size_of::<*mut c_void>()) };
            let address = self.address(name)?;
            // SAFETY: `F` has the size of the pointer, and is the function's type by the caller's contract.
            Ok(unsafe { std::mem::transmute_copy(&address) })
        }

        fn check(&self, status: Status) -> Result<(), String> {
            if status == 0 {
                return Ok(());
            }
            let by_number = format!("error {status}");
            // SAFETY: nvvmGetErrorString has this type in nvvm.h, and takes any value.
            let name = unsafe {
                match self.symbol::<unsafe extern "C" fn(Status) -> *const c_char>(c"nvvmGetErrorString") {
                    Ok(function) => function(status),
                    Err(_) => return Err(by_number),
                }
            };
            // SAFETY: nvvm.h guarantees a terminated string that lives as long as the library.
            Err(unsafe { text_of(name) }.unwrap_or(by_number))
        }
    }

    /// The text at `address`; `None` for null.
    ///
    /// # Safety
    /// `address` is null or points to a terminated string.
    pub unsafe fn text_of(address: *const c_char) -> Option<String> {
        if address.is_null() {
            return None;
        }
        // SAFETY: it is a terminated string by the caller's contract.
        Some(unsafe { CStr::from_ptr(address) }.to_string_lossy().into_owned())
    }

    /// A libNVVM program. It is destroyed when the process ends.
    struct OwnedProgram<'a> {
        nvvm: &'a Nvvm,
        handle: Program,
    }

    impl OwnedProgram<'_> {
        fn add(&self, function: &CStr, module: &[u8], name: &CStr) -> Result<(), String> {
            type Add = unsafe extern "C" fn(Program, *const c_char, usize, *const c_char) -> Status;
            // SAFETY: both functions have this type in nvvm.h; the program is alive, the buffer and the name live through
            // the call. libNVVM copies the buffer.
            let status = unsafe {
                self.nvvm.symbol::<Add>(function)?(
                    self.handle,
                    module.as_ptr().cast(),
                    module.len(),
                    name.as_ptr(),
                )
            };
            self.nvvm.check(status)
        }

        fn compile(&self, options: &[String]) -> Result<(), String> {
            type Compile = unsafe extern "C" fn(Program, c_int, *const *const c_char) -> Status;
            let options: Result<Vec<CString>, _> = options.iter().map(|o| CString::new(o.as_str())).collect();
            let options = options.map_err(|e| format!("an option holds a zero byte: {e}"))?;
            let pointers: Vec<*const c_char> = options.iter().map(|o| o.as_ptr()).collect();
            let count = c_int::try_from(pointers.len()).map_err(|e| e.to_string())?;
            // SAFETY: nvvmCompileProgram has this type in nvvm.h; the pointer is to `count` strings that live through the
            // call.
            let status = unsafe {
                self.nvvm.symbol::<Compile>(c"nvvmCompileProgram")?(self.handle, count, pointers.as_ptr())
            };
            self.nvvm.check(status)
        }

        fn log(&self) -> String {
            self.text(c"nvvmGetProgramLogSize", c"nvvmGetProgramLog").unwrap_or_default()
        }

        /// Reads a text of the program: `size` returns its length with the final zero, `get` fills a buffer of that length.
        fn text(&self, size: &CStr, get: &CStr) -> Result<String, String> {
            type Size = unsafe extern "C" fn(Program, *mut usize) -> Status;
            type Get = unsafe extern "C" fn(Program, *mut c_char) -> Status;
            let mut len = 0usize;
            // SAFETY: both functions for `size` have this type in nvvm.h; the pointer is to a live integer.
            let status = unsafe { self.nvvm.symbol::<Size>(size)?(self.handle, &mut len) };
            self.nvvm.check(status)?;
            let mut buffer = vec![0u8; len];
            // SAFETY: both functions for `get` have this type in nvvm.h; the buffer has the length that the library
            // returned.
            let status = unsafe { self.nvvm.symbol::<Get>(get)?(self.handle, buffer.as_mut_ptr().cast()) };
            self.nvvm.check(status)?;
            buffer.truncate(buffer.iter().position(|&b| b == 0).unwrap_or(len));
            Ok(String::from_utf8_lossy(&buffer).into_owned())
        }
    }
}
