//! The SIMT executor: runs a kernel on the CPU with the complete CUDA model.
//!
//! Every GPU thread is a stackful coroutine; a barrier or a shuffle suspends it until all participants have arrived.
//! Blocks run in parallel on the cores, each on one OS thread with its own shared memory. The blocks of a cluster share an
//! OS thread and access each other's memory. What the CUDA model leaves undefined is an error here: a barrier that some
//! threads of the block do not reach, a shuffle or vote whose mask names lanes that do not participate, shared memory over
//! the limit. Shared memory starts as `0xff` bytes, a NaN in every float format, so that reads of unwritten memory are noticed.
//!
//! `coroutine` is the scheduler of [`Scheduler::Coroutines`], `threads` that of [`Scheduler::Threads`].
//!
//! ```
//! use cuda_std::launch::LaunchConfig;
//! use cuda_std::simt::Executor;
//! use cuda_std::{kernel, thread};
//!
//! /// y = a * x + y, for vectors of `x.len()` elements.
//! ///
//! /// # Safety
//! /// `y` has the length of `x`, and there is at least one thread per element.
//! #[kernel]
//! pub unsafe fn saxpy(a: f32, x: &[f32], y: *mut f32) {
//!     let i = thread::index_1d() as usize;
//!     if i < x.len() {
//!         unsafe { *y.add(i) += a * x[i] };
//!     }
//! }
//!
//! let x = vec![1.0, 2.0, 3.0];
//! let mut y = vec![10.0, 20.0, 30.0];
//! // SAFETY: `y` is as long as `x`, and 32 threads cover 3 elements.
//! unsafe { saxpy::launch(&Executor::new(), LaunchConfig::cover(x.len(), 32), 2.0, &x, &mut y) }?;
//! assert_eq!(y, [12.0, 24.0, 36.0]);
//! # Ok::<(), cuda_std::launch::LaunchError>(())
//! ```
//!
//! # In debug builds
//!
//! Cargo does not optimise dependencies in its `dev` and `test` profiles, which makes the executor and the kernels very
//! slow. Add these lines to the `Cargo.toml` of your workspace. The last part is for kernels in a crate of the
//! workspace itself.
//!
//! ```toml
//! [profile.dev.package.ferrowarp-cuda-std]
//! opt-level = 3
//!
//! [profile.dev.package.corosensei]
//! opt-level = 3
//!
//! [profile.dev.package.my-kernels]
//! opt-level = 3
//! ```

pub(crate) mod atomic_scopes;
pub(crate) mod block;
mod channel;
mod cluster;
mod collective;
pub(crate) mod context;
mod coroutine;
mod fault;
mod fences;
mod fiber;
pub(crate) mod flights;
mod grid;
mod guarded;
mod launcher;
mod limit;
#[cfg(all(target_os = "linux", not(miri)))]
mod os_thread;
mod panic_hook;
mod per_process;
mod pool;
pub(crate) mod proxy;
mod request;
mod schedule;
mod scopes;
pub(crate) mod shared;
#[cfg(all(target_os = "linux", not(miri)))]
mod signal;
mod stack;
pub(crate) mod states;
mod stuck;
mod threads;
mod unwind;
pub(crate) mod watch;
pub(crate) mod zones;

use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::collections::HashMap;
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

pub(crate) use pool::worker;

pub use fault::{BeyondBuffer, Fault, FaultKind, Instead, Place, SourceLine, StuckWait};
#[doc(hidden)]
pub use guarded::GuardedMemory;
pub use limit::parse_time_limit;
pub use schedule::parse_seed;
pub use shared::{SHARED_STATICS, SharedStatic};

#[doc(hidden)]
pub use linkme as __linkme;

use grid::Grid;
use limit::{TimeLimit, Timed};
use schedule::{Order, Seed};
use watch::Watch;

use crate::launch::{LaunchConfig, LaunchError, Limits};

/// Runs kernels on the CPU.
#[derive(Clone, Debug)]
pub struct Executor {
    limits: Limits,
    workers: usize,
    seed: Seed,
    scheduler: Scheduler,
    limit: TimeLimit,
    /// For each kernel, the nanoseconds that a block or a cluster took in the last launch.
    block_nanos: Arc<Mutex<HashMap<&'static str, u64>>>,
    /// The watch of a test.
    watch: Option<Arc<Watch>>,
}

impl Default for Executor {
    fn default() -> Self {
        Self::new()
    }
}

/// How an [`Executor`] runs the threads of a kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Scheduler {
    /// Every thread is a coroutine: fast, and the same order at every run.
    #[default]
    Coroutines,
    /// Every thread is an OS thread, and the scheduler orders no more of their memory accesses than the GPU does. It is
    /// slow. Miri always uses it, and with it the sanitizers find the data races of a kernel. All blocks of a grid run
    /// at the same time.
    Threads,
}

/// Other cores take part only in launches that take at least this long: about the cost of waking a core.
const WORTH_SHARING_NANOS: u64 = 20_000;

impl Executor {
    /// Creates an executor with the default [`Limits`], on all cores. The environment variable `FERROWARP_SEED` sets
    /// the seed of its schedule: a decimal number, or a hexadecimal one after `0x`.
    ///
    /// A kernel thread has a stack of 256 KiB for its local variables. The environment variable `FERROWARP_STACK_KIB` sets
    /// another size, from 64 to 1048576. A thread that needs more ends the program; on Linux an error names
    /// it first.
    ///
    /// A launch has no time limit, unless the environment variable `FERROWARP_KERNEL_SECONDS` sets one:
    /// see [`with_time_limit`](Self::with_time_limit).
    pub fn new() -> Self {
        let workers = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
        let seed = Seed::from_environment();
        let scheduler = if cfg!(miri) { Scheduler::Threads } else { Scheduler::Coroutines };
        let limit = TimeLimit::from_environment();
        let (limits, block_nanos) = Default::default();
        Self { limits, workers, seed, scheduler, limit, block_nanos, watch: None }
    }

    /// The same executor with another scheduler.
    pub fn with_scheduler(self, scheduler: Scheduler) -> Self {
        Self { scheduler, ..self }
    }

    /// The same executor with at most `workers` blocks at a time; 0 counts as 1.
    pub fn with_workers(self, workers: usize) -> Self {
        Self { workers: workers.max(1), ..self }
    }

    /// The same executor with a time limit for each launch.
    ///
    /// A launch over its limit ends with a [`Fault`] as soon as one of its threads reaches a barrier, a warp operation
    /// or an atomic, or a block ends. A kernel that does none of this within the same time again (at least 1 second, at
    /// most 10) cannot be stopped: the program is aborted with a line on stderr that names kernel, block and thread
    /// (only the kernel on systems other than Linux). Under Miri there is no limit.
    pub fn with_time_limit(self, limit: Duration) -> Self {
        Self { limit: TimeLimit::Of(limit), ..self }
    }

    /// As above, if it has no limit yet, not even from the environment.
    pub(crate) fn or_time_limit(self, limit: Duration) -> Self {
        match self.limit {
            TimeLimit::None => self.with_time_limit(limit),
            TimeLimit::Of(_) | TimeLimit::Malformed(_) => self,
        }
    }

    /// The same executor with other limits.
    pub fn with_limits(self, limits: Limits) -> Self {
        Self { limits, ..self }
    }

    /// The same executor with a schedule that is shuffled from `seed`.
    ///
    /// Every seed gives a different order of the grid's blocks, the turns of a cluster's blocks, a block's threads and a
    /// warp's lanes. Warps get ahead of each other up to their next barrier, as on a GPU. A kernel that lacks a barrier,
    /// and works in the fixed order by luck, fails under some seed. The same launch with the same seed has the same
    /// order on any machine: the blocks run one after the other, on the calling thread. A [`Fault`] names the seed.
    ///
    /// A thread is not interrupted between two waits. So a kernel that spins until another thread or block has written
    /// may spin forever if that one comes later, as on a GPU that runs them one after the other. A wait of
    /// [`grid`](crate::grid) does not spin here.
    pub fn with_seed(self, seed: u64) -> Self {
        Self { seed: Seed::Shuffled(seed), ..self }
    }

    /// Returns the seed of its schedule, if it has one.
    pub fn seed(&self) -> Option<u64> {
        match self.seed {
            Seed::Shuffled(seed) => Some(seed),
            Seed::Fixed | Seed::Malformed(_) => None,
        }
    }

    /// The same executor with the fixed order, regardless of the environment.
    pub fn without_seed(self) -> Self {
        Self { seed: Seed::Fixed, ..self }
    }

    /// Returns the limits that it checks launches against.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Returns the largest number of blocks that run at the same time.
    pub fn workers(&self) -> usize {
        self.workers
    }

    /// Runs `body` once per thread of the grid, as the kernel named `kernel`, and returns when all have ended.
    ///
    /// # Errors
    /// If the launch is over the limits, or a thread panicked or broke a rule of the CUDA model. Of several faults,
    /// that of the lowest block is returned. Blocks that have not started by then do not run.
    pub fn run(
        &self,
        kernel: &'static str,
        config: LaunchConfig,
        body: impl Fn() + Sync,
    ) -> Result<(), LaunchError> {
        self.limits.check(kernel, &config)?;
        self.run_body(kernel, config, false, &body)
    }

    /// Same as [`Self::run`], but all blocks of the grid are alive at once and may wait for each other, as in a launch
    /// of a `#[kernel(cooperative)]`. They take turns on the calling thread.
    ///
    /// # Errors
    /// Same as for [`Self::run`], or if there are more blocks than [`Limits::resident_blocks`].
    pub fn run_cooperative(
        &self,
        kernel: &'static str,
        config: LaunchConfig,
        body: impl Fn() + Sync,
    ) -> Result<(), LaunchError> {
        self.limits.check(kernel, &config)?;
        self.limits.check_resident(kernel, &config)?;
        self.run_body(kernel, config, true, &body)
    }

    fn run_body(
        &self,
        kernel: &'static str,
        config: LaunchConfig,
        is_cooperative: bool,
        body: &(dyn Fn() + Sync),
    ) -> Result<(), LaunchError> {
        if is_cooperative && self.scheduler == Scheduler::Threads {
            let max_resident_threads = self.limits.max_resident_threads.min(threads::MOST_COOPERATIVE);
            Limits { max_resident_threads, ..self.limits.clone() }.check_resident(kernel, &config)?;
        }
        let (seed, watch) = (self.seed_of_launch(kernel)?, self.watch());
        let regions = watch.map(Watch::regions).unwrap_or_default();
        let timed = self.limit.begin(kernel)?;
        let clock = timed.as_ref().map(Timed::clock);
        let atomic_scopes = Default::default();
        let grid = Grid { kernel, config, body, is_cooperative, seed, atomic_scopes, clock, watch, regions };
        self.run_checked(&grid, timed.as_ref())
    }

    fn run_checked(&self, grid: &Grid<'_>, timed: Option<&Timed>) -> Result<(), LaunchError> {
        if unwind::unwinds() {
            if context::is_inside() {
                let reason = "a destructor of a kernel thread that unwinds cannot launch";
                return Err(LaunchError::Device(
                    format!("launch of {} failed: {reason}", grid.kernel).into(),
                ));
            }
            return pool::apart(grid.kernel, || self.run_checked(grid, timed));
        }
        panic_hook::install();
        let threads = self.scheduler == Scheduler::Threads;
        #[cfg(all(target_os = "linux", not(miri)))]
        if !threads || timed.is_some() || !grid.regions.is_empty() {
            signal::watch();
        }
        // All blocks in this process share a static in the attribute form, so launches take turns.
        static TURNS: Mutex<()> = Mutex::new(());
        let shares_statics = !shared::statics().is_empty();
        let _turn = shares_statics.then(|| TURNS.lock().unwrap_or_else(PoisonError::into_inner));

        let run_together = if threads { grid.config.grid.volume() } else { grid.blocks_of_unit() };
        if run_together > 1
            && let Some(first) = shared::statics().first()
        {
            return Err(LaunchError::SharedStatics { kernel: grid.kernel, name: first.name });
        }

        if threads {
            shared::poison_statics();
            return Ok(threads::run_grid(grid)?);
        }

        let units = grid.config.grid.volume() / grid.blocks_of_unit();
        let order = Order::of(grid, units);
        let is_alone = shares_statics || context::is_inside() || order.is_some();
        let workers = if is_alone { 1 } else { self.workers as u64 };
        let workers = workers.min(units).min(cluster::most_workers(&grid.config));
        let next = AtomicU64::new(0);
        let stop = AtomicBool::new(false);
        let faults = Mutex::new(Vec::<(u64, Box<Fault>)>::new());
        // Runs the next unit; returns false when there is none.
        let run_next = || {
            let unit = next.fetch_add(1, Ordering::Relaxed);
            if unit >= units || stop.load(Ordering::Relaxed) {
                return false;
            }
            let unit = order.map_or(unit, |order| order.at(unit));
            if let Err(fault) = cluster::run_unit(grid, unit) {
                stop.store(true, Ordering::Relaxed);
                faults.lock().unwrap_or_else(PoisonError::into_inner).push((unit, fault));
            }
            true
        };
        let _entered = timed.map(Timed::enter);
        let work = || {
            let _entered = timed.map(Timed::enter);
            while run_next() {}
        };
        let is_worth_sharing =
            |nanos: u64| workers > 1 && nanos.saturating_mul(units - 1) > WORTH_SHARING_NANOS;

        let start = Instant::now();
        let mut participants = 1;
        // The time of the kernel's last launch decides whether this one is worth sharing; without it, the first block's
        // time does.
        let known = self.block_nanos().get(grid.kernel).copied();
        if known.is_some_and(is_worth_sharing)
            || (known.is_none() && run_next() && is_worth_sharing(start.elapsed().as_nanos() as u64))
        {
            participants = workers;
            pool::share(workers as usize - 1, &work);
        } else {
            work();
        }
        let nanos = start.elapsed().as_nanos() as u64 * participants / units;
        self.block_nanos().insert(grid.kernel, nanos);

        let faults = faults.into_inner().unwrap_or_else(PoisonError::into_inner);
        match faults.into_iter().min_by_key(|(unit, _)| *unit) {
            Some((_, fault)) => Err(fault.into()),
            None => Ok(()),
        }
    }
}

impl Executor {
    /// Returns the seed of a launch. OS threads have none, since the system orders them.
    fn seed_of_launch(&self, kernel: &'static str) -> Result<Option<u64>, LaunchError> {
        let seed = self.seed.of_launch(kernel)?;
        Ok(seed.filter(|_| self.scheduler == Scheduler::Coroutines))
    }

    /// The same executor for a test that watches what its threads do.
    pub(crate) fn with_watch(self, watch: Arc<Watch>) -> Self {
        Self { watch: Some(watch), ..self }
    }

    /// Returns the watch of the test, if there is one.
    pub(crate) fn watch(&self) -> Option<&Watch> {
        self.watch.as_deref()
    }

    fn block_nanos(&self) -> MutexGuard<'_, HashMap<&'static str, u64>> {
        self.block_nanos.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
