//! Runs a grid: the clusters of blocks one after the other, or in a cooperative grid all at once; the blocks that are there
//! at once, and their threads, in turns.

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

/// Which thread of a block goes first, from one barrier to the next.
///
/// A block whose threads miss a barrier shows it in the one order or the other: a thread that reads too early what
/// another has not written yet, or one that writes too early what another has not read yet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Turns {
    /// The thread with the lowest index.
    #[default]
    Ascending,
    /// The thread with the highest index.
    Descending,
}

/// What a thread finds in a register that it has not written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UnwrittenRegisters {
    /// To read it is a fault, whatever becomes of the value: ptxas drops masks after such reads. No PTX that
    /// `cuda_builder` makes has one.
    #[default]
    Refused,
    /// Undefined bits, as in memory that nothing was written to: a fault where they decide something.
    Undefined,
    /// Numbers without a pattern, of this seed, as a GPU may have them there.
    Noise(u64),
}

/// What a step gives, or what the thread did wrong.
type Exec<T = ()> = Result<T, Box<Cause>>;

/// One launch.
pub(crate) struct Grid<'a> {
    pub module: &'a PtxModule,
    /// Index of the kernel.
    pub kernel: usize,
    pub grid: [u32; 3],
    pub block: [u32; 3],
    /// Blocks of a cluster along x, which divides the grid.
    pub cluster: u32,
    /// The parameter memory, filled.
    pub params: Memory,
    pub dynamic_bytes: u32,
    /// Addresses of the variables: of the host in global and constant memory, offsets in shared memory.
    pub addresses: Vec<u64>,
    /// Shared variables that the kernel can see: first byte and the one after the last.
    pub shared: Vec<(u64, u64)>,
    pub regions: &'a Regions,
    pub unwritten: &'a Unwritten,
    pub driver: &'a Driver,
    pub turns: Turns,
    pub unwritten_registers: UnwrittenRegisters,
    /// Instructions a block may execute.
    pub max_steps: u64,
    /// Whether all its blocks are there at once.
    pub is_cooperative: bool,
    /// Where what its warps do is counted, if it is.
    pub tally: Option<&'a RefCell<Tally>>,
    /// What its threads share while they run.
    pub progress: Progress,
}

/// How far a grid has come.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    /// Stores to memory that other threads see.
    stores: Cell<u64>,
    /// Nanoseconds: one for each instruction, and those that went by while all threads waited for words.
    time: Cell<u64>,
    /// Whether no thread did anything but wait when all last had their turn.
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

    /// Another thread may see something new.
    fn note_store(&self) {
        self.progress.stores.set(self.progress.stores.get() + 1);
    }

    /// Lets time go by.
    fn pass(&self, nanos: u64) {
        self.progress.time.set(self.progress.time.get() + nanos);
    }
}

/// The coordinates of element `index`, x fastest.
fn unravel(index: u64, [x, y, _]: [u32; 3]) -> [u32; 3] {
    let (x, y) = (u64::from(x), u64::from(y));
    [(index % x) as u32, (index / x % y) as u32, (index / x / y) as u32]
}
