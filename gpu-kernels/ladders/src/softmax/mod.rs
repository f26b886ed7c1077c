//! Softmax along the rows of a matrix, as a ladder: each rung improves one thing over the rung below.
//!
//! All rungs compute `out = exp(inp - max) / sum(exp(inp - max))` on f32, row-major, `[rows, cols]`, with the same arguments
//! `(out, inp, rows, cols)`, so a `diff` of two neighbours shows what changed. `LADDER` lists them.
//!
//! They agree on the hard cases too. A row with a NaN or a +inf, or with only -inf, gives NaN throughout; -inf among finite
//! numbers gives 0. The maximum is subtracted before any multiplication, so logits of any size lose no accuracy. Subnormal
//! probabilities are kept. Every sum has a fixed order, so results repeat bit for bit. `out` must not alias `inp`: the
//! kernels read it by `ld.global.nc` (non-coherent).

pub mod k10_staged;
pub mod k1_naive;
pub mod k2_block_reduce;
pub mod k3_coalesced;
pub mod k4_warp_shuffle;
pub mod k5_vec4;
pub mod k6_unrolled;
pub mod k7_online;
pub mod k8_resident;
pub mod k9_cluster;

mod exchange;
mod vectors;

#[cfg(not(target_arch = "nvptx64"))]
mod ladder;
#[cfg(not(target_arch = "nvptx64"))]
pub use ladder::{Arguments, Prepared, Rung, Shapes, Step, Variant};

/// All rungs, the lowest first.
#[cfg(not(target_arch = "nvptx64"))]
pub const LADDER: &[Rung] = &[
    Rung {
        name: "k1_naive",
        idea: "one thread per output element",
        kernels: k1_naive::softmax_k1_naive::INSTANCES,
        pair: None,
    },
    Rung {
        name: "k2_block_reduce",
        idea: "one block per row, a chunk per thread, a tree in shared memory",
        kernels: k2_block_reduce::softmax_k2_block_reduce::INSTANCES,
        pair: None,
    },
    Rung {
        name: "k3_coalesced",
        idea: "neighbouring threads read neighbouring elements",
        kernels: k3_coalesced::softmax_k3_coalesced::INSTANCES,
        pair: None,
    },
    Rung {
        name: "k4_warp_shuffle",
        idea: "reduction in registers, one value per warp through shared memory",
        kernels: k4_warp_shuffle::softmax_k4_warp_shuffle::INSTANCES,
        pair: None,
    },
    Rung {
        name: "k5_vec4",
        idea: "16 bytes a load and a store",
        kernels: k5_vec4::softmax_k5_vec4::INSTANCES,
        pair: None,
    },
    Rung {
        name: "k6_unrolled",
        idea: "several loads in flight per thread, block size by width",
        kernels: k6_unrolled::softmax_k6_unrolled::INSTANCES,
        pair: None,
    },
    Rung {
        name: "k7_online",
        idea: "maximum and sum in one pass",
        kernels: k7_online::softmax_k7_online::INSTANCES,
        pair: None,
    },
    Rung {
        name: "k8_resident",
        idea: "the row is read once and stays in registers",
        kernels: k8_resident::softmax_k8_resident::INSTANCES,
        pair: None,
    },
    Rung {
        name: "k9_cluster",
        idea: "a wide row is spread over a cluster of blocks",
        kernels: k9_cluster::softmax_k9_cluster::INSTANCES,
        pair: Some(k9_cluster::split::PAIR),
    },
    Rung {
        name: "k10_staged",
        idea: "a wide row is held in shared memory",
        kernels: k10_staged::softmax_k10_staged::INSTANCES,
        pair: None,
    },
];
