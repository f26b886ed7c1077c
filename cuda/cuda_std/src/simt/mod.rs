//! The SIMT executor: runs a kernel on the CPU with the CUDA model whole.
//!
//! Every GPU thread is a stackful coroutine; a barrier or a shuffle suspends it until all that take part have
//! arrived. Blocks run in parallel over the cores, each on one OS thread with shared memory of its own; the blocks of
//! a cluster share a thread, and reach each other's memory. What the
//! CUDA model leaves undefined is an error here: a barrier that not all threads of the block reach, a shuffle
//! or vote whose mask names lanes that do not take part, shared memory over the limit. Shared memory starts out
//! filled with `0xff` bytes, a NaN in every float format, so that a read of what nobody wrote is seen.
//!
//! A scheduler is a module with `Scheduler` and `Port`; which one is `scheduler` is decided in this file alone.
//!
//! ```
//! use cuda_std::launch::LaunchConfig;
//! use cuda_std::simt::Executor;
//! use cuda_std::{kernel, thread};
//!
//! /// y = a * x + y, for vectors of `x.len()` elements.
//! ///
//! /// # Safety
//! /// `y` holds as many elements as `x`; at least as many threads are launched.
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

pub(crate) mod cluster;
pub(crate) mod context;
mod fault;
mod fiber;
mod panic_hook;
mod pool;
mod rendezvous;
#[path = "coroutine.rs"]
mod scheduler;
pub(crate) mod shared;
mod stack;

use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::collections::HashMap;
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

pub use fault::{Fault, FaultKind, Instead, Place, SourceLine};
pub use shared::{SHARED_STATICS, SharedStatic};

#[doc(hidden)]
pub use linkme as __linkme;

use crate::launch::{KernelCall, LaunchConfig, LaunchError, Launcher, Limits, Residence};

/// Runs kernels on the CPU.
#[derive(Clone, Debug)]
pub struct Executor {
    limits: Limits,
    workers: usize,
    /// By kernel, the nanoseconds that a block, or a cluster of them, took in the last launch.
    block_nanos: Arc<Mutex<HashMap<&'static str, u64>>>,
}

impl Default for Executor {
    fn default() -> Self {
        Self::new()
    }
}

/// Time that a launch must take for other cores to be asked to take part: about what waking one costs.
const WORTH_SHARING_NANOS: u64 = 20_000;

/// What the blocks of one launch have in common.
pub(crate) struct Grid<'a> {
    kernel: &'static str,
    config: LaunchConfig,
    body: &'a (dyn Fn() + Sync),
}

impl Executor {
    /// An executor with the default [`Limits`], on all cores.
    pub fn new() -> Self {
        let workers = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
        Self { limits: Limits::default(), workers, block_nanos: Arc::default() }
    }

    /// The same executor with at most `workers` blocks at a time; 0 counts as 1.
    pub fn with_workers(self, workers: usize) -> Self {
        Self { workers: workers.max(1), ..self }
    }

    /// The same executor with other limits.
    pub fn with_limits(self, limits: Limits) -> Self {
        Self { limits, ..self }
    }

    /// The limits it checks launches against.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Blocks that run at a time, at most.
    pub fn workers(&self) -> usize {
        self.workers
    }

    /// Runs `body` once per thread of the grid, as the kernel named `kernel`, and returns when all have ended.
    ///
    /// # Errors
    /// The launch is over the limits, or a thread panicked or broke a rule of the CUDA model; of several faults
    /// that of the lowest block that ran. Blocks that had not started by then do not run.
    pub fn run(
        &self,
        kernel: &'static str,
        config: LaunchConfig,
        body: impl Fn() + Sync,
    ) -> Result<(), LaunchError> {
        self.limits.check(kernel, &config)?;
        self.run_checked(&Grid { kernel, config, body: &body })
    }

    fn run_checked(&self, grid: &Grid<'_>) -> Result<(), LaunchError> {
        panic_hook::install();
        // A static in the attribute form is one piece of memory in this process, so its blocks take turns.
        static TURNS: Mutex<()> = Mutex::new(());
        let shares_statics = !SHARED_STATICS.is_empty();
        let _turn = shares_statics.then(|| TURNS.lock().unwrap_or_else(PoisonError::into_inner));

        if grid.config.cluster > 1
            && let Some(first) = SHARED_STATICS.first()
        {
            return Err(LaunchError::StaticsInCluster { kernel: grid.kernel, name: first.name });
        }

        // A unit of work is a block, or the blocks of a cluster.
        let units = grid.config.grid.volume() / u64::from(grid.config.cluster);
        let workers = if shares_statics || context::is_inside() { 1 } else { self.workers as u64 };
        let workers = workers.min(units).min(cluster::most_workers(&grid.config));
        let next = AtomicU64::new(0);
        let stop = AtomicBool::new(false);
        let faults = Mutex::new(Vec::<(u64, Box<Fault>)>::new());
        // Runs the next unit; false when there is none.
        let run_next = || {
            let unit = next.fetch_add(1, Ordering::Relaxed);
            if unit >= units || stop.load(Ordering::Relaxed) {
                return false;
            }
            if let Err(fault) = cluster::run_unit(grid, unit) {
                stop.store(true, Ordering::Relaxed);
                faults.lock().unwrap_or_else(PoisonError::into_inner).push((unit, fault));
            }
            true
        };
        let work = || while run_next() {};
        let is_worth_sharing =
            |nanos: u64| workers > 1 && nanos.saturating_mul(units - 1) > WORTH_SHARING_NANOS;

        let start = Instant::now();
        let mut participants = 1;
        // What the kernel's last launch took says whether this one is worth sharing; else its first block does.
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
    fn block_nanos(&self) -> MutexGuard<'_, HashMap<&'static str, u64>> {
        self.block_nanos.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Launcher for Executor {
    unsafe fn submit(&self, call: &KernelCall<'_>) -> Result<(), LaunchError> {
        call.check(Residence::Host, &self.limits)?;
        let args = SharedArgs(call.args.as_ptr());
        let entry = call.meta.call;
        let body = move || {
            // The whole wrapper is captured, which is what makes the closure `Sync`.
            let args: &SharedArgs = &args;
            // SAFETY: the caller of `submit` answers for the arguments and the kernel's contract; they outlive
            // this call, which returns after the last thread.
            unsafe { entry(args.0) }
        };
        self.run_checked(&Grid { kernel: call.meta.name, config: call.config, body: &body })
    }
}

/// The argument array of a launch, which every thread of the grid reads.
struct SharedArgs(*const *mut core::ffi::c_void);

// SAFETY: the threads only read the array and the values behind it; what those values point to is shared as
// the kernel's contract says.
unsafe impl Sync for SharedArgs {}
// SAFETY: as above.
unsafe impl Send for SharedArgs {}
