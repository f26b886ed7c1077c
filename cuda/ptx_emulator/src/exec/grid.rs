//! A launch, and what its threads share while they run.

use core::cell::{Cell, RefCell};

use super::counts::tally::Tally;
use super::heap::Driver;
use super::races::Races;
use super::shadow::Memory;
use super::space::Regions;
use super::unwritten::Unwritten;
use crate::error::Cause;
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

impl Turns {
    /// The indices of `count` threads or blocks, in this order.
    pub(crate) fn of(self, count: usize) -> impl Iterator<Item = usize> {
        (0..count).map(move |at| if self == Turns::Ascending { at } else { count - 1 - at })
    }
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
pub(crate) type Exec<T = ()> = Result<T, Box<Cause>>;

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
    /// Finds races, if they are looked for.
    pub races: Option<RefCell<Races>>,
    pub progress: Progress,
}

/// A grid's progress.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    /// Stores to memory that other threads can see.
    pub stores: Cell<u64>,
    /// Nanoseconds: one per instruction, and those that pass while all threads poll.
    pub time: Cell<u64>,
    /// Whether all threads only waited in their last turn.
    pub is_quiet: Cell<bool>,
}

impl Grid<'_> {
    /// Records that another thread may see something new.
    pub fn note_store(&self) {
        self.progress.stores.set(self.progress.stores.get() + 1);
    }

    /// The number of a block.
    pub fn block_number(&self, [x, y, z]: [u32; 3]) -> u64 {
        let [width, height, _] = self.grid.map(u64::from);
        (u64::from(z) * height + u64::from(y)) * width + u64::from(x)
    }

    /// Lets time pass.
    pub fn pass(&self, nanos: u64) {
        self.progress.time.set(self.progress.time.get() + nanos);
    }
}

/// The coordinates of element `index`, x fastest.
pub(crate) fn unravel(index: u64, [x, y, _]: [u32; 3]) -> [u32; 3] {
    let (x, y) = (u64::from(x), u64::from(y));
    [(index % x) as u32, (index / x % y) as u32, (index / x / y) as u32]
}
