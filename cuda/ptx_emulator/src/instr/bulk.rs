//! Bulk copies, each started by one thread.

use super::{Addr, Slot};

/// `cp.async.bulk` to shared memory.
#[derive(Debug)]
pub(crate) struct BulkCopy {
    pub target: Addr,
    pub source: Addr,
    pub bytes: Slot,
    /// The mbarrier that counts its bytes.
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
    /// Bytes of each value.
    pub bytes: u64,
    /// The mbarrier that counts its bytes.
    pub barrier: Addr,
}
