//! Softmax along the rows of a matrix, as a ladder: each rung does one thing better than the one below.
//!
//! All rungs compute `out = exp(inp - max) / sum(exp(inp - max))` on f32, row-major, `[rows, cols]`, with the same
//! arguments `(out, inp, rows, cols)`, so that a `diff` of neighbours is the lesson. `LADDER` lists them.
//!
//! They agree on the hard cases too. A row with a NaN or a +inf, or of -inf only, gives NaN throughout; -inf among
//! finite numbers gives 0. The maximum is subtracted before anything is multiplied, so that logits of any size lose
//! nothing. Subnormal probabilities are kept. Every sum has a fixed order, so results repeat bit for bit. `out` is not
//! `inp`: the kernels read through the path that does not see writes.

#[macro_use]
mod instances;

pub mod k1_naive;

pub mod k2_block_reduce;

pub mod k3_coalesced;

pub mod k4_warp_shuffle;

pub mod k5_vec4;

pub mod k6_unrolled;

pub mod k7_online;

pub mod k8_resident;

pub mod k9_cluster;

pub mod forward;

mod forward_split;

pub mod forward_tiers;

pub mod serial;

pub mod backward;

pub mod cross_entropy;

#[cfg(not(target_arch = "nvptx64"))]
pub mod operation;

mod row;

#[cfg(not(target_arch = "nvptx64"))]
mod ladder;
#[cfg(not(target_arch = "nvptx64"))]
pub use ladder::{Prepared, Rung, Step, Variant};

/// All rungs, the lowest first.
#[cfg(not(target_arch = "nvptx64"))]
pub const LADDER: &[Rung] = &[
    Rung {
        name: "k1_naive",
        idea: "one thread per output element",
        variants: &[ladder::variant!(k1_naive::softmax_k1_naive, usize::MAX, k1_naive::config)],
    },
    Rung {
        name: "k2_block_reduce",
        idea: "one block per row, a chunk per thread, a tree in shared memory",
        variants: &[ladder::variant!(
            k2_block_reduce::softmax_k2_block_reduce,
            usize::MAX,
            k2_block_reduce::config
        )],
    },
    Rung {
        name: "k3_coalesced",
        idea: "neighbouring threads read neighbouring elements",
        variants: &[ladder::variant!(k3_coalesced::softmax_k3_coalesced, usize::MAX, k3_coalesced::config)],
    },
    Rung {
        name: "k4_warp_shuffle",
        idea: "reduction in registers, one value per warp through shared memory",
        variants: &[ladder::variant!(
            k4_warp_shuffle::softmax_k4_warp_shuffle,
            usize::MAX,
            k4_warp_shuffle::config
        )],
    },
    Rung {
        name: "k5_vec4",
        idea: "16 bytes a load and a store",
        variants: &[ladder::variant!(k5_vec4::softmax_k5_vec4, usize::MAX, k5_vec4::config)],
    },
    Rung {
        name: "k6_unrolled",
        idea: "several loads in flight per thread, block size by width",
        variants: k6_unrolled::VARIANTS,
    },
    Rung { name: "k7_online", idea: "maximum and sum in one pass", variants: k7_online::VARIANTS },
    Rung {
        name: "k8_resident",
        idea: "the row is read once and stays in registers",
        variants: k8_resident::VARIANTS,
    },
    Rung {
        name: "k9_cluster",
        idea: "a wide row is spread over a cluster of blocks",
        variants: k9_cluster::VARIANTS,
    },
];
