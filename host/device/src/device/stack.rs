//! The stack size of a GPU's threads.

use std::fmt;

use super::{Backend, Device, DeviceError};

/// The start of a comment that `cuda_builder` writes at the end of a PTX file, before `KERNEL: CAUSE`.
const NOTE: &str = "// ferrowarp: unbounded stack: ";

/// A kernel with a stack size that is not known at compile time.
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
    /// The cause, such as ``recursion through `depth` ``.
    pub cause: String,
    /// The stack bytes of each thread.
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

/// The kernels of a PTX file with an unbounded stack, each with the cause.
pub(super) fn unbounded(ptx: &str) -> impl Iterator<Item = (&str, &str)> {
    ptx.lines().rev().map_while(|line| line.strip_prefix(NOTE)?.split_once(": "))
}

impl Device {
    /// Sets the stack of each thread to `bytes` bytes, for all handles to the device.
    ///
    /// The default, unless the environment has `FERROWARP_STACK_BYTES`, is the driver's 1024 bytes. It becomes 8192 once a
    /// module is loaded with a kernel of unknown stack size, that is, with recursion or calls through pointers. This stack
    /// is for such calls only: the driver provides what a kernel is known to need. All threads that the GPU can run at once
    /// have a stack, so 8192 bytes take 2 GiB on an H100.
    ///
    /// On the CPU nothing changes: there `FERROWARP_STACK_KIB` sets the size.
    ///
    /// ```
    /// use ferrowarp::device::{Device, DeviceError};
    ///
    /// let device = Device::cpu().with_stack_bytes(16 << 10)?;
    /// # Ok::<(), DeviceError>(())
    /// ```
    ///
    /// # Errors
    /// [`DeviceError::NoStack`] if the device does not have enough memory; the device failed.
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
