//! Turns PTX text into a [`PtxModule`]: directives and variables here, function bodies in [`function`], instructions by
//! their rows of the table in [`syntax`].

pub(crate) mod cursor;
mod form;
mod function;
pub(crate) mod lines;
mod names;
mod operand;
mod syntax;
mod variable;

use crate::error::EmulatorError;
use crate::exec::table::UNKNOWN;
use crate::instr::{Call, Callee, Fixed, NO_BODY, ParamRange, System};
use crate::lex::{self, Kind};
use crate::module::{Function, PtxModule, Relocation, Target};
use cursor::Cursor;
use names::{Names, Pending};

impl PtxModule {
    /// Reads a module.
    ///
    /// Unsupported instructions are not errors yet: [`Self::unsupported`] lists them.
    ///
    /// # Errors
    /// [`EmulatorError::Syntax`]: the text is not PTX as libNVVM writes it.
    pub fn parse(text: &str) -> Result<PtxModule, EmulatorError> {
        module(text)
    }
}

/// Reads a whole module.
fn module(text: &str) -> Result<PtxModule, EmulatorError> {
    let tokens = lex::tokens(text)?;
    let mut cursor = Cursor::new(&tokens);
    let mut names = Names::default();
    let (mut capability, mut has_version) = (0, false);
    while let Some(kind) = cursor.peek() {
        match kind {
            Kind::Dotted(".target") => {
                cursor.next();
                capability = target(&mut cursor)?;
            }
            Kind::Dotted(".version") => {
                cursor.next();
                let Some(Kind::F64(_)) = cursor.next() else {
                    return Err(cursor.error("a version such as 8.6 is expected"));
                };
                has_version = true;
            }
            Kind::Dotted(".address_size") => {
                cursor.next();
                cursor.int()?;
            }
            Kind::Dotted(".loc") => cursor.skip_line(),
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
    if !has_version || capability == 0 {
        return Err(cursor.error("`.version` and `.target` are missing at the start of the module"));
    }
    resolve(&mut names)?;
    let Names { variables, functions, function_names, lines: source, .. } = names;
    let lines = text.lines().map(str::to_owned).collect();
    Ok(PtxModule { lines, source, capability, variables, functions, function_names })
}

/// The number in `sm_90a, debug`.
fn target(cursor: &mut Cursor<'_, '_>) -> Result<u32, EmulatorError> {
    let name = cursor.word()?;
    let digits = name.strip_prefix("sm_").unwrap_or_default().trim_end_matches(|c: char| !c.is_ascii_digit());
    let number = digits.parse().map_err(|_| cursor.error(format!("`{name}` is no architecture")))?;
    // Options, such as `debug`.
    while cursor.take(b',') {
        cursor.word()?;
    }
    Ok(number)
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
    let sizes = |ranges: &[ParamRange]| ranges.iter().map(|range| range.bytes).collect::<Vec<_>>();
    let size = |range: Option<ParamRange>| range.map(|range| range.bytes);
    let shape = |f: &Function| (sizes(&f.params), size(f.result), f.is_entry);
    let shapes: Vec<_> = names.functions.iter().map(shape).collect();
    for instr in names.functions.iter_mut().flat_map(|function| &mut function.instrs) {
        let Some(call) = &instr.more().call else { continue };
        let Callee::Name(name) = &call.callee else { continue };
        let (callee, refusal) = match known.get(name).map(|&index| (index, &shapes[index])) {
            None => match system(name, sizes(&call.args), size(call.result)) {
                Some(system) => (Callee::System(system), None),
                None => (Callee::Index(0), Some(format!("`{name}` has no body"))),
            },
            Some((index, (_, _, true))) => (Callee::Index(index), Some(format!("`{name}` is a kernel"))),
            Some((index, (params, result, _))) => {
                let fits = (sizes(&call.args), size(call.result)) == (params.clone(), *result);
                let refusal = || "the arguments do not have the sizes of the parameters".to_owned();
                (Callee::Index(index), (!fits).then(refusal))
            }
        };
        if refusal.is_some() {
            instr.row = UNKNOWN;
        }
        let more = instr.more_mut();
        more.refusal = refusal;
        if let Some(Call { callee: old, .. }) = &mut more.call {
            *old = callee;
        }
    }
    Ok(())
}

/// The driver's function of this name, if there is one with these sizes.
fn system(name: &str, args: Vec<u64>, result: Option<u64>) -> Option<System> {
    let fits = |&&(known, _, params, back): &&(&str, System, &[u64], Option<u64>)| {
        (known, params, back) == (name, &args[..], result)
    };
    System::ALL.iter().find(fits).map(|&(_, system, ..)| system)
}
