//! Operands: first as written, then as registers, numbers and addresses.

use super::Name;
use super::cursor::Cursor;
use super::function::Body;
use crate::error::EmulatorError;
use crate::instr::{Addr, Fixed, FloatTy, IntTy, ParamRange, SINK, Slot, Space, Special, Symbol};
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

/// Reads the operands of an instruction, with its semicolon.
pub(super) fn list<'a>(cursor: &mut Cursor<'_, 'a>) -> Result<Vec<Operand<'a>>, EmulatorError> {
    let mut all = Vec::new();
    while !cursor.take(b';') {
        all.push(one(cursor)?);
        if !cursor.take(b',') {
            cursor.expect(b';')?;
            break;
        }
    }
    Ok(all)
}

fn group<'a>(cursor: &mut Cursor<'_, 'a>, end: u8) -> Result<Vec<Operand<'a>>, EmulatorError> {
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
    Ok(match cursor.peek() {
        Some(Kind::Punct(b'{')) => {
            cursor.next();
            Operand::Vector(group(cursor, b'}')?)
        }
        Some(Kind::Punct(b'(')) => {
            cursor.next();
            Operand::List(group(cursor, b')')?)
        }
        Some(Kind::Punct(b'[')) => {
            cursor.next();
            let address = Operand::Address(Box::new(one(cursor)?));
            let coordinates = if cursor.take(b',') { Some(one(cursor)?) } else { None };
            cursor.expect(b']')?;
            match (coordinates, address) {
                (None, address) => address,
                (Some(Operand::Vector(at)), address) => Operand::Tensor(Box::new(address), at),
                (Some(_), _) => return Err(cursor.error("coordinates in braces are expected")),
            }
        }
        Some(Kind::Punct(b'!')) => {
            cursor.next();
            Operand::Not(cursor.word()?)
        }
        Some(Kind::F32(bits)) => {
            cursor.next();
            Operand::F32(bits)
        }
        Some(Kind::F64(bits)) => {
            cursor.next();
            Operand::F64(bits)
        }
        Some(Kind::Word(word)) => {
            cursor.next();
            if cursor.take(b'|') {
                Operand::Pair(word, cursor.word()?)
            } else if cursor.take(b'+') || cursor.peek() == Some(Kind::Punct(b'-')) {
                Operand::Offset(word, cursor.int()? as i64)
            } else {
                Operand::Word(word)
            }
        }
        _ => Operand::Int(cursor.int()?),
    })
}

type Read<T> = Result<T, String>;

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
                Some(Name::Variable { symbol, .. }) => Ok((self.fixed(Fixed::Symbol(symbol, 0)), 64)),
                Some(Name::Targets(_)) => Err(format!("`{name}` is no value")),
                Some(Name::Function(index)) => Ok((self.fixed(Fixed::Function(index)), 64)),
                None => special(name)
                    .map(|(special, have)| (self.fixed(Fixed::Special(special)), have))
                    .ok_or_else(|| format!("`{name}` is neither a register nor a variable")),
            },
            Operand::Offset(name, offset) => match self.name(name) {
                Some(Name::Variable { symbol, .. }) => Ok((self.fixed(Fixed::Symbol(symbol, *offset)), 64)),
                _ => Err(format!("`{name}` is no variable")),
            },
            _ => Err("an operand of another kind".to_owned()),
        }
    }

    pub fn int(&mut self, operand: &Operand<'a>, ty: IntTy) -> Read<Slot> {
        self.src(operand, ty.bits)
    }

    /// A floating-point source; a literal must have the type's own form.
    pub fn float(&mut self, operand: &Operand<'a>, ty: FloatTy) -> Read<Slot> {
        match (operand, ty) {
            (Operand::Int(_), _) => Err("an integer where a float is read".to_owned()),
            (_, FloatTy::F32) => self.src(operand, 32),
            (_, FloatTy::F64) => self.src(operand, 64),
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

    /// A destination of `bits` bits with an optional predicate: `d|p`.
    pub fn dst_pair(&self, operand: &Operand<'a>, bits: u32) -> Read<(Slot, Slot)> {
        match operand {
            Operand::Pair(d, p) => Ok((self.dst(&Operand::Word(d), bits)?, self.dst(&Operand::Word(p), 1)?)),
            _ => Ok((self.dst(operand, bits)?, SINK)),
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

/// A special register and its width.
fn special(name: &str) -> Option<(Special, u32)> {
    if let Some((register, axis)) = name.split_once('.') {
        let axis = ["x", "y", "z"].iter().position(|&known| known == axis)?;
        let special = match register {
            "%tid" => Special::Tid(axis),
            "%ntid" => Special::Ntid(axis),
            "%ctaid" => Special::Ctaid(axis),
            "%nctaid" => Special::Nctaid(axis),
            _ => return None,
        };
        return Some((special, 32));
    }
    Some(match name {
        "%cluster_ctarank" => (Special::ClusterRank, 32),
        "%cluster_nctarank" => (Special::ClusterBlocks, 32),
        "%laneid" => (Special::LaneId, 32),
        "%warpid" => (Special::WarpId, 32),
        "%smid" => (Special::MultiprocessorId, 32),
        "%dynamic_smem_size" => (Special::DynamicShared, 32),
        "%lanemask_eq" => (Special::MaskEq, 32),
        "%lanemask_lt" => (Special::MaskLt, 32),
        "%lanemask_le" => (Special::MaskLe, 32),
        "%lanemask_gt" => (Special::MaskGt, 32),
        "%lanemask_ge" => (Special::MaskGe, 32),
        _ => return None,
    })
}
