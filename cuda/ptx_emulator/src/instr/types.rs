//! Registers, values, addresses and types.

/// Number of a value in its function: a register or a [`Fixed`] value; 0 is the sink `_`.
pub(crate) type Slot = u32;

/// Index of an instruction in its function.
pub(crate) type Pc = u32;

/// The slot of `_`: any instruction may write it, and none reads it.
pub(crate) const SINK: Slot = 0;

/// The value of a slot that is not a register, while its function runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Fixed {
    Number(u64),
    Special(Special),
    /// The address of a variable plus an offset, in the variable's own state space.
    Symbol(Symbol, i64),
    /// The address of a function: its index among the module's names, later its index among the functions, or [`NO_BODY`].
    Function(u32),
}

/// The index of a function that is declared without a body in the module.
pub(crate) const NO_BODY: u32 = u32::MAX;

/// A variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Symbol {
    /// Index into the module's variables; `.global`, `.const` or `.shared`.
    Variable(u32),
    /// Offset in the function's local memory.
    Local(u64),
    /// Offset in the function's parameters.
    Param(u64),
}

/// Registers that the hardware sets (PTX ISA, "Special Registers").
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Special {
    Tid(usize),
    Ntid(usize),
    Ctaid(usize),
    Nctaid(usize),
    ClusterRank,
    ClusterBlocks,
    LaneId,
    WarpId,
    MultiprocessorId,
    DynamicShared,
    MaskEq,
    MaskLt,
    MaskLe,
    MaskGt,
    MaskGe,
}

/// A state space (PTX ISA, "State Spaces").
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Space {
    Generic,
    Global,
    Const,
    Shared,
    /// Shared memory of all blocks of the cluster.
    SharedCluster,
    Local,
    Param,
}

impl Space {
    pub fn name(self) -> &'static str {
        match self {
            Space::Generic => "generic",
            Space::Global => "global",
            Space::Const => "constant",
            Space::Shared => "shared",
            Space::SharedCluster => "the cluster's shared",
            Space::Local => "local",
            Space::Param => "parameter",
        }
    }
}

/// An integer type; a predicate is one bit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct IntTy {
    pub bits: u32,
    pub signed: bool,
}

impl IntTy {
    /// All bits of the type.
    pub fn mask(self) -> u64 {
        u64::MAX >> (64 - self.bits)
    }
    /// The value in the low bits of `raw`.
    pub fn value(self, raw: u64) -> i128 {
        if self.signed { i128::from(self.sign_extend(raw)) } else { i128::from(raw & self.mask()) }
    }
    /// Sign-extends the low bits of `raw`.
    pub fn sign_extend(self, raw: u64) -> i64 {
        (raw << (64 - self.bits)) as i64 >> (64 - self.bits)
    }
    pub fn min(self) -> i128 {
        if self.signed { -(1 << (self.bits - 1)) } else { 0 }
    }
    pub fn max(self) -> i128 {
        (1 << (self.bits - u32::from(self.signed))) - 1
    }
}

/// A floating-point type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FloatTy {
    F32,
    F64,
}

/// The type of either side of a conversion, or of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ty {
    Int(IntTy),
    Float(FloatTy),
}

impl Ty {
    pub fn bits(self) -> u32 {
        match self {
            Ty::Int(ty) => ty.bits,
            Ty::Float(FloatTy::F32) => 32,
            Ty::Float(FloatTy::F64) => 64,
        }
    }
    pub fn is_signed(self) -> bool {
        matches!(self, Ty::Int(IntTy { signed: true, .. }))
    }
}

/// An address: a value plus an offset.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Addr {
    pub space: Space,
    pub base: Slot,
    pub offset: i64,
}

/// Bytes in a function's parameter memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ParamRange {
    pub offset: u64,
    pub bytes: u64,
}
