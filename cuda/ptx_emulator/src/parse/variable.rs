//! Definitions of variables and parameters.

use super::cursor::Cursor;
use super::names::{Names, Pending};
use crate::error::EmulatorError;
use crate::instr::Space;
use crate::lex::Kind;
use crate::module::Variable;

/// Name, alignment and size of one variable.
pub(super) struct Declared<'a> {
    pub name: &'a str,
    pub align: u64,
    pub bytes: u64,
    /// Size of one element.
    pub element: u64,
    /// Whether it has no size: `x[]`.
    pub is_open: bool,
}

/// The size in bytes of a fundamental type.
pub(super) fn type_bytes(directive: &str) -> Option<u64> {
    Some(match directive {
        ".b8" | ".u8" | ".s8" => 1,
        ".b16" | ".u16" | ".s16" | ".f16" | ".bf16" => 2,
        ".b32" | ".u32" | ".s32" | ".f32" | ".f16x2" | ".bf16x2" => 4,
        ".b64" | ".u64" | ".s64" | ".f64" => 8,
        ".b128" => 16,
        _ => return None,
    })
}

/// Reads attributes and type, such as `.align 8 .b8` or `.u64 .ptr .align 1`: alignment and size of an element.
fn attributes(cursor: &mut Cursor<'_, '_>) -> Result<(u64, u64), EmulatorError> {
    let (mut align, mut element) = (0, None);
    while let Some(Kind::Dotted(word)) = cursor.peek() {
        cursor.next();
        match word {
            // The alignment of a pointer's target does not affect the parameter.
            ".ptr" => {
                while let Some(Kind::Dotted(".global" | ".const" | ".shared" | ".local" | ".align")) =
                    cursor.peek()
                {
                    if cursor.next() == Some(Kind::Dotted(".align")) {
                        cursor.int()?;
                    }
                }
            }
            ".align" => align = cursor.int()?,
            _ => match type_bytes(word) {
                Some(bytes) => element = Some(bytes),
                None => return Err(cursor.error(format!("`{word}` is no type of a variable"))),
            },
        }
    }
    let element = element.ok_or_else(|| cursor.error("a type is expected"))?;
    if align != 0 && !align.is_power_of_two() {
        return Err(cursor.error(format!("{align} is no alignment")));
    }
    Ok((align.max(element), element))
}

/// Reads a name with its extents.
fn declarator<'a>(
    cursor: &mut Cursor<'_, 'a>,
    align: u64,
    element: u64,
) -> Result<Declared<'a>, EmulatorError> {
    let name = cursor.word()?;
    let (mut count, mut is_open) = (1u64, false);
    while cursor.take(b'[') {
        if cursor.take(b']') {
            is_open = true;
            count = 0;
        } else {
            let extent = cursor.int()?;
            count = count
                .checked_mul(extent)
                .filter(|&n| n < 1 << 40)
                .ok_or_else(|| cursor.error("too large"))?;
            cursor.expect(b']')?;
        }
    }
    Ok(Declared { name, align, bytes: count * element, element, is_open })
}

/// One `.param` of a list, or a variable without an initialiser; the state space has been read.
pub(super) fn declared<'a>(cursor: &mut Cursor<'_, 'a>) -> Result<Declared<'a>, EmulatorError> {
    let (align, element) = attributes(cursor)?;
    declarator(cursor, align, element)
}

/// Reads variables in global, constant or shared memory, up to the semicolon: names and indices.
pub(super) fn read<'a>(
    cursor: &mut Cursor<'_, 'a>,
    names: &mut Names<'a>,
    function: Option<usize>,
    is_extern: bool,
) -> Result<Vec<(&'a str, usize)>, EmulatorError> {
    let space = match cursor.next() {
        Some(Kind::Dotted(".global")) => Space::Global,
        Some(Kind::Dotted(".const")) => Space::Const,
        Some(Kind::Dotted(".shared")) => Space::Shared,
        _ => return Err(cursor.error("a state space is expected")),
    };
    let (align, element) = attributes(cursor)?;
    let mut all = Vec::new();
    loop {
        let mut one = declarator(cursor, align, element)?;
        let is_dynamic = is_extern && space == Space::Shared && one.is_open;
        if is_extern && !is_dynamic {
            return Err(cursor.error(format!("`{}` is defined in another module", one.name)));
        }
        let index = names.variables.len();
        let mut init = Vec::new();
        if cursor.take(b'=') {
            initialiser(cursor, names, index, &one, &mut init)?;
            if one.is_open {
                one.bytes = init.len() as u64;
            }
            if init.len() as u64 > one.bytes {
                return Err(cursor.error(format!("too many values for `{}`", one.name)));
            }
        }
        names.variables.push(Variable {
            name: one.name.to_owned(),
            space,
            align,
            bytes: one.bytes,
            init,
            addresses: Vec::new(),
            function,
            is_dynamic,
        });
        all.push((one.name, index));
        if !cursor.take(b',') {
            cursor.expect(b';')?;
            return Ok(all);
        }
    }
}

/// `name`, `generic(name)` or either plus a number; global addresses are also generic, so both are the same.
fn address<'a>(cursor: &mut Cursor<'_, 'a>) -> Result<(&'a str, i64), EmulatorError> {
    let mut name = cursor.word()?;
    let mut addend = 0;
    let mut offset = |cursor: &mut Cursor<'_, 'a>| -> Result<(), EmulatorError> {
        if cursor.take(b'+') {
            addend += cursor.int()? as i64;
        }
        Ok(())
    };
    if name == "generic" && cursor.take(b'(') {
        name = cursor.word()?;
        offset(cursor)?;
        cursor.expect(b')')?;
    }
    offset(cursor)?;
    Ok((name, addend))
}

fn initialiser<'a>(
    cursor: &mut Cursor<'_, 'a>,
    names: &mut Names<'a>,
    owner: usize,
    one: &Declared<'_>,
    init: &mut Vec<u8>,
) -> Result<(), EmulatorError> {
    if cursor.take(b'{') {
        if cursor.take(b'}') {
            return Ok(());
        }
        loop {
            if cursor.peek() == Some(Kind::Punct(b'{')) {
                return Err(cursor.error("nested initialisers are not read"));
            }
            initialiser(cursor, names, owner, one, init)?;
            if !cursor.take(b',') {
                return cursor.expect(b'}');
            }
        }
    }
    let line = cursor.line();
    let value = match cursor.peek() {
        Some(Kind::F32(bits)) if one.element == 4 => {
            cursor.next();
            u64::from(bits)
        }
        Some(Kind::F64(bits)) if one.element == 8 => {
            cursor.next();
            bits
        }
        Some(Kind::Word(_)) if one.element == 8 => {
            let (name, addend) = address(cursor)?;
            names.pending.push(Pending { owner, offset: init.len(), byte: None, name, addend, line });
            0
        }
        // One byte of an address: `0xFF00(name)`.
        Some(Kind::Int(mask)) if one.element == 1 && cursor.peek_at(1) == Some(Kind::Punct(b'(')) => {
            cursor.next();
            cursor.next();
            let byte = (0..8).find(|byte| mask == 0xff << (8 * byte));
            let byte = Some(byte.ok_or_else(|| cursor.error(format!("{mask:#x} is no byte of an address")))?);
            let (name, addend) = address(cursor)?;
            cursor.expect(b')')?;
            names.pending.push(Pending { owner, offset: init.len(), byte, name, addend, line });
            0
        }
        _ => cursor.int()?,
    };
    init.extend_from_slice(&value.to_le_bytes()[..one.element as usize]);
    Ok(())
}
