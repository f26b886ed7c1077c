//! The stack size of a device's threads.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use cust::context::{CurrentContext, ResourceLimit};
use cust::error::CudaError;

use super::super::error::DeviceError;
use super::super::fault::KernelFault;
use super::super::stack::{self, UnboundedStack};

/// The environment variable with the stack bytes of each thread.
const VARIABLE: &str = "FERROWARP_STACK_BYTES";
/// The stack bytes once a module with an unbounded stack is loaded, unless a size was requested.
const FOR_UNBOUNDED: usize = 8192;

/// The stack bytes of each thread that the environment asks for.
pub(in super::super) fn stack_bytes() -> Result<Option<usize>, DeviceError> {
    let value = std::env::var_os(VARIABLE).unwrap_or_default().to_string_lossy().into_owned();
    if value.is_empty() {
        return Ok(None);
    }
    let expected = "a number of bytes";
    value.parse().map(Some).map_err(|_| DeviceError::Variable { name: VARIABLE, value, expected })
}

/// The stack of a device's threads, and the kernels for which it may be too small.
#[derive(Default)]
pub(super) struct Stack {
    /// By kernel, why its stack size is unknown.
    unbounded: HashMap<String, String>,
    /// The last known stack bytes of each thread; 0 before the driver was asked.
    bytes: AtomicUsize,
    /// Whether the caller or the environment requested them.
    is_asked: AtomicBool,
}

impl Stack {
    /// Notes a module's kernels with an unbounded stack.
    pub fn note(&mut self, ptx: &str) {
        let notes = stack::unbounded(ptx).map(|(kernel, cause)| (kernel.to_owned(), cause.to_owned()));
        self.unbounded.extend(notes);
    }

    /// Sets the size from the environment. The context is current.
    pub fn set_from_environment(&self) -> Result<(), DeviceError> {
        stack_bytes()?.map_or(Ok(()), |bytes| self.set(bytes))
    }

    /// Sets the stack of each thread to `bytes`, which later modules do not change. The context is current.
    pub fn set(&self, bytes: usize) -> Result<(), DeviceError> {
        self.is_asked.store(true, Ordering::Relaxed);
        self.grant(bytes)
    }

    /// Ensures that threads have a stack for the kernels of the module `ptx`, which was just loaded. The context is current.
    pub fn prepare(&self, ptx: &str) -> Result<(), DeviceError> {
        if stack::unbounded(ptx).next().is_none() || self.is_asked.load(Ordering::Relaxed) {
            return Ok(());
        }
        let now = CurrentContext::get_resource_limit(ResourceLimit::StackSize).unwrap_or(0);
        if now < FOR_UNBOUNDED {
            return self.grant(FOR_UNBOUNDED);
        }
        self.bytes.store(now, Ordering::Relaxed);
        Ok(())
    }

    fn grant(&self, bytes: usize) -> Result<(), DeviceError> {
        let set = CurrentContext::set_resource_limit(ResourceLimit::StackSize, bytes);
        let granted = set.and_then(|()| CurrentContext::get_resource_limit(ResourceLimit::StackSize));
        match granted {
            Ok(granted) => {
                self.bytes.store(granted, Ordering::Relaxed);
                Ok(())
            }
            Err(
                status @ (CudaError::InvalidValue | CudaError::OutOfMemory | CudaError::UnsupportedLimit),
            ) => Err(DeviceError::NoStack { bytes: bytes.to_string(), reason: status.to_string() }),
            Err(status) => {
                let action = format!("setting the stack of each thread to {bytes} bytes");
                Err(DeviceError::Driver { action, status })
            }
        }
    }

    /// The kernel among the fault's launches that may have overflowed its stack.
    pub fn suspect(&self, fault: &KernelFault) -> Option<UnboundedStack> {
        if !fault.kind.may_be_stack() {
            return None;
        }
        let mut launches = fault.launches.iter();
        launches.find_map(|launch| {
            let cause = self.unbounded.get(launch.kernel)?.clone();
            let bytes = self.bytes.load(Ordering::Relaxed);
            Some(UnboundedStack { kernel: launch.kernel.to_owned(), cause, bytes })
        })
    }
}
