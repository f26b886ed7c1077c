//! Matrix instructions.

use super::function::Body;
use super::instruction::exactly;
use super::mods::Mods;
use super::operand::Operand;
use crate::instr::{HalfTy, MmaTy, Op, Slot, Space, Tensor};

pub(super) fn read<'a>(
    body: &mut Body<'_, 'a>,
    head: &str,
    mut mods: Mods<'_>,
    operands: &[Operand<'a>],
) -> Result<Op, String> {
    if !(mods.take("sync") && mods.take("aligned")) {
        return Err("without `.sync.aligned`".to_owned());
    }
    let tensor = match head {
        "mma" => mma(body, mods, operands)?,
        "movmatrix" => {
            if !["m8n8", "trans", "b16"].iter().all(|part| mods.take(part)) {
                return Err("not in this form".to_owned());
            }
            mods.done()?;
            let [d, a] = exactly(operands)?;
            Tensor::Move { d: body.dst(d, 32)?, a: body.src(a, 32)? }
        }
        _ => access(body, head, mods, operands)?,
    };
    Ok(Op::Tensor(Box::new(tensor)))
}

fn mma<'a>(body: &mut Body<'_, 'a>, mut mods: Mods<'_>, operands: &[Operand<'a>]) -> Result<Tensor, String> {
    let k = mods.take_of(&[("m16n8k8", 8), ("m16n8k16", 16)]).ok_or("shape")?;
    if !(mods.take("row") && mods.take("col") && mods.pop() == Some("f32")) {
        return Err("layout or type of the sums".to_owned());
    }
    let types =
        [("f16", MmaTy::Half(HalfTy::F16)), ("bf16", MmaTy::Half(HalfTy::Bf16)), ("tf32", MmaTy::Tf32)];
    let (a_ty, b_ty) = (mods.take_of(&types).ok_or("type")?, mods.take_of(&types).ok_or("type")?);
    if a_ty != b_ty || mods.pop() != Some("f32") {
        return Err("types".to_owned());
    }
    mods.done()?;
    // 32-bit registers: a lane holds one 32nd of the 16 rows of k columns, and of the k rows of 8.
    let in_register = if a_ty == MmaTy::Tf32 { 1 } else { 2 };
    let (of_a, of_b) = (k / 2 / in_register, k / 4 / in_register);
    let [d, a, b, c] = exactly(operands)?;
    let d = d.vector(4)?.iter().map(|d| body.dst(d, 32)).collect::<Result<_, _>>()?;
    Ok(Tensor::Mma {
        ty: a_ty,
        k,
        d,
        a: sources(body, a, of_a)?,
        b: sources(body, b, of_b)?,
        c: sources(body, c, 4)?,
    })
}

fn sources<'a>(body: &mut Body<'_, 'a>, operand: &Operand<'a>, count: usize) -> Result<Box<[Slot]>, String> {
    operand.vector(count)?.iter().map(|source| body.src(source, 32)).collect()
}

/// `ldmatrix` and `stmatrix`.
fn access<'a>(
    body: &mut Body<'_, 'a>,
    head: &str,
    mut mods: Mods<'_>,
    operands: &[Operand<'a>],
) -> Result<Tensor, String> {
    let count = mods.take_of(&[("x1", 1), ("x2", 2), ("x4", 4)]).ok_or("number of matrices")?;
    let trans = mods.take("trans");
    if !["m8n8", "shared", "b16"].iter().all(|part| mods.take(part)) {
        return Err("shape, state space or type".to_owned());
    }
    mods.done()?;
    if head == "ldmatrix" {
        let [d, at] = exactly(operands)?;
        let d = d.vector(count)?.iter().map(|d| body.dst(d, 32)).collect::<Result<_, _>>()?;
        return Ok(Tensor::Load { at: body.address(at, Space::Shared)?, trans, d });
    }
    let [at, values] = exactly(operands)?;
    let values = sources(body, values, count)?;
    Ok(Tensor::Store { at: body.address(at, Space::Shared)?, trans, values })
}

/// `cvt.rna.tf32.f32`.
pub(super) fn cvt<'a>(
    body: &mut Body<'_, 'a>,
    _head: &str,
    mut mods: Mods<'_>,
    operands: &[Operand<'a>],
) -> Result<Op, String> {
    if !["rna", "tf32", "f32"].iter().all(|part| mods.take(part)) {
        return Err("this rounding for these types".to_owned());
    }
    mods.done()?;
    let [d, a] = exactly(operands)?;
    Ok(Op::CvtTf32 { d: body.dst(d, 32)?, a: body.src(a, 32)? })
}
