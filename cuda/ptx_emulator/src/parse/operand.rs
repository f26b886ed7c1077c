//! Operands: first as written, then as registers, numbers and addresses.

use super::cursor::Cursor;
use super::function::Body;
use super::names::Name;
use crate::error::EmulatorError;
use crate::instr::{Addr, Fixed, ParamRange, SINK, SPECIALS, Slot, Space, Symbol};
use crate::lex::Kind;

/// An operand as written.
#[derive(Clone, Debug)]
pub(super) enum Operand<'a> {
    Word(&'a str),
    /// `name+4`
    Offset(&'a str, i64),
    Int(u64),
    F32(u32),
    F64(u64),
    /// `[base+offset]`
    Address(Box<Operand<'a>>),
    /// `[base, {x, y}]`: an address, and coordinates.
    Tensor(Box<Operand<'a>>, Vec<Operand<'a>>),
    /// `{a, b}`
    Vector(Vec<Operand<'a>>),
    /// `(a, b)`, in calls
    List(Vec<Operand<'a>>),
    /// `d|p`
    Pair(&'a str, &'a str),
    /// `!p`
    Not(&'a str),
}

impl<'a> Operand<'a> {
    /// The elements of a vector of `count`.
    pub fn vector(&self, count: usize) -> Result<&[Operand<'a>], String> {
        match self {
            Operand::Vector(all) if all.len() == count => Ok(all),
            Operand::Vector(_) => Err("a vector of another length".to_owned()),
            _ => Err("a vector is expected".to_owned()),
        }
    }

    pub fn word(&self) -> Option<&'a str> {
        match self {
            Operand::Word(word) => Some(word),
            _ => None,
        }
    }
}

/// Reads operands up to `end`, which is a semicolon after an instruction.
pub(super) fn list<'a>(cursor: &mut Cursor<'_, 'a>, end: u8) -> Result<Vec<Operand<'a>>, EmulatorError> {
    let mut all = Vec::new();
    while !cursor.take(end) {
        all.push(one(cursor)?);
        if !cursor.take(b',') {
            cursor.expect(end)?;
            break;
        }
    }
    Ok(all)
}

fn one<'a>(cursor: &mut Cursor<'_, 'a>) -> Result<Operand<'a>, EmulatorError> {
    let is_float = matches!(cursor.peek_at(1), Some(Kind::F32(_) | Kind::F64(_)));
    let is_negative = is_float && cursor.take(b'-');
    let Some(kind @ (Kind::Punct(b'{' | b'(' | b'[' | b'!') | Kind::F32(_) | Kind::F64(_) | Kind::Word(_))) =
        cursor.peek()
    else {
        return Ok(Operand::Int(cursor.int()?));
    };
    cursor.next();
    Ok(match kind {
        Kind::Punct(b'{') => Operand::Vector(cursor.nested(|cursor| list(cursor, b'}'))?),
        Kind::Punct(b'(') => Operand::List(cursor.nested(|cursor| list(cursor, b')'))?),
        Kind::Punct(b'[') => {
            let address = Operand::Address(Box::new(cursor.nested(one)?));
            let coordinates = if cursor.take(b',') { Some(one(cursor)?) } else { None };
            cursor.expect(b']')?;
            match (coordinates, address) {
                (None, address) => address,
                (Some(Operand::Vector(at)), address) => Operand::Tensor(Box::new(address), at),
                (Some(_), _) => return Err(cursor.error("coordinates in braces are expected")),
            }
        }
        Kind::F32(bits) => Operand::F32(bits ^ u32::from(is_negative) << 31),
        Kind::F64(bits) => Operand::F64(bits ^ u64::from(is_negative) << 63),
        Kind::Word(word) if cursor.take(b'|') => Operand::Pair(word, cursor.word()?),
        Kind::Word(word) if cursor.take(b'+') || cursor.peek() == Some(Kind::Punct(b'-')) => {
            Operand::Offset(word, cursor.int()? as i64)
        }
        Kind::Word(word) => Operand::Word(word),
        _ => Operand::Not(cursor.word()?),
    })
}

type Read<T> = Result<T, String>;

/// The width of a variable's address where `bits` bits are read. Only addresses in the host's memory need all 64.
fn address_bits(space: Space, bits: u32) -> u32 {
    if bits == 32 && !matches!(space, Space::Global | Space::Const) { 32 } else { 64 }
}

impl<'a> Body<'_, 'a> {
    fn register_of(&self, name: &str) -> Read<(Slot, u32)> {
        match self.name(name) {
            Some(Name::Register { slot, bits }) => Ok((slot, bits)),
            _ => Err(format!("`{name}` is no register")),
        }
    }

    /// A destination of exactly `bits` bits.
    pub fn dst(&self, operand: &Operand<'a>, bits: u32) -> Read<Slot> {
        match self.dst_wide(operand, bits)? {
            (slot, have) if have == bits || slot == SINK => Ok(slot),
            (_, have) => Err(format!("a destination of {have} bits for a result of {bits}")),
        }
    }

    /// A destination of at least `bits` bits, and its width.
    pub fn dst_wide(&self, operand: &Operand<'a>, bits: u32) -> Read<(Slot, u32)> {
        match operand.word() {
            Some("_") => Ok((SINK, 64)),
            Some(name) => match self.register_of(name)? {
                (slot, have) if bits <= have && have <= 64 && (have == 1) == (bits == 1) => Ok((slot, have)),
                (_, have) => Err(format!("a destination of {have} bits for a result of {bits}")),
            },
            None => Err("the destination is no register".to_owned()),
        }
    }

    /// A source of exactly `bits` bits.
    pub fn src(&mut self, operand: &Operand<'a>, bits: u32) -> Read<Slot> {
        match self.src_wide(operand, bits)? {
            (src, have) if have == bits => Ok(src),
            (_, have) => Err(format!("a source of {have} bits where {bits} are read")),
        }
    }

    /// A source of at least `bits` bits, and its width.
    pub fn src_wide(&mut self, operand: &Operand<'a>, bits: u32) -> Read<(Slot, u32)> {
        let mask = u64::MAX >> (64 - bits);
        match operand {
            Operand::Int(value) => Ok((self.number(value & mask), bits)),
            Operand::F32(value) if bits == 32 => Ok((self.number(u64::from(*value)), 32)),
            Operand::F64(value) if bits == 64 => Ok((self.number(*value), 64)),
            Operand::Word(name) => match self.name(name) {
                Some(Name::Register { slot, bits: have }) if bits <= have && have <= 64 => Ok((slot, have)),
                Some(Name::Register { bits: have, .. }) => {
                    Err(format!("a source of {have} bits where {bits} are read"))
                }
                Some(Name::Variable { symbol, space, .. }) => {
                    Ok((self.fixed(Fixed::Symbol(symbol, 0)), address_bits(space, bits)))
                }
                Some(Name::Targets(_)) => Err(format!("`{name}` is no value")),
                Some(Name::Function(index)) => Ok((self.fixed(Fixed::Function(index)), 64)),
                None => (SPECIALS.iter().find(|special| *special == name))
                    .map(|special| (self.fixed(Fixed::Special(special)), 32))
                    .ok_or_else(|| format!("`{name}` is neither a register nor a variable")),
            },
            Operand::Offset(name, offset) => match self.name(name) {
                Some(Name::Variable { symbol, space, .. }) => {
                    Ok((self.fixed(Fixed::Symbol(symbol, *offset)), address_bits(space, bits)))
                }
                _ => Err(format!("`{name}` is no variable")),
            },
            _ => Err("an operand of another kind".to_owned()),
        }
    }

    /// A predicate, and whether it is inverted.
    pub fn pred(&mut self, operand: &Operand<'a>) -> Read<(Slot, bool)> {
        match operand {
            Operand::Not(name) => Ok((self.src(&Operand::Word(name), 1)?, true)),
            // Any nonzero number is true.
            Operand::Int(value) => Ok((self.number(u64::from(*value != 0)), false)),
            _ => Ok((self.src(operand, 1)?, false)),
        }
    }

    /// `[base+offset]` in `space`.
    pub fn address(&mut self, operand: &Operand<'a>, space: Space) -> Read<Addr> {
        let Operand::Address(inner) = operand else {
            return Err("an address is expected".to_owned());
        };
        let (name, offset) = match **inner {
            Operand::Word(name) => (name, 0),
            Operand::Offset(name, offset) => (name, offset),
            Operand::Int(value) => return Ok(Addr { space, base: self.number(value), offset: 0 }),
            _ => return Err("an address of another kind".to_owned()),
        };
        match self.name(name) {
            Some(Name::Register { slot, bits: 32 | 64 }) => Ok(Addr { space, base: slot, offset }),
            Some(Name::Variable { symbol, space: home, .. })
                if home == space || (home, space) == (Space::Shared, Space::SharedCluster) =>
            {
                Ok(Addr { space, base: self.fixed(Fixed::Symbol(symbol, 0)), offset })
            }
            // A variable in global memory has its own address as a generic address.
            Some(Name::Variable { symbol, space: Space::Global | Space::Const, .. })
                if space == Space::Generic =>
            {
                Ok(Addr { space, base: self.fixed(Fixed::Symbol(symbol, 0)), offset })
            }
            Some(Name::Variable { .. }) => Err(format!("`{name}` lives in another state space")),
            _ => Err(format!("`{name}` is no address")),
        }
    }

    /// A `.param` variable of a call.
    pub fn param_range(&self, operand: &Operand<'a>) -> Read<ParamRange> {
        match operand.word().and_then(|name| self.name(name)) {
            Some(Name::Variable { symbol: Symbol::Param(offset), bytes, .. }) => {
                Ok(ParamRange { offset, bytes })
            }
            _ => Err("an argument that is no `.param` variable".to_owned()),
        }
    }
}
