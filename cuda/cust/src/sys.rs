//! The driver's functions and types, under the names of `cuda.h` (CUDA 13.0).
//!
//! Each function calls the one in the driver's library. If there is no driver, or the driver lacks the function, it returns
//! `CUDA_ERROR_STUB_LIBRARY` (34). The first call of any of them loads the library. In a process that was forked after
//! [`crate::init`], they return [`CUresult::FORKED`] and do not call the driver.

#![expect(non_snake_case, non_camel_case_types, reason = "the names are those of cuda.h")]
#![expect(clippy::too_many_arguments, reason = "the driver takes that many")]

mod structs;

use std::ffi::{c_char, c_int, c_uint, c_ulonglong, c_void};

use libloading::Library;

pub use crate::error::CUresult;
use crate::error::CudaResult;
use crate::fork::is_forked;
use crate::load;
pub use structs::{CUlaunchAttribute, CUlaunchConfig, CUmemLocation, CUmemPoolProps, CUtensorMap};

/// A device's handle.
pub type CUdevice = c_int;
/// An address in device memory.
pub type CUdeviceptr = u64;
/// An attribute of a device: a [`crate::device::DeviceAttribute`] as a number.
pub type CUdevice_attribute = c_int;
/// An attribute of a kernel: a [`crate::function::FunctionAttribute`] as a number.
pub type CUfunction_attribute = c_int;
/// A limit of a context: a [`crate::context::ResourceLimit`] as a number.
pub type CUlimit = c_uint;
/// An option of the driver's compiler.
pub type CUjit_option = c_uint;
/// Advice about the use of shared memory.
pub type CUmem_advise = c_uint;
/// The other calls that a capture forbids.
pub type CUstreamCaptureMode = c_uint;
/// An attribute of a memory pool.
pub type CUmemPool_attribute = c_uint;

/// The buffer for the compiler's errors.
pub const CU_JIT_ERROR_LOG_BUFFER: CUjit_option = 5;
/// That buffer's size in bytes, in place of a pointer.
pub const CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES: CUjit_option = 6;
/// A capture forbids no other calls.
pub const CU_STREAM_CAPTURE_MODE_RELAXED: CUstreamCaptureMode = 2;
/// Whether an allocation may make its stream wait for a free in another one (`c_int`, by default 1).
pub const CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES: CUmemPool_attribute = 3;
/// The free bytes that a pool keeps when a stream or an event is synchronised (`u64`, by default 0).
pub const CU_MEMPOOL_ATTR_RELEASE_THRESHOLD: CUmemPool_attribute = 4;

/// The value that a call writes to its out parameter.
pub(crate) fn out<T: Default>(call: impl FnOnce(&mut T) -> CUresult) -> CudaResult<T> {
    let mut value = T::default();
    call(&mut value).ok()?;
    Ok(value)
}

macro_rules! handles {
    ($($(#[$doc:meta])* $name:ident = $pointee:ident;)*) => {
        $(
            #[doc = concat!("What a [`", stringify!($name), "`] points to.")]
            #[derive(Debug)]
            #[repr(C)]
            pub struct $pointee {
                _opaque: [u8; 0],
            }

            $(#[$doc])*
            pub type $name = *mut $pointee;
        )*
    };
}

handles! {
    /// A context's handle.
    CUcontext = CUctx_st;
    /// A module's handle.
    CUmodule = CUmod_st;
    /// A kernel's handle.
    CUfunction = CUfunc_st;
    /// A stream's handle; null is the legacy default stream.
    CUstream = CUstream_st;
    /// An event's handle.
    CUevent = CUevent_st;
    /// A graph's handle.
    CUgraph = CUgraph_st;
    /// The handle of an executable graph.
    CUgraphExec = CUgraphExec_st;
    /// The handle of a memory pool.
    CUmemoryPool = CUmemPoolHandle_st;
}

/// Declares functions of the driver: a field with the library's function, and a function that calls it.
macro_rules! functions {
    ($($(#[$doc:meta])* fn $name:ident($($parameter:ident: $ty:ty),* $(,)?);)*) => {
        /// The functions that the driver's library has.
        #[derive(Debug)]
        pub(crate) struct Functions {
            $($name: Option<unsafe extern "C" fn($($ty),*) -> CUresult>,)*
        }

        impl Functions {
            /// Finds the functions of this library, which is never unloaded.
            pub fn of(library: &Library) -> Self {
                Self {
                    $($name: {
                        // SAFETY: the C function of that name has this signature in every driver that has it.
                        let symbol = unsafe { library.get(concat!(stringify!($name), "\0")) };
                        symbol.ok().and_then(|symbol| *symbol)
                    },)*
                }
            }

            /// The number of functions found.
            pub fn found(&self) -> usize {
                [$(self.$name.is_some()),*].into_iter().filter(|found| *found).count()
            }

            /// Whether it has the function that every driver has.
            pub fn is_driver(&self) -> bool {
                self.cuInit.is_some()
            }
        }

        $(
            $(#[$doc])*
            ///
            /// # Safety
            /// As documented in the CUDA driver API's reference.
            #[inline]
            pub unsafe fn $name($($parameter: $ty),*) -> CUresult {
                match load::functions().and_then(|functions| functions.$name) {
                    // SAFETY: the caller's contract is the driver's.
                    Some(function) => unsafe { function($($parameter),*) },
                    None if is_forked() => CUresult::FORKED,
                    None => CUresult::CUDA_ERROR_STUB_LIBRARY,
                }
            }
        )*
    };
}

functions! {
    /// Initialises the driver. `flags` must be 0.
    fn cuInit(flags: c_uint);
    /// The newest CUDA version the driver supports, as 1000 * major + 10 * minor.
    fn cuDriverGetVersion(version: *mut c_int);
    /// The name of a code, which may be any number.
    fn cuGetErrorName(code: CUresult, text: *mut *const c_char);
    /// The description of a code, which may be any number.
    fn cuGetErrorString(code: CUresult, text: *mut *const c_char);

    /// The number of devices.
    fn cuDeviceGetCount(count: *mut c_int);
    /// The handle of the device with this ordinal.
    fn cuDeviceGet(device: *mut CUdevice, ordinal: c_int);
    /// The device's name, NUL-terminated and truncated to `len` bytes.
    fn cuDeviceGetName(name: *mut c_char, len: c_int, device: CUdevice);
    /// An attribute of the device.
    fn cuDeviceGetAttribute(value: *mut c_int, attribute: CUdevice_attribute, device: CUdevice);
    /// The total bytes of the device's memory.
    fn cuDeviceTotalMem_v2(bytes: *mut usize, device: CUdevice);

    /// Retains the device's primary context.
    fn cuDevicePrimaryCtxRetain(context: *mut CUcontext, device: CUdevice);
    /// Releases the device's primary context.
    fn cuDevicePrimaryCtxRelease_v2(device: CUdevice);
    /// Makes the context the calling thread's.
    fn cuCtxSetCurrent(context: CUcontext);
    /// The calling thread's context; null if it has none.
    fn cuCtxGetCurrent(context: *mut CUcontext);
    /// The device of the calling thread's context.
    fn cuCtxGetDevice(device: *mut CUdevice);
    /// The flags of the calling thread's context.
    fn cuCtxGetFlags(flags: *mut c_uint);
    /// A limit of the calling thread's context.
    fn cuCtxGetLimit(value: *mut usize, limit: CUlimit);
    /// Sets a limit of the calling thread's context.
    fn cuCtxSetLimit(limit: CUlimit, value: usize);
    /// Waits for all work of the calling thread's context.
    fn cuCtxSynchronize();

    /// Creates a stream. Flag 1 is `CU_STREAM_NON_BLOCKING`.
    fn cuStreamCreate(stream: *mut CUstream, flags: c_uint);
    /// Creates a stream with a priority; lower numbers go first.
    fn cuStreamCreateWithPriority(stream: *mut CUstream, flags: c_uint, priority: c_int);
    /// Waits for all work of the stream.
    fn cuStreamSynchronize(stream: CUstream);
    /// Whether all work of the stream has ended: `CUDA_ERROR_NOT_READY` until then.
    fn cuStreamQuery(stream: CUstream);
    /// Makes later work in the stream wait for the event. `flags` may be 0.
    fn cuStreamWaitEvent(stream: CUstream, event: CUevent, flags: c_uint);
    /// Destroys a stream.
    fn cuStreamDestroy_v2(stream: CUstream);

    /// Creates an event. Flag 0 is `CU_EVENT_DEFAULT`: it records the time.
    fn cuEventCreate(event: *mut CUevent, flags: c_uint);
    /// Queues the event in the stream.
    fn cuEventRecord(event: CUevent, stream: CUstream);
    /// Whether the work before the event has ended: `CUDA_ERROR_NOT_READY` until then.
    fn cuEventQuery(event: CUevent);
    /// Waits for the work before the event.
    fn cuEventSynchronize(event: CUevent);
    /// Milliseconds between two events that have completed.
    fn cuEventElapsedTime(milliseconds: *mut f32, start: CUevent, end: CUevent);
    /// Destroys an event.
    fn cuEventDestroy_v2(event: CUevent);

    /// Starts a capture: the stream's later work goes into a graph instead of to the device.
    fn cuStreamBeginCapture_v2(stream: CUstream, mode: CUstreamCaptureMode);
    /// Sets which calls a capture forbids to this thread, and returns what it was in `mode`.
    fn cuThreadExchangeStreamCaptureMode(mode: *mut CUstreamCaptureMode);
    /// Ends the capture and returns the graph.
    fn cuStreamEndCapture(stream: CUstream, graph: *mut CUgraph);
    /// Makes a graph executable. `flags` may be 0.
    fn cuGraphInstantiateWithFlags(executable: *mut CUgraphExec, graph: CUgraph, flags: c_ulonglong);
    /// Queues all work of a graph in the stream.
    fn cuGraphLaunch(executable: CUgraphExec, stream: CUstream);
    /// Destroys an executable graph.
    fn cuGraphExecDestroy(executable: CUgraphExec);
    /// Destroys a graph.
    fn cuGraphDestroy(graph: CUgraph);

    /// Loads a module from machine code or NUL-terminated PTX with options of the JIT compiler.
    fn cuModuleLoadDataEx(
        module: *mut CUmodule,
        image: *const c_void,
        options_len: c_uint,
        options: *mut CUjit_option,
        values: *mut *mut c_void,
    );
    /// Unloads a module.
    fn cuModuleUnload(module: CUmodule);
    /// A kernel of the module.
    fn cuModuleGetFunction(function: *mut CUfunction, module: CUmodule, name: *const c_char);
    /// A global variable of the module.
    fn cuModuleGetGlobal_v2(
        address: *mut CUdeviceptr,
        bytes: *mut usize,
        module: CUmodule,
        name: *const c_char,
    );
    /// An attribute of a kernel.
    fn cuFuncGetAttribute(value: *mut c_int, attribute: CUfunction_attribute, function: CUfunction);
    /// Sets an attribute of a kernel.
    fn cuFuncSetAttribute(function: CUfunction, attribute: CUfunction_attribute, value: c_int);
    /// The block size with the most resident threads, and the number of blocks that fills the device with it.
    fn cuOccupancyMaxPotentialBlockSize(
        grid: *mut c_int,
        block: *mut c_int,
        function: CUfunction,
        shared_bytes_for: Option<unsafe extern "C" fn(c_int) -> usize>,
        shared_bytes: usize,
        most_threads: c_int,
    );
    /// The number of blocks of this size that fit a multiprocessor at once.
    fn cuOccupancyMaxActiveBlocksPerMultiprocessor(blocks: *mut c_int, function: CUfunction, threads: c_int,
        shared_bytes: usize);
    /// The number of clusters of this launch that fit the device at once, in drivers since CUDA 11.8.
    fn cuOccupancyMaxActiveClusters(clusters: *mut c_int, function: CUfunction, config: *const CUlaunchConfig);
    /// Launches a kernel.
    fn cuLaunchKernel(
        function: CUfunction,
        grid_x: c_uint,
        grid_y: c_uint,
        grid_z: c_uint,
        block_x: c_uint,
        block_y: c_uint,
        block_z: c_uint,
        shared_bytes: c_uint,
        stream: CUstream,
        parameters: *mut *mut c_void,
        extra: *mut *mut c_void,
    );
    /// Launches a kernel with attributes, in drivers since CUDA 11.8.
    fn cuLaunchKernelEx(
        config: *const CUlaunchConfig,
        function: CUfunction,
        parameters: *mut *mut c_void,
        extra: *mut *mut c_void,
    );

    /// The free and the total bytes of the device's memory.
    fn cuMemGetInfo_v2(free: *mut usize, total: *mut usize);
    /// Allocates device memory.
    fn cuMemAlloc_v2(address: *mut CUdeviceptr, bytes: usize);
    /// Frees device memory, or unified memory.
    fn cuMemFree_v2(address: CUdeviceptr);
    /// Creates a memory pool.
    fn cuMemPoolCreate(pool: *mut CUmemoryPool, properties: *const CUmemPoolProps);
    /// Destroys a memory pool, once all its memory is freed.
    fn cuMemPoolDestroy(pool: CUmemoryPool);
    /// Sets an attribute of a memory pool.
    fn cuMemPoolSetAttribute(pool: CUmemoryPool, attribute: CUmemPool_attribute, value: *mut c_void);
    /// Gives free memory of a pool beyond `kept` bytes back to the system.
    fn cuMemPoolTrimTo(pool: CUmemoryPool, kept: usize);
    /// Allocates device memory from a pool in a stream's order.
    fn cuMemAllocFromPoolAsync(address: *mut CUdeviceptr, bytes: usize, pool: CUmemoryPool, stream: CUstream);
    /// Frees memory from a pool in a stream's order.
    fn cuMemFreeAsync(address: CUdeviceptr, stream: CUstream);
    /// Sets bytes of device memory.
    fn cuMemsetD8_v2(address: CUdeviceptr, value: u8, bytes: usize);
    /// Sets bytes of device memory in a stream.
    fn cuMemsetD8Async(address: CUdeviceptr, value: u8, bytes: usize, stream: CUstream);
    /// Copies from host to device.
    fn cuMemcpyHtoD_v2(to: CUdeviceptr, from: *const c_void, bytes: usize);
    /// Copies from device to host.
    fn cuMemcpyDtoH_v2(to: *mut c_void, from: CUdeviceptr, bytes: usize);
    /// Copies from device to device.
    fn cuMemcpyDtoD_v2(to: CUdeviceptr, from: CUdeviceptr, bytes: usize);
    /// Copies from host to device in a stream.
    fn cuMemcpyHtoDAsync_v2(to: CUdeviceptr, from: *const c_void, bytes: usize, stream: CUstream);
    /// Copies from device to host in a stream.
    fn cuMemcpyDtoHAsync_v2(to: *mut c_void, from: CUdeviceptr, bytes: usize, stream: CUstream);
    /// Copies from device to device in a stream.
    fn cuMemcpyDtoDAsync_v2(to: CUdeviceptr, from: CUdeviceptr, bytes: usize, stream: CUstream);
    /// Allocates page-locked host memory. Flag 2 is `CU_MEMHOSTALLOC_DEVICEMAP`.
    fn cuMemHostAlloc(pointer: *mut *mut c_void, bytes: usize, flags: c_uint);
    /// Frees page-locked host memory.
    fn cuMemFreeHost(pointer: *mut c_void);
    /// The device's address of page-locked host memory. `flags` must be 0.
    fn cuMemHostGetDevicePointer_v2(address: *mut CUdeviceptr, pointer: *mut c_void, flags: c_uint);
    /// Allocates memory that host and device share. Flag 1 is `CU_MEM_ATTACH_GLOBAL`.
    fn cuMemAllocManaged(address: *mut CUdeviceptr, bytes: usize, flags: c_uint);
    /// Moves shared memory to a location in a stream, in drivers since CUDA 12.2. `flags` must be 0.
    fn cuMemPrefetchAsync_v2(
        address: CUdeviceptr,
        bytes: usize,
        location: CUmemLocation,
        flags: c_uint,
        stream: CUstream,
    );
    /// Advises the driver on the use of shared memory, in drivers since CUDA 12.2. Advice 1 is
    /// `CU_MEM_ADVISE_SET_READ_MOSTLY`, 3 `CU_MEM_ADVISE_SET_PREFERRED_LOCATION`, 5 `CU_MEM_ADVISE_SET_ACCESSED_BY`.
    fn cuMemAdvise_v2(address: CUdeviceptr, bytes: usize, advice: CUmem_advise, location: CUmemLocation);
    /// Encodes a tensor map for compute capability 9.0 and later, in drivers since CUDA 12.0. The lists begin with the innermost
    /// dimension, which has no stride.
    fn cuTensorMapEncodeTiled(
        map: *mut CUtensorMap,
        data_type: c_uint,
        rank: c_uint,
        address: *mut c_void,
        sizes: *const u64,
        strides: *const u64,
        tile: *const c_uint,
        element_strides: *const c_uint,
        interleave: c_uint,
        swizzle: c_uint,
        l2_promotion: c_uint,
        fill: c_uint,
    );
}
