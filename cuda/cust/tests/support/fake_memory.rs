//! The fake driver's context and memory: device memory is host memory, and copies happen at once. With `FAKE_CUDA_EXCLUSIVE=1` host and
//! device cannot use unified memory at the same time. With `FAKE_CUDA_POOLS=1` there are memory pools.

use std::alloc::Layout;
use std::cell::Cell;
use std::ffi::{c_int, c_uint, c_void};
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};

use super::{INVALID_VALUE, devices, fake_faults};

const OUT_OF_MEMORY: c_int = 2;
/// The bytes that are always free.
pub const FREE: usize = 1 << 30;

/// How often the context is retained. At 0 it is gone, and so is what was created in it.
static RETAINED: AtomicI32 = AtomicI32::new(0);

/// The primary context of each device.
const PRIMARY: usize = 0x1000;
/// A context that another library created on the last device.
const CREATED: usize = 0x1100;

thread_local! {
    static CURRENT: Cell<usize> = const { Cell::new(PRIMARY) };
}

/// Ends the process if the context is gone, as a driver may that gets an object of it.
pub fn need_context() {
    let is_alive = CURRENT.get() == CREATED || RETAINED.load(Ordering::Relaxed) > 0;
    assert!(is_alive, "the object's context is gone");
}

driver! {
    fn cuCtxSetCurrent(context: *mut c_void) {
        if ![PRIMARY, CREATED].contains(&(context as usize)) {
            return INVALID_VALUE;
        }
        CURRENT.set(context as usize);
        fake_faults::answer("context")
    }

    fn cuCtxGetDevice(device: *mut c_int) {
        *device = if CURRENT.get() == CREATED { devices() - 1 } else { 0 };
        0
    }

    fn cuDevicePrimaryCtxRetain(context: *mut *mut c_void, _device: c_int) {
        fake_faults::trace("a primary context");
        RETAINED.fetch_add(1, Ordering::Relaxed);
        *context = PRIMARY as *mut c_void;
        0
    }

    fn cuCtxGetCurrent(context: *mut *mut c_void) {
        *context = CURRENT.get() as *mut c_void;
        0
    }

    fn cuDevicePrimaryCtxRelease_v2(_device: c_int) {
        fake_faults::trace("the context");
        fake_faults::wait();
        RETAINED.fetch_sub(1, Ordering::Relaxed);
        0
    }

    fn cuMemAlloc_v2(address: *mut u64, bytes: usize) {
        if bytes == 0 {
            return INVALID_VALUE;
        }
        match fake_faults::answer("alloc") {
            0 if bytes > FREE => return OUT_OF_MEMORY,
            0 => {}
            code => return code,
        }
        let layout = Layout::from_size_align(bytes + 256, 256).unwrap();
        let block = std::alloc::alloc(layout);
        block.cast::<usize>().write(bytes + 256);
        *address = block.add(256) as u64;
        0
    }

    fn cuMemFree_v2(address: u64) {
        need_context();
        fake_faults::trace("memory");
        fake_faults::wait();
        match fake_faults::answer("free") {
            0 => {}
            code => return code,
        }
        free(address);
        0
    }

    fn cuMemPoolCreate(pool: *mut *mut c_void, properties: *const c_int) {
        const NOT_SUPPORTED: c_int = 801;
        if std::env::var_os("FAKE_CUDA_POOLS").is_none() {
            return NOT_SUPPORTED;
        }
        // Pinned, without handles, of device 0.
        assert_eq!(std::slice::from_raw_parts(properties, 4), [1, 0, 1, 0]);
        *pool = 0x2000 as *mut c_void;
        0
    }

    fn cuMemPoolSetAttribute(_pool: *mut c_void, attribute: c_uint, _value: *mut c_void) {
        assert!(attribute == 3 || attribute == 4);
        0
    }

    fn cuMemPoolTrimTo(_pool: *mut c_void, _kept: usize) {
        fake_faults::trace("the pool's trim");
        0
    }

    fn cuMemPoolDestroy(_pool: *mut c_void) {
        need_context();
        0
    }

    fn cuMemAllocFromPoolAsync(address: *mut u64, bytes: usize, _pool: *mut c_void, stream: *mut c_void) {
        fake_faults::trace_call("allocate", stream);
        cuMemAlloc_v2(address, bytes)
    }

    /// Work is done at once, so memory can be freed at once.
    fn cuMemFreeAsync(address: u64, stream: *mut c_void) {
        need_context();
        fake_faults::trace_call("free", stream);
        match fake_faults::answer("free") {
            0 => free(address),
            code => return code,
        }
        0
    }
}

unsafe fn free(address: u64) {
    let block = (address - 256) as *mut u8;
    unsafe {
        let layout = Layout::from_size_align(block.cast::<usize>().read(), 256).unwrap();
        std::alloc::dealloc(block, layout);
    }
}

driver! {
    fn cuMemsetD8Async(address: u64, value: u8, bytes: usize, _stream: *mut c_void) {
        (address as *mut u8).write_bytes(value, bytes);
        fake_faults::answer("set")
    }

    fn cuMemcpyHtoDAsync_v2(to: u64, from: *const u8, bytes: usize, stream: *mut c_void) {
        if !stream.is_null() {
            super::fake_graph::copies(stream);
        }
        std::ptr::copy_nonoverlapping(from, to as *mut u8, bytes);
        fake_faults::answer("copy")
    }

    fn cuMemcpyDtoHAsync_v2(to: *mut u8, from: u64, bytes: usize, _stream: *mut c_void) {
        std::ptr::copy_nonoverlapping(from as *const u8, to, bytes);
        fake_faults::answer("copy")
    }

    fn cuMemsetD8_v2(address: u64, value: u8, bytes: usize) {
        cuMemsetD8Async(address, value, bytes, std::ptr::null_mut())
    }

    fn cuMemcpyHtoD_v2(to: u64, from: *const u8, bytes: usize) {
        cuMemcpyHtoDAsync_v2(to, from, bytes, std::ptr::null_mut())
    }

    fn cuMemcpyDtoH_v2(to: *mut u8, from: u64, bytes: usize) {
        cuMemcpyDtoHAsync_v2(to, from, bytes, std::ptr::null_mut())
    }

    fn cuMemcpyDtoD_v2(to: u64, from: u64, bytes: usize) {
        cuMemcpyHtoDAsync_v2(to, from as *const u8, bytes, std::ptr::null_mut())
    }

    fn cuMemcpyDtoDAsync_v2(to: u64, from: u64, bytes: usize, stream: *mut c_void) {
        cuMemcpyHtoDAsync_v2(to, from as *const u8, bytes, stream)
    }

    fn cuMemAllocManaged(address: *mut u64, bytes: usize, flags: c_uint) {
        assert_eq!(flags, 1, "attached to no stream");
        cuMemAlloc_v2(address, bytes)
    }

    fn cuDeviceTotalMem_v2(bytes: *mut usize, _device: c_int) {
        *bytes = 2 * FREE;
        0
    }

    fn cuMemHostAlloc(pointer: *mut *mut u8, bytes: usize, flags: c_uint) {
        assert_eq!(flags, 2, "mapped into the device's address space");
        let mut address = 0;
        let code = cuMemAlloc_v2(&mut address, bytes);
        *pointer = address as *mut u8;
        code
    }

    fn cuMemFreeHost(pointer: *mut u8) {
        cuMemFree_v2(pointer as u64)
    }

    fn cuMemHostGetDevicePointer_v2(address: *mut u64, pointer: *mut u8, _flags: c_uint) {
        *address = pointer as u64;
        0
    }
}

/// Whether there is unified memory (attribute 83), and for both at the same time (89).
pub fn sharing(attribute: c_int) -> c_int {
    c_int::from(attribute == 83 || std::env::var_os("FAKE_CUDA_EXCLUSIVE").is_none())
}

#[repr(C)]
struct Location {
    kind: c_int,
    id: c_int,
}

impl Location {
    fn name(&self) -> String {
        match self.kind {
            1 => format!("device {}", self.id),
            2 => "host".to_owned(),
            other => panic!("the fake driver knows no place of kind {other}"),
        }
    }
}

driver! {
    fn cuMemPrefetchAsync_v2(
        _address: u64, bytes: usize, location: Location, flags: c_uint, _stream: *mut c_void
    ) {
        assert_eq!(flags, 0);
        fake_faults::trace(&format!("{bytes} bytes to {}", location.name()));
        fake_faults::answer("prefetch")
    }

    fn cuMemAdvise_v2(_address: u64, bytes: usize, advice: c_uint, location: Location) {
        fake_faults::trace(&format!("advice {advice} for {bytes} bytes and {}", location.name()));
        fake_faults::answer("advise")
    }
}

/// The bytes of stack for each thread; with `FAKE_CUDA_STACK` set, no more than that is granted.
static STACK: AtomicU64 = AtomicU64::new(1024);

driver! {
    fn cuCtxGetLimit(value: *mut usize, limit: c_uint) {
        if limit != 0 {
            return INVALID_VALUE;
        }
        *value = STACK.load(Ordering::Relaxed) as usize;
        0
    }

    fn cuCtxSetLimit(limit: c_uint, value: usize) {
        let most = std::env::var("FAKE_CUDA_STACK").map_or(usize::MAX, |most| most.parse().unwrap());
        if limit != 0 || value > most {
            return INVALID_VALUE;
        }
        STACK.store(value as u64, Ordering::Relaxed);
        0
    }

    /// Writes what it got into the map, so that a test sees the order of the arguments.
    fn cuTensorMapEncodeTiled(
        map: *mut u64, data_type: c_uint, rank: c_uint, address: *mut c_void, sizes: *const u64,
        strides: *const u64, tile: *const c_uint, element_strides: *const c_uint, interleave: c_uint,
        swizzle: c_uint, l2_promotion: c_uint, fill: c_uint
    ) {
        assert_eq!(map.addr() % 64, 0);
        let rank = rank as usize;
        let (sizes, strides, tile, element_strides) = unsafe {
            use std::slice::from_raw_parts;
            (
                from_raw_parts(sizes, rank),
                from_raw_parts(strides, rank - 1),
                from_raw_parts(tile, rank),
                from_raw_parts(element_strides, rank),
            )
        };
        if address.addr() % 16 != 0 {
            return super::INVALID_VALUE;
        }
        assert!(element_strides.iter().all(|&stride| stride == 1));
        let options = [data_type, interleave, swizzle, l2_promotion, fill].map(u64::from);
        let words = [address as u64, rank as u64].into_iter().chain(options);
        let lists = sizes.iter().chain(strides).copied().chain(tile.iter().map(|&size| size.into()));
        for (i, word) in words.chain(lists).enumerate() {
            map.add(i).write(word);
        }
        0
    }
}
