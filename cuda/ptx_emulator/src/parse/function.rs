//! Kernels and functions: parameters, declarations, labels, statements.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::OnceLock;

use super::cursor::Cursor;
use super::names::{Name, Names};
use super::operand;
use super::syntax;
use super::variable::{self, type_bytes};
use crate::error::EmulatorError;
use crate::exec::table::{RETURN, UNKNOWN};
use crate::instr::{Fixed, Form, Instr, ParamRange, Pc, Slot, Space, Symbol, ZERO};
use crate::lex::Kind;
use crate::module::{Bounds, Function, Variable};

/// A function being read.
pub(super) struct Body<'n, 'a> {
    pub names: &'n mut Names<'a>,
    pub is_entry: bool,
    scopes: Vec<Scope<'a>>,
    scope: usize,
    registers: Vec<String>,
    widths: Vec<u8>,
    fixed: HashMap<Fixed, Slot>,
    param_bytes: u64,
    local_bytes: u64,
    instrs: Vec<Instr>,
    has_wgmma: bool,
    /// The instruction from which each `.loc` applies.
    places: Vec<(usize, usize)>,
    /// Branches: instruction, scope, line; their labels may come later.
    branches: Vec<(usize, usize, Vec<&'a str>)>,
}

/// The names between a pair of braces.
#[derive(Default)]
struct Scope<'a> {
    parent: Option<usize>,
    names: HashMap<Cow<'a, str>, Name<'a>>,
    labels: HashMap<&'a str, Pc>,
}

/// Reads the rest of a function after `.entry` or `.func`.
pub(super) fn read<'a>(
    cursor: &mut Cursor<'_, 'a>,
    names: &mut Names<'a>,
    is_entry: bool,
) -> Result<(), EmulatorError> {
    let index = names.functions.len();
    let mut body = Body {
        names,
        is_entry,
        scopes: vec![Scope::default()],
        scope: 0,
        // `_` and zero have fixed slots.
        registers: vec!["_".to_owned(), String::new()],
        widths: vec![64; 2],
        fixed: HashMap::from([(Fixed::Number(0), ZERO)]),
        param_bytes: 0,
        local_bytes: 0,
        instrs: Vec::new(),
        has_wgmma: false,
        places: Vec::new(),
        branches: Vec::new(),
    };
    let result = if cursor.take(b'(') { body.parameters(cursor)?.pop() } else { None };
    let name = cursor.word()?;
    if !body.names.declared_by_name.contains_key(name) {
        body.names.declared_by_name.insert(name, body.names.declared.len() as u32);
        body.names.declared.push(name);
    }
    let params = if cursor.take(b'(') { body.parameters(cursor)? } else { Vec::new() };
    // Directives for the assembler: register limits, block sizes, `.noreturn`.
    let mut bounds = Bounds::default();
    while cursor.peek() != Some(Kind::Punct(b'{')) {
        match cursor.next() {
            Some(Kind::Dotted(word @ (".maxntid" | ".reqntid"))) => {
                bounds.block = Some(cursor.extents()?);
                bounds.is_exact = word == ".reqntid";
            }
            Some(Kind::Dotted(".minnctapersm")) => bounds.blocks = Some(cursor.int()?),
            Some(Kind::Dotted(".maxnreg")) => bounds.registers = Some(cursor.int()?),
            Some(Kind::Punct(b';')) => return Ok(()),
            None => return Err(cursor.error("a body is expected")),
            _ => {}
        }
    }
    body.block(cursor, index)?;
    body.link_branches(cursor)?;
    // Reaching the end returns.
    let line = cursor.line();
    let mut end = Instr::new(RETURN, Form::default());
    end.line = line;
    end.more_mut().leaves = true;
    body.instrs.push(end);
    let Body { names, registers, widths, fixed, param_bytes, local_bytes, instrs, places, has_wgmma, .. } =
        body;
    let function = Function {
        name: name.to_owned(),
        is_entry,
        bounds,
        has_wgmma,
        first: names.functions.last().map_or(0, |before| before.first + before.instrs.len() as u32),
        instrs,
        flow: OnceLock::new(),
        places,
        registers,
        widths,
        fixed: fixed.into_iter().map(|(value, slot)| (slot, value)).collect(),
        params,
        result,
        param_bytes,
        local_bytes,
    };
    if names.function_names.insert(name.to_owned(), index).is_some() {
        return Err(cursor.error(format!("`{name}` is defined twice")));
    }
    names.functions.push(function);
    Ok(())
}

/// Reads the type of a register.
fn register_bits(cursor: &mut Cursor<'_, '_>) -> Result<u32, EmulatorError> {
    match cursor.next() {
        Some(Kind::Dotted(".pred")) => Ok(1),
        // No supported instruction takes registers of 128 bits.
        Some(Kind::Dotted(ty)) => Ok(type_bytes(ty).map_or(128, |bytes| 8 * bytes as u32)),
        _ => Err(cursor.error("a type is expected")),
    }
}

impl<'a> Body<'_, 'a> {
    fn parameters(&mut self, cursor: &mut Cursor<'_, 'a>) -> Result<Vec<ParamRange>, EmulatorError> {
        let mut all = Vec::new();
        while !cursor.take(b')') {
            match cursor.next() {
                Some(Kind::Dotted(".param")) => all.push(self.param(cursor)?),
                // Calls that pass registers are refused, so such a function never runs.
                Some(Kind::Dotted(".reg")) => {
                    let bits = register_bits(cursor)?;
                    let name = cursor.word()?;
                    self.declare(cursor, Cow::Borrowed(name), bits)?;
                }
                _ => return Err(cursor.error("`.param` is expected")),
            }
            cursor.take(b',');
        }
        Ok(all)
    }

    /// A parameter of this function, or an argument that it passes on.
    fn param(&mut self, cursor: &mut Cursor<'_, 'a>) -> Result<ParamRange, EmulatorError> {
        let one = variable::declared(cursor)?;
        let offset = self.param_bytes.next_multiple_of(one.align);
        self.param_bytes = offset + one.bytes;
        let (symbol, space) = (Symbol::Param(offset), Space::Param);
        self.define(one.name, Name::Variable { symbol, space, bytes: one.bytes });
        Ok(ParamRange { offset, bytes: one.bytes })
    }

    fn define(&mut self, name: impl Into<Cow<'a, str>>, meaning: Name<'a>) {
        self.scopes[self.scope].names.insert(name.into(), meaning);
    }

    fn declare(
        &mut self,
        cursor: &Cursor<'_, 'a>,
        name: Cow<'a, str>,
        bits: u32,
    ) -> Result<(), EmulatorError> {
        if let Some(Name::Register { .. }) = self.scopes[self.scope].names.get(&name) {
            return Err(cursor.error(format!("register `{name}` is declared twice")));
        }
        let slot = self.registers.len() as Slot;
        self.registers.push(name.clone().into_owned());
        self.widths.push(bits as u8);
        self.define(name, Name::Register { slot, bits });
        Ok(())
    }

    /// The slot of a value that never changes.
    pub fn fixed(&mut self, value: Fixed) -> Slot {
        let next = self.registers.len() as Slot;
        let slot = *self.fixed.entry(value).or_insert(next);
        if slot == next {
            self.registers.push(String::new());
            self.widths.push(64);
        }
        slot
    }

    /// The slot of `value`.
    pub fn number(&mut self, value: u64) -> Slot {
        self.fixed(Fixed::Number(value))
    }

    /// Whether instructions may write to a slot.
    pub fn is_register(&self, slot: Slot) -> bool {
        !self.registers[slot as usize].is_empty()
    }

    /// The meaning of `name` in this scope.
    pub fn name(&self, name: &str) -> Option<Name<'a>> {
        let mut scope = Some(self.scope);
        while let Some(at) = scope {
            if let Some(meaning) = self.scopes[at].names.get(name) {
                return Some(meaning.clone());
            }
            scope = self.scopes[at].parent;
        }
        let Some(&index) = self.names.by_name.get(name) else {
            return self.names.declared_by_name.get(name).map(|&number| Name::Function(number));
        };
        let variable = &self.names.variables[index];
        let symbol = Symbol::Variable(index as u32);
        Some(Name::Variable { symbol, space: variable.space, bytes: variable.bytes })
    }

    /// Reads statements in braces.
    fn block(&mut self, cursor: &mut Cursor<'_, 'a>, function: usize) -> Result<(), EmulatorError> {
        let open = cursor.line();
        cursor.expect(b'{')?;
        loop {
            match cursor.peek() {
                None | Some(Kind::Dotted(".visible" | ".weak" | ".entry" | ".func")) => {
                    return Err(cursor.error(format!("`}}` is expected; the `{{` of line {open} is open")));
                }
                Some(Kind::Punct(b'}')) => {
                    cursor.next();
                    return Ok(());
                }
                Some(Kind::Punct(b'{')) => {
                    let outer = self.scope;
                    self.scopes.push(Scope { parent: Some(outer), ..Scope::default() });
                    self.scope = self.scopes.len() - 1;
                    cursor.nested(|cursor| self.block(cursor, function))?;
                    self.scope = outer;
                }
                Some(Kind::Punct(b';')) => {
                    cursor.next();
                }
                Some(Kind::Dotted(directive)) => self.directive(cursor, directive, function)?,
                Some(Kind::Word(word)) if cursor.peek_at(1) == Some(Kind::Punct(b':')) => {
                    cursor.next();
                    cursor.next();
                    self.label(cursor, word)?;
                }
                Some(Kind::Word(_) | Kind::Punct(b'@')) => self.instruction(cursor)?,
                _ => return Err(cursor.error("a statement is expected")),
            }
        }
    }

    fn directive(
        &mut self,
        cursor: &mut Cursor<'_, 'a>,
        directive: &str,
        function: usize,
    ) -> Result<(), EmulatorError> {
        match directive {
            ".file" => self.names.lines.file(cursor),
            ".loc" => {
                let place = self.names.lines.loc(cursor);
                self.places.extend(place.map(|place| (self.instrs.len(), place)));
            }
            ".pragma" => cursor.skip_past(b';')?,
            ".reg" => {
                cursor.next();
                self.registers(cursor)?;
            }
            ".param" => {
                cursor.next();
                self.param(cursor)?;
                cursor.expect(b';')?;
            }
            ".local" => {
                cursor.next();
                let one = variable::declared(cursor)?;
                let offset = self.local_bytes.next_multiple_of(one.align);
                self.local_bytes = offset + one.bytes;
                let (symbol, space) = (Symbol::Local(offset), Space::Local);
                self.define(one.name, Name::Variable { symbol, space, bytes: one.bytes });
                cursor.expect(b';')?;
            }
            ".shared" | ".global" | ".const" => {
                for (name, index) in variable::read(cursor, self.names, Some(function), false)? {
                    let &Variable { space, bytes, .. } = &self.names.variables[index];
                    self.define(
                        name,
                        Name::Variable { symbol: Symbol::Variable(index as u32), space, bytes },
                    );
                }
            }
            _ => return Err(cursor.error(format!("`{directive}` is not known in a function"))),
        }
        Ok(())
    }

    /// `.b32 %r<10>, x;`
    fn registers(&mut self, cursor: &mut Cursor<'_, 'a>) -> Result<(), EmulatorError> {
        let bits = register_bits(cursor)?;
        loop {
            let name = cursor.word()?;
            if cursor.take(b'<') {
                let count = cursor.int()?;
                cursor.expect(b'>')?;
                if count > 1 << 20 {
                    return Err(cursor.error("too many registers"));
                }
                for i in 0..count {
                    self.declare(cursor, Cow::Owned(format!("{name}{i}")), bits)?;
                }
            } else {
                self.declare(cursor, Cow::Borrowed(name), bits)?;
            }
            if !cursor.take(b',') {
                return cursor.expect(b';');
            }
        }
    }

    fn label(&mut self, cursor: &mut Cursor<'_, 'a>, name: &'a str) -> Result<(), EmulatorError> {
        match cursor.peek() {
            Some(Kind::Dotted(".branchtargets")) => {
                cursor.next();
                let mut targets = vec![cursor.word()?];
                while cursor.take(b',') {
                    targets.push(cursor.word()?);
                }
                self.define(name, Name::Targets(targets));
                cursor.expect(b';')
            }
            Some(Kind::Dotted(".callprototype" | ".calltargets")) => cursor.skip_past(b';'),
            _ => {
                let pc = self.instrs.len() as Pc;
                if self.scopes[self.scope].labels.insert(name, pc).is_some() {
                    return Err(cursor.error(format!("label `{name}` is defined twice")));
                }
                Ok(())
            }
        }
    }

    fn instruction(&mut self, cursor: &mut Cursor<'_, 'a>) -> Result<(), EmulatorError> {
        let line = cursor.line();
        let mut guard = None;
        if cursor.take(b'@') {
            let negated = cursor.take(b'!');
            let name = cursor.word()?;
            let Some(Name::Register { slot, bits: 1 }) = self.name(name) else {
                return Err(cursor.error(format!("`{name}` is no predicate")));
            };
            guard = Some((slot, negated));
        }
        let opcode = cursor.word()?;
        let operands = operand::list(cursor, b';')?;
        self.has_wgmma |= opcode.starts_with("wgmma");
        let mut instr = syntax::read(self, opcode, &operands).unwrap_or_else(|reason| {
            let mut unknown = Instr::new(UNKNOWN, Form::default());
            unknown.more_mut().refusal = Some(format!("{opcode}: {reason}"));
            unknown
        });
        (instr.guard, instr.line) = (guard, line);
        self.instrs.push(instr);
        Ok(())
    }

    /// Records the labels that the next instruction may jump to; they may come later.
    pub fn branch(&mut self, labels: Vec<&'a str>) {
        self.branches.push((self.instrs.len(), self.scope, labels));
    }

    /// The labels of a `.branchtargets`.
    pub fn targets(&self, name: &str) -> Option<Vec<&'a str>> {
        match self.name(name) {
            Some(Name::Targets(targets)) => Some(targets),
            _ => None,
        }
    }

    fn link_branches(&mut self, cursor: &Cursor<'_, 'a>) -> Result<(), EmulatorError> {
        for (at, scope, labels) in core::mem::take(&mut self.branches) {
            let mut found = Vec::new();
            for label in labels {
                let pc = self.label_pc(scope, label);
                found.push(pc.ok_or_else(|| cursor.error(format!("there is no label `{label}`")))?);
            }
            self.instrs[at].more_mut().targets = found;
        }
        Ok(())
    }

    fn label_pc(&self, scope: usize, label: &str) -> Option<Pc> {
        let scope = &self.scopes[scope];
        scope.labels.get(label).copied().or_else(|| self.label_pc(scope.parent?, label))
    }
}
