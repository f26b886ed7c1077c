//! The variants of instructions of one family, and the operands of instructions that have many.

use super::System;
use super::types::{Addr, FloatTy, IntTy, ParamRange, Slot, Ty};

/// To nearest even, to zero, down, up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Round {
    Nearest,
    Zero,
    Down,
    Up,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IntOp {
    Add,
    Sub,
    MulLo,
    MulHi,
    Div,
    Rem,
    Min,
    Max,
    /// The smaller one, or 0 if that is negative.
    MinRelu,
    /// The larger one, or 0 if that is negative.
    MaxRelu,
    And,
    Or,
    Xor,
    Shl,
    Shr,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IntUnary {
    Not,
    Neg,
    Abs,
    Popc,
    Clz,
    Brev,
    Bfind,
    BfindShift,
    Cnot,
}

/// The half of a product.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Half {
    Lo,
    Hi,
    Wide,
}

/// An operation of the carry chain; a product's low or high half is added to the third operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CarryOp {
    Add,
    Sub,
    MadLo,
    MadHi,
}

/// Bit instructions with three operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BitOp {
    ShfLeft { clamp: bool },
    ShfRight { clamp: bool },
    Prmt,
    Bfe,
    Lop3(u8),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FloatOp {
    Add,
    Sub,
    Mul,
    Div,
    DivApprox,
    DivFull,
    Min { nan: bool },
    Max { nan: bool },
    Copysign,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FloatUnary {
    Neg,
    Abs,
    Sqrt,
    Rcp,
    RcpApprox,
    SqrtApprox,
    RsqrtApprox,
    Ex2,
    Lg2,
    Sin,
    Cos,
    Tanh,
}

/// Type, rounding and modifiers of a floating-point instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FloatMode {
    pub ty: FloatTy,
    pub round: Round,
    pub ftz: bool,
    pub sat: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cmp {
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
}

/// A comparison of floats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FloatCmp {
    /// False if an operand is NaN.
    Ordered(Cmp),
    /// True if an operand is NaN.
    Unordered(Cmp),
    /// Whether both are numbers.
    Num,
    /// Whether one is NaN.
    Nan,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BoolOp {
    And,
    Or,
    Xor,
}

/// The destination of a comparison's result.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SetpOut {
    pub p: Slot,
    /// Receives the result of the opposite comparison.
    pub q: Slot,
    /// Combined with the comparison; the predicate may be inverted.
    pub combine: Option<(BoolOp, Slot, bool)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Testp {
    Finite,
    Infinite,
    Number,
    NotANumber,
    Normal,
    Subnormal,
}

/// Rounding of a conversion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CvtRound {
    None,
    /// To an integral value.
    Integral(Round),
    Float(Round),
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Cvt {
    pub to: Ty,
    pub from: Ty,
    pub round: CvtRound,
    pub ftz: bool,
    pub sat: bool,
    pub d: Slot,
    /// Width of the destination register; a narrower result is extended to it.
    pub d_bits: u32,
    pub a: Slot,
}

impl Cvt {
    /// Whether each bit of the result is a bit of the source, or zero.
    pub fn is_bitwise(&self) -> bool {
        matches!((self.to, self.from), (Ty::Int(_), Ty::Int(_))) && !self.sat
    }
}

/// A 16-bit floating-point type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HalfTy {
    F16,
    Bf16,
}

/// A conversion between f32 and 16-bit numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CvtHalf {
    Widen(HalfTy),
    Narrow(HalfTy, Round),
    /// Two numbers into one register.
    Pack(HalfTy, Round),
}

/// `min` or `max` of one 16-bit number, or of both in a register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HalfExtreme {
    pub op: FloatOp,
    pub ty: HalfTy,
    pub packed: bool,
}

#[derive(Debug)]
pub(crate) struct Ld {
    pub at: Addr,
    pub ty: Ty,
    /// Registers and their widths, one per element of the vector.
    pub d: Box<[(Slot, u32)]>,
    /// Whether other threads may store there meanwhile: the load is relaxed, acquire or volatile.
    pub is_strong: bool,
    /// A cache policy, which has no effect.
    pub policy: Option<Slot>,
}

#[derive(Debug)]
pub(crate) struct St {
    pub at: Addr,
    pub ty: Ty,
    pub values: Box<[Slot]>,
    pub policy: Option<Slot>,
}

/// `cp.async` from global to shared memory.
#[derive(Debug)]
pub(crate) struct CopyAsync {
    pub target: Addr,
    pub source: Addr,
    pub size: u64,
    /// Bytes to read; `None` for all.
    pub bytes: Option<Slot>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AtomOp {
    Int(IntOp),
    FloatAdd(FloatTy),
    Exch,
    Cas,
    Inc,
    Dec,
}

#[derive(Debug)]
pub(crate) struct Atom {
    pub at: Addr,
    pub op: AtomOp,
    pub ty: IntTy,
    pub d: Slot,
    pub b: Slot,
    /// The new value of a compare-and-swap.
    pub c: Slot,
}

/// A call: offsets of the arguments and the return value in the caller's parameters.
#[derive(Debug)]
pub(crate) struct Call {
    pub callee: Callee,
    pub args: Box<[ParamRange]>,
    pub result: Option<ParamRange>,
}

/// A function's name, then its index once all are known; or the slot of its address.
#[derive(Debug)]
pub(crate) enum Callee {
    /// A function of the driver.
    System(System),
    Name(String),
    Index(usize),
    Address(Slot),
}

/// The reduction of a barrier's threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BarrierRed {
    Popc,
    And,
    Or,
}

#[derive(Debug)]
pub(crate) struct Barrier {
    pub id: Slot,
    pub count: Option<Slot>,
    pub aligned: bool,
    /// Whether the thread only arrives and does not wait.
    pub arrives: bool,
    /// Reduction, destination, predicate and whether the predicate is inverted.
    pub red: Option<(BarrierRed, Slot, Slot, bool)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ShflMode {
    Up,
    Down,
    Bfly,
    Idx,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum VoteMode {
    All,
    Any,
    Uni,
    Ballot,
}

/// The kinds of warp operation that threads must agree on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WarpKind {
    Sync,
    Shfl(ShflMode),
    Vote(VoteMode),
    MatchAny(u32),
    MatchAll(u32),
    Redux(IntOp, IntTy),
    /// A matrix instruction, which all lanes execute together.
    Tensor,
}

#[derive(Debug)]
pub(crate) struct WarpOp {
    pub kind: WarpKind,
    pub mask: Slot,
    /// Result and predicate.
    pub d: Slot,
    pub p: Slot,
    pub a: Slot,
    /// Whether `a` is a predicate to invert.
    pub invert: bool,
    pub b: Slot,
    pub c: Slot,
}
