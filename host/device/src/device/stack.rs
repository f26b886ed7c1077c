//! The stack size of a GPU's threads.

use std::fmt;

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
