//! A CUDA driver with no GPU behind it, for tests: device memory is host memory, and the few kernels it knows
//! by name run at once on the calling thread, unless a graph is captured.
//!
//! `FAKE_CUDA_DEVICES` says how many devices there are (1 if unset), `FAKE_CUDA_CAPABILITIES` of which kinds, such as `90,86`.
//! `FAKE_CUDA_VERSION` is the driver's version, such as 12040, `FAKE_CUDA_INIT` the answer of `cuInit`, and
//! `FAKE_CUDA_FAULTS` what goes wrong (see `fake_faults.rs`). With `FAKE_CUDA_IDLE=1` every kernel is known and does
//! nothing. Compile with `rustc --crate-type cdylib`. Every pointer is trusted, as a driver trusts its caller's: a test that
//! passes a wrong one dies here.

/// Declares functions of the driver, which return a code.
macro_rules! driver {
    ($($(#[$doc:meta])* fn $name:ident($($parameter:ident: $ty:ty),* $(,)?) $body:block)*) => {
        $(
            $(#[$doc])*
            #[unsafe(no_mangle)]
            pub unsafe extern "C" fn $name($($parameter: $ty),*) -> c_int {
                unsafe { $body }
            }
        )*
    };
}

mod fake_cluster;
mod fake_faults;
mod fake_graph;
mod fake_memory;

use std::ffi::{CStr, CString, c_char, c_int, c_uint, c_void};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

pub const INVALID_VALUE: c_int = 1;
const NO_DEVICE: c_int = 100;
const INVALID_DEVICE: c_int = 101;
const INVALID_PTX: c_int = 218;
const UNSUPPORTED_PTX_VERSION: c_int = 222;
const NOT_FOUND: c_int = 500;
const ILLEGAL_ADDRESS: c_int = 700;
const MISALIGNED_ADDRESS: c_int = 716;
const LAUNCH_FAILED: c_int = 719;
const UNHEARD_OF: c_int = 4321; // None of CUDA 11.4's.

/// The value of `__ferrowarp_panic_slot`.
static PANIC_SLOT: AtomicU64 = AtomicU64::new(0);
/// The grants of dynamic shared memory, by kernel.
static GRANTED: Mutex<Vec<(String, c_int)>> = Mutex::new(Vec::new());

struct Module {
    ptx: String,
}

struct Function {
    name: String,
    /// The compute capability that its PTX was compiled for, times ten.
    capability: c_int,
}

driver! {
    fn cuInit(flags: c_uint) {
        if flags != 0 {
            return INVALID_VALUE;
        }
        if let Ok(code) = std::env::var("FAKE_CUDA_INIT") {
            return code.parse().unwrap();
        }
        if devices() == 0 { NO_DEVICE } else { 0 }
    }

    fn cuDriverGetVersion(version: *mut c_int) {
        *version = std::env::var("FAKE_CUDA_VERSION").map_or(12080, |version| version.parse().unwrap());
        0
    }

    fn cuGetErrorName(code: c_int, text: *mut *const c_char) {
        let name = match (code, fake_faults::texts(code)) {
            (INVALID_PTX, _) => c"CUDA_ERROR_INVALID_PTX",
            (_, Some((name, _))) => name,
            _ => return INVALID_VALUE,
        };
        *text = name.as_ptr();
        0
    }

    fn cuGetErrorString(code: c_int, text: *mut *const c_char) {
        let Some((_, description)) = fake_faults::texts(code) else { return INVALID_VALUE };
        *text = description.as_ptr();
        0
    }
}

/// Of the device, such as 86; the last of the list holds for all after it.
fn capability(device: c_int) -> c_int {
    let list = std::env::var("FAKE_CUDA_CAPABILITIES").unwrap_or("90".to_owned());
    let mut list = list.split(',').map(|one| one.parse().unwrap());
    let last = list.clone().last().unwrap();
    list.nth(device as usize).unwrap_or(last)
}

fn devices() -> c_int {
    std::env::var("FAKE_CUDA_DEVICES").map_or(1, |value| value.parse().unwrap())
}

driver! {
    fn cuDeviceGetCount(count: *mut c_int) {
        *count = devices();
        0
    }

    fn cuDeviceGet(device: *mut c_int, ordinal: c_int) {
        if ordinal < 0 || ordinal >= devices() {
            return INVALID_DEVICE;
        }
        *device = ordinal;
        0
    }

    fn cuDeviceGetName(name: *mut c_char, len: c_int, _device: c_int) {
        let bytes = c"Fake GPU".to_bytes_with_nul();
        assert!(bytes.len() <= len as usize);
        std::ptr::copy_nonoverlapping(bytes.as_ptr().cast(), name, bytes.len());
        0
    }

    fn cuDeviceGetAttribute(value: *mut c_int, attribute: c_int, device: c_int) {
        // Names and numbers of cuda.h, values of an H100.
        let answer = match attribute {
            1 | 2 | 3 => 1024,
            4 => 64,
            5 => i32::MAX,
            6 | 7 => 65535,
            8 => 48 * 1024,
            13 | 36 => 2_619_000,
            16 => 132,
            37 => 5120,
            38 => 50 * 1024 * 1024,
            39 => 2048,
            75 => capability(device) / 10,
            76 => capability(device) % 10,
            83 | 89 => fake_memory::sharing(attribute),
            97 => 227 * 1024,
            _ => return INVALID_VALUE,
        };
        *value = answer;
        0
    }

    fn cuStreamCreate(stream: *mut *mut c_void, flags: c_uint) {
        assert_eq!(flags, 1, "the stream is non-blocking");
        match fake_faults::answer("stream") {
            0 => *stream = fake_graph::new_stream(),
            code => return code,
        }
        0
    }

    fn cuStreamCreateWithPriority(stream: *mut *mut c_void, flags: c_uint, _priority: c_int) {
        assert_eq!(flags, 0, "copies on the default stream wait for the stream");
        *stream = fake_graph::new_stream();
        0
    }

    fn cuCtxSynchronize() {
        fake_faults::wait();
        fake_faults::answer("sync")
    }

    fn cuStreamSynchronize(stream: *mut c_void) {
        fake_memory::need_context();
        fake_faults::trace_call("synchronize", stream);
        synchronize(stream, || {
            fake_faults::wait();
            0
        })
    }

    fn cuStreamQuery(stream: *mut c_void) {
        synchronize(stream, fake_faults::query)
    }
}

/// A synchronisation or the question for one; a capture refuses both.
fn synchronize(stream: *mut c_void, wait: impl FnOnce() -> c_int) -> c_int {
    assert!(fake_graph::is_stream(stream));
    match (fake_graph::invalidate(stream), wait()) {
        (0, 0) => fake_faults::answer("sync"),
        (0, waiting) => waiting,
        (refusal, _) => refusal,
    }
}

driver! {
    fn cuStreamDestroy_v2(stream: *mut c_void) {
        fake_memory::need_context();
        assert!(fake_graph::is_stream(stream));
        fake_faults::trace_call("destroy", stream);
        fake_faults::wait();
        fake_graph::destroy_stream(stream);
        0
    }

    fn cuModuleLoadDataEx(
        module: *mut *mut Module, image: *const c_char, len: c_uint, options: *const c_int,
        values: *const *mut c_void
    ) {
        let ptx = CStr::from_ptr(image).to_str().unwrap().to_owned();
        match fake_graph::loads(&ptx) {
            0 => {}
            code => return code,
        }
        if ptx.contains(".version 9.9") {
            return UNSUPPORTED_PTX_VERSION;
        }
        if let Some(line) = ptx.lines().position(|line| line.contains("nonsense")) {
            if len == 0 {
                return INVALID_PTX;
            }
            let log =
                CString::new(format!("ptxas application ptx input, line {}; error: syntax", line + 1)).unwrap();
            // CU_JIT_ERROR_LOG_BUFFER is 5, its size 6 and passed by value.
            let find = |option| {
                (0..len as usize)
                    .find(|&i| *options.add(i) == option)
                    .map(|i| *values.add(i))
                    .unwrap()
            };
            assert!(find(6) as usize > log.as_bytes_with_nul().len());
            std::ptr::copy_nonoverlapping(log.as_ptr(), find(5).cast(), log.as_bytes_with_nul().len());
            return INVALID_PTX;
        }
        *module = Box::into_raw(Box::new(Module { ptx }));
        0
    }

    fn cuModuleUnload(module: *mut Module) {
        fake_faults::wait();
        drop(Box::from_raw(module));
        0
    }

    fn cuModuleGetFunction(function: *mut *mut Function, module: *mut Module, name: *const c_char) {
        let name = CStr::from_ptr(name).to_str().unwrap();
        let ptx = &(*module).ptx;
        if !ptx.contains(&format!(".entry {name}(")) {
            return NOT_FOUND;
        }
        let target = ptx.lines().find_map(|line| line.strip_prefix(".target sm_"));
        let capability = target.and_then(|target| target.trim_end_matches('a').parse().ok()).unwrap_or(90);
        *function = Box::into_raw(Box::new(Function { name: name.to_owned(), capability }));
        0
    }

    fn cuModuleGetGlobal_v2(
        address: *mut u64, bytes: *mut usize, module: *mut Module, name: *const c_char
    ) {
        let name = CStr::from_ptr(name).to_str().unwrap();
        let ptx = &(*module).ptx;
        if !ptx.lines().any(|line| line.contains(".global .align 8") && line.contains(name)) {
            return NOT_FOUND;
        }
        *address = PANIC_SLOT.as_ptr() as u64;
        *bytes = 8;
        0
    }

    fn cuFuncGetAttribute(value: *mut c_int, attribute: c_int, function: *mut Function) {
        let answer = match attribute {
            0 => 512,  // Threads per block.
            1 => 1024, // Bytes of static shared memory.
            3 => 16,   // Bytes of local memory.
            4 => 72,   // Registers.
            5 => (*function).capability,
            _ => return INVALID_VALUE,
        };
        *value = answer;
        0
    }

    fn cuOccupancyMaxPotentialBlockSize(
        grid: *mut c_int, block: *mut c_int, _function: *mut Function, shared_for: *mut c_void,
        _shared: usize, _limit: c_int
    ) {
        assert!(shared_for.is_null());
        (*grid, *block) = (264, 512);
        0
    }

    fn cuFuncSetAttribute(function: *mut Function, attribute: c_int, value: c_int) {
        let name = &(*function).name;
        match attribute {
            8 => GRANTED.lock().unwrap().push((name.clone(), value)),
            14 => fake_cluster::allow(name, value),
            other => panic!("the fake driver has no attribute {other}"),
        }
        0
    }

    /// Runs `fill(ptr, len, value)`; `shared_hungry` does nothing; `broken` panics the way the device library does; some
    /// kernels that fail fail here too. A null function adds the launch's own parameters up.
    fn cuLaunchKernel(
        function: *mut Function, grid_x: c_uint, grid_y: c_uint, grid_z: c_uint, block_x: c_uint,
        block_y: c_uint, block_z: c_uint, shared: c_uint, stream: *mut c_void,
        parameters: *const *mut c_void, extra: *mut *mut c_void
    ) {
        if function.is_null() {
            // Each argument with a weight of its own, so that two exchanged ones are seen.
            let packed = [grid_x, grid_y, grid_z, block_x, block_y, block_z, shared, stream as usize as u32];
            let sum: u32 = packed.iter().enumerate().map(|(i, &value)| value * (i as u32 + 1)).sum();
            *extra.cast::<u32>() = sum + parameters as usize as u32;
            return UNHEARD_OF;
        }
        assert!(extra.is_null());
        assert!(fake_graph::is_stream(stream));
        let name = (*function).name.as_str();
        let granted =
            GRANTED.lock().unwrap().iter().rev().find(|(n, _)| n == name).map_or(47 * 1024, |&(_, g)| g);
        if shared as c_int > granted {
            return INVALID_VALUE;
        }
        match fake_faults::answer("launch") {
            0 => {}
            code => return code,
        }
        let node = match name {
            "fill" => unsafe {
                let pointer = *parameters.read().cast::<*mut f32>();
                let len = *parameters.add(1).read().cast::<usize>();
                fake_graph::Node::Fill(pointer, len, *parameters.add(2).read().cast::<f32>())
            },
            "vecadd" => unsafe {
                let pointer = |at| *parameters.add(at).read().cast::<*mut f32>();
                let len = |at| *parameters.add(at).read().cast::<usize>();
                fake_graph::Node::Add([pointer(4), pointer(0), pointer(2)], len(1).min(len(3)))
            },
            "shared_hungry" => fake_graph::Node::Nothing,
            "broken" => fake_graph::Node::Panic("called on an empty list", "kernels/src/broken.rs", [[3, 1, 0], [64, 2, 1]]),
            "reads_nowhere" | "descends" => fake_graph::Node::Fault(ILLEGAL_ADDRESS),
            "reads_askew" => fake_graph::Node::Fault(MISALIGNED_ADDRESS),
            "traps" => fake_graph::Node::Fault(LAUNCH_FAILED),
            "asserts" => fake_graph::Node::Panic("the sum must be even", "kernels/src/lib.rs", [[1, 0, 0], [32, 0, 0]]),
            "indexes_past_the_end" => fake_graph::Node::Panic(
                "index out of bounds: the len is 191 but the index is 191",
                "kernels/src/lib.rs",
                [[2, 0, 0], [63, 0, 0]],
            ),
            "never_ends" => fake_graph::Node::Hang,
            _ if std::env::var_os("FAKE_CUDA_IDLE").is_some() => fake_graph::Node::Nothing,
            other => panic!("the fake driver has no kernel {other}"),
        };
        fake_graph::submit(node, stream);
        0
    }
}
