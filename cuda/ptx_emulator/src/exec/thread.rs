//! One thread: its frames, registers and special registers.

use core::cell::Cell;
use core::fmt;

use super::cluster::Shared;
use super::copies::Copies;
use super::frame::Frame;
use super::memory::{FIRST_OFFSET, function_address};
use super::polls::Polls;
use super::stores::Stores;
use super::undefined::Bits;
use super::warp::Wait;
use super::watch::Watch;
use super::{Exec, Grid, Memory, UnwrittenRegisters};
use crate::instr::{Fixed, NO_BODY, ParamRange, Slot, Special, Symbol};

/// The state of the carry flag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Carry {
    Unset,
    /// The carry of an addition.
    Addition(bool),
    /// The borrow of a subtraction.
    Subtraction(bool),
    /// The result of undefined bits.
    Undefined,
}

#[derive(Debug)]
pub(super) enum State {
    Ready,
    Waits(Wait),
    Exited,
}

/// A thread's identity.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ids {
    pub tid: [u32; 3],
    pub ctaid: [u32; 3],
    pub lane: u32,
    pub warp: u32,
    /// The block's rank in its cluster.
    pub rank: u32,
}

#[derive(Debug)]
pub(super) struct Thread {
    pub ids: Ids,
    pub frames: Vec<Frame>,
    /// Local memory of all its frames.
    pub local: Memory,
    pub carry: Carry,
    pub origin: Option<Origin>,
    /// Whether it has arrived at the cluster barrier and still has to wait there.
    pub has_arrived: bool,
    pub polls: Polls,
    pub copies: Copies,
    pub stores: Stores,
    pub state: State,
}

impl Thread {
    pub fn new(grid: &Grid<'_>, ids: Ids) -> Thread {
        let (carry, state) = (Carry::Unset, State::Ready);
        let (frames, local) = (Vec::new(), Memory::default());
        let mut thread = Thread {
            ids,
            frames,
            local,
            carry,
            origin: None,
            has_arrived: false,
            polls: Polls::default(),
            copies: Copies::default(),
            stores: Stores::default(),
            state,
        };
        thread.enter(grid, grid.kernel, grid.params.clone(), None);
        thread
    }

    /// Starts a function with its parameters.
    pub fn enter(&mut self, grid: &Grid<'_>, function: usize, params: Memory, result: Option<ParamRange>) {
        let of = &grid.module.functions[function];
        let local_base = self.local.len().next_multiple_of(16);
        self.local.resize(local_base + of.local_bytes as usize);
        let mut values = match grid.unwritten_registers {
            UnwrittenRegisters::Refused => vec![Bits::UNWRITTEN; of.registers.len()],
            UnwrittenRegisters::Undefined => vec![Bits::UNDEFINED; of.registers.len()],
            UnwrittenRegisters::Noise(seed) => {
                let [x, y, z] = self.ids.tid.map(u64::from);
                let thread = noise(seed ^ noise(x ^ y << 21 ^ z << 42) ^ (function as u64) << 32);
                let masks = of.widths.iter().map(|&bits| u64::MAX >> (64 - bits.clamp(1, 64)));
                masks.zip(0..).map(|(mask, slot)| Bits::new(noise(thread + slot) & mask)).collect()
            }
        };
        for &(slot, fixed) in &of.fixed {
            values[slot as usize] = Bits::new(match fixed {
                Fixed::Number(value) => value,
                Fixed::Special(special) => self.special(grid, special),
                Fixed::Symbol(symbol, offset) => {
                    let start = match symbol {
                        Symbol::Variable(index) => grid.addresses[index as usize],
                        Symbol::Local(at) => FIRST_OFFSET + local_base as u64 + at,
                        Symbol::Param(at) => at,
                    };
                    start.wrapping_add_signed(offset)
                }
                Fixed::Function(index) => function_address((index != NO_BODY).then_some(index as usize)),
            });
        }
        let fences = self.frames.last().and_then(|caller| Some(caller.watch.as_ref()?.fences));
        let watch = of.has_wgmma.then(|| Box::new(Watch::new(values.len(), fences.unwrap_or(0))));
        let clash = Cell::new(None);
        self.frames.push(Frame { function, pc: 0, values, clash, watch, params, local_base, result });
    }

    /// The context for a step; `None` once the thread has ended.
    pub fn cx<'t>(
        &'t mut self,
        grid: &'t Grid<'t>,
        shared: &'t mut Shared,
        [clock, ahead]: [u64; 2],
    ) -> Option<Cx<'t>> {
        let Thread { ids, frames, local, carry, origin, has_arrived, polls, copies, stores, .. } = self;
        let (ids, frame) = (*ids, frames.last_mut()?);
        Some(Cx {
            grid,
            ids,
            frame,
            local,
            shared,
            carry,
            origin,
            has_arrived,
            polls,
            copies,
            stores,
            clock,
            ahead,
        })
    }

    fn special(&self, grid: &Grid<'_>, special: Special) -> u64 {
        let lane = self.ids.lane;
        u64::from(match special {
            Special::Tid(axis) => self.ids.tid[axis],
            Special::Ntid(axis) => grid.block[axis],
            Special::Ctaid(axis) => self.ids.ctaid[axis],
            Special::Nctaid(axis) => grid.grid[axis],
            Special::ClusterRank => self.ids.rank,
            Special::ClusterBlocks => grid.cluster,
            Special::LaneId => lane,
            Special::WarpId => self.ids.warp,
            // One block runs after the other.
            Special::MultiprocessorId => 0,
            Special::DynamicShared => grid.dynamic_bytes,
            Special::MaskEq => 1 << lane,
            Special::MaskLt => (1 << lane) - 1,
            Special::MaskLe => u32::MAX >> (31 - lane),
            Special::MaskGt => !(u32::MAX >> (31 - lane)),
            Special::MaskGe => !((1 << lane) - 1),
        })
    }
}

/// A pseudo-random number (SplitMix64).
fn noise(seed: u64) -> u64 {
    let x = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// The last load of undefined memory.
#[derive(Clone, Copy, Debug)]
pub(super) struct Origin {
    line: u32,
    space: &'static str,
    address: u64,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Origin { line, space, address } = self;
        write!(f, "the last such bits were loaded at PTX line {line} from {space} memory at {address:#x}")
    }
}

/// The context of one step of a thread.
pub(super) struct Cx<'t> {
    pub grid: &'t Grid<'t>,
    pub ids: Ids,
    pub frame: &'t mut Frame,
    pub local: &'t mut Memory,
    pub shared: &'t mut Shared,
    pub carry: &'t mut Carry,
    pub origin: &'t mut Option<Origin>,
    pub has_arrived: &'t mut bool,
    pub polls: &'t mut Polls,
    pub copies: &'t mut Copies,
    pub stores: &'t mut Stores,
    /// Instructions the block has executed.
    pub clock: u64,
    /// How far the grid's time is ahead of that.
    pub ahead: u64,
}

impl Cx<'_> {
    /// A value, which must have no undefined bits.
    #[inline]
    pub fn value(&self, slot: Slot) -> Exec<u64> {
        let bits = self.bits(slot);
        if bits.undefined == 0 { Ok(bits.value) } else { Err(self.undefined(slot)) }
    }

    /// A value with its undefined bits.
    #[inline]
    pub fn bits(&self, slot: Slot) -> Bits {
        self.frame.bits(slot)
    }

    /// The PTX line of the instruction.
    pub fn line(&self) -> u32 {
        self.grid.module.functions[self.frame.function].instrs[self.frame.pc].line
    }

    /// Remembers the source of undefined bits.
    #[cold]
    pub fn note(&mut self, space: &'static str, address: u64) {
        let line = self.line();
        *self.origin = Some(Origin { line, space, address });
    }
}
