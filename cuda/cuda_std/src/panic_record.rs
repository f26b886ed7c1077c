//! The record that a panicking kernel leaves for the host.
//!
//! The host puts one zeroed [`PanicRecord`] into memory that the device can write, and stores its address in the
//! module's global `__ferrowarp_panic_slot`. The first thread that panics claims the record, fills it and traps. The
//! host sees that the launch failed, and reads thread, location and message.

/// The first panic of a launch. Both sides know this layout; all zero is empty.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(8))]
pub struct PanicRecord {
    /// [`PanicRecord::EMPTY`], [`PanicRecord::WRITING`] or [`PanicRecord::COMPLETE`].
    pub state: u32,
    /// Line of the panic in `file`, from 1.
    pub line: u32,
    /// Column of the panic in its line, from 1.
    pub column: u32,
    /// Bytes of `message` in use.
    pub message_len: u32,
    /// Bytes of `file` in use.
    pub file_len: u32,
    /// The block, x, y, z.
    pub block: [u32; 3],
    /// The thread in its block, x, y, z.
    pub thread: [u32; 3],
    /// [`PanicRecord::MESSAGE`], [`PanicRecord::INDEX_OUT_OF_BOUNDS`], [`PanicRecord::OUT_OF_MEMORY`] or
    /// [`PanicRecord::WAITED_IN_VAIN`].
    pub kind: u32,
    /// An index out of bounds, the bytes requested from a full heap, or the nanoseconds of a wait.
    pub index: u64,
    /// The length for an index out of bounds.
    pub len: u64,
    /// The message in UTF-8, cut at 256 bytes.
    pub message: [u8; 256],
    /// The source file in UTF-8; only the last 128 bytes of a longer path.
    pub file: [u8; 128],
}

impl PanicRecord {
    /// No thread has panicked.
    pub const EMPTY: u32 = 0;
    /// A thread has panicked and has not finished writing; the other fields are unreliable.
    pub const WRITING: u32 = 1;
    /// All fields are written.
    pub const COMPLETE: u32 = 2;

    /// `message` says why.
    pub const MESSAGE: u32 = 0;
    /// An index was out of bounds: `index` and `len` say which.
    pub const INDEX_OUT_OF_BOUNDS: u32 = 1;
    /// The heap had no room for `index` bytes.
    pub const OUT_OF_MEMORY: u32 = 2;
    /// A wait took longer than the `index` nanoseconds of its watchdog; `message` says for what.
    pub const WAITED_IN_VAIN: u32 = 3;

    /// A record that no thread has claimed.
    pub const fn empty() -> Self {
        Self {
            state: Self::EMPTY,
            line: 0,
            column: 0,
            message_len: 0,
            file_len: 0,
            block: [0; 3],
            thread: [0; 3],
            kind: Self::MESSAGE,
            index: 0,
            len: 0,
            message: [0; 256],
            file: [0; 128],
        }
    }
}

const _: () = assert!(size_of::<PanicRecord>() == 448 && align_of::<PanicRecord>() == 8);

#[cfg(not(target_arch = "nvptx64"))]
impl PanicRecord {
    /// Returns why the kernel panicked, in the words of Rust on the host.
    pub fn message(&self) -> String {
        match self.kind {
            Self::INDEX_OUT_OF_BOUNDS => {
                format!("index out of bounds: the len is {} but the index is {}", self.len, self.index)
            }
            Self::OUT_OF_MEMORY => format!(
                "memory allocation of {} bytes failed; a device's heap has 8 MB, unless the host sets \
                 CU_LIMIT_MALLOC_HEAP_SIZE",
                self.index
            ),
            Self::WAITED_IN_VAIN => {
                let what = text(&self.message, self.message_len);
                format!("waited for {what} longer than the {} ns of its watchdog", self.index)
            }
            _ => text(&self.message, self.message_len),
        }
    }

    /// The source file of the panic.
    pub fn file(&self) -> String {
        text(&self.file, self.file_len)
    }
}

/// The text in the first `len` bytes; a character cut in two is replaced.
#[cfg(not(target_arch = "nvptx64"))]
fn text(bytes: &[u8], len: u32) -> String {
    let used = &bytes[..bytes.len().min(len as usize)];
    String::from_utf8_lossy(used).into_owned()
}
