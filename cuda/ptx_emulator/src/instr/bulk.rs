//! Copies of many bytes that one thread starts.

use super::{Addr, Slot};

/// `cp.async.bulk` to shared memory.
#[derive(Debug)]
pub(crate) struct BulkCopy {
    pub target: Addr,
    pub source: Addr,
    pub bytes: Slot,
    /// Where its bytes count.
    pub barrier: Addr,
}

/// `cp.async.bulk` to global memory.
#[derive(Debug)]
pub(crate) struct BulkStore {
    pub target: Addr,
    pub source: Addr,
    pub bytes: Slot,
}

/// `st.async`.
#[derive(Debug)]
pub(crate) struct StoreAsync {
    pub at: Addr,
    pub values: Box<[Slot]>,
    /// Bytes of each.
    pub bytes: u64,
    /// Where they count.
    pub barrier: Addr,
}
