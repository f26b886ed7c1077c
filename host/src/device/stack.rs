//! The stack of a GPU's threads.

use std::fmt;

use super::{Backend, Device, DeviceError};

/// How a comment of `cuda_builder` at the end of a PTX file begins, before `KERNEL: CAUSE`.
const NOTE: &str = "// ferrowarp: unbounded stack: ";

/// A kernel whose stack has no size known when it is compiled.
///
/// ```
/// use ferrowarp::device::UnboundedStack;
///
/// let stack = UnboundedStack {
///     kernel: "walk".to_owned(),
///     cause: "recursion through `depth`".to_owned(),
///     bytes: 8192,
/// };
/// assert!(stack.to_string().contains("8192 bytes"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnboundedStack {
    /// The kernel.
    pub kernel: String,
    /// Why, such as ``recursion through `depth` ``.
    pub cause: String,
    /// The bytes that each thread has.
    pub bytes: usize,
}

impl fmt::Display for UnboundedStack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "the stack of {} has no size known in advance ({}), and each thread has {} bytes of it; give more with \
             Device::with_stack_bytes or FERROWARP_STACK_BYTES, or make the recursion flatter",
            self.kernel, self.cause, self.bytes
        )
    }
}

/// The kernels of a PTX file whose stack is unbounded, each with the cause.
pub(super) fn unbounded(ptx: &str) -> impl Iterator<Item = (&str, &str)> {
    ptx.lines().rev().map_while(|line| line.strip_prefix(NOTE)?.split_once(": "))
}

impl Device {
    /// The same device, whose threads from now on have `bytes` bytes of stack each, for all handles to it.
    ///
    /// Without it, and without `FERROWARP_STACK_BYTES` in the environment, a GPU's threads have what the driver gives,
    /// 1024 bytes, and 8192 once a module is loaded that has a kernel whose stack has no size known in advance: one with
    /// recursion, or with calls through pointers. That is stack for calls: of what a kernel is known to need, the driver
    /// takes care. All threads that the GPU can run at once have theirs at the same time, so 8192 bytes are 2 GiB on an
    /// H100.
    ///
    /// On the CPU nothing changes: there `FERROWARP_STACK_KIB` says it.
    ///
    /// ```
    /// use ferrowarp::device::{Device, DeviceError};
    ///
    /// let device = Device::cpu().with_stack_bytes(16 << 10)?;
    /// # Ok::<(), DeviceError>(())
    /// ```
    ///
    /// # Errors
    /// [`DeviceError::NoStack`] if the device has not the memory, or the device failed.
    pub fn with_stack_bytes(self, bytes: usize) -> Result<Device, DeviceError> {
        if let Backend::Cuda(cuda) = &self.inner.backend {
            cuda.set_stack_bytes(bytes)?;
        }
        Ok(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_are_read_from_the_end() {
        let ptx =
            format!("// ferrowarp: unbounded stack: no: note\n.entry a() {{}}\n{NOTE}a: x\n{NOTE}b: y: z\n");
        assert_eq!(unbounded(&ptx).collect::<Vec<_>>(), [("b", "y: z"), ("a", "x")]);
        assert_eq!(unbounded(".entry a() {}").count(), 0);
    }
}
