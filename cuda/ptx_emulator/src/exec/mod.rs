//! Runs a grid: one cluster after the other, or all at once in a cooperative grid. Concurrent blocks, and their threads,
//! take turns.

mod approx;
mod atomic;
mod barriers;
mod block;
mod bulk;
mod cluster;
mod convert;
mod copies;
mod counts;
mod exact;
mod float;
mod frame;
mod half;
mod heap;
mod int;
mod mbarrier;
mod memory;
mod polls;
mod printf;
mod registers;
mod shadow;
mod step;
mod stores;
mod stuck;
mod system;
mod tensor;
mod thread;
mod tile;
mod tma;
mod undefined;
mod unwritten;
mod warp;
mod warpgroup;
mod watch;
mod wgmma;

pub(crate) use counts::Tally;
pub(crate) use memory::{FIRST_OFFSET, Region, Regions, function_address};
pub(crate) use shadow::Memory;
pub(crate) use system::Driver;
pub(crate) use unwritten::{Stored, Unwritten};

use core::cell::{Cell, RefCell};

use crate::error::{Cause, Fault};
use crate::module::PtxModule;

/// The thread of a block that goes first, from one barrier to the next.
///
/// One of the two orders exposes a missing barrier: a thread reads before another has written, or writes before another has
/// read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Turns {
    /// The thread with the lowest index.
    #[default]
    Ascending,
    /// The thread with the highest index.
    Descending,
}

/// The content of a register that the thread has not written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UnwrittenRegisters {
    /// Reading it is a fault, whatever happens to the value: ptxas drops masks after such reads. PTX from `cuda_builder` has
    /// no such read.
    #[default]
    Refused,
    /// Undefined bits, as in undefined memory: a fault where they decide something.
    Undefined,
    /// Pseudo-random numbers from this seed, as a GPU may have there.
    Noise(u64),
}

/// The result of a step, or the thread's fault.
type Exec<T = ()> = Result<T, Box<Cause>>;

/// One launch.
pub(crate) struct Grid<'a> {
    pub module: &'a PtxModule,
    /// Index of the kernel.
    pub kernel: usize,
    pub grid: [u32; 3],
    pub block: [u32; 3],
    /// Blocks per cluster along x, which divides the grid.
    pub cluster: u32,
    /// The filled parameter memory.
    pub params: Memory,
    pub dynamic_bytes: u32,
    /// Addresses of the variables: host addresses in global and constant memory, offsets in shared memory.
    pub addresses: Vec<u64>,
    /// Shared variables that the kernel can see: the first byte and the one after the last.
    pub shared: Vec<(u64, u64)>,
    pub regions: &'a Regions,
    pub unwritten: &'a Unwritten,
    pub driver: &'a Driver,
    pub turns: Turns,
    pub unwritten_registers: UnwrittenRegisters,
    /// Maximum instructions per block.
    pub max_steps: u64,
    /// Whether all its blocks run concurrently.
    pub is_cooperative: bool,
    /// Receives the counts of its warps, if they are counted.
    pub tally: Option<&'a RefCell<Tally>>,
    /// The state that its threads share while they run.
    pub progress: Progress,
}

/// A grid's progress.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    /// Stores to memory that other threads can see.
    stores: Cell<u64>,
    /// Nanoseconds: one per instruction, and those that pass while all threads poll.
    time: Cell<u64>,
    /// Whether all threads only waited in their last turn.
    is_quiet: Cell<bool>,
}

impl Grid<'_> {
    /// Runs all clusters of blocks, x fastest.
    pub fn run(&self) -> Result<(), Box<Fault>> {
        let [x, y, z] = self.grid;
        let blocks = u64::from(x) * u64::from(y) * u64::from(z);
        let together = if self.is_cooperative { blocks } else { self.cluster.into() };
        for first in (0..blocks).step_by(together.max(1) as usize) {
            cluster::run(self, first..first + together)?;
        }
        Ok(())
    }

    /// Records that another thread may see something new.
    fn note_store(&self) {
        self.progress.stores.set(self.progress.stores.get() + 1);
    }

    /// Lets time pass.
    fn pass(&self, nanos: u64) {
        self.progress.time.set(self.progress.time.get() + nanos);
    }
}

/// The coordinates of element `index`, x fastest.
fn unravel(index: u64, [x, y, _]: [u32; 3]) -> [u32; 3] {
    let (x, y) = (u64::from(x), u64::from(y));
    [(index % x) as u32, (index / x % y) as u32, (index / x / y) as u32]
}
