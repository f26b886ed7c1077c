//! Counts of what costs time in a warp but does not show in results: requests, sectors, bank conflicts, divergent branches.
//!
//! A [`CountingDevice`] fills them, `ptx_emulator::Emulator` for one: [`KernelTest::count`](super::KernelTest::count).
//! Names and rules are those of Nsight Compute (Kernel Profiling Guide, "Metrics Decoder"); each item names its metric,
//! and a counter documents where it differs. Nothing depends on caches: hits, misses and traffic to DRAM are not counted.
//! `Display` prints one line per kind that occurred.

mod device;
mod display;
mod launches;

use core::iter::Sum;
use core::ops::AddAssign;

pub use device::{Counter, CountingDevice};
pub use launches::{InstructionCounts, LaunchCounts};

pub use crate::simt::SourceLine;

/// Threads of a warp.
const WARP: f64 = 32.0;

/// Returns `part / whole`, or `none` if `whole` is 0.
fn ratio(part: u64, whole: u64, none: f64) -> f64 {
    if whole == 0 { none } else { part as f64 / whole as f64 }
}

macro_rules! sums {
    ($($(#[$doc:meta])* $name:ident { $($(#[$of:meta])* $field:ident: $ty:ty,)* })*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct $name {
            $($(#[$of])* pub $field: $ty,)*
        }

        impl AddAssign for $name {
            fn add_assign(&mut self, other: Self) {
                $(self.$field += other.$field;)*
            }
        }

        impl Sum for $name {
            fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
                all.fold(Self::default(), |mut sum, one| {
                    sum += one;
                    sum
                })
            }
        }
    )*};
}

sums! {
    /// The counts of all warps of a launch, or of those that executed one instruction.
    Counts {
        /// Instructions of the PTX.
        instructions: Instructions,
        /// Branches.
        branches: Branches,
        /// Operations on floats.
        flop: Flop,
        /// Global memory, the heap of `malloc` included.
        global: Global,
        /// The block's own shared memory.
        shared: Shared,
        /// Local memory: arrays with indices that the compiler does not know, and registers that were spilled.
        local: Local,
        /// Constant memory.
        constant: Constant,
        /// Shared memory of other blocks of the cluster, and `st.async`.
        cluster: Requests,
        /// Bulk copies.
        bulk: Bulk,
        /// Collective operations.
        collectives: Collectives,
    }

    /// Executed instructions of the PTX. `ptxas` turns them into other instructions, so only the ratios are comparable
    /// with Nsight's.
    Instructions {
        /// By warps: `smsp__inst_executed`.
        warps: u64,
        /// By threads of those warps: `smsp__thread_inst_executed`.
        threads: u64,
        /// By threads whose predicate is true: `smsp__thread_inst_executed_pred_on`.
        threads_on: u64,
    }

    /// Operations on floats by threads whose predicate is true: `add`, `sub` and `mul` count one each, `fma` two, as
    /// `smsp__sass_thread_inst_executed_op_{fadd,fmul,ffma}_pred_on` do for `f32`. As there, comparisons, minima, changes
    /// of sign and conversions do not count. Additions of atomics do not count either, since threads do not perform them.
    Flop {
        /// Of `f32`: `.._op_fadd`, `.._op_fmul`, and twice `.._op_ffma`.
        f32: u64,
        /// Of `f64`: `.._op_dadd`, `.._op_dmul`, and twice `.._op_dfma`.
        f64: u64,
        /// Of tensor cores: multiplications and additions of each `mma` and `wgmma`, `2 m n k` per warp or warpgroup.
        tensor: u64,
        /// Divisions, roots, exponentials and the like, one each. `ptxas` turns each into a few instructions, for the
        /// special function units and, unless it is approximate, for others.
        functions: u64,
    }

    /// Conditional branches and branches through a table that warps executed.
    Branches {
        /// All of them.
        executed: u64,
        /// Those after which the warp diverged: `smsp__sass_branch_targets_threads_divergent`.
        divergent: u64,
    }

    /// Global memory by what was done to it.
    Global {
        /// `ld`: `.._mem_global_op_ld`.
        loads: GlobalRequests,
        /// `st`: `.._mem_global_op_st`.
        stores: GlobalRequests,
        /// `atom` and `red`: `.._mem_global_op_atom` and `.._op_red`.
        atomics: GlobalRequests,
        /// The reading half of `cp.async`, which goes past the registers: `.._mem_global_op_ldgsts`.
        copies: GlobalRequests,
    }

    /// Requests of warps to global memory: one for each execution of an instruction by a warp, however wide.
    GlobalRequests {
        /// `l1tex__t_requests_pipe_lsu_mem_global_op_*`.
        requests: u64,
        /// Sectors of 32 bytes that each request touches, added up: `l1tex__t_sectors_pipe_lsu_mem_global_op_*`.
        sectors: u64,
        /// Cache lines of 128 bytes that each touches, a tag each: `smsp__sass_l1tex_tags_mem_global`.
        lines: u64,
        /// Sectors that would suffice if the distinct bytes of each request were contiguous:
        /// `smsp__sass_sectors_mem_global_ideal`, `memory_l2_theoretical_sectors_global_ideal`.
        ideal_sectors: u64,
        /// Bytes that lanes requested; bytes of several lanes count several times.
        bytes: u64,
    }

    /// Shared memory by what was done to it.
    Shared {
        /// `ld` and `ldmatrix`.
        loads: SharedRequests,
        /// `st` and `stmatrix`.
        stores: SharedRequests,
        /// `atom` and `red`. Operations of several lanes on one word are serialised.
        atomics: SharedRequests,
        /// The writing half of `cp.async`.
        copies: SharedRequests,
    }

    /// Requests of warps to shared memory, by the bank model of compute capability 7.5 to 9.0: 32 banks of 4 bytes,
    /// one word per cycle each, for any number of lanes. Accesses of 8 bytes are split by half-warps, those of 16
    /// bytes by quarter-warps.
    SharedRequests {
        /// One for each execution of an instruction by a warp.
        requests: u64,
        /// Passes through the banks: `l1tex__data_pipe_lsu_wavefronts_mem_shared_op_*`.
        wavefronts: u64,
        /// Passes that would suffice without conflicts.
        ideal_wavefronts: u64,
        /// Bytes that lanes requested.
        bytes: u64,
    }

    /// Local memory by what was done to it.
    Local {
        /// `ld`.
        loads: Requests,
        /// `st`.
        stores: Requests,
    }

    /// Requests of warps.
    Requests {
        /// One for each execution of an instruction by a warp.
        requests: u64,
        /// Bytes that lanes requested.
        bytes: u64,
    }

    /// Loads from constant memory, `ld.const`; kernels' parameters are not counted.
    Constant {
        /// One for each execution of an instruction by a warp.
        requests: u64,
        /// Distinct addresses of each request: one goes to all lanes at once, several one after the other.
        passes: u64,
    }

    /// The global memory that a launch touches, by any kind of access, each sector counted once. It is the least
    /// traffic between memory and chip if nothing that the launch reads is cached before and nothing is evicted before
    /// it ends. In that case it equals `dram__sectors_read` and `dram__sectors_write`.
    Footprint {
        /// Distinct sectors of 32 bytes that are read.
        loaded: u64,
        /// Distinct sectors that are written.
        stored: u64,
    }

    /// Copies of many bytes that one thread starts: `cp.async.bulk`, tensors included. For a tile of a tensor, only the
    /// bytes within the tensor count.
    Bulk {
        /// Copies to shared memory.
        loads: u64,
        /// Bytes of these.
        loaded_bytes: u64,
        /// Copies to global memory.
        stores: u64,
        /// Bytes of these.
        stored_bytes: u64,
    }

    /// Collective operations that warps executed.
    Collectives {
        /// `shfl`.
        shuffles: u64,
        /// `vote`, `match`, `redux` and `activemask`.
        votes: u64,
        /// `bar.warp.sync`.
        warp_barriers: u64,
        /// `bar` and `barrier`, the barriers of a block.
        barriers: u64,
        /// `barrier.cluster.wait`.
        cluster_barriers: u64,
        /// `mbarrier`, including each poll of a wait.
        mbarriers: u64,
        /// `mma`, `wgmma` and `movmatrix`.
        matrices: u64,
    }
}

impl Counts {
    /// Returns the share of a warp's 32 threads that execute an instruction on average:
    /// `smsp__thread_inst_executed_per_inst_executed` / 32. 1 without instructions.
    pub fn efficiency(&self) -> f64 {
        ratio(self.instructions.threads, self.instructions.warps, WARP) / WARP
    }

    /// Same as [`Self::efficiency`], without threads whose predicate is false:
    /// `smsp__thread_inst_executed_pred_on_per_inst_executed` / 32.
    pub fn predicated_efficiency(&self) -> f64 {
        ratio(self.instructions.threads_on, self.instructions.warps, WARP) / WARP
    }

    /// Returns the sectors per request to global memory, of any kind: 4 if the lanes of a warp access 4 contiguous
    /// bytes each, 32 if each accesses a different sector. 0 without requests.
    pub fn sectors_per_request(&self) -> f64 {
        self.global.total().sectors_per_request()
    }

    /// Returns the bank conflicts of shared memory, for any kind of access:
    /// `l1tex__data_bank_conflicts_pipe_lsu_mem_shared`.
    pub fn bank_conflicts(&self) -> u64 {
        self.shared.total().conflicts()
    }
}

impl Flop {
    /// Returns the sum of all, except [`functions`](Self::functions).
    pub fn total(&self) -> u64 {
        self.f32 + self.f64 + self.tensor
    }
}

impl Footprint {
    /// Returns the bytes of all sectors that are read or written.
    pub fn bytes(&self) -> u64 {
        32 * (self.loaded + self.stored)
    }
}

impl Branches {
    /// Returns the share of branches without divergence: Nsight Compute's "Branch Efficiency". 1 without branches.
    pub fn efficiency(&self) -> f64 {
        ratio(self.executed - self.divergent, self.executed, 1.0)
    }
}

impl Global {
    /// Returns the sum of all requests.
    pub fn total(&self) -> GlobalRequests {
        [self.loads, self.stores, self.atomics, self.copies].into_iter().sum()
    }
}

impl GlobalRequests {
    /// Returns the sectors per request, Nsight Compute's "Sectors/Req"; 0 without requests.
    pub fn sectors_per_request(&self) -> f64 {
        ratio(self.sectors, self.requests, 0.0)
    }

    /// Returns the sectors beyond the ideal, Nsight Compute's "excessive sectors": what coalescing would save.
    pub fn excess_sectors(&self) -> u64 {
        self.sectors.saturating_sub(self.ideal_sectors)
    }

    /// Returns the share of the sectors that would suffice: 1 if accesses are coalesced, and without requests.
    pub fn efficiency(&self) -> f64 {
        ratio(self.ideal_sectors, self.sectors, 1.0)
    }
}

impl Shared {
    /// Returns the sum of all requests.
    pub fn total(&self) -> SharedRequests {
        [self.loads, self.stores, self.atomics, self.copies].into_iter().sum()
    }
}

impl SharedRequests {
    /// Returns the passes that conflicts cost: `l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_*`.
    pub fn conflicts(&self) -> u64 {
        self.wavefronts - self.ideal_wavefronts
    }

    /// Returns the passes per request; 0 without requests.
    pub fn wavefronts_per_request(&self) -> f64 {
        ratio(self.wavefronts, self.requests, 0.0)
    }
}

impl Constant {
    /// Returns the passes per request; 0 without requests.
    pub fn passes_per_request(&self) -> f64 {
        ratio(self.passes, self.requests, 0.0)
    }
}
