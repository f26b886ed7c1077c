//! What the tests on the host share.

#![allow(dead_code, reason = "every test crate uses a part of this")]

pub mod matrices;
pub mod tiles;

use std::sync::atomic::{AtomicU64, Ordering};

use cuda_std::launch::{Dim3, LaunchConfig};
use cuda_std::simt::Executor;
use cuda_std::thread;

/// One cell per thread of a launch, which only that thread fills.
pub struct Cells(Vec<AtomicU64>);

impl Cells {
    /// `len` cells that hold `u64::MAX`.
    pub fn new(len: usize) -> Self {
        Self((0..len).map(|_| AtomicU64::new(u64::MAX)).collect())
    }

    /// Writes the cell of the calling thread.
    pub fn put(&self, value: u64) {
        self.0[thread::index() as usize].store(value, Ordering::Relaxed);
    }

    /// The values, in the order of `thread::index()`.
    pub fn values(&self) -> Vec<u64> {
        self.0.iter().map(|cell| cell.load(Ordering::Relaxed)).collect()
    }
}

/// Runs `body` once per thread and collects what each returns, in the order of `thread::index()`.
pub fn collect(grid: impl Into<Dim3>, block: impl Into<Dim3>, body: impl Fn() -> u64 + Sync) -> Vec<u64> {
    let config = LaunchConfig::new(grid, block);
    let cells = Cells::new((config.grid.volume() * config.block.volume()) as usize);
    Executor::new().run("test", config, || cells.put(body())).unwrap();
    cells.values()
}
