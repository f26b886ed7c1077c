//! Instructions as the emulator runs them: opcode, types and modifiers decided once, when the module is read.

mod kinds;
mod types;

pub(crate) use kinds::*;
pub(crate) use types::*;

/// An instruction with its guard and place.
#[derive(Debug)]
pub(crate) struct Instr {
    /// The predicate it depends on, and whether that must be false.
    pub guard: Option<(Slot, bool)>,
    pub op: Op,
    pub line: u32,
}

#[derive(Debug)]
pub(crate) enum Op {
    /// Orders memory, signals or waits: nothing to do where threads run one after the other.
    Nop,
    /// Lets the other threads of the block run.
    Yield,
    Unsupported(Box<str>),
    Trap,
    Exit,
    Ret,
    Bra(Pc),
    BrxIdx {
        index: Src,
        targets: Box<[Pc]>,
    },
    Call(Box<Call>),
    Mov {
        d: Slot,
        a: Src,
    },
    Pack {
        d: Slot,
        parts: Box<[Src]>,
        bits: u32,
    },
    Unpack {
        parts: Box<[Slot]>,
        bits: u32,
        a: Src,
    },
    Int {
        op: IntOp,
        ty: IntTy,
        d: Slot,
        a: Src,
        b: Src,
    },
    IntUnary {
        op: IntUnary,
        ty: IntTy,
        d: Slot,
        a: Src,
    },
    MulWide {
        ty: IntTy,
        d: Slot,
        a: Src,
        b: Src,
    },
    Mad {
        half: Half,
        ty: IntTy,
        d: Slot,
        a: Src,
        b: Src,
        c: Src,
    },
    Carry {
        op: CarryOp,
        ty: IntTy,
        d: Slot,
        a: Src,
        b: Src,
        c: Src,
        carry_in: bool,
        carry_out: bool,
    },
    Bits {
        op: BitOp,
        ty: IntTy,
        d: Slot,
        a: Src,
        b: Src,
        c: Src,
    },
    Bfi {
        ty: IntTy,
        d: Slot,
        f: Src,
        b: Src,
        c: Src,
        len: Src,
    },
    Selp {
        d: Slot,
        a: Src,
        b: Src,
        p: Src,
    },
    Slct {
        d: Slot,
        a: Src,
        b: Src,
        c: Src,
        float: bool,
        ftz: bool,
    },
    SetpInt {
        cmp: Cmp,
        ty: IntTy,
        out: SetpOut,
        a: Src,
        b: Src,
    },
    SetpFloat {
        cmp: FloatCmp,
        ty: FloatTy,
        ftz: bool,
        out: SetpOut,
        a: Src,
        b: Src,
    },
    Float {
        op: FloatOp,
        mode: FloatMode,
        d: Slot,
        a: Src,
        b: Src,
    },
    FloatUnary {
        op: FloatUnary,
        mode: FloatMode,
        d: Slot,
        a: Src,
    },
    Fma {
        mode: FloatMode,
        d: Slot,
        a: Src,
        b: Src,
        c: Src,
    },
    Testp {
        test: Testp,
        ty: FloatTy,
        d: Slot,
        a: Src,
    },
    Cvt(Box<Cvt>),
    HalfExtreme {
        kind: HalfExtreme,
        d: Slot,
        a: Src,
        b: Src,
    },
    CvtHalf {
        cvt: CvtHalf,
        ftz: bool,
        d: Slot,
        a: Src,
        b: Src,
    },
    Ld(Box<Ld>),
    St(Box<St>),
    Atom(Box<Atom>),
    /// Asks for memory that may be read later.
    Prefetch {
        at: Addr,
        bytes: Src,
    },
    Cvta {
        to: bool,
        space: Space,
        d: Slot,
        a: Src,
    },
    Isspacep {
        space: Space,
        d: Slot,
        a: Src,
    },
    Barrier(Box<Barrier>),
    ClusterArrive,
    ClusterWait {
        aligned: bool,
    },
    /// The generic address of what generic address `a` is in block `b` of the cluster.
    Mapa {
        d: Slot,
        a: Src,
        b: Src,
    },
    Warp(Box<WarpOp>),
    ActiveMask {
        d: Slot,
    },
}
