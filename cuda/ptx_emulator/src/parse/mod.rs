//! Turns PTX text into a [`PtxModule`]: directives and variables here, function bodies in [`function`], instructions in the
//! files named after their families.

mod bulk;
mod copies;
mod cursor;
mod float;
mod function;
mod half;
mod instruction;
mod int;
mod lines;
mod mbarrier;
mod memory;
mod mods;
mod operand;
mod sync;
mod tensor;
mod tma;
mod variable;
mod warp;
mod wgmma;

use std::collections::HashMap;

use crate::error::EmulatorError;
use crate::instr::{Call, Callee, Fixed, NO_BODY, Op, Symbol, System};
use crate::lex::{self, Kind};
use crate::module::{Function, PtxModule, Relocation, Target, Variable};
use cursor::Cursor;
pub(crate) use lines::Lines;

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

/// Reads a whole module.
pub(crate) fn module(text: &str) -> Result<PtxModule, EmulatorError> {
    let tokens = lex::tokens(text)?;
    let mut cursor = Cursor::new(&tokens);
    let mut names = Names::default();
    let mut capability = 0;
    while let Some(kind) = cursor.peek() {
        match kind {
            Kind::Dotted(".target") => {
                cursor.next();
                capability = target(&mut cursor)?;
                cursor.skip_line();
            }
            Kind::Dotted(".version" | ".address_size" | ".loc") => cursor.skip_line(),
            Kind::Dotted(".file") => names.lines.file(&mut cursor),
            Kind::Dotted(".section") => cursor.skip_braces()?,
            Kind::Dotted(".pragma") => cursor.skip_past(b';')?,
            Kind::Dotted(".visible" | ".extern" | ".weak" | ".common") => {
                definition(&mut cursor, &mut names)?
            }
            Kind::Dotted(".entry" | ".func" | ".global" | ".const" | ".shared") => {
                definition(&mut cursor, &mut names)?;
            }
            _ => return Err(cursor.error("a directive or a definition is expected")),
        }
    }
    resolve(&mut names)?;
    let Names { variables, functions, function_names, lines: source, .. } = names;
    let lines = text.lines().map(str::to_owned).collect();
    Ok(PtxModule { lines, source, capability, variables, functions, function_names })
}

/// The number in `sm_90a`.
fn target(cursor: &mut Cursor<'_, '_>) -> Result<u32, EmulatorError> {
    let name = cursor.word()?;
    let digits = name.strip_prefix("sm_").unwrap_or_default().trim_end_matches(|c: char| !c.is_ascii_digit());
    digits.parse().map_err(|_| cursor.error(format!("`{name}` is no architecture")))
}

fn definition<'a>(cursor: &mut Cursor<'_, 'a>, names: &mut Names<'a>) -> Result<(), EmulatorError> {
    let mut is_extern = false;
    while let Some(Kind::Dotted(word @ (".visible" | ".extern" | ".weak" | ".common"))) = cursor.peek() {
        is_extern |= word == ".extern";
        cursor.next();
    }
    match cursor.peek() {
        Some(Kind::Dotted(".entry")) => {
            cursor.next();
            function::read(cursor, names, true)
        }
        Some(Kind::Dotted(".func")) => {
            cursor.next();
            function::read(cursor, names, false)
        }
        _ => {
            for index in variable::read(cursor, names, None, is_extern)? {
                // The variable's name borrows from the tokens, so it outlives this function.
                names.by_name.insert(index.0, index.1);
            }
            Ok(())
        }
    }
}

/// Replaces names by indices, now that all are known.
fn resolve(names: &mut Names<'_>) -> Result<(), EmulatorError> {
    for Pending { owner, offset, byte, name, addend, line } in core::mem::take(&mut names.pending) {
        let target = match (names.by_name.get(name), names.declared_by_name.contains_key(name)) {
            (Some(&variable), _) => Target::Variable(variable),
            (None, true) => Target::Function(names.function_names.get(name).copied()),
            (None, false) => {
                let message = format!("there is no variable or function `{name}`");
                return Err(EmulatorError::Syntax { line, message });
            }
        };
        names.variables[owner].addresses.push(Relocation { offset, byte, target, addend });
    }
    let known = &names.function_names;
    let index_of = |declared: u32| known.get(names.declared[declared as usize]).map(|&index| index as u32);
    for (_, value) in names.functions.iter_mut().flat_map(|function| &mut function.fixed) {
        if let Fixed::Function(index) = value {
            *index = index_of(*index).unwrap_or(NO_BODY);
        }
    }
    let shapes: Vec<_> = names.functions.iter().map(|f| (f.params.clone(), f.result, f.is_entry)).collect();
    for instr in names.functions.iter_mut().flat_map(|function| &mut function.instrs) {
        let Op::Call(call) = &mut instr.op else { continue };
        let Callee::Name(name) = &call.callee else { continue };
        let refusal = match known.get(name).map(|&index| (index, &shapes[index])) {
            None => match system(name, call) {
                Some(system) => {
                    call.callee = Callee::System(system);
                    None
                }
                None => Some(format!("`{name}` has no body")),
            },
            Some((_, (_, _, true))) => Some(format!("`{name}` is a kernel")),
            Some((index, (params, result, _))) => {
                let sizes = |ranges: &[crate::instr::ParamRange]| {
                    ranges.iter().map(|range| range.bytes).collect::<Vec<_>>()
                };
                let fits = sizes(&call.args) == sizes(params)
                    && call.result.map(|range| range.bytes) == result.map(|range| range.bytes);
                call.callee = Callee::Index(index);
                (!fits).then(|| "the arguments do not have the sizes of the parameters".to_owned())
            }
        };
        if let Some(reason) = refusal {
            instr.op = Op::Unsupported(reason.into());
        }
    }
    Ok(())
}

/// The driver's function of this call, if there is one with these sizes.
fn system(name: &str, call: &Call) -> Option<System> {
    let system = System::named(name)?;
    let (params, result) = system.shape();
    let fits = call.args.iter().map(|range| range.bytes).eq(params.iter().copied());
    (fits && call.result.map(|range| range.bytes) == result).then_some(system)
}

/// The meaning of a name inside a function.
#[derive(Clone, Debug)]
pub(super) enum Name<'a> {
    /// A register and its width; predicates have one bit.
    Register { slot: crate::instr::Slot, bits: u32 },
    /// A variable, its state space, and its size in bytes.
    Variable { symbol: Symbol, space: crate::instr::Space, bytes: u64 },
    /// A function, by its number among the declared ones.
    Function(u32),
    /// The labels of a `.branchtargets`.
    Targets(Vec<&'a str>),
}
