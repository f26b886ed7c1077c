//! One thread: its frames, registers and special registers.

use core::cell::Cell;
use core::fmt;

use super::bits::Bits;
use super::frame::Frame;
use super::grid::{Exec, Grid, UnwrittenRegisters};
use super::pending::{Copy, Groups, Store};
use super::polls::Polls;
use super::shadow::Memory;
use super::shared::Shared;
use super::space::{FIRST_OFFSET, function_address};
use super::wait::Wait;
use super::watch::{Clash, Watch};
use crate::error::Cause;
use crate::instr::{Fixed, Instr, NO_BODY, ParamRange, Slot, Symbol};

/// The state of the carry flag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Carry {
    Unset,
    /// The carry of an addition.
    Addition(bool),
    /// The borrow of a subtraction.
    Subtraction(bool),
    /// The result of undefined bits.
    Undefined,
}

#[derive(Debug)]
pub(crate) enum State {
    Ready,
    Waits(Wait),
    Exited,
}

/// A thread's identity.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ids {
    pub tid: [u32; 3],
    pub ctaid: [u32; 3],
    pub lane: u32,
    pub warp: u32,
    /// The block's rank in its cluster.
    pub rank: u32,
}

#[derive(Debug)]
pub(crate) struct Thread {
    pub ids: Ids,
    pub frames: Vec<Frame>,
    /// Local memory of all its frames.
    pub local: Memory,
    pub carry: Carry,
    pub origin: Option<Origin>,
    /// Whether it has arrived at the cluster barrier and still has to wait there.
    pub has_arrived: bool,
    pub polls: Polls,
    /// Its `cp.async`, and its bulk copies to global memory.
    pub copies: Groups<Copy>,
    pub stores: Groups<Store>,
    pub state: State,
}

impl Thread {
    pub fn new(grid: &Grid<'_>, ids: Ids) -> Thread {
        let mut thread = Thread {
            ids,
            frames: Vec::new(),
            local: Memory::default(),
            carry: Carry::Unset,
            origin: None,
            has_arrived: false,
            polls: Polls::default(),
            copies: Groups::default(),
            stores: Groups::default(),
            state: State::Ready,
        };
        thread.enter(grid, grid.kernel, grid.params.clone(), None);
        thread
    }

    /// Starts a function with its parameters.
    pub fn enter(&mut self, grid: &Grid<'_>, function: usize, params: Memory, result: Option<ParamRange>) {
        let of = &grid.module.functions[function];
        let local_base = self.local.len().next_multiple_of(16);
        self.local.resize(local_base + of.local_bytes as usize);
        let masks = of.widths.iter().map(|&bits| u64::MAX >> (64 - bits.clamp(1, 64)));
        let mut values = match grid.unwritten_registers {
            UnwrittenRegisters::Refused => vec![Bits::UNWRITTEN; of.registers.len()],
            UnwrittenRegisters::Undefined => masks.map(|mask| Bits::UNDEFINED.and(mask)).collect(),
            UnwrittenRegisters::Noise(seed) => {
                let [x, y, z] = self.ids.tid.map(u64::from);
                let thread = noise(seed ^ noise(x ^ y << 21 ^ z << 42) ^ (function as u64) << 32);
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
    pub fn cx<'t>(&'t mut self, grid: &'t Grid<'t>, shared: &'t mut Shared, clock: u64) -> Option<Cx<'t>> {
        let Thread { ids, frames, local, carry, origin, has_arrived, polls, copies, stores, .. } = self;
        let (ids, frame) = (*ids, frames.last_mut()?);
        Some(Cx { grid, ids, frame, local, shared, carry, origin, has_arrived, polls, copies, stores, clock })
    }

    fn special(&self, grid: &Grid<'_>, name: &str) -> u64 {
        let Ids { tid, ctaid, lane, warp, rank } = self.ids;
        let (name, axis) = name.split_once('.').unwrap_or((name, ""));
        let axis = ["x", "y", "z"].iter().position(|&known| known == axis).unwrap_or(0);
        u64::from(match name {
            "%tid" => tid[axis],
            "%ntid" => grid.block[axis],
            "%ctaid" => ctaid[axis],
            "%nctaid" => grid.grid[axis],
            "%cluster_ctarank" => rank,
            "%cluster_nctarank" => grid.cluster,
            "%laneid" => lane,
            "%warpid" => warp,
            "%dynamic_smem_size" => grid.dynamic_bytes,
            "%lanemask_eq" => 1 << lane,
            "%lanemask_lt" => (1 << lane) - 1,
            "%lanemask_le" => u32::MAX >> (31 - lane),
            "%lanemask_gt" => !(u32::MAX >> (31 - lane)),
            "%lanemask_ge" => !((1 << lane) - 1),
            // `%smid`: one block runs after the other.
            _ => 0,
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
pub(crate) struct Origin {
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
pub(crate) struct Cx<'t> {
    pub grid: &'t Grid<'t>,
    pub ids: Ids,
    pub frame: &'t mut Frame,
    pub local: &'t mut Memory,
    pub shared: &'t mut Shared,
    pub carry: &'t mut Carry,
    pub origin: &'t mut Option<Origin>,
    pub has_arrived: &'t mut bool,
    pub polls: &'t mut Polls,
    pub copies: &'t mut Groups<Copy>,
    pub stores: &'t mut Groups<Store>,
    /// Instructions the block has executed.
    pub clock: u64,
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

    /// The current instruction's PTX line.
    pub fn line(&self) -> u32 {
        self.grid.module.functions[self.frame.function].instrs[self.frame.pc].line
    }

    /// The name of a register.
    pub fn name(&self, slot: Slot) -> String {
        self.grid.module.functions[self.frame.function].registers[slot as usize].clone()
    }

    /// The three operands of most instructions.
    #[inline]
    pub fn operands(&self, instr: &Instr) -> [Bits; 3] {
        [self.bits(instr.a), self.bits(instr.b), self.bits(instr.c)]
    }

    /// Remembers the source of undefined bits.
    #[cold]
    pub fn note(&mut self, space: &'static str, address: u64) {
        let line = self.line();
        *self.origin = Some(Origin { line, space, address });
    }

    /// The error of an undefined bit that has an effect.
    #[cold]
    fn undefined(&self, slot: Slot) -> Box<Cause> {
        if let Err(cause) = self.check_accesses() {
            return cause;
        }
        let origin = self.origin.as_ref().map_or_else(String::new, |origin| format!("; {origin}"));
        Cause::Undefined { register: self.name(slot), origin }.into()
    }

    /// Checks that the thread has made no forbidden access to a register or to shared memory.
    #[inline]
    pub fn check_accesses(&self) -> Exec {
        match (self.frame.clash.get(), self.shared.pins.clash) {
            (None, None) => Ok(()),
            (clash, pin) => Err(self.clash(clash, pin).into()),
        }
    }

    #[cold]
    fn clash(&self, clash: Option<Clash>, pin: Option<(usize, u32)>) -> Cause {
        let pending = |slot, access, role, line| Cause::PendingRegister {
            register: self.name(slot),
            access,
            role,
            line,
        };
        match clash {
            Some(Clash::Unwritten(slot)) => Cause::UnwrittenRegister { register: self.name(slot) },
            Some(Clash::Read(slot, line)) => pending(slot, "read", "an accumulator", line),
            Some(Clash::Written(slot, line)) => pending(slot, "written", "an accumulator", line),
            Some(Clash::Operand(slot, line)) => pending(slot, "written", "an element of A", line),
            None => {
                let (at, line) = pin.unwrap_or_default();
                Cause::PendingOperand { address: (at % self.shared.stride) as u64, line }
            }
        }
    }
}
