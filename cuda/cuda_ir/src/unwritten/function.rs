//! A function as basic blocks of register reads and writes.

use std::ops::Range;

/// A function with a body.
#[derive(Debug, Default)]
pub(super) struct Function<'a> {
    pub name: &'a str,
    /// The number of registers in all declarations.
    pub registers: u32,
    pub events: Vec<Event>,
    pub blocks: Vec<Block>,
    pub declarations: Vec<Declaration<'a>>,
    /// By scope, the end of its first declarations.
    pub heads: Vec<usize>,
}

/// `.reg .b32 %r<10>` or `.reg .pred p`.
#[derive(Debug)]
pub(super) struct Declaration<'a> {
    pub class: &'a str,
    /// Its block.
    pub block: u32,
    pub name: &'a str,
    /// The number of its first register.
    pub first: u32,
    pub count: Option<u32>,
    pub scope: usize,
    /// Its end, if an instruction of its scope comes before it.
    pub end: Option<usize>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Event {
    Read(u32),
    /// Without a predicate.
    Write(u32),
}

/// Instructions that all execute if the first one does.
#[derive(Debug, Default)]
pub(super) struct Block {
    pub events: Range<usize>,
    pub falls_through: bool,
    pub goes: Goes,
}

/// The branch targets of a block.
#[derive(Debug, Default)]
pub(super) enum Goes {
    #[default]
    Nowhere,
    To(Vec<u32>),
    /// Its labels are unknown.
    Anywhere,
}

impl<'a> Function<'a> {
    pub fn declaration_of(&self, register: u32) -> &Declaration<'a> {
        let after = self.declarations.partition_point(|declaration| declaration.first <= register);
        &self.declarations[after - 1]
    }

    pub fn name_of(&self, register: u32) -> (&Declaration<'a>, String) {
        let declaration = self.declaration_of(register);
        let name = match declaration.count {
            Some(_) => format!("{}{}", declaration.name, register - declaration.first),
            None => declaration.name.to_owned(),
        };
        (declaration, name)
    }

    /// The position before all instructions that can use a register of the declaration.
    pub fn place_for(&self, declaration: &Declaration<'a>) -> usize {
        declaration.end.unwrap_or(self.heads[declaration.scope])
    }
}
