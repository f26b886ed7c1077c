//! Races: accesses of two threads to the same bytes of global or shared memory, one of them a write, that nothing orders.
//!
//! Known orders are the barriers of a block, and `bar.warp.sync` among the lanes of a warp. Atomic operations and loads and
//! stores with an order do not race with each other, except that a thread that loads and then stores loses what others store
//! in between. A store to shared memory of what it already holds races with no store. Copies and tensor instructions are not
//! seen.

use std::collections::HashMap;

use super::thread::Ids;
use crate::error::Cause;

/// The accesses of a launch.
#[derive(Debug, Default)]
pub(crate) struct Races {
    /// By memory (0 is global, a block's shared memory is its number plus 1) and address.
    bytes: HashMap<(u64, u64), Byte>,
    /// By block, the barriers that it has passed, and those that each of its warps has passed.
    passed: HashMap<u64, (u32, [u32; 32])>,
}

/// The last accesses of a byte.
#[derive(Clone, Copy, Debug, Default)]
struct Byte {
    write: Option<Seen>,
    /// By two threads.
    reads: [Option<Seen>; 2],
    /// The same of loads with an order.
    atomic_reads: [Option<Seen>; 2],
}

impl Byte {
    /// The write of another thread that an atomic store may undo, because its thread has loaded the byte before: since the
    /// last barrier, and with no atomic operation that does both.
    fn lost_by(&self, now: &Seen) -> Option<Seen> {
        let is_own = |read: &Seen| read.thread() == now.thread() && read.passed[0] == now.passed[0];
        let has_loaded = self.atomic_reads.iter().flatten().any(is_own);
        self.write.filter(|write| now.kind == Kind::AtomicStore && has_loaded && !write.is_before(now))
    }

    fn record(&mut self, now: Seen) {
        let reads = match now.kind {
            Kind::Load => &mut self.reads,
            Kind::AtomicLoad => &mut self.atomic_reads,
            Kind::AtomicStore => {
                self.write = Some(now);
                self.reads = [None; 2];
                return;
            }
            _ => {
                // What other threads have loaded is old from now on; this thread's value is not.
                let is_others = |read: &Seen| now.kind == Kind::Atomic && read.thread() != now.thread();
                let atomic_reads = self.atomic_reads.map(|read| read.filter(is_others));
                *self = Byte { write: Some(now), reads: [None; 2], atomic_reads };
                return;
            }
        };
        let is_again = reads[0].is_some_and(|read| read.thread() == now.thread());
        *reads = [Some(now), reads[usize::from(is_again)]];
    }
}

/// An access.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seen {
    pub ids: Ids,
    /// The number of the block.
    pub block: u64,
    pub kind: Kind,
    /// The line of the PTX.
    pub line: u32,
    /// The barriers that its block and its warp had passed.
    pub passed: [u32; 2],
}

/// What an access does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Load,
    Store,
    /// A store to shared memory of what it holds.
    StoreOfSame,
    /// With an order.
    AtomicLoad,
    AtomicStore,
    /// Both in one.
    Atomic,
}

impl Kind {
    fn is_atomic(self) -> bool {
        matches!(self, Kind::AtomicLoad | Kind::AtomicStore | Kind::Atomic)
    }

    fn is_load(self) -> bool {
        matches!(self, Kind::Load | Kind::AtomicLoad)
    }
}

impl Seen {
    fn thread(&self) -> (u64, u32, u32) {
        (self.block, self.ids.warp, self.ids.lane)
    }

    /// Whether a barrier lies between this access and a later one.
    fn is_before(&self, later: &Seen) -> bool {
        let (same_block, same_warp) = (self.block == later.block, self.ids.warp == later.ids.warp);
        self.thread() == later.thread()
            || same_block && self.passed[0] < later.passed[0]
            || same_block && same_warp && self.passed[1] < later.passed[1]
    }

    fn races_with(&self, later: &Seen) -> bool {
        let is_benign = self.kind.is_load() && later.kind.is_load()
            || self.kind.is_atomic() && later.kind.is_atomic()
            || matches!((self.kind, later.kind), (Kind::Store | Kind::StoreOfSame, Kind::StoreOfSame));
        !is_benign && !self.is_before(later)
    }

    fn verb(&self) -> &'static str {
        match self.kind {
            Kind::Load => "loads",
            Kind::Store | Kind::StoreOfSame => "stores",
            Kind::AtomicLoad => "atomically loads",
            Kind::AtomicStore => "atomically stores",
            Kind::Atomic => "atomically changes",
        }
    }
}

impl Races {
    /// The threads of a block have met at a barrier.
    pub fn pass_block(&mut self, block: u64) {
        self.passed.entry(block).or_default().0 += 1;
    }

    /// Lanes of a warp have met at a barrier.
    pub fn pass_warp(&mut self, block: u64, warp: u32) {
        self.passed.entry(block).or_default().1[warp as usize % 32] += 1;
    }

    /// Records an access to shared or global memory.
    ///
    /// # Errors
    /// [`Cause::Race`].
    pub fn access(&mut self, is_shared: bool, address: u64, bytes: u64, now: Seen) -> Result<(), Cause> {
        let (block, warps) = self.passed.entry(now.block).or_default();
        let now = Seen { passed: [*block, warps[now.ids.warp as usize % 32]], ..now };
        let memory = if is_shared { now.block + 1 } else { 0 };
        for at in address..address + bytes {
            let byte = self.bytes.entry((memory, at)).or_default();
            let [first, second] = byte.reads;
            let [third, fourth] = byte.atomic_reads;
            let before = [byte.write, first, second, third, fourth].into_iter().flatten();
            let race = before.into_iter().find(|before| before.races_with(&now));
            let lost = byte.lost_by(&now);
            if let Some(other) = race.or(lost) {
                let (block, thread) = (other.ids.ctaid, other.ids.tid);
                let access = if race.is_none() { "atomically loads and later stores" } else { now.verb() };
                let (verb, line) = (other.verb(), other.line);
                let space = if is_shared { "shared" } else { "global" };
                return Err(Cause::Race { access, space, address, verb, block, thread, line });
            }
            byte.record(now);
        }
        Ok(())
    }
}
