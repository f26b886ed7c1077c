//! Differences in a kernel's output.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A case with a different result on a device than on the host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Difference {
    /// The kernel.
    pub kernel: String,
    /// The case's number.
    pub number: u32,
    /// Bytes of the case's input.
    pub input_len: usize,
    /// The difference.
    pub what: What,
}

/// The kind of a difference.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum What {
    /// The output differs.
    Output {
        /// The first byte that differs.
        at: usize,
        /// The number of bytes that differ.
        count: usize,
        /// Some bytes of the host's output from there.
        expected: Vec<u8>,
        /// The same of the device's.
        got: Vec<u8>,
    },
    /// The output matches by luck: some of its bits depend on undefined memory.
    Undefined(String),
    /// The kernel does not finish: the device's message.
    Fault(String),
}

/// Bytes of an output that a message shows.
const SHOWN: usize = 16;

impl Difference {
    /// The difference of two outputs, if there is one.
    pub fn of_outputs(expected: &[u8], got: &[u8]) -> Option<What> {
        let differ = || expected.iter().zip(got).enumerate().filter(|(_, (a, b))| a != b);
        let (at, count) = (differ().next()?.0, differ().count());
        let some = |bytes: &[u8]| bytes[at..].iter().copied().take(SHOWN).collect();
        Some(What::Output { at, count, expected: some(expected), got: some(got) })
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Difference { kernel, number, input_len, what } = self;
        write!(f, "{kernel}, case {number} of {input_len} bytes: {what}")
    }
}

impl fmt::Display for What {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            What::Output { at, count, expected, got } => {
                write!(f, "{count} bytes differ, from byte {at} on: ")?;
                hex(f, got)?;
                write!(f, " where the host has ")?;
                hex(f, expected)
            }
            What::Undefined(byte) => write!(f, "it is right by luck: {byte}"),
            What::Fault(message) => write!(f, "{message}"),
        }
    }
}

fn hex(f: &mut fmt::Formatter<'_>, bytes: &[u8]) -> fmt::Result {
    bytes.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
}
