//! What the tests on the host share: the frame of a test, which launches a kernel on each executor.

#![allow(dead_code, reason = "every test crate uses a part of this")]

pub mod matrices;

use std::panic::Location;
use std::sync::atomic::{AtomicU64, Ordering};

use cuda_std::barrier::Barrier;
use cuda_std::launch::{Dim3, LaunchConfig, LaunchError};
use cuda_std::mem::f32x4;
use cuda_std::simt::{Executor, Fault, Scheduler};
use cuda_std::{shared_array, thread};

/// The fixed order, OS threads, and this number of seeds. Miri supports only threads, which are its default.
pub fn executors(seeds: u64) -> Vec<Executor> {
    let new = || Executor::new().without_seed();
    let seeds = (0..if cfg!(miri) { 0 } else { seeds }).map(|seed| new().with_seed(seed));
    [new(), new().with_scheduler(Scheduler::Threads)].into_iter().chain(seeds).collect()
}

pub fn all() -> Vec<Executor> {
    executors(8)
}

/// The executors with threads that are fibers, for reports that only they give.
pub fn fibers() -> Vec<Executor> {
    all().into_iter().filter(|executor| !format!("{executor:?}").contains("scheduler: Threads")).collect()
}

/// A launch, on each of some executors.
#[derive(Clone)]
pub struct Launch {
    pub config: LaunchConfig,
    executors: Vec<Executor>,
    is_cooperative: bool,
}

/// A launch on all executors.
pub fn on(grid: impl Into<Dim3>, block: impl Into<Dim3>) -> Launch {
    Launch { config: LaunchConfig::new(grid, block), executors: all(), is_cooperative: false }
}

impl Launch {
    pub fn cluster(self, blocks: u32) -> Self {
        Self { config: self.config.with_cluster(blocks), ..self }
    }

    pub fn shared_bytes(self, bytes: u32) -> Self {
        Self { config: self.config.with_shared_bytes(bytes), ..self }
    }

    pub fn cooperative(self) -> Self {
        Self { is_cooperative: true, ..self }
    }

    pub fn by(self, executors: impl IntoIterator<Item = Executor>) -> Self {
        Self { executors: executors.into_iter().collect(), ..self }
    }

    fn run(&self, executor: &Executor, kernel: impl Fn() + Sync) -> Result<(), LaunchError> {
        if self.is_cooperative {
            executor.run_cooperative("test", self.config, kernel)
        } else {
            executor.run("test", self.config, kernel)
        }
    }

    /// The kernel ends without a fault.
    #[track_caller]
    pub fn check(&self, kernel: impl Fn() + Sync) {
        for executor in &self.executors {
            self.run(executor, &kernel).unwrap_or_else(|error| panic!("{error} by {executor:?}"));
        }
    }

    /// The kernel turns `before` into `after`.
    #[track_caller]
    pub fn writes<T: Clone + core::fmt::Debug + PartialEq>(
        &self,
        before: &[T],
        kernel: impl Fn(&Out<T>) + Sync,
        after: &[T],
    ) {
        for executor in &self.executors {
            let mut memory = before.to_vec();
            let out = Out(memory.as_mut_ptr());
            self.run(executor, || kernel(&out)).unwrap_or_else(|error| panic!("{error} by {executor:?}"));
            assert_eq!(memory, after, "{executor:?}");
        }
    }

    /// Returns the fault of the kernel by each executor.
    #[track_caller]
    pub fn faults(&self, kernel: impl Fn() + Sync) -> Vec<Fault> {
        let fault = |executor| match self.run(executor, &kernel) {
            Err(LaunchError::Fault(fault)) => *fault,
            other => panic!("expected a fault, got {other:?} by {executor:?}"),
        };
        self.executors.iter().map(fault).collect()
    }

    /// The kernel fails in the caller's file, with a message as [`has`] checks it.
    #[track_caller]
    pub fn fails(&self, expected: &str, kernel: impl Fn() + Sync) {
        for fault in self.faults(kernel) {
            has(&fault.to_string(), expected);
            let file = fault.location.as_ref().map(|at| at.file.as_str());
            assert_eq!(file, Some(Location::caller().file()), "{fault}");
        }
    }
}

/// Checks that the text has the parts of `expected`, which ` .. ` separates, in this order.
#[track_caller]
pub fn has(text: &str, expected: &str) {
    let mut rest = text;
    for part in expected.split(" .. ") {
        let Some((_, after)) = rest.split_once(part) else {
            panic!("`{part}` is missing or too early in: {text}")
        };
        rest = after;
    }
}

/// Memory that the threads of a kernel write to, each a part of its own.
pub struct Out<T>(pub *mut T);

// SAFETY: no two threads write to the same element.
unsafe impl<T> Sync for Out<T> {}

impl<T> Out<T> {
    pub fn at(&self, at: usize) -> *mut T {
        self.0.wrapping_add(at)
    }
}

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

/// Runs `body` once per thread and collects what each returns, in the order of `thread::index()`. Small grids run again on
/// OS threads, with the same results.
pub fn collect(grid: impl Into<Dim3>, block: impl Into<Dim3>, body: impl Fn() -> u64 + Sync) -> Vec<u64> {
    let config = LaunchConfig::new(grid, block);
    let seen = collect_by(&Executor::new(), config, &body);
    if config.grid.volume() * config.block.volume() <= 64 && !cfg!(miri) {
        assert_eq!(collect_by(&Executor::new().with_scheduler(Scheduler::Threads), config, body), seen);
    }
    seen
}

/// As above, by this executor.
pub fn collect_by(executor: &Executor, config: LaunchConfig, body: impl Fn() -> u64 + Sync) -> Vec<u64> {
    let cells = Cells::new((config.grid.volume() * config.block.volume()) as usize);
    executor.run("test", config, || cells.put(body())).unwrap();
    cells.values()
}

pub fn tid() -> usize {
    thread::thread_idx_x() as usize
}

pub fn block() -> usize {
    thread::block_idx_x() as usize
}

/// Numbers aligned to 16 bytes.
pub fn numbers(len: usize) -> Vec<f32x4> {
    (0..len).map(|i| f32x4::splat(i as f32)).collect()
}

/// A barrier that one thread has initialised for this number of arrivals.
pub fn barrier_for(arrivals: u32) -> *mut Barrier {
    let barrier = shared_array![Barrier; 1];
    if tid() == 0 {
        // SAFETY: no other thread uses it before the block's barrier.
        unsafe { Barrier::init(barrier, arrivals) };
        Barrier::fence_init();
    }
    thread::sync_threads();
    barrier
}

/// A tile and a barrier for one arrival.
pub fn tile_and_barrier() -> (*mut f32x4, *mut Barrier) {
    (shared_array![f32x4; 64], barrier_for(1))
}

/// Checks the panic of a thread that does this with a tile and a barrier.
#[track_caller]
pub fn check_panic(expected: &str, kernel: impl Fn(*mut f32x4, *mut Barrier) + Sync) {
    on(1, 1).fails(&format!("panicked: .. {expected}"), || {
        let (tile, ready) = tile_and_barrier();
        kernel(tile, ready);
    });
}
