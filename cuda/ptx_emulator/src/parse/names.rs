//! The names that a module defines, and their meanings.

use std::collections::HashMap;
use std::rc::Rc;

use super::lines::Lines;
use crate::instr::{Form, Slot, Space, Symbol};
use crate::module::{Function, Variable};

/// State that the functions of a module share while it is read.
#[derive(Default)]
pub(super) struct Names<'a> {
    pub variables: Vec<Variable>,
    /// Variables of the module, by name.
    pub by_name: HashMap<&'a str, usize>,
    /// Addresses in initialisers; the names may be declared later.
    pub pending: Vec<Pending<'a>>,
    /// Functions with known names, by number and by name; their bodies may come later.
    pub declared: Vec<&'a str>,
    pub declared_by_name: HashMap<&'a str, u32>,
    pub functions: Vec<Function>,
    pub function_names: HashMap<String, usize>,
    pub lines: Lines,
    /// By opcode with modifiers, the rows of the table that it fits, and its form there.
    pub forms: HashMap<&'a str, Rc<[(u16, Form)]>>,
}

/// The address of a variable or function in the initialiser of variable `owner`.
pub(super) struct Pending<'a> {
    pub owner: usize,
    pub offset: usize,
    /// The single byte of the address; `None` for all eight.
    pub byte: Option<u32>,
    pub name: &'a str,
    pub addend: i64,
    pub line: u32,
}

/// The meaning of a name inside a function.
#[derive(Clone, Debug)]
pub(super) enum Name<'a> {
    /// A register and its width; predicates have one bit.
    Register { slot: Slot, bits: u32 },
    /// A variable, its state space, and its size in bytes.
    Variable { symbol: Symbol, space: Space, bytes: u64 },
    /// A function, by its number among the declared ones.
    Function(u32),
    /// The labels of a `.branchtargets`.
    Targets(Vec<&'a str>),
}
