//! The position of a case, for the kernels and for what launches them.

/// Where a case's input and output are.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Place {
    /// First byte of the input among all inputs.
    pub input_at: u32,
    /// Bytes of the input.
    pub input_len: u32,
    /// The case's number.
    pub number: u32,
    /// First byte of the output among all outputs.
    pub output_at: u32,
    /// Bytes of the output.
    pub output_len: u32,
}
