//! One thread: its frames, its registers, its special registers.

use super::Exec;
use super::Grid;
use super::cluster::Shared;
use super::memory::FIRST_OFFSET;
use super::undefined::Bits;
use super::warp::Wait;
use crate::instr::{ParamRange, Slot, Special, Src};

/// A function that runs.
#[derive(Debug)]
pub(super) struct Frame {
    pub function: usize,
    pub pc: usize,
    regs: Vec<u64>,
    /// A one for each bit that nothing was written to.
    undefined: Vec<u64>,
    pub params: Vec<u8>,
    pub local_base: u64,
    /// Where the caller wants the return value.
    pub result: Option<ParamRange>,
}

impl Frame {
    /// Writes a register.
    #[inline]
    pub fn set(&mut self, slot: Slot, value: u64) {
        self.regs[slot as usize] = value;
        self.undefined[slot as usize] = 0;
    }

    /// Writes a register of which some bits may be undefined.
    #[inline]
    pub fn set_bits(&mut self, slot: Slot, bits: Bits) {
        self.regs[slot as usize] = bits.value;
        self.undefined[slot as usize] = bits.undefined;
    }

    /// A register with its undefined bits.
    #[inline]
    pub fn bits(&self, slot: Slot) -> Bits {
        Bits { value: self.regs[slot as usize], undefined: self.undefined[slot as usize] }
    }
}

/// What the carry flag holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Carry {
    Unset,
    /// What an addition carries out.
    Addition(bool),
    /// What a subtraction borrows.
    Subtraction(bool),
}

#[derive(Debug)]
pub(super) enum State {
    Ready,
    Waits(Wait),
    Exited,
}

/// Who a thread is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ids {
    pub tid: [u32; 3],
    pub ctaid: [u32; 3],
    pub lane: u32,
    pub warp: u32,
    /// The block's place in its cluster.
    pub rank: u32,
}

#[derive(Debug)]
pub(super) struct Thread {
    pub ids: Ids,
    pub frames: Vec<Frame>,
    /// Local memory of all its frames.
    pub local: Vec<u8>,
    pub carry: Carry,
    /// Whether it has arrived at the cluster's barrier, for which it then has to wait.
    pub has_arrived: bool,
    pub state: State,
}

impl Thread {
    pub fn new(grid: &Grid<'_>, ids: Ids) -> Thread {
        let local = vec![0xff; FIRST_OFFSET as usize];
        let (carry, state) = (Carry::Unset, State::Ready);
        let mut thread = Thread { ids, frames: Vec::new(), local, carry, has_arrived: false, state };
        thread.enter(grid, grid.kernel, grid.params.clone(), None);
        thread
    }

    /// Starts a function with its parameters.
    pub fn enter(&mut self, grid: &Grid<'_>, function: usize, params: Vec<u8>, result: Option<ParamRange>) {
        let of = &grid.module.functions[function];
        let registers = of.registers.len();
        let local_base = self.local.len().next_multiple_of(16);
        self.local.resize(local_base + of.local_bytes as usize, 0xff);
        self.frames.push(Frame {
            function,
            pc: 0,
            regs: vec![0; registers],
            undefined: vec![u64::MAX; registers],
            params,
            local_base: local_base as u64,
            result,
        });
    }
}

/// What one step of a thread works on.
pub(super) struct Cx<'t> {
    pub grid: &'t Grid<'t>,
    pub ids: Ids,
    pub frame: &'t mut Frame,
    pub local: &'t mut Vec<u8>,
    pub shared: &'t mut Shared,
    pub carry: &'t mut Carry,
    pub has_arrived: &'t mut bool,
    /// Instructions the block has executed.
    pub clock: u64,
}

impl Cx<'_> {
    /// The value of a register.
    #[inline]
    pub fn reg(&self, slot: Slot) -> Exec<u64> {
        if self.frame.undefined[slot as usize] == 0 {
            Ok(self.frame.regs[slot as usize])
        } else {
            Err(self.unset(Src::Reg(slot)))
        }
    }

    #[inline]
    pub fn value(&self, src: Src) -> Exec<u64> {
        match src {
            Src::Reg(slot) => self.reg(slot),
            Src::Imm(value) => Ok(value),
            Src::Special(special) => Ok(self.special(special)),
            Src::Symbol(symbol, offset) => Ok(self.symbol(symbol).wrapping_add_signed(offset)),
        }
    }

    fn special(&self, special: Special) -> u64 {
        let lane = self.ids.lane;
        u64::from(match special {
            Special::Tid(axis) => self.ids.tid[axis],
            Special::Ntid(axis) => self.grid.block[axis],
            Special::Ctaid(axis) => self.ids.ctaid[axis],
            Special::Nctaid(axis) => self.grid.grid[axis],
            Special::ClusterRank => self.ids.rank,
            Special::ClusterBlocks => self.grid.cluster,
            Special::LaneId => lane,
            Special::WarpId => self.ids.warp,
            Special::Clock => return self.clock,
            Special::DynamicShared => self.grid.dynamic_bytes,
            Special::MaskEq => 1 << lane,
            Special::MaskLt => (1 << lane) - 1,
            Special::MaskLe => u32::MAX >> (31 - lane),
            Special::MaskGt => !(u32::MAX >> (31 - lane)),
            Special::MaskGe => !((1 << lane) - 1),
        })
    }
}
