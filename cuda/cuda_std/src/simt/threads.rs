//! The second scheduler: every GPU thread is an OS thread, so that Rust's own tools judge kernels as they judge
//! threads. Miri and ThreadSanitizer see an access of one thread ordered before that of another exactly where the
//! CUDA model orders them:
//!
//! - A barrier orders what its threads did before it with what they do after it; a warp's `sync_warp` does so for the
//!   lanes of its mask, the cluster's barrier for the threads that arrived with their writes.
//! - A shuffle, a vote, a match or a reduction passes values and orders nothing (PTX ISA, "memory consistency
//!   model": only barriers and fences do), nor does the end of a block. All blocks of a grid run at the same time.
//!
//! - A wait for words ([`grid`](crate::grid)) looks at them by the loads that the kernel asks for: an acquire orders what the
//!   release that it sees has ordered, a relaxed load nothing.
//!
//! So the scheduler itself must not order anything either, which a mutex would, even one that another thread took
//! for another reason: its state is in atomics that are accessed in relaxed order ([`Relaxed64`]), under a lock of the
//! same kind. Order is made in two places alone, the `order` of a waiter and its `cluster_arrival`; a barrier in shared
//! memory is an atomic of its own, which orders those that arrive before those that wait. The last thread at a block
//! barrier acquires the arrivals of all threads, then releases each of them. So a waiting thread cannot observe a thread
//! that has already continued.
//!
//! Nor does the waiting order anything ([`sleep`]).

mod arrivals;
mod encoding;
mod grid;
mod lent;
mod quiet;
mod relaxed;
mod sleep;
mod spawn;
mod waiting;

pub(super) use grid::{MOST_COOPERATIVE, run_grid};
pub(super) use waiting::Waiter;
