//! The second scheduler: every GPU thread is an OS thread, so that Rust's own tools check kernels like any other threads.
//! Miri and ThreadSanitizer see one thread's access ordered before another's exactly where the CUDA model orders them:
//!
//! - A barrier orders its threads' earlier accesses before their later ones; a warp's `sync_warp` does so for the lanes
//!   of its mask, the cluster's barrier for the threads that arrived with their writes.
//! - A shuffle, a vote, a match or a reduction passes values and orders nothing (PTX ISA, "memory consistency
//!   model": only barriers and fences do), nor does the end of a block. All blocks of a grid run at the same time.
//!
//! - A wait for words ([`grid`](crate::grid)) uses the loads that the kernel requests: an acquire load orders what the
//!   release that it sees has ordered, a relaxed load orders nothing.
//!
//! So the scheduler itself must not order anything. A mutex would, even one that another thread took for another reason.
//! Its state is therefore in atomics with relaxed accesses ([`Relaxed64`]), under a lock of the same kind. Only two
//! places order threads: the `order` of a waiter and its `cluster_arrival`. A barrier in shared memory is a separate
//! atomic, which orders arriving threads before waiting ones. The last thread at a block barrier acquires the arrivals
//! of all threads, then releases each of them. So a waiting thread cannot observe a thread that has already continued.
//!
//! Waiting does not order anything either ([`sleep`]).

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
