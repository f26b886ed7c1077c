//! Functions that every device has (PTX ISA, "System-Defined Functions"; CUDA C++ Programming Guide, "Dynamic Global Memory
//! Allocation and Operations", "Formatted Output", "Assertion").

/// A function that the driver supplies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum System {
    Malloc,
    Free,
    Vprintf,
    AssertFail,
}

impl System {
    /// The function called `name`.
    pub fn named(name: &str) -> Option<System> {
        Some(match name {
            "malloc" => System::Malloc,
            "free" => System::Free,
            "vprintf" => System::Vprintf,
            "__assertfail" => System::AssertFail,
            _ => return None,
        })
    }

    /// Sizes of its parameters and its return value, in bytes.
    pub fn shape(self) -> (&'static [u64], Option<u64>) {
        match self {
            System::Malloc => (&[8], Some(8)),
            System::Free => (&[8], None),
            System::Vprintf => (&[8, 8], Some(4)),
            // Message, file, line, function, bytes of a character.
            System::AssertFail => (&[8, 8, 4, 8, 8], None),
        }
    }
}
