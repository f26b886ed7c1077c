//! The faults that a test gives the fake driver, and how it behaves after one.
//!
//! `FAKE_CUDA_FAULTS` holds entries `PLACE NUMBER CODE`, separated by semicolons: the call with this number, counted from
//! 1, of those at the place answers the code. Places are `launch`, `sync`, `copy`, `set`, `alloc`, `free`, `event`,
//! `prefetch`, `advise` and `context`; `kernel` is a kernel that runs, whose fault the calls after it report. The code of a kernel may be `hang`:
//! it never ends, and every call that waits for it waits for ever. To open a device with one module takes one `alloc`,
//! `copy` and `sync`, for the panic record.

use std::ffi::{CStr, c_int, c_void};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};

/// The fault that every call answers once a kernel or the device broke.
static FAULT: AtomicI32 = AtomicI32::new(0);
/// Whether a kernel is under way that never ends.
static HUNG: AtomicBool = AtomicBool::new(false);
/// How many calls there were at each place.
static CALLS: Mutex<Vec<(&str, u32)>> = Mutex::new(Vec::new());

const NOT_READY: c_int = 600;

/// Numbers, names and texts of cuda.h.
const CODES: &[(c_int, &CStr, &CStr)] = &[
    (1, c"CUDA_ERROR_INVALID_VALUE", c"invalid argument"),
    (2, c"CUDA_ERROR_OUT_OF_MEMORY", c"out of memory"),
    (4, c"CUDA_ERROR_DEINITIALIZED", c"driver shutting down"),
    (46, c"CUDA_ERROR_DEVICE_UNAVAILABLE", c"CUDA-capable device(s) is/are busy or unavailable"),
    (100, c"CUDA_ERROR_NO_DEVICE", c"no CUDA-capable device is detected"),
    (201, c"CUDA_ERROR_INVALID_CONTEXT", c"invalid device context"),
    (214, c"CUDA_ERROR_ECC_UNCORRECTABLE", c"uncorrectable ECC error encountered"),
    (220, c"CUDA_ERROR_NVLINK_UNCORRECTABLE", c"uncorrectable NVLink error detected during the execution"),
    (222, c"CUDA_ERROR_UNSUPPORTED_PTX_VERSION", c"the provided PTX was compiled with an unsupported toolchain."),
    (226, c"CUDA_ERROR_CONTAINED", c"Invalid access of peer GPU memory over nvlink or a hardware error"),
    (600, c"CUDA_ERROR_NOT_READY", c"device not ready"),
    (700, c"CUDA_ERROR_ILLEGAL_ADDRESS", c"an illegal memory access was encountered"),
    (701, c"CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES", c"too many resources requested for launch"),
    (702, c"CUDA_ERROR_LAUNCH_TIMEOUT", c"the launch timed out and was terminated"),
    (709, c"CUDA_ERROR_CONTEXT_IS_DESTROYED", c"context is destroyed"),
    (710, c"CUDA_ERROR_ASSERT", c"device-side assert triggered"),
    (714, c"CUDA_ERROR_HARDWARE_STACK_ERROR", c"hardware stack error"),
    (715, c"CUDA_ERROR_ILLEGAL_INSTRUCTION", c"an illegal instruction was encountered"),
    (716, c"CUDA_ERROR_MISALIGNED_ADDRESS", c"misaligned address"),
    (717, c"CUDA_ERROR_INVALID_ADDRESS_SPACE", c"operation not supported on global/shared address space"),
    (718, c"CUDA_ERROR_INVALID_PC", c"invalid program counter"),
    (719, c"CUDA_ERROR_LAUNCH_FAILED", c"unspecified launch failure"),
    (721, c"CUDA_ERROR_TENSOR_MEMORY_LEAK", c"tensor memory not completely freed"),
    (803, c"CUDA_ERROR_SYSTEM_DRIVER_MISMATCH", c"system has unsupported display driver / cuda driver combination"),
    (801, c"CUDA_ERROR_NOT_SUPPORTED", c"operation not supported"),
    (810, c"CUDA_ERROR_MPS_CLIENT_TERMINATED", c"the remote procedural call between the MPS server and the MPS client failed"),
    (911, c"CUDA_ERROR_EXTERNAL_DEVICE", c"an async error has occurred in external entity outside of CUDA"),
    (999, c"CUDA_ERROR_UNKNOWN", c"unknown error"),
];

/// Codes after which the context goes on as before.
const PASSING: [c_int; 6] = [1, 2, 222, 600, 701, 801];

/// Name and text of a code.
pub fn texts(code: c_int) -> Option<(&'static CStr, &'static CStr)> {
    CODES.iter().find(|entry| entry.0 == code).map(|&(_, name, text)| (name, text))
}

/// The answer of a call at `place`.
pub fn answer(place: &'static str) -> c_int {
    let fault = FAULT.load(Ordering::Relaxed);
    if fault != 0 {
        return fault;
    }
    let code = match told(place) {
        Some("hang") => panic!("only a kernel hangs"),
        Some(code) => code.parse().unwrap(),
        None => 0,
    };
    if code != 0 && !PASSING.contains(&code) {
        break_down(code);
    }
    code
}

/// A kernel runs: whether it does what it should.
pub fn kernel_runs() -> bool {
    if HUNG.load(Ordering::Relaxed) || FAULT.load(Ordering::Relaxed) != 0 {
        return false;
    }
    match told("kernel") {
        Some("hang") => hang(),
        Some(code) => break_down(code.parse().unwrap()),
        None => return true,
    }
    false
}

/// From now on every call answers `code`.
pub fn break_down(code: c_int) {
    FAULT.store(code, Ordering::Relaxed);
}

/// From now on a kernel is under way.
pub fn hang() {
    HUNG.store(true, Ordering::Relaxed);
}

/// With `FAKE_CUDA_TRACE` set, tells on the standard error that something was given back, and whether a fault was before.
pub fn trace(what: &str) {
    if std::env::var_os("FAKE_CUDA_TRACE").is_some() {
        let state = if FAULT.load(Ordering::Relaxed) == 0 { "in order" } else { "broken" };
        eprintln!("fake driver, {state}: {what}");
    }
}

/// With `FAKE_CUDA_TRACE=calls`, tells on the standard error what is done to which stream, the device's own being 0.
pub fn trace_call(what: &str, stream: *mut c_void) {
    if std::env::var("FAKE_CUDA_TRACE").is_ok_and(|what| what == "calls") {
        eprintln!("fake driver: {what} {}", (stream as usize - 0x2000) / 0x10);
    }
}

/// A call that waits for all work: for ever, if a kernel never ends.
pub fn wait() {
    while HUNG.load(Ordering::Relaxed) {
        std::thread::sleep(std::time::Duration::from_secs(1));
    }
}

/// Whether the work has ended.
pub fn query() -> c_int {
    if HUNG.load(Ordering::Relaxed) { NOT_READY } else { 0 }
}

/// The code that the next call at `place` must return.
fn told(place: &'static str) -> Option<&'static str> {
    static TOLD: std::sync::LazyLock<String> =
        std::sync::LazyLock::new(|| std::env::var("FAKE_CUDA_FAULTS").unwrap_or_default());
    let mut calls = CALLS.lock().unwrap();
    let at = calls.iter().position(|call| call.0 == place).unwrap_or_else(|| {
        calls.push((place, 0));
        calls.len() - 1
    });
    calls[at].1 += 1;
    let number = calls[at].1;
    TOLD.split(';').filter(|entry| !entry.is_empty()).find_map(|entry| {
        let words: Vec<&'static str> = entry.split_whitespace().collect();
        (words[0] == place && words[1].parse() == Ok(number)).then_some(words[2])
    })
}

/// The driver's farewell at the end of a process waits for its kernels.
#[used]
#[unsafe(link_section = ".fini_array")]
static FAREWELL: extern "C" fn() = {
    extern "C" fn farewell() {
        wait();
    }
    farewell
};

/// A kernel panics at these coordinates of block and thread.
pub fn panic(message: &str, file: &str, [block, thread]: [[u32; 3]; 2]) {
    break_down(super::LAUNCH_FAILED);
    let mut words = [2, 17, 5, message.len() as u32, file.len() as u32, 0, 0, 0, 0, 0, 0, 0];
    words[5..8].copy_from_slice(&block);
    words[8..11].copy_from_slice(&thread);
    unsafe { write_panic(super::PANIC_SLOT.load(Ordering::Relaxed) as *mut u8, message, file, words) };
}

/// Fills a panic record as the device library lays it out: twelve u32, two u64, 256 and 128 bytes of text.
unsafe fn write_panic(record: *mut u8, message: &str, file: &str, words: [u32; 12]) {
    if record.is_null() {
        return;
    }
    unsafe {
        record.cast::<[u32; 12]>().write(words);
        std::ptr::copy_nonoverlapping(message.as_ptr(), record.add(64), message.len());
        std::ptr::copy_nonoverlapping(file.as_ptr(), record.add(64 + 256), file.len());
    }
}
