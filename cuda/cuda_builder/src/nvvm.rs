//! libNVVM, loaded at run time: the only foreign code of this crate.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::path::{Path, PathBuf};

use libloading::Library;

use crate::arch::NvvmArch;
use crate::error::{CudaBuilderError, IoContext};
use crate::whole;

/// The LLVM version whose IR libNVVM must take.
pub(crate) const LLVM_MAJOR: i32 = 22;

type Program = *mut c_void;
type Status = c_int;

/// How libNVVM compiles.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct NvvmOptions(pub Vec<String>);

/// A loaded libNVVM with its libdevice.
pub(crate) struct Nvvm {
    library: Library,
    libdevice: Vec<u8>,
    libdevice_path: PathBuf,
}

impl Nvvm {
    /// Loads the library at `path` and reads the libdevice at `libdevice`.
    pub fn load(path: &Path, libdevice: &Path) -> Result<Nvvm, CudaBuilderError> {
        if !whole::is_whole_elf(path) {
            let reason = "it is no shared library of this machine, or was cut short".to_owned();
            return Err(CudaBuilderError::NvvmLoad { path: path.to_owned(), reason });
        }
        let bitcode = std::fs::read(libdevice).during("reading", libdevice)?;
        if !whole::is_whole_bitcode(&bitcode) {
            return Err(CudaBuilderError::Libdevice { path: libdevice.to_owned() });
        }
        // SAFETY: libNVVM's initialisers touch nothing but the library's own state; nvvm.h asks for no preparation.
        let library = unsafe { Library::new(path) };
        let fail = |reason: String| CudaBuilderError::NvvmLoad { path: path.to_owned(), reason };
        let library = library.map_err(|e| fail(in_full(&e)))?;
        let nvvm = Nvvm { library, libdevice: bitcode, libdevice_path: libdevice.to_owned() };
        for name in [c"nvvmCreateProgram", c"nvvmLazyAddModuleToProgram", c"nvvmCompileProgram"] {
            // SAFETY: the pointer is only asked for; nothing is called.
            let found = unsafe { nvvm.symbol::<*const c_void>(name) };
            found.map_err(|e| {
                fail(format!("it is no libNVVM, for it has no {} ({e})", name.to_string_lossy()))
            })?;
        }
        Ok(nvvm)
    }

    /// Whether the library takes the IR of LLVM 22 for `arch`, and its libdevice.
    ///
    /// # Errors
    /// The library is too old, or its libdevice damaged.
    pub fn accepts(&self, path: &Path, arch: NvvmArch) -> Result<(), CudaBuilderError> {
        let probe = format!(
            "target datalayout = \"{}\"\n\
             target triple = \"nvptx64-nvidia-cuda\"\n\
             define ptx_kernel void @k(ptr %p) {{\n  store i32 1, ptr %p\n  ret void\n}}\n\
             !nvvmir.version = !{{!0}}\n!0 = !{}\n",
            cuda_ir::DATA_LAYOUT,
            cuda_ir::IR_VERSION
        );
        let options = NvvmOptions(vec![format!("-arch={arch}"), "-nvvm-latest".to_owned()]);
        let Err((reason, log)) = self.compile_raw(probe.as_bytes(), &options) else { return Ok(()) };
        let alone = self.compile_with(probe.as_bytes(), None, &options);
        if alone.is_ok() {
            return Err(CudaBuilderError::Libdevice { path: self.libdevice_path.clone() });
        }
        let log = log.trim();
        let reason = format!(
            "it does not take the IR of LLVM {LLVM_MAJOR} for {arch} ({reason}{}{log})",
            if log.is_empty() { "" } else { ": " }
        );
        Err(CudaBuilderError::NvvmTooOld { path: path.to_owned(), reason })
    }

    /// Compiles a module, LLVM's text or bitcode, to PTX for `arch`.
    pub fn compile(
        &self,
        module: &[u8],
        arch: NvvmArch,
        options: &NvvmOptions,
    ) -> Result<String, CudaBuilderError> {
        self.compile_raw(module, options).map_err(|(reason, log)| CudaBuilderError::NvvmCompile {
            arch,
            reason,
            log,
            kernels: Vec::new(),
            places: Vec::new(),
        })
    }

    /// The PTX, or libNVVM's name of the error and its log.
    fn compile_raw(&self, module: &[u8], options: &NvvmOptions) -> Result<String, (String, String)> {
        self.compile_with(module, Some(&self.libdevice), options)
    }

    fn compile_with(
        &self,
        module: &[u8],
        libdevice: Option<&[u8]>,
        options: &NvvmOptions,
    ) -> Result<String, (String, String)> {
        let no_log = |reason: String| (reason, String::new());
        let program = self.create().map_err(no_log)?;
        program.add(c"nvvmAddModuleToProgram", module, c"kernels").map_err(|e| (e, program.log()))?;
        if let Some(libdevice) = libdevice {
            program
                .add(c"nvvmLazyAddModuleToProgram", libdevice, c"libdevice")
                .map_err(|e| (e, program.log()))?;
        }
        program.compile(&options.0).map_err(|e| (e, program.log()))?;
        program.text(c"nvvmGetCompiledResultSize", c"nvvmGetCompiledResult").map_err(no_log)
    }

    fn create(&self) -> Result<OwnedProgram<'_>, String> {
        let mut handle: Program = std::ptr::null_mut();
        // SAFETY: the type is that of nvvmCreateProgram in nvvm.h; the pointer is to a live handle.
        let status = unsafe {
            self.symbol::<unsafe extern "C" fn(*mut Program) -> Status>(c"nvvmCreateProgram")?(&mut handle)
        };
        self.check(status)?;
        Ok(OwnedProgram { nvvm: self, handle })
    }

    /// The function `name`, or the loader's message.
    ///
    /// # Safety
    ///
    /// `F` must be the type that nvvm.h gives the function.
    unsafe fn symbol<F: Copy>(&self, name: &CStr) -> Result<F, String> {
        // SAFETY: the caller gives the function's type; the copy of the pointer is used while `self.library` lives.
        unsafe { self.library.get::<F>(name.to_bytes_with_nul()) }.map(|f| *f).map_err(|e| in_full(&e))
    }

    fn check(&self, status: Status) -> Result<(), String> {
        if status == 0 {
            return Ok(());
        }
        let by_number = format!("error {status}");
        // SAFETY: the type is that of nvvmGetErrorString in nvvm.h, which takes any value.
        let name = unsafe {
            match self.symbol::<unsafe extern "C" fn(Status) -> *const c_char>(c"nvvmGetErrorString") {
                Ok(function) => function(status),
                Err(_) => return Err(by_number),
            }
        };
        if name.is_null() {
            return Err(by_number);
        }
        // SAFETY: nvvm.h promises a terminated string that lives as long as the library.
        Err(unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned())
    }
}

/// The error with its cause, which is where the loader says what is wrong.
fn in_full(error: &libloading::Error) -> String {
    match std::error::Error::source(error) {
        Some(cause) => format!("{error}: {cause}"),
        None => error.to_string(),
    }
}

/// A program of libNVVM, destroyed when dropped.
struct OwnedProgram<'a> {
    nvvm: &'a Nvvm,
    handle: Program,
}

impl OwnedProgram<'_> {
    fn add(&self, function: &CStr, module: &[u8], name: &CStr) -> Result<(), String> {
        type Add = unsafe extern "C" fn(Program, *const c_char, usize, *const c_char) -> Status;
        // SAFETY: the two functions this is called for have this type in nvvm.h; the program is alive, the buffer
        // and the name live through the call, and libNVVM copies the buffer.
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
        // SAFETY: the type is that of nvvmCompileProgram in nvvm.h; `count` strings stand behind the pointer and live
        // through the call.
        let status = unsafe {
            self.nvvm.symbol::<Compile>(c"nvvmCompileProgram")?(self.handle, count, pointers.as_ptr())
        };
        self.nvvm.check(status)
    }

    fn log(&self) -> String {
        self.text(c"nvvmGetProgramLogSize", c"nvvmGetProgramLog").unwrap_or_default()
    }

    /// A text of the program: `size` answers its length with the final zero, `get` fills a buffer of that length.
    fn text(&self, size: &CStr, get: &CStr) -> Result<String, String> {
        let mut len = 0usize;
        // SAFETY: both functions that `size` stands for have this type in nvvm.h; the pointer is to a live integer.
        let status = unsafe {
            self.nvvm.symbol::<unsafe extern "C" fn(Program, *mut usize) -> Status>(size)?(
                self.handle,
                &mut len,
            )
        };
        self.nvvm.check(status)?;
        let mut buffer = vec![0u8; len];
        // SAFETY: both functions that `get` stands for have this type in nvvm.h; the buffer has the length the
        // library has just asked for.
        let status = unsafe {
            let get = self.nvvm.symbol::<unsafe extern "C" fn(Program, *mut c_char) -> Status>(get)?;
            get(self.handle, buffer.as_mut_ptr().cast())
        };
        self.nvvm.check(status)?;
        buffer.truncate(buffer.iter().position(|&b| b == 0).unwrap_or(len));
        Ok(String::from_utf8_lossy(&buffer).into_owned())
    }
}

impl Drop for OwnedProgram<'_> {
    fn drop(&mut self) {
        // SAFETY: the type is that of nvvmDestroyProgram in nvvm.h; the handle is alive and is not used again.
        unsafe {
            if let Ok(destroy) =
                self.nvvm.symbol::<unsafe extern "C" fn(*mut Program) -> Status>(c"nvvmDestroyProgram")
            {
                destroy(&mut self.handle);
            }
        }
    }
}
