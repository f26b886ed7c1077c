//! Reads the record of a kernel that panicked on the GPU.

use std::fmt;
use std::sync::atomic::{AtomicU32, Ordering};

use cuda_std::launch::Dim3;
use cuda_std::panic_record::PanicRecord;

/// A panic of one GPU thread.
///
/// ```
/// use cuda_std::launch::Dim3;
/// use ferrowarp::device::DevicePanic;
///
/// let (block, thread) = (Dim3::from(3), Dim3::from(7));
/// let panic = DevicePanic { message: "no".into(), file: "k.rs".into(), line: 4, column: 9, block, thread };
/// assert_eq!(panic.to_string(), "panicked in block (3, 1, 1), thread (7, 1, 1), at k.rs:4:9: no");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DevicePanic {
    /// The panic's message; empty if the kernel could not record it.
    pub message: String,
    /// The source file; empty if the kernel could not record it.
    pub file: String,
    /// Line in the file, from 1.
    pub line: u32,
    /// Column in the line, from 1.
    pub column: u32,
    /// The thread's block.
    pub block: Dim3,
    /// The thread.
    pub thread: Dim3,
}

impl fmt::Display for DevicePanic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "panicked in block {}, thread {}", self.block, self.thread)?;
        if !self.file.is_empty() {
            write!(f, ", at {}:{}:{}", self.file, self.line, self.column)?;
        }
        if !self.message.is_empty() {
            write!(f, ": {}", self.message)?;
        }
        Ok(())
    }
}

/// Reads the record of a panic, if a kernel completed one.
///
/// # Safety
/// `record` is valid for reads and writes, initialised, and the device's work has ended.
pub(super) unsafe fn read(record: *mut PanicRecord) -> Option<DevicePanic> {
    // SAFETY: the pointer is valid and aligned by the caller's contract, and the device does not access it any more.
    let state = unsafe { AtomicU32::from_ptr(&raw mut (*record).state) };
    if state.load(Ordering::Acquire) != PanicRecord::COMPLETE {
        return None;
    }
    // SAFETY: as above. The read is volatile because the device wrote the record, which the compiler cannot see.
    Some(decode(&unsafe { record.read_volatile() }))
}

fn decode(record: &PanicRecord) -> DevicePanic {
    let dim = |[x, y, z]: [u32; 3]| Dim3::new(x, y, z);
    DevicePanic {
        message: record.message(),
        file: record.file(),
        line: record.line,
        column: record.column,
        block: dim(record.block),
        thread: dim(record.thread),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record() -> PanicRecord {
        let mut record = PanicRecord::empty();
        record.line = 12;
        record.column = 9;
        record.block = [4, 0, 1];
        record.thread = [31, 2, 0];
        record.file_len = 10;
        record.file[..10].copy_from_slice(b"src/sum.rs");
        record.state = PanicRecord::COMPLETE;
        record
    }

    fn read_one(mut record: PanicRecord) -> Option<DevicePanic> {
        // SAFETY: a local that no other code touches.
        unsafe { read(&raw mut record) }
    }

    #[test]
    fn a_message_is_decoded() {
        let mut record = record();
        record.message[..5].copy_from_slice(b"empty");
        record.message_len = 5;
        assert_eq!(
            read_one(record).unwrap().to_string(),
            "panicked in block (4, 0, 1), thread (31, 2, 0), at src/sum.rs:12:9: empty"
        );
    }

    #[test]
    fn a_bounds_check_is_told_like_the_compiler_does() {
        let mut record = record();
        (record.kind, record.index, record.len) = (PanicRecord::INDEX_OUT_OF_BOUNDS, 7, 3);
        let message = read_one(record).unwrap().message;
        assert_eq!(message, "index out of bounds: the len is 3 but the index is 7");
    }

    #[test]
    fn lengths_over_the_fields_are_cut() {
        let mut record = record();
        record.message.fill(b'x');
        record.message_len = 100_000;
        record.file_len = u32::MAX;
        let panic = read_one(record).unwrap();
        assert_eq!(panic.message.len(), 256);
        assert_eq!(panic.file.len(), 128);
    }

    #[test]
    fn an_empty_or_unfinished_record_is_none() {
        for state in [PanicRecord::EMPTY, PanicRecord::WRITING] {
            let mut record = record();
            record.state = state;
            assert_eq!(read_one(record), None);
        }
    }
}
