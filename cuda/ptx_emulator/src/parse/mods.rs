//! The modifiers of an opcode.

use crate::instr::{FloatTy, IntTy, Round, Ty};

/// The parts of an opcode. A part that is never taken makes the instruction unsupported.
pub(super) struct Mods<'a> {
    rest: Vec<&'a str>,
}

impl<'a> Mods<'a> {
    /// Splits off the opcode's first word.
    pub fn split(opcode: &'a str) -> (&'a str, Mods<'a>) {
        let mut parts = opcode.split('.');
        let head = parts.next().unwrap_or_default();
        (head, Mods { rest: parts.collect() })
    }

    /// Takes `flag` if it is there; returns whether it was.
    pub fn take(&mut self, flag: &str) -> bool {
        let at = self.rest.iter().position(|part| *part == flag);
        if let Some(at) = at {
            self.rest.remove(at);
        }
        at.is_some()
    }

    /// Takes the first modifier in `table` and returns its meaning.
    pub fn take_of<T: Copy>(&mut self, table: &[(&str, T)]) -> Option<T> {
        for (at, part) in self.rest.iter().enumerate() {
            if let Some(&(_, value)) = table.iter().find(|(name, _)| name == part) {
                self.rest.remove(at);
                return Some(value);
            }
        }
        None
    }

    /// Takes the next modifier.
    pub fn first(&mut self) -> Result<&'a str, String> {
        if self.rest.is_empty() { Err("a modifier is missing".to_owned()) } else { Ok(self.rest.remove(0)) }
    }

    /// Removes all modifiers that match `drop`.
    pub fn ignore(&mut self, drop: impl Fn(&str) -> bool) {
        self.rest.retain(|part| !drop(part));
    }

    /// Takes the last modifier as a type.
    pub fn ty(&mut self) -> Result<Ty, String> {
        let part = self.rest.pop().ok_or("a type is missing")?;
        ty(part).ok_or_else(|| format!("type `.{part}`"))
    }

    pub fn int_ty(&mut self) -> Result<IntTy, String> {
        match self.ty()? {
            Ty::Int(ty) => Ok(ty),
            Ty::Float(_) => Err("a floating-point type".to_owned()),
        }
    }

    /// `.rn`, `.rz`, `.rm` or `.rp`.
    pub fn round(&mut self) -> Option<Round> {
        self.take_of(&[("rn", Round::Nearest), ("rz", Round::Zero), ("rm", Round::Down), ("rp", Round::Up)])
    }

    /// Checks that all modifiers were taken.
    pub fn done(&self) -> Result<(), String> {
        match self.rest.first() {
            None => Ok(()),
            Some(part) => Err(format!("modifier `.{part}`")),
        }
    }

    /// Checks that one modifier from each list is left, in this order, and nothing else.
    pub fn ends(&self, expected: &[&[&str]]) -> Result<(), String> {
        let fits = self.rest.len() == expected.len()
            && self.rest.iter().zip(expected).all(|(part, names)| names.contains(part));
        if fits { Ok(()) } else { Err("not in this form".to_owned()) }
    }

    /// Takes the last modifier.
    pub fn pop(&mut self) -> Option<&'a str> {
        self.rest.pop()
    }

    /// Whether `test` holds for any modifier.
    pub fn any(&self, test: impl Fn(&str) -> bool) -> bool {
        self.rest.iter().any(|part| test(part))
    }

    pub fn last(&self) -> Option<&'a str> {
        self.rest.last().copied()
    }
}

/// The type named by a modifier; bit types count as unsigned.
pub(super) fn ty(part: &str) -> Option<Ty> {
    let int = |bits, signed| Ty::Int(IntTy { bits, signed });
    Some(match part {
        "pred" => int(1, false),
        "b8" | "u8" => int(8, false),
        "b16" | "u16" => int(16, false),
        "b32" | "u32" => int(32, false),
        "b64" | "u64" => int(64, false),
        "s8" => int(8, true),
        "s16" => int(16, true),
        "s32" => int(32, true),
        "s64" => int(64, true),
        "f32" => Ty::Float(FloatTy::F32),
        "f64" => Ty::Float(FloatTy::F64),
        _ => return None,
    })
}
