//! Loads, stores, atomics, address conversions and moves.

use super::function::Body;
use super::instruction::exactly;
use super::mods::{self, Mods};
use super::operand::Operand;
use crate::instr::{Atom, AtomOp, IntOp, IntTy, Ld, Op, SINK, Slot, Space, St, Ty};

const SPACES: [(&str, Space); 5] = [
    ("global", Space::Global),
    ("shared", Space::Shared),
    ("local", Space::Local),
    ("param", Space::Param),
    ("const", Space::Const),
];

/// Ordering, scope and caching: no effect if threads run in turns.
const UNSEEN: [&str; 21] = [
    "weak", "volatile", "relaxed", "acquire", "release", "acq_rel", "mmio", "cta", "cluster", "gpu", "sys",
    "nc", "ca", "cg", "cs", "lu", "cv", "wb", "wt", "sc", "noftz",
];

fn is_unseen(part: &str) -> bool {
    UNSEEN.contains(&part)
        || part.starts_with("L1::")
        || (part.starts_with("L2::") && part != "L2::cache_hint")
}

pub(super) fn read<'a>(
    body: &mut Body<'_, 'a>,
    head: &str,
    mut mods: Mods<'_>,
    operands: &[Operand<'a>],
) -> Result<Op, String> {
    match head {
        "ld" => load(body, mods, operands),
        "st" => store(body, mods, operands),
        "atom" | "red" => atomic(body, head, mods, operands),
        "cvta" => {
            let ty = mods.int_ty()?;
            let to = mods.take("to");
            let space = mods.take_of(&SPACES).ok_or("no state space")?;
            mods.done()?;
            let [d, a] = exactly(operands)?;
            // Only the parameters of a kernel have generic addresses.
            if ty.bits != 64 || space == Space::Param && !body.is_entry {
                return Err("a width or state space".to_owned());
            }
            Ok(Op::Cvta { to, space, d: body.dst(d, 64)?, a: body.src(a, 64)? })
        }
        "isspacep" => {
            let space = mods.take_of(&SPACES).ok_or("no state space")?;
            mods.done()?;
            let [d, a] = exactly(operands)?;
            Ok(Op::Isspacep { space, d: body.dst(d, 1)?, a: body.src(a, 64)? })
        }
        "mapa" => {
            let bits = mods.int_ty()?.bits;
            let space = if mods.take("shared::cluster") { Space::SharedCluster } else { Space::Generic };
            mods.done()?;
            let [d, a, b] = exactly(operands)?;
            // A 32-bit address is one of shared memory.
            if bits != 64 && (bits, space) != (32, Space::SharedCluster) {
                return Err("a width or state space".to_owned());
            }
            let narrow = bits == 32;
            Ok(Op::Mapa { space, narrow, d: body.dst(d, bits)?, a: body.src(a, bits)?, b: body.src(b, 32)? })
        }
        // A cache policy is opaque and changes no result.
        _ => {
            mods.ignore(|part| part == "fractional" || part == "b64" || part.starts_with("L2::"));
            mods.done()?;
            let d = body.dst(operands.first().ok_or("no operands")?, 64)?;
            Ok(Op::Mov { d, a: body.number(0) })
        }
    }
}

/// `cp.async.bulk.prefetch`, which has no effect; other copies are not supported.
pub(super) fn prefetch<'a>(
    body: &mut Body<'_, 'a>,
    _head: &str,
    mut mods: Mods<'_>,
    operands: &[Operand<'a>],
) -> Result<Op, String> {
    if !["async", "bulk", "prefetch", "L2"].iter().all(|part| mods.take(part)) {
        return Err("unknown opcode".to_owned());
    }
    let space = mods.take_of(&SPACES).ok_or("no state space")?;
    mods.done()?;
    let [at, bytes] = exactly(operands)?;
    if space != Space::Global {
        return Err("a state space".to_owned());
    }
    Ok(Op::Prefetch { at: body.address(at, space)?, bytes: body.src(bytes, 32)? })
}

/// The common part of loads and stores: state space, type, elements, whether a cache policy follows.
fn access(mods: &mut Mods<'_>) -> Result<(Space, Ty, usize, bool), String> {
    let ty = mods.ty()?;
    let count = mods.take_of(&[("v2", 2), ("v4", 4), ("v8", 8)]).unwrap_or(1);
    let space = mods.take_of(&SPACES).unwrap_or(Space::Generic);
    let has_policy = mods.take("L2::cache_hint");
    mods.ignore(is_unseen);
    // Sub-space qualifiers such as `.shared::cta` and `.param::entry` are left over, and rejected.
    mods.done()?;
    if ty.bits() == 1 || count * ty.bits() as usize > 256 {
        return Err("a type or vector".to_owned());
    }
    Ok((space, ty, count, has_policy))
}

fn load<'a>(body: &mut Body<'_, 'a>, mut mods: Mods<'_>, operands: &[Operand<'a>]) -> Result<Op, String> {
    let is_strong = mods.any(|part| matches!(part, "relaxed" | "acquire" | "volatile"));
    let (space, ty, count, has_policy) = access(&mut mods)?;
    let [d, at, rest @ ..] = operands else { return Err("too few operands".to_owned()) };
    let elements: Vec<_> =
        elements(d, count)?.map(|d| body.dst_wide(d, ty.bits())).collect::<Result<_, _>>()?;
    // A function's parameter may also be read by address: compilers select between two, and ptxas puts them on the stack.
    let (at, policy) = (body.address(at, space)?, policy(body, rest, has_policy)?);
    Ok(Op::Ld(Box::new(Ld { at, ty, d: elements.into(), is_strong, policy })))
}

fn store<'a>(body: &mut Body<'_, 'a>, mut mods: Mods<'_>, operands: &[Operand<'a>]) -> Result<Op, String> {
    let (space, ty, count, has_policy) = access(&mut mods)?;
    let [at, values, rest @ ..] = operands else { return Err("too few operands".to_owned()) };
    let src = |value| body.src_wide(value, ty.bits()).map(|(src, _)| src);
    let values: Vec<_> = elements(values, count)?.map(src).collect::<Result<_, _>>()?;
    let (at, policy) = (body.address(at, space)?, policy(body, rest, has_policy)?);
    if at.space == Space::Param && !body.is_entry && body.is_register(at.base) {
        return Err("a store to a parameter of a function by its address".to_owned());
    }
    if space == Space::Const {
        return Err("a store into constant memory".to_owned());
    }
    Ok(Op::St(Box::new(St { at, ty, values: values.into(), policy })))
}

fn elements<'o, 'a>(
    operand: &'o Operand<'a>,
    count: usize,
) -> Result<core::slice::Iter<'o, Operand<'a>>, String> {
    let elements = match count {
        1 => core::slice::from_ref(operand),
        _ => operand.vector(count)?,
    };
    Ok(elements.iter())
}

fn policy<'a>(
    body: &mut Body<'_, 'a>,
    rest: &[Operand<'a>],
    has_policy: bool,
) -> Result<Option<Slot>, String> {
    match rest {
        [] if !has_policy => Ok(None),
        [policy] if has_policy => body.src(policy, 64).map(Some),
        _ => Err("another number of operands".to_owned()),
    }
}

fn atomic<'a>(
    body: &mut Body<'_, 'a>,
    head: &str,
    mut mods: Mods<'_>,
    operands: &[Operand<'a>],
) -> Result<Op, String> {
    let ty = mods.ty()?;
    let space = mods.take_of(&SPACES).unwrap_or(Space::Generic);
    let op = mods
        .take_of(&[
            ("add", AtomOp::Int(IntOp::Add)),
            ("min", AtomOp::Int(IntOp::Min)),
            ("max", AtomOp::Int(IntOp::Max)),
            ("and", AtomOp::Int(IntOp::And)),
            ("or", AtomOp::Int(IntOp::Or)),
            ("xor", AtomOp::Int(IntOp::Xor)),
            ("exch", AtomOp::Exch),
            ("cas", AtomOp::Cas),
            ("inc", AtomOp::Inc),
            ("dec", AtomOp::Dec),
        ])
        .ok_or("operation")?;
    mods.ignore(is_unseen);
    mods.done()?;
    let (op, ty) = match (op, ty) {
        (AtomOp::Int(IntOp::Add), Ty::Float(float)) => {
            (AtomOp::FloatAdd(float), IntTy { bits: ty.bits(), signed: false })
        }
        (_, Ty::Float(_)) => return Err("a float".to_owned()),
        (AtomOp::Inc | AtomOp::Dec, Ty::Int(ty)) if ty.bits != 32 => return Err("a width".to_owned()),
        (op, Ty::Int(ty)) => (op, ty),
    };
    if ty.bits < 32 || matches!(space, Space::Local | Space::Param | Space::Const) {
        return Err("a width or state space".to_owned());
    }
    let (d, rest) = match (head, operands) {
        ("atom", [d, rest @ ..]) => (body.dst(d, ty.bits)?, rest),
        _ => (SINK, operands),
    };
    let (at, b, c) = match (op, rest) {
        (AtomOp::Cas, [at, b, c]) => (at, b, body.src(c, ty.bits)?),
        (AtomOp::Cas, _) => return Err("another number of operands".to_owned()),
        (_, [at, b]) => (at, b, body.number(0)),
        _ => return Err("another number of operands".to_owned()),
    };
    let (at, b) = (body.address(at, space)?, body.src(b, ty.bits)?);
    Ok(Op::Atom(Box::new(Atom { at, op, ty, d, b, c })))
}

/// `mov`, `selp` and `slct`.
pub(super) fn moves<'a>(
    body: &mut Body<'_, 'a>,
    head: &str,
    mut mods: Mods<'_>,
    operands: &[Operand<'a>],
) -> Result<Op, String> {
    if head == "slct" {
        let by = mods.ty()?;
        let (ftz, ty) = (mods.take("ftz"), mods.ty()?);
        mods.done()?;
        let float = by == Ty::Float(crate::instr::FloatTy::F32);
        if by.bits() != 32 || (!float && (ftz || !by.is_signed())) {
            return Err("the type of the condition".to_owned());
        }
        let [d, a, b, c] = exactly(operands)?;
        let (a, b, c) = (body.src(a, ty.bits())?, body.src(b, ty.bits())?, body.src(c, 32)?);
        return Ok(Op::Slct { d: body.dst(d, ty.bits())?, a, b, c, float, ftz });
    }
    let bits = mods.last().and_then(mods::ty).ok_or("the type")?.bits();
    mods.ty()?;
    mods.done()?;
    if head == "selp" {
        let [d, a, b, p] = exactly(operands)?;
        let (a, b, p) = (body.src(a, bits)?, body.src(b, bits)?, body.src(p, 1)?);
        return Ok(Op::Selp { d: body.dst(d, bits)?, a, b, p });
    }
    match exactly(operands)? {
        [Operand::Vector(parts), a] => {
            let each = part_bits(bits, parts.len())?;
            let parts = parts.iter().map(|part| body.dst(part, each)).collect::<Result<Vec<_>, _>>()?;
            Ok(Op::Unpack { parts: parts.into(), bits: each, a: body.src(a, bits)? })
        }
        [d, Operand::Vector(parts)] => {
            let each = part_bits(bits, parts.len())?;
            let parts = parts.iter().map(|part| body.src(part, each)).collect::<Result<Vec<_>, _>>()?;
            Ok(Op::Pack { d: body.dst(d, bits)?, parts: parts.into(), bits: each })
        }
        [d, a] if bits == 1 => {
            let (a, inverted) = body.pred(a)?;
            if inverted {
                Err("an inverted predicate".to_owned())
            } else {
                Ok(Op::Mov { d: body.dst(d, 1)?, a })
            }
        }
        [d, Operand::Word("%clock")] => Ok(Op::Clock { d: body.dst(d, 32)? }),
        [d, Operand::Word("%clock64")] => Ok(Op::Clock { d: body.dst(d, 64)? }),
        [d, Operand::Word("%globaltimer")] => Ok(Op::Timer { d: body.dst(d, 64)? }),
        [d, a] => Ok(Op::Mov { d: body.dst(d, bits)?, a: body.src(a, bits)? }),
    }
}

fn part_bits(bits: u32, parts: usize) -> Result<u32, String> {
    match (bits, parts) {
        (16 | 32 | 64, 2) => Ok(bits / 2),
        (32 | 64, 4) => Ok(bits / 4),
        _ => Err("a vector of another length".to_owned()),
    }
}
