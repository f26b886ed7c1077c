//! The puzzles of `cargo xtask learn`: kernels with holes, their solutions, and typical wrong solutions.
//!
//! [`holes`] has the files as a reader gets them. The reader edits copies in `src/mine`, which git ignores and only the
//! feature `mine` compiles, so the checks of this workspace do not depend on them.

#![no_std]
#![allow(
    missing_docs,
    unsafe_op_in_unsafe_fn,
    unused,
    clippy::all,
    clippy::undocumented_unsafe_blocks,
    reason = "the comment above a puzzle states its contract; holes lack the code, and most answers break the contract"
)]

#[cfg(feature = "answers")]
pub mod answers;
#[cfg(feature = "answers")]
pub mod holes;
#[cfg(any(feature = "answers", feature = "predict"))]
pub mod predict;

/// The puzzle that the reader solves.
#[cfg(feature = "mine")]
#[allow(warnings, clippy::all, reason = "the reader's own code")]
pub mod mine {
    include!("mine/current.rs");
}
