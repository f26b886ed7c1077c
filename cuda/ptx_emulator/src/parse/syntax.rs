//! Reads an instruction by the syntax in its row of the table, for example `setp.eq|ne.?ftz.f32 d:1|p, a, b`.
//!
//! Modifiers, after the opcode: a word, alternatives, or a class with `$`; `?` before an optional one; `*` allows all that
//! have no effect where threads take turns: ordering, scope and caching.
//!
//! Operands, by the letter of the field of [`Instr`] that they go to: `d` and `p` are destinations, the others sources of
//! the type's width; capital letters are vectors.
//!
//! | operand | meaning |
//! | --- | --- |
//! | `a:32`, `a:from`, `d:wide` | of 32 bits, of the second type, of twice the width |
//! | `a+` | of this width or wider |
//! | `b?` | may be missing, with all that follow |
//! | `!a` | a predicate, perhaps inverted |
//! | `d\|p` | a destination, perhaps with a predicate |
//! | `D*4`, `D*n`, `D*v`, `D*parts` | 4 elements; as many as the modifier says; one without braces; equal parts of the type |
//! | `[.]`, `[shared]` | an address in the space of the modifiers, or in this one |
//! | `[map]` | a tensor map and coordinates |
//! | `#`, `%clock`, `label`, `labels`, `call` | a literal, this register, a label, a list of labels, the operands of a call |
//! | `..` | anything |

use std::collections::HashMap;
use std::rc::Rc;
use std::sync::LazyLock;

use super::form::fit;
use super::function::Body;
use super::operand::Operand;
use crate::exec::row::Site;
use crate::exec::table::TABLE;
use crate::instr::{Call, Callee, Form, Instr, Kind, SINK, Slot, Space, flag};

/// The numbers of the rows of each opcode.
static ROWS: LazyLock<HashMap<&str, Vec<u16>>> = LazyLock::new(|| {
    let mut rows = HashMap::<_, Vec<u16>>::new();
    for (row, number) in TABLE.iter().zip(0..) {
        let head = row.syntax.split(['.', ' ']).next().unwrap_or_default();
        head.split('|').for_each(|opcode| rows.entry(opcode).or_default().push(number));
    }
    rows
});

/// The rows that an opcode fits with its modifiers.
fn forms(opcode: &str, rows: &[u16]) -> Rc<[(u16, Form)]> {
    let words: Vec<&str> = opcode.split('.').skip(1).collect();
    let form = |&number: &u16| {
        let pattern = TABLE[usize::from(number)].syntax.split(' ').next()?;
        Some((number, fit(pattern.split_once('.').map_or("", |(_, pattern)| pattern), &words)?))
    };
    rows.iter().filter_map(form).collect()
}

/// Reads the typed form of an instruction. The error is why it is not emulated.
pub(super) fn read<'a>(
    body: &mut Body<'_, 'a>,
    opcode: &'a str,
    operands: &[Operand<'a>],
) -> Result<Instr, String> {
    let head = opcode.split('.').next().unwrap_or_default();
    let rows = ROWS.get(head).ok_or("unknown opcode")?;
    // Few opcodes occur, and each many times.
    let known = body.names.forms.entry(opcode).or_insert_with(|| forms(opcode, rows));
    let mut reason = None;
    for (number, form) in known.clone().iter().copied() {
        let row = &TABLE[usize::from(number)];
        let specs = row.syntax.split_once(' ').map_or("", |(_, specs)| specs);
        // `red` is `atom` without the old value.
        let specs = if head == "red" { specs.trim_start_matches("d, ") } else { specs };
        if !specs.split(", ").zip(operands).all(|(spec, operand)| suits(spec, operand)) {
            continue;
        }
        let mut instr = Instr::new(number, form);
        instr.form.flags |= if head == "bar" { flag::ALIGNED } else { 0 };
        let result = read_operands(body, specs, operands, &mut instr).and_then(|()| {
            let is_by_register = instr.more().at.first().is_some_and(|at| body.is_register(at.base));
            (row.check)(&instr, Site { is_entry: body.is_entry, is_by_register })
        });
        match result {
            Ok(()) => {
                if row.leaves {
                    instr.more_mut().leaves = true;
                }
                return Ok(instr);
            }
            Err(error) => reason = Some(error),
        }
    }
    let all = || rows.iter().map(|&row| TABLE[usize::from(row)].syntax).collect::<Vec<_>>().join("`, `");
    Err(reason.unwrap_or_else(|| format!("not in one of the forms `{}`", all())))
}

/// Whether the operand is the register or the vector that one of several rows has there.
fn suits(spec: &str, operand: &Operand<'_>) -> bool {
    match operand {
        Operand::Vector(_) => spec.contains('*'),
        _ if spec.ends_with("*parts") => false,
        _ => !(spec == "_" || spec.starts_with('%')) || operand.word() == Some(spec),
    }
}

fn read_operands<'a>(
    body: &mut Body<'_, 'a>,
    specs: &str,
    operands: &[Operand<'a>],
    instr: &mut Instr,
) -> Result<(), String> {
    let mut rest = operands;
    let all = || specs.split(", ").filter(|spec| !spec.is_empty());
    for spec in all() {
        match spec {
            ".." => return Ok(()),
            "call" => return read_call(body, rest, instr),
            _ => {}
        }
        let (spec, is_optional) = spec.strip_suffix('?').map_or((spec, false), |spec| (spec, true));
        let Some((operand, after)) = rest.split_first() else {
            if is_optional {
                return set(instr, spec, SINK);
            }
            let expected = all().count();
            return Err(format!("{} operands where {expected} are expected", operands.len()));
        };
        rest = after;
        read_operand(body, spec, operand, instr)?;
    }
    let expected = all().count();
    if rest.is_empty() {
        Ok(())
    } else {
        Err(format!("{} operands where {expected} are expected", operands.len()))
    }
}

fn read_operand<'a>(
    body: &mut Body<'_, 'a>,
    spec: &str,
    operand: &Operand<'a>,
    instr: &mut Instr,
) -> Result<(), String> {
    if let Some(space) = spec.strip_prefix('[').and_then(|spec| spec.strip_suffix(']')) {
        return read_address(body, space, operand, instr);
    }
    let (spec, is_wide) = spec.strip_suffix('+').map_or((spec, false), |spec| (spec, true));
    let (name, width) = spec.split_once(':').unwrap_or((spec, ""));
    let form = instr.form;
    let bits = match width {
        "" => form.ty.bits,
        "from" => form.from.bits,
        "wide" => 2 * form.ty.bits,
        _ => width.parse().map_err(|_| format!("the width `{width}`"))?,
    };
    match (name, operand) {
        ("#", Operand::Int(value)) => {
            instr.form.literal = *value;
            instr.more_mut().literals.push(*value);
        }
        ("#", _) => return Err("an operand that is no number".to_owned()),
        ("label", Operand::Word(label)) => body.branch(vec![label]),
        ("labels", _) => {
            let targets = operand.word().and_then(|name| body.targets(name));
            body.branch(targets.ok_or("the list of targets is not known")?);
        }
        _ if name == "_" || name.starts_with('%') => {
            if operand.word() != Some(name) {
                return Err("another register".to_owned());
            }
        }
        _ if name.starts_with('!') => {
            let (slot, is_inverted) = body.pred(operand)?;
            instr.form.flags |= if is_inverted { flag::NOT } else { 0 };
            return set(instr, name, slot);
        }
        (_, Operand::Pair(first, second)) if name.contains('|') => {
            let (first, second) = (Operand::Word(first), Operand::Word(second));
            (instr.d, instr.p) = (body.dst(&first, bits)?, body.dst(&second, 1)?);
        }
        _ if name.contains('*') => return read_list(body, name, (bits, is_wide), operand, instr),
        _ if name.starts_with(['d', 'p']) => {
            let (slot, have) = body.dst_wide(operand, bits)?;
            if !is_wide && have != bits && slot != SINK {
                return Err(format!("a destination of {have} bits for a result of {bits}"));
            }
            instr.form.d_bits = if slot == SINK { bits } else { have };
            return set(instr, name, slot);
        }
        _ => {
            let (slot, have) = match operand {
                Operand::Int(_) if form.ty.kind == Kind::Float && width.is_empty() => {
                    return Err("an integer where a float is read".to_owned());
                }
                // Literals of double precision are rounded to the type of the instruction.
                Operand::F64(value) if form.ty.kind == Kind::Float && bits == 32 => {
                    body.src_wide(&Operand::F32((f64::from_bits(*value) as f32).to_bits()), bits)?
                }
                _ => body.src_wide(operand, bits)?,
            };
            if !is_wide && have != bits {
                return Err(format!("a source of {have} bits where {bits} are read"));
            }
            return set(instr, name, slot);
        }
    }
    Ok(())
}

/// Puts a slot into the field of this letter.
fn set(instr: &mut Instr, name: &str, slot: Slot) -> Result<(), String> {
    let field = match name.trim_start_matches('!').as_bytes().first() {
        Some(b'd') => &mut instr.d,
        Some(b'p') => &mut instr.p,
        Some(b'a') => &mut instr.a,
        Some(b'b') => &mut instr.b,
        Some(b'c') => &mut instr.c,
        _ => &mut instr.e,
    };
    *field = slot;
    Ok(())
}

/// `D*4`: the elements of a vector.
fn read_list<'a>(
    body: &mut Body<'_, 'a>,
    name: &str,
    (bits, is_wide): (u32, bool),
    operand: &Operand<'a>,
    instr: &mut Instr,
) -> Result<(), String> {
    let (letter, count) = name.split_once('*').unwrap_or_default();
    let (mut bits, elements) = match (count, operand) {
        ("v", _) if instr.form.count == 0 => (bits, core::slice::from_ref(operand)),
        ("v" | "n", _) => (bits, operand.vector(instr.form.count)?),
        ("parts", Operand::Vector(parts)) => (bits, parts.as_slice()),
        _ => (bits, operand.vector(count.parse().map_err(|_| "a vector is expected".to_owned())?)?),
    };
    if count == "parts" {
        if !matches!((bits, elements.len()), (16 | 32 | 64, 2) | (32 | 64, 4)) {
            return Err("a vector of another length".to_owned());
        }
        bits /= elements.len() as u32;
        instr.form.count = elements.len();
    }
    let mut slots = Vec::with_capacity(elements.len());
    for element in elements {
        let (slot, have) = match letter {
            "D" => body.dst_wide(element, bits)?,
            _ => body.src_wide(element, bits)?,
        };
        if !is_wide && have != bits && slot != SINK {
            return Err(format!("an element of {have} bits where {bits} are expected"));
        }
        if letter == "D" && slot != SINK {
            instr.form.d_bits = have;
        }
        slots.push(slot);
    }
    let more = instr.more_mut();
    match letter {
        "D" => more.d = slots,
        "A" => more.a = slots,
        "B" => more.b = slots,
        _ => more.c = slots,
    }
    Ok(())
}

fn read_address<'a>(
    body: &mut Body<'_, 'a>,
    space: &str,
    operand: &Operand<'a>,
    instr: &mut Instr,
) -> Result<(), String> {
    if space == "map" {
        let Operand::Tensor(map, coordinates) = operand else {
            return Err("a tensor map with coordinates is expected".to_owned());
        };
        if coordinates.len() != instr.form.count {
            return Err(format!("{} coordinates of {} dimensions", coordinates.len(), instr.form.count));
        }
        let slots = coordinates.iter().map(|at| body.src(at, 32)).collect::<Result<_, _>>()?;
        let map = body.address(map, Space::Generic)?;
        let more = instr.more_mut();
        more.at.push(map);
        more.c = slots;
        return Ok(());
    }
    let space = if space == "." { instr.form.space } else { Space::named(space).unwrap_or_default() };
    let address = body.address(operand, space)?;
    instr.more_mut().at.push(address);
    Ok(())
}

fn read_call<'a>(body: &mut Body<'_, 'a>, operands: &[Operand<'a>], instr: &mut Instr) -> Result<(), String> {
    let (result, rest) = match operands {
        [Operand::List(results), rest @ ..] => match results.as_slice() {
            [result] => (Some(body.param_range(result)?), rest),
            _ => return Err("another number of results".to_owned()),
        },
        rest => (None, rest),
    };
    let (name, args) = match rest {
        [Operand::Word(name)] => (name, &[][..]),
        // An indirect call may end in a prototype or possible targets, which are not needed.
        [Operand::Word(name), Operand::List(args)] | [Operand::Word(name), Operand::List(args), _] => {
            (name, args.as_slice())
        }
        [Operand::Word(name), Operand::Word(_)] if name.starts_with('%') => (name, &[][..]),
        _ => return Err("a call in another form".to_owned()),
    };
    let args = args.iter().map(|arg| body.param_range(arg)).collect::<Result<_, _>>()?;
    let callee = if name.starts_with('%') {
        Callee::Address(body.src(&Operand::Word(name), 64)?)
    } else {
        Callee::Name((*name).to_owned())
    };
    instr.more_mut().call = Some(Call { callee, args, result });
    Ok(())
}
