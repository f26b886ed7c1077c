//! One instruction: its opcode picks the family that reads the rest.

use super::function::Body;
use super::mods::Mods;
use super::operand::Operand;
use super::{bulk, copies, float, half, int, mbarrier, memory, sync, tensor, tma, wgmma};
use crate::instr::Op;

/// Reads the typed form of an instruction. The error is why it is not emulated.
pub(super) fn read<'a>(
    body: &mut Body<'_, 'a>,
    opcode: &str,
    operands: &[Operand<'a>],
) -> Result<Op, String> {
    let (head, mods) = Mods::split(opcode);
    let reader = match head {
        "mov" | "selp" | "slct" => memory::moves,
        "st" if mods.any(|part| part == "async") => bulk::store_async,
        "ld" | "st" | "atom" | "red" | "cvta" | "isspacep" | "mapa" | "createpolicy" => memory::read,
        "bra" | "brx" | "call" | "ret" | "exit" | "trap" | "membar" | "fence" | "nanosleep" | "pmevent"
        | "bar" | "barrier" | "griddepcontrol" | "setmaxnreg" | "shfl" | "vote" | "match" | "redux"
        | "activemask" => sync::read,
        "min" | "max" if half::is_half(&mods) => half::extreme,
        "cp" if mods.any(|part| part == "tensor") => tma::read,
        "prefetch" if mods.any(|part| part == "tensormap") => tma::prefetch_map,
        "cp" => copies::read,
        "mbarrier" => mbarrier::read,
        "mma" | "ldmatrix" | "stmatrix" | "movmatrix" => tensor::read,
        "wgmma" => wgmma::read,
        "cvt" if mods.any(|part| part == "tf32") => tensor::cvt,
        "cvt" if half::is_half(&mods) => half::cvt,
        "cvt" => float::cvt,
        "add" | "sub" | "mul" | "mad" | "fma" | "div" | "min" | "max" | "neg" | "abs"
            if matches!(mods.last(), Some("f32" | "f64")) =>
        {
            float::read
        }
        "fma" | "rcp" | "sqrt" | "rsqrt" | "ex2" | "lg2" | "sin" | "cos" | "tanh" | "copysign" | "testp" => {
            float::read
        }
        "setp" => int::setp,
        _ => int::read,
    };
    reader(body, head, mods, operands)
}

/// The operands, if there are exactly `N`.
pub(super) fn exactly<'o, 'a, const N: usize>(
    operands: &'o [Operand<'a>],
) -> Result<&'o [Operand<'a>; N], String> {
    operands.try_into().map_err(|_| format!("{} operands where {N} are expected", operands.len()))
}
