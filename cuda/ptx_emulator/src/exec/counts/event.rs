//! What a thread does that counts.

/// One action.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Event {
    /// A number for calls and iterations: lanes with the same number execute the instruction together.
    pub path: u64,
    /// The address of an access, or the target of a branch.
    pub value: u64,
    /// The instruction's index in the module.
    pub instr: u32,
    pub deed: Deed,
    /// Bytes accessed.
    pub bytes: u32,
}

/// A counted action of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Deed {
    /// Began a block; all instructions up to its end follow.
    Block,
    /// Its predicate was off.
    Off,
    /// Jumped to this instruction of the function.
    Branch,
    Global(Way),
    Shared(Way),
    /// Accessed memory of another block of the cluster.
    Cluster,
    Local(Way),
    Constant,
    /// A bulk copy, by its global address; copies from shared memory to another block's are excluded.
    Bulk(Way),
    /// A copy of a tensor box, by the bytes within the tensor.
    Box(Way),
    Collective(Collective),
}

/// The kind of a memory access.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Way {
    Load,
    Store,
    Atomic,
    /// `cp.async`.
    Copy,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Collective {
    Shuffle,
    Vote,
    WarpBarrier,
    Barrier,
    ClusterBarrier,
    Mbarrier,
    Matrix,
}

/// Hashes two numbers, with a collision chance of 2^-64 (the finalizer of SplitMix64).
pub(crate) fn mixed(a: u64, b: u64) -> u64 {
    let mut x = a.rotate_left(23) ^ b.wrapping_add(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}
