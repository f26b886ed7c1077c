//! The element types of matrices.

/// The element type of A and B, which selects the instruction.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Number {
    F16,
    Bf16,
    Tf32,
}
