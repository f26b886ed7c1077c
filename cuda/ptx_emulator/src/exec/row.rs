//! A row of the table of instructions: syntax, semantics, how undefined bits pass, what is counted.

use super::bits::{Bits, Pass, Value};
use super::counts::event::{Collective, Deed, Way};
use super::grid::Exec;
use super::polls::Turn;
use super::thread::Cx;
use super::wait::{Lanes, Wait, WarpWait};
use crate::instr::{Form, Instr, Pc};

/// An opcode with a form of its modifiers and operands.
#[derive(Clone, Copy)]
pub(crate) struct Row {
    /// As in [`crate::parse::syntax`].
    pub syntax: &'static str,
    pub run: Run,
    pub counts: Counts,
    /// Whether threads may continue elsewhere than at the next instruction.
    pub leaves: bool,
    /// Refuses operands that the syntax allows and the instruction does not.
    pub check: fn(&Instr, Site) -> Result<(), String>,
}

/// Where an instruction stands.
#[derive(Clone, Copy)]
pub(crate) struct Site {
    /// In a kernel.
    pub is_entry: bool,
    /// Its first address is in a register.
    pub is_by_register: bool,
}

/// What an instruction does.
#[derive(Clone, Copy)]
pub(crate) enum Run {
    /// Writes the destination.
    Value(Value, Pass),
    /// The same for both halves of a register, each of the type.
    Halves(Value, Pass),
    /// Writes the destination; decides itself how undefined bits pass.
    Bits(fn(&Form, [Bits; 4]) -> Bits),
    Act(fn(&mut Cx<'_>, &Instr) -> Exec),
    Step(fn(&mut Cx<'_>, &Instr) -> Exec<Flow>),
    /// Waits for the lanes of its mask; the function has the result for one of them, and its predicate.
    Lanes(Outcome),
    /// Waits for all lanes of the warp; the function acts for all.
    Warp(fn(&Instr, &mut WithLane<'_>) -> Exec),
    /// Waits for the threads of the warpgroup, which act together.
    Warpgroup(Joint),
}

pub(crate) type Outcome = fn(&Lanes, u32, &WarpWait) -> Exec<(u64, bool)>;

/// Passes a lane's context to a function.
pub(crate) type WithLane<'w> = dyn FnMut(usize, &mut dyn FnMut(&mut Cx<'_>) -> Exec) -> Exec + 'w;

/// What the threads of a warpgroup do together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Joint {
    Fence,
    Commit,
    Wait,
    Multiply,
    Registers { more: bool },
}

/// What follows an instruction.
pub(crate) enum Flow {
    Next,
    Jump(Pc),
    Yield,
    /// The thread has loaded a word that other threads may store.
    Polled(Turn),
    Call,
    Return,
    Exit,
    Wait(Wait),
}

/// What an instruction counts as.
#[derive(Clone, Copy)]
pub(crate) enum Counts {
    Nothing,
    /// Floating-point operations of the type.
    Flops(u64),
    /// A floating-point function.
    Function,
    /// Floating-point operations on matrices, per thread.
    Matrix(fn(&Instr) -> u64),
    Branch,
    Collective(Collective),
    /// An access to its first address.
    Access(Way),
    Deeds(fn(&Cx<'_>, &Instr, &mut Note<'_>)),
}

/// Takes an action, its value, and the bytes of an access.
pub(crate) type Note<'n> = dyn FnMut(Deed, u64, u32) + 'n;

impl Row {
    pub const fn new(syntax: &'static str, run: Run) -> Row {
        Row { syntax, run, counts: Counts::Nothing, leaves: false, check: |_, _| Ok(()) }
    }

    pub const fn counts(self, counts: Counts) -> Row {
        Row { counts, ..self }
    }

    pub const fn leaves(self) -> Row {
        Row { leaves: true, ..self }
    }

    pub const fn check(self, check: fn(&Instr, Site) -> Result<(), String>) -> Row {
        Row { check, ..self }
    }
}

pub(crate) const fn value(syntax: &'static str, value: Value, pass: Pass) -> Row {
    Row::new(syntax, Run::Value(value, pass))
}

pub(crate) const fn halves(syntax: &'static str, value: Value, pass: Pass) -> Row {
    Row::new(syntax, Run::Halves(value, pass))
}

pub(crate) const fn bits(syntax: &'static str, bits: fn(&Form, [Bits; 4]) -> Bits) -> Row {
    Row::new(syntax, Run::Bits(bits))
}

pub(crate) const fn act(syntax: &'static str, act: fn(&mut Cx<'_>, &Instr) -> Exec) -> Row {
    Row::new(syntax, Run::Act(act))
}

pub(crate) const fn step(syntax: &'static str, step: fn(&mut Cx<'_>, &Instr) -> Exec<Flow>) -> Row {
    Row::new(syntax, Run::Step(step))
}

pub(crate) const fn nothing(syntax: &'static str) -> Row {
    act(syntax, |_, _| Ok(()))
}

pub(crate) const fn lanes(syntax: &'static str, outcome: Outcome) -> Row {
    Row::new(syntax, Run::Lanes(outcome)).counts(Counts::Collective(Collective::Vote))
}

pub(crate) const fn warp(syntax: &'static str, run: fn(&Instr, &mut WithLane<'_>) -> Exec) -> Row {
    Row::new(syntax, Run::Warp(run))
}

pub(crate) const fn warpgroup(syntax: &'static str, joint: Joint) -> Row {
    Row::new(syntax, Run::Warpgroup(joint))
}
