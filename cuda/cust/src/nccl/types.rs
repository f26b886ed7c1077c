//! The types of `nccl.h`.

use std::ffi::{c_char, c_int, c_uint};
use std::fmt;

use super::OLDEST;

/// A version of NCCL.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct NcclVersion(pub(super) c_int);

impl fmt::Display for NcclVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Up to 2.8 a minor version had one digit less.
        let (major, minor) = if self.0 < 10000 {
            (self.0 / 1000, self.0 / 100 % 10)
        } else {
            (self.0 / 10000, self.0 / 100 % 100)
        };
        write!(f, "{major}.{minor}.{}", self.0 % 100)
    }
}

/// The result of an NCCL function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
#[must_use]
pub struct ncclResult_t(pub c_int);

macro_rules! results {
    ($($(#[$doc:meta])* $name:ident = $code:literal $nccl:ident;)*) => {
        impl ncclResult_t {
            $($(#[$doc])* pub const $name: Self = Self($code);)*
        }

        impl fmt::Display for ncclResult_t {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                let name = match *self {
                    $(Self::$name => stringify!($nccl),)*
                    Self(_) => "an unknown NCCL error",
                };
                write!(f, "{name} ({})", self.0)
            }
        }
    };
}

results! {
    /// The call succeeded.
    SUCCESS = 0 ncclSuccess;
    /// A CUDA call failed.
    UNHANDLED_CUDA_ERROR = 1 ncclUnhandledCudaError;
    /// A call of the operating system failed.
    SYSTEM_ERROR = 2 ncclSystemError;
    /// NCCL found an internal error.
    INTERNAL_ERROR = 3 ncclInternalError;
    /// An argument is wrong.
    INVALID_ARGUMENT = 4 ncclInvalidArgument;
    /// The call is not allowed now, or the ranks disagree.
    INVALID_USAGE = 5 ncclInvalidUsage;
    /// Another rank ended, or the network failed.
    REMOTE_ERROR = 6 ncclRemoteError;
    /// A non-blocking communicator is still working on it.
    IN_PROGRESS = 7 ncclInProgress;
}

/// The type of an element: a number of `ncclDataType_t`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub struct ncclDataType_t(pub c_int);

impl ncclDataType_t {
    /// Bytes.
    pub const UINT8: Self = Self(1);
    /// `u32`.
    pub const UINT32: Self = Self(3);
    /// `u64`.
    pub const UINT64: Self = Self(5);
    /// `f16`.
    pub const FLOAT16: Self = Self(6);
    /// `f32`.
    pub const FLOAT32: Self = Self(7);
    /// `bf16`.
    pub const BFLOAT16: Self = Self(9);
}

/// The reduction over ranks: a number of `ncclRedOp_t`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub struct ncclRedOp_t(pub c_int);

impl ncclRedOp_t {
    /// The sum.
    pub const SUM: Self = Self(0);
    /// The largest.
    pub const MAX: Self = Self(2);
    /// The smallest.
    pub const MIN: Self = Self(3);
    /// The sum divided by the number of ranks.
    pub const AVG: Self = Self(4);
}

/// The name of a communicator that is being created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct ncclUniqueId {
    /// Opaque bytes, which one rank gets from NCCL and sends to the others.
    pub internal: [u8; 128],
}

/// The target of a [`ncclComm_t`].
#[derive(Debug)]
#[repr(C)]
pub struct ncclComm {
    _opaque: [u8; 0],
}

/// A communicator's handle.
pub type ncclComm_t = *mut ncclComm;

/// The configuration of a communicator as of NCCL 2.18. Later versions set their own fields to the default.
#[derive(Debug)]
#[repr(C)]
pub struct ncclConfig_t {
    size: usize,
    magic: c_uint,
    version: c_uint,
    blocking: c_int,
    cga_cluster_size: c_int,
    min_ctas: c_int,
    max_ctas: c_int,
    net_name: *const c_char,
    split_share: c_int,
}

impl ncclConfig_t {
    /// The default, except that no call waits for other ranks.
    pub fn non_blocking() -> Self {
        const UNDEFINED: c_int = c_int::MIN;
        Self {
            size: size_of::<Self>(),
            magic: 0xcafe_beef,
            version: OLDEST.0.unsigned_abs(),
            blocking: 0,
            cga_cluster_size: UNDEFINED,
            min_ctas: UNDEFINED,
            max_ctas: UNDEFINED,
            net_name: std::ptr::null(),
            split_share: UNDEFINED,
        }
    }
}

// The layout of nccl.h with 64-bit pointers.
const _: () = assert!(
    size_of::<ncclConfig_t>() == 48
        && std::mem::offset_of!(ncclConfig_t, net_name) == 32
        && size_of::<ncclUniqueId>() == 128
);
