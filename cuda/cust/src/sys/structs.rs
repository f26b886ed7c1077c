//! The structs that the driver's functions take.

use std::ffi::{c_int, c_uint, c_void};

use super::CUstream;

/// The configuration of a launch with attributes.
#[derive(Debug)]
#[repr(C)]
pub struct CUlaunchConfig {
    /// Blocks along x, y and z.
    pub grid: [c_uint; 3],
    /// Threads of a block along x, y and z.
    pub block: [c_uint; 3],
    /// Dynamic shared memory of a block in bytes.
    pub shared_bytes: c_uint,
    /// The stream.
    pub stream: CUstream,
    /// The first attribute.
    pub attributes: *mut CUlaunchAttribute,
    /// The number of attributes.
    pub attributes_len: c_uint,
}

/// An attribute of a launch: its number, and 64 bytes for its value.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(8))]
pub struct CUlaunchAttribute {
    id: c_int,
    pad: c_int,
    value: [c_uint; 16],
}

/// A tensor map, which only the driver encodes and the hardware reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C, align(64))]
pub struct CUtensorMap {
    /// Its words.
    pub words: [u64; 16],
}

/// A memory location: its kind, and an id within the kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct CUmemLocation {
    /// `CU_MEM_LOCATION_TYPE_DEVICE` is 1, `CU_MEM_LOCATION_TYPE_HOST` 2.
    pub kind: c_int,
    /// The device's ordinal; ignored for host memory.
    pub id: c_int,
}

impl CUmemLocation {
    /// The memory of the device with this ordinal.
    pub fn device(ordinal: c_int) -> Self {
        Self { kind: 1, id: ordinal }
    }

    /// The memory of the host.
    pub fn host() -> Self {
        Self { kind: 2, id: 0 }
    }
}

/// The properties of a memory pool.
#[derive(Debug)]
#[repr(C)]
pub struct CUmemPoolProps {
    /// `CU_MEM_ALLOCATION_TYPE_PINNED` is 1.
    pub kind: c_int,
    /// How its memory is shared with other processes; 0 if it is not.
    pub handles: c_int,
    /// Where the memory lives.
    pub location: CUmemLocation,
    /// For handles on Windows.
    pub security: *mut c_void,
    /// The most bytes; 0 for no limit.
    pub most_bytes: usize,
    /// The use of the memory; 0 for any.
    pub usage: u16,
    /// Zeros.
    pub reserved: [u8; 54],
}

impl CUmemPoolProps {
    /// A pool of memory of the device with this ordinal, for this process.
    pub fn of_device(ordinal: c_int) -> Self {
        let (location, security) = (CUmemLocation::device(ordinal), std::ptr::null_mut());
        Self { kind: 1, handles: 0, location, security, most_bytes: 0, usage: 0, reserved: [0; 54] }
    }
}

// The layout of cuda.h with 64-bit pointers.
const _: () = assert!(
    size_of::<CUlaunchConfig>() == 56
        && size_of::<CUmemPoolProps>() == 88
        && std::mem::offset_of!(CUlaunchConfig, stream) == 32
        && size_of::<CUlaunchAttribute>() == 72
);

impl CUlaunchAttribute {
    /// `CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION`: blocks of a cluster along x, y and z.
    pub fn cluster([x, y, z]: [c_uint; 3]) -> Self {
        let mut value = [0; 16];
        value[..3].copy_from_slice(&[x, y, z]);
        Self { id: 4, pad: 0, value }
    }

    /// `CU_LAUNCH_ATTRIBUTE_COOPERATIVE`: all blocks are resident at once, or the launch is rejected.
    pub fn cooperative() -> Self {
        let mut value = [0; 16];
        value[0] = 1;
        Self { id: 2, pad: 0, value }
    }

    /// `CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION`: the kernel may begin before the one before it has ended.
    pub fn programmatic_stream_serialization() -> Self {
        let mut value = [0; 16];
        value[0] = 1;
        Self { id: 6, pad: 0, value }
    }
}
