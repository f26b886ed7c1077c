//! Instructions as the emulator runs them: opcode, types and modifiers are decoded once, when the module is read.

mod bulk;
mod kinds;
mod mbarrier;
mod system;
mod tensor;
mod tma;
mod types;
mod wgmma;

pub(crate) use bulk::{BulkCopy, BulkStore, StoreAsync};
pub(crate) use kinds::*;
pub(crate) use mbarrier::{Mbarrier, MbarrierKind};
pub(crate) use system::System;
pub(crate) use tensor::{MmaTy, Tensor};
pub(crate) use tma::{TensorBox, TensorLoad, TensorStore};
pub(crate) use types::*;
pub(crate) use wgmma::{Left, Multiply, WARPGROUP, Wgmma, WgmmaTy};

/// An instruction with its guard and line.
#[derive(Debug)]
pub(crate) struct Instr {
    /// The predicate it depends on, and whether that must be false.
    pub guard: Option<(Slot, bool)>,
    pub op: Op,
    pub line: u32,
}

#[derive(Debug)]
pub(crate) enum Op {
    /// Orders memory, signals or waits: no effect where threads run one after the other.
    Nop,
    /// Lets the other threads of the block run.
    Yield,
    Unsupported(Box<str>),
    Trap,
    Exit,
    Ret,
    Bra(Pc),
    BrxIdx {
        index: Slot,
        targets: Box<[Pc]>,
    },
    Call(Box<Call>),
    Mov {
        d: Slot,
        a: Slot,
    },
    Pack {
        d: Slot,
        parts: Box<[Slot]>,
        bits: u32,
    },
    Unpack {
        parts: Box<[Slot]>,
        bits: u32,
        a: Slot,
    },
    Int {
        op: IntOp,
        ty: IntTy,
        d: Slot,
        a: Slot,
        b: Slot,
    },
    /// Two separate 16-bit numbers in a register.
    IntPair {
        op: IntOp,
        signed: bool,
        d: Slot,
        a: Slot,
        b: Slot,
    },
    IntUnary {
        op: IntUnary,
        ty: IntTy,
        d: Slot,
        a: Slot,
    },
    MulWide {
        ty: IntTy,
        d: Slot,
        a: Slot,
        b: Slot,
    },
    Mad {
        half: Half,
        ty: IntTy,
        d: Slot,
        a: Slot,
        b: Slot,
        c: Slot,
    },
    Carry {
        op: CarryOp,
        ty: IntTy,
        d: Slot,
        a: Slot,
        b: Slot,
        c: Slot,
        carry_in: bool,
        carry_out: bool,
    },
    Bits {
        op: BitOp,
        ty: IntTy,
        d: Slot,
        a: Slot,
        b: Slot,
        c: Slot,
    },
    Bfi {
        ty: IntTy,
        d: Slot,
        f: Slot,
        b: Slot,
        c: Slot,
        len: Slot,
    },
    Selp {
        d: Slot,
        a: Slot,
        b: Slot,
        p: Slot,
    },
    Slct {
        d: Slot,
        a: Slot,
        b: Slot,
        c: Slot,
        float: bool,
        ftz: bool,
    },
    SetpInt {
        cmp: Cmp,
        ty: IntTy,
        out: SetpOut,
        a: Slot,
        b: Slot,
    },
    SetpFloat {
        cmp: FloatCmp,
        ty: FloatTy,
        ftz: bool,
        out: SetpOut,
        a: Slot,
        b: Slot,
    },
    Float {
        op: FloatOp,
        mode: FloatMode,
        d: Slot,
        a: Slot,
        b: Slot,
    },
    FloatUnary {
        op: FloatUnary,
        mode: FloatMode,
        d: Slot,
        a: Slot,
    },
    Fma {
        mode: FloatMode,
        d: Slot,
        a: Slot,
        b: Slot,
        c: Slot,
    },
    Testp {
        test: Testp,
        ty: FloatTy,
        d: Slot,
        a: Slot,
    },
    Cvt(Box<Cvt>),
    HalfExtreme {
        kind: HalfExtreme,
        d: Slot,
        a: Slot,
        b: Slot,
    },
    CvtHalf {
        cvt: CvtHalf,
        ftz: bool,
        d: Slot,
        a: Slot,
        b: Slot,
    },
    CvtTf32 {
        d: Slot,
        a: Slot,
    },
    Ld(Box<Ld>),
    St(Box<St>),
    Atom(Box<Atom>),
    /// Prefetches memory.
    Prefetch {
        at: Addr,
        bytes: Slot,
    },
    CopyAsync(Box<CopyAsync>),
    /// Groups the thread's open copies.
    CopyCommit,
    BulkCopy(Box<BulkCopy>),
    BulkStore(Box<BulkStore>),
    StoreAsync(Box<StoreAsync>),
    TensorLoad(Box<TensorLoad>),
    TensorStore(Box<TensorStore>),
    /// Prefetches a box of a tensor.
    TensorPrefetch(Box<TensorBox>),
    /// Prefetches a tensor map.
    MapPrefetch {
        at: Addr,
    },
    /// Groups the thread's open bulk copies to global memory.
    BulkCommit,
    /// Waits until all groups of these except the `left` latest are complete, or have read their sources.
    BulkWait {
        left: Slot,
        read: bool,
    },
    /// Orders writes to shared memory, or initialisations of barriers, before bulk copies that use them.
    FenceProxy {
        barriers_alone: bool,
    },
    /// Waits for all groups except the `left` latest, or for all copies.
    CopyWait {
        left: Option<Slot>,
    },
    Cvta {
        to: bool,
        space: Space,
        d: Slot,
        a: Slot,
    },
    Isspacep {
        space: Space,
        d: Slot,
        a: Slot,
    },
    Barrier(Box<Barrier>),
    Mbarrier(Box<Mbarrier>),
    ClusterArrive,
    ClusterWait {
        aligned: bool,
    },
    /// Maps address `a`, generic or of shared memory, to the same variable in block `b` of the cluster.
    Mapa {
        space: Space,
        /// Whether the addresses have 32 bits.
        narrow: bool,
        d: Slot,
        a: Slot,
        b: Slot,
    },
    Warp(Box<WarpOp>),
    Tensor(Box<Tensor>),
    Wgmma(Box<Wgmma>),
    /// `setmaxnreg`: raises or lowers the registers of each thread of the warpgroup.
    MaxRegisters {
        count: u32,
        more: bool,
    },
    ActiveMask {
        d: Slot,
    },
    /// The number of instructions that the block has executed.
    Clock {
        d: Slot,
    },
    /// The grid's time in nanoseconds.
    Timer {
        d: Slot,
    },
}
