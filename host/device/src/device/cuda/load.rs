//! Loads modules.

use std::ffi::{CString, c_void};
use std::io::Write as _;
use std::path::Path;
use std::ptr;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use cust::CudaApiVersion;
use cust::error::{CudaError, CudaResult};
use cust::module::Module;
use cust::sys;

use super::super::error::DeviceError;
use super::super::modules::PtxModule;
use super::super::ptx_header;

/// Bytes for the driver compiler's log.
const LOG_BYTES: usize = 16 * 1024;

/// How long the driver may compile a module without a word.
const PATIENCE: Duration = Duration::from_secs(2);

/// Compiles the module of `path`, and writes a line to the standard error if it takes longer than [`PATIENCE`].
fn noted<T>(path: &Path, compile: impl FnOnce() -> T) -> T {
    let (done, is_done) = channel::<()>();
    let path = path.to_owned();
    let watch = move || {
        if let Err(RecvTimeoutError::Timeout) = is_done.recv_timeout(PATIENCE) {
            // The standard error may be closed.
            let _ = writeln!(
                std::io::stderr(),
                "the driver is compiling {} and has taken {} s; machine code avoids this: `cargo xtask build-ptx`, or \
                 `.machine_code(true)` in your build script",
                path.display(),
                PATIENCE.as_secs()
            );
        }
    };
    // Without a thread there is no line.
    let _ = thread::Builder::new().name("ferrowarp-slow".to_owned()).spawn(watch);
    let result = compile();
    drop(done);
    result
}

/// Loads a module into the current context: its machine code or, if the driver accepts none, its PTX, which the driver
/// compiles.
pub(super) fn load(module: &PtxModule, (major, minor): (u32, u32)) -> Result<Module, DeviceError> {
    if let Some(code) = module.machine_code(major, minor)
        && let Ok(loaded) = load_image(&code).0
    {
        return Ok(loaded);
    }
    let path = module.path().to_owned();
    let driver = driver_version();
    if driver.is_some_and(|driver| ptx_header::is_too_new(module.version(), driver)) {
        return Err(too_new(module, driver));
    }
    let image = CString::new(module.text()?).map_err(|_| DeviceError::PtxDamaged {
        path: path.clone(),
        reason: "it holds a NUL byte".to_owned(),
    })?;
    let (loaded, log) = noted(&path, || load_image(image.as_bytes_with_nul()));
    loaded.map_err(|status| match status {
        CudaError::UnsupportedPtxVersion => too_new(module, driver),
        status => DeviceError::ModuleLoad { path, status, log },
    })
}

/// Loads machine code, or PTX with a NUL at its end, into the current context. Also returns the driver compiler's log.
pub(super) fn load_image(image: &[u8]) -> (CudaResult<Module>, String) {
    let mut log = vec![0u8; LOG_BYTES];
    let mut options = [sys::CU_JIT_ERROR_LOG_BUFFER, sys::CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES];
    // The option values are passed as pointers: the buffer's address, and the size as an integer.
    let mut values: [*mut c_void; 2] = [log.as_mut_ptr().cast(), ptr::without_provenance_mut(LOG_BYTES)];
    let mut raw = ptr::null_mut();
    // SAFETY: the image is complete, with a checked trailer or a NUL; there are as many options and values as passed, and
    // the log has the passed size.
    let status = unsafe {
        sys::cuModuleLoadDataEx(
            &mut raw,
            image.as_ptr().cast(),
            options.len() as u32,
            options.as_mut_ptr(),
            values.as_mut_ptr(),
        )
    };
    // SAFETY: the driver just loaded it into the current context.
    let loaded = status.ok().map(|()| unsafe { Module::from_raw(raw) });
    (loaded, log_text(&log))
}

/// The compiler's log up to its NUL, after a separator; empty if the log is empty.
fn log_text(log: &[u8]) -> String {
    let text: Vec<u8> = log.iter().copied().take_while(|&byte| byte != 0).collect();
    let text = String::from_utf8_lossy(&text);
    let text = text.trim();
    if text.is_empty() { String::new() } else { format!("; {text}") }
}

/// The newest CUDA version that the driver supports.
pub(in super::super) fn driver_version() -> Option<(u32, u32)> {
    let version = CudaApiVersion::get().ok()?;
    Some((version.major().try_into().ok()?, version.minor().try_into().ok()?))
}

/// The error for PTX that the driver does not read.
pub(in super::super) fn too_new(module: &PtxModule, driver: Option<(u32, u32)>) -> DeviceError {
    let text = |version: Option<(u32, u32)>| {
        version
            .map_or_else(|| "of an unknown version".to_owned(), |(major, minor)| format!("{major}.{minor}"))
    };
    DeviceError::PtxTooNew {
        path: module.path().to_owned(),
        ptx: text(Some(module.version())),
        driver: text(driver),
        needed: text(ptx_header::needed_cuda(module.version())),
    }
}
