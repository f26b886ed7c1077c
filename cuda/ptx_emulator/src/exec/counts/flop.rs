//! The floating-point operations of an instruction.

use cuda_std::testing::counts::Flop;

use crate::instr::{FloatMode, FloatOp, FloatTy, FloatUnary, Multiply, Op, Tensor, WARPGROUP, Wgmma};

/// Threads of a warp.
const WARP: u64 = 32;

/// The operations of `threads` threads that execute the instruction.
pub(super) fn of(op: &Op, threads: u64) -> Flop {
    match op {
        Op::Float { op: FloatOp::Add | FloatOp::Sub | FloatOp::Mul, mode, .. } => simple(mode, threads),
        Op::Fma { mode, .. } => simple(mode, 2 * threads),
        Op::Float { op: FloatOp::Div | FloatOp::DivApprox | FloatOp::DivFull, .. } => function(threads),
        Op::FloatUnary { op, .. } if !matches!(op, FloatUnary::Neg | FloatUnary::Abs) => function(threads),
        Op::Tensor(tensor) => match **tensor {
            // A warp computes 16 x 8 sums of k products.
            Tensor::Mma { k, .. } => {
                Flop { tensor: threads / WARP * 2 * 16 * 8 * k as u64, ..Flop::default() }
            }
            _ => Flop::default(),
        },
        Op::Wgmma(wgmma) => match &**wgmma {
            // A warpgroup computes 64 x n sums of k products.
            Wgmma::Multiply(Multiply { n, ty, .. }) => {
                Flop { tensor: 2 * 64 * (n * ty.k()) as u64 * threads / WARPGROUP as u64, ..Flop::default() }
            }
            _ => Flop::default(),
        },
        _ => Flop::default(),
    }
}

fn simple(mode: &FloatMode, count: u64) -> Flop {
    match mode.ty {
        FloatTy::F32 => Flop { f32: count, ..Flop::default() },
        FloatTy::F64 => Flop { f64: count, ..Flop::default() },
    }
}

fn function(count: u64) -> Flop {
    Flop { functions: count, ..Flop::default() }
}
