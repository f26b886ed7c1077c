//! The driver's functions with results that any driver may return.
//!
//! cust declares `CUresult` as an enum of the codes that CUDA 11.4 knew; a newer driver's code in it would be
//! undefined behaviour. The same functions are declared here with [`Status`], which holds every code. Their
//! parameters are proven to be those of cust's declarations when this crate compiles.

use std::ffi::{c_char, c_int, c_uint, c_ulonglong, c_void};

use cust::sys::{
    CUcontext, CUdevice, CUdevice_attribute, CUdeviceptr, CUevent, CUfunction, CUfunction_attribute, CUgraph,
    CUgraphExec, CUjit_option, CUmodule, CUstream, CUstreamCaptureMode,
};

pub use crate::status::Status;

// Newer than cust's declarations, or with values newer than its enums: by cuda.h of CUDA 12.8.
unsafe extern "C" {
    /// Sets an attribute of a kernel: one of cust's [`CUfunction_attribute`] as a number, or
    /// [`NON_PORTABLE_CLUSTER_SIZE_ALLOWED`].
    ///
    /// # Safety
    /// As the CUDA driver API's reference says of this function.
    pub fn cuFuncSetAttribute(function: CUfunction, attribute: c_int, value: c_int) -> Status;
    /// Launches a kernel with attributes, in drivers since CUDA 11.8.
    ///
    /// # Safety
    /// As the CUDA driver API's reference says of this function.
    pub fn cuLaunchKernelEx(
        config: *const LaunchConfig,
        function: CUfunction,
        parameters: *mut *mut c_void,
        extra: *mut *mut c_void,
    ) -> Status;
}

/// `CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED`: 1 lets a kernel run in clusters of more than 8 blocks.
pub const NON_PORTABLE_CLUSTER_SIZE_ALLOWED: c_int = 14;

/// `CUlaunchConfig` (cuda.h).
#[derive(Debug)]
#[repr(C)]
pub struct LaunchConfig {
    /// Blocks along x, y and z.
    pub grid: [c_uint; 3],
    /// Threads of a block along x, y and z.
    pub block: [c_uint; 3],
    /// Dynamic shared memory of a block in bytes.
    pub shared_bytes: c_uint,
    /// The stream.
    pub stream: CUstream,
    /// The first attribute.
    pub attributes: *mut LaunchAttribute,
    /// How many attributes there are.
    pub attributes_len: c_uint,
}

/// `CUlaunchAttribute` (cuda.h): a number that says which, and 64 bytes for its value.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(8))]
pub struct LaunchAttribute {
    id: c_int,
    pad: c_int,
    value: [c_uint; 16],
}

// The layout of cuda.h where pointers have 64 bits.
const _: () = assert!(
    size_of::<LaunchConfig>() == 56
        && std::mem::offset_of!(LaunchConfig, stream) == 32
        && size_of::<LaunchAttribute>() == 72
);

impl LaunchAttribute {
    /// `CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION`: blocks of a cluster along x, y and z.
    pub fn cluster([x, y, z]: [c_uint; 3]) -> Self {
        let mut value = [0; 16];
        value[..3].copy_from_slice(&[x, y, z]);
        Self { id: 4, pad: 0, value }
    }
}

/// Declares functions of the driver and proves that their parameters are those of cust's declarations.
macro_rules! functions {
    ($($(#[$doc:meta])* fn $name:ident($($parameter:ident: $ty:ty),* $(,)?);)*) => {
        unsafe extern "C" {
            $(
                $(#[$doc])*
                ///
                /// # Safety
                /// As the CUDA driver API's reference says of this function.
                pub fn $name($($parameter: $ty),*) -> Status;
            )*
        }

        $(const _: unsafe extern "C" fn($($ty),*) -> cust::sys::CUresult = cust::sys::$name;)*
    };
}

functions! {
    /// Loads the driver's library if that has not happened, and initialises it. `flags` must be 0.
    fn cuInit(flags: c_uint);
    /// The newest CUDA version the driver supports, as 1000 * major + 10 * minor.
    fn cuDriverGetVersion(version: *mut c_int);

    /// How many devices there are.
    fn cuDeviceGetCount(count: *mut c_int);
    /// The handle of the device with this ordinal.
    fn cuDeviceGet(device: *mut CUdevice, ordinal: c_int);
    /// The device's name, NUL-terminated and cut to `len` bytes.
    fn cuDeviceGetName(name: *mut c_char, len: c_int, device: CUdevice);
    /// An attribute of the device.
    fn cuDeviceGetAttribute(value: *mut c_int, attribute: CUdevice_attribute, device: CUdevice);

    /// Retains the device's primary context.
    fn cuDevicePrimaryCtxRetain(context: *mut CUcontext, device: CUdevice);
    /// Releases the device's primary context.
    fn cuDevicePrimaryCtxRelease_v2(device: CUdevice);
    /// Makes the context the calling thread's.
    fn cuCtxSetCurrent(context: CUcontext);

    /// Creates a stream. Flag 1 is `CU_STREAM_NON_BLOCKING`.
    fn cuStreamCreate(stream: *mut CUstream, flags: c_uint);
    /// Waits for all work of the stream.
    fn cuStreamSynchronize(stream: CUstream);
    /// Whether all work of the stream has ended: [`Status::NOT_READY`] until then.
    fn cuStreamQuery(stream: CUstream);
    /// Destroys a stream.
    fn cuStreamDestroy_v2(stream: CUstream);

    /// Creates an event. Flag 0 is `CU_EVENT_DEFAULT`: it notes the time.
    fn cuEventCreate(event: *mut CUevent, flags: c_uint);
    /// Queues the event in the stream.
    fn cuEventRecord(event: CUevent, stream: CUstream);
    /// Milliseconds between two events that have come to pass.
    fn cuEventElapsedTime(milliseconds: *mut f32, start: CUevent, end: CUevent);
    /// Destroys an event.
    fn cuEventDestroy_v2(event: CUevent);

    /// From now on the stream's work goes into a graph instead of to the device.
    fn cuStreamBeginCapture_v2(stream: CUstream, mode: CUstreamCaptureMode);
    /// Ends the capture and gives the graph.
    fn cuStreamEndCapture(stream: CUstream, graph: *mut CUgraph);
    /// Makes a graph ready to run. `flags` may be 0.
    fn cuGraphInstantiateWithFlags(executable: *mut CUgraphExec, graph: CUgraph, flags: c_ulonglong);
    /// Queues all work of a graph in the stream.
    fn cuGraphLaunch(executable: CUgraphExec, stream: CUstream);
    /// Destroys a graph that was made ready to run.
    fn cuGraphExecDestroy(executable: CUgraphExec);
    /// Destroys a graph.
    fn cuGraphDestroy(graph: CUgraph);

    /// Loads a module from NUL-terminated PTX with options of the JIT compiler.
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

    /// Bytes of the device's memory that are free, and all of them.
    fn cuMemGetInfo_v2(free: *mut usize, total: *mut usize);
    /// Allocates device memory.
    fn cuMemAlloc_v2(address: *mut CUdeviceptr, bytes: usize);
    /// Frees device memory.
    fn cuMemFree_v2(address: CUdeviceptr);
    /// Sets bytes of device memory.
    fn cuMemsetD8Async(address: CUdeviceptr, value: u8, bytes: usize, stream: CUstream);
    /// Copies from host to device.
    fn cuMemcpyHtoDAsync_v2(to: CUdeviceptr, from: *const c_void, bytes: usize, stream: CUstream);
    /// Copies from device to host.
    fn cuMemcpyDtoHAsync_v2(to: *mut c_void, from: CUdeviceptr, bytes: usize, stream: CUstream);
    /// Allocates page-locked host memory. Flag 2 is `CU_MEMHOSTALLOC_DEVICEMAP`.
    fn cuMemHostAlloc(pointer: *mut *mut c_void, bytes: usize, flags: c_uint);
    /// Frees page-locked host memory.
    fn cuMemFreeHost(pointer: *mut c_void);
    /// The device's address of page-locked host memory. `flags` must be 0.
    fn cuMemHostGetDevicePointer_v2(address: *mut CUdeviceptr, pointer: *mut c_void, flags: c_uint);
}
