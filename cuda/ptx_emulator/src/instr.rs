//! Instructions as the emulator runs them: opcode, types and modifiers are decoded once, when the module is read.

/// Number of a value in its function: a register or a [`Fixed`] value.
pub(crate) type Slot = u32;

/// Index of an instruction in its function.
pub(crate) type Pc = u32;

/// The slot of `_` and of absent operands: any instruction may write it, and none reads it.
pub(crate) const SINK: Slot = 0;

/// The slot of the number zero, which operands that an instruction does not have refer to.
pub(crate) const ZERO: Slot = 1;

/// Threads of a warp and of a warpgroup.
pub(crate) const WARP: usize = 32;
pub(crate) const WARPGROUP: usize = 128;

/// The value of a slot that is not a register, while its function runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Fixed {
    Number(u64),
    /// One of [`SPECIALS`].
    Special(&'static str),
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

/// Registers that the hardware sets, of 32 bits each (PTX ISA, "Special Registers").
#[rustfmt::skip]
pub(crate) const SPECIALS: [&str; 23] = [
    "%tid.x", "%tid.y", "%tid.z", "%ntid.x", "%ntid.y", "%ntid.z", "%ctaid.x", "%ctaid.y", "%ctaid.z", "%nctaid.x",
    "%nctaid.y", "%nctaid.z", "%cluster_ctarank", "%cluster_nctarank", "%laneid", "%warpid", "%smid",
    "%dynamic_smem_size", "%lanemask_eq", "%lanemask_lt", "%lanemask_le", "%lanemask_gt", "%lanemask_ge",
];

/// A state space (PTX ISA, "State Spaces").
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Space {
    #[default]
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

    /// The space that a modifier names.
    pub fn named(modifier: &str) -> Option<Space> {
        Some(match modifier {
            "generic" => Space::Generic,
            "global" => Space::Global,
            "const" => Space::Const,
            "shared" | "shared::cta" => Space::Shared,
            "shared::cluster" => Space::SharedCluster,
            "local" => Space::Local,
            "param" => Space::Param,
            _ => return None,
        })
    }
}

/// What the bits of a value mean. Bit types count as unsigned; a predicate is one bit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Kind {
    #[default]
    Unsigned,
    Signed,
    /// IEEE 754, of 16, 32 or 64 bits.
    Float,
    Bf16,
    Tf32,
    E4m3,
}

/// A type; of packed numbers, the type of one of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ty {
    pub bits: u32,
    pub kind: Kind,
}

impl Ty {
    pub const TF32: Ty = Ty { bits: 32, kind: Kind::Tf32 };

    /// The type that a modifier names.
    pub fn named(modifier: &str) -> Option<Ty> {
        let name = modifier.strip_suffix("x2").unwrap_or(modifier);
        let (kind, bits) = match name {
            "pred" => (Kind::Unsigned, 1),
            "bf16" => (Kind::Bf16, 16),
            "tf32" => (Kind::Tf32, 32),
            "e4m3" => (Kind::E4m3, 8),
            _ => {
                let (kind, bits) = name.split_at_checked(1)?;
                let kind = match kind {
                    "b" | "u" => Kind::Unsigned,
                    "s" => Kind::Signed,
                    "f" => Kind::Float,
                    _ => return None,
                };
                (kind, bits.parse().ok()?)
            }
        };
        let is_known = match kind {
            Kind::Float => matches!(bits, 16 | 32 | 64),
            _ => matches!(bits, 1 | 8 | 16 | 32 | 64),
        };
        is_known.then_some(Ty { bits, kind })
    }

    pub fn bytes(self) -> u64 {
        u64::from(self.bits / 8)
    }

    pub fn is_signed(self) -> bool {
        self.kind == Kind::Signed
    }

    /// All bits of the type.
    pub fn mask(self) -> u64 {
        u64::MAX >> (64 - self.bits)
    }

    /// The integer in the low bits of `raw`.
    pub fn value(self, raw: u64) -> i128 {
        if self.is_signed() { self.sign_extend(raw).into() } else { (raw & self.mask()).into() }
    }

    /// Sign-extends the low bits of `raw`.
    pub fn sign_extend(self, raw: u64) -> i64 {
        (raw << (64 - self.bits)) as i64 >> (64 - self.bits)
    }

    /// The smallest and the largest integer.
    pub fn limits(self) -> (i128, i128) {
        let max = (1 << (self.bits - u32::from(self.is_signed()))) - 1;
        (if self.is_signed() { -max - 1 } else { 0 }, max)
    }

    /// Extends the low bits of `raw`, by the sign or with zeros.
    pub fn extend(self, raw: u64) -> u64 {
        if self.is_signed() { self.sign_extend(raw) as u64 } else { raw & self.mask() }
    }
}

/// To nearest even, to zero, down, up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Round {
    #[default]
    Nearest,
    Zero,
    Down,
    Up,
}

/// Optional modifiers and marks of operands that change what an instruction does.
pub(crate) mod flag {
    pub(crate) const FTZ: u16 = 1;
    pub(crate) const SAT: u16 = 1 << 1;
    pub(crate) const NAN: u16 = 1 << 2;
    pub(crate) const CC: u16 = 1 << 3;
    pub(crate) const TRANS: u16 = 1 << 4;
    pub(crate) const ALIGNED: u16 = 1 << 5;
    pub(crate) const READ: u16 = 1 << 6;
    /// Other threads may store there meanwhile: the load is relaxed, acquire or volatile.
    pub(crate) const STRONG: u16 = 1 << 7;
    /// The predicate among the operands is inverted.
    pub(crate) const NOT: u16 = 1 << 8;

    /// By modifier.
    pub(crate) const NAMES: [(&str, u16); 7] = [
        ("ftz", FTZ),
        ("sat", SAT),
        ("NaN", NAN),
        ("cc", CC),
        ("trans", TRANS),
        ("aligned", ALIGNED),
        ("read", READ),
    ];
}

/// Types and modifiers of an instruction.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Form {
    pub ty: Ty,
    /// The second type: the source of a conversion.
    pub from: Ty,
    pub round: Option<Round>,
    pub space: Space,
    /// Bits of [`flag`].
    pub flags: u16,
    /// The alternatives that were chosen, in order; of optional ones, zero is none of them.
    pub pick: [u8; 2],
    /// Elements of a vector, dimensions of a tensor, matrices.
    pub count: usize,
    /// Width of the destination register.
    pub d_bits: u32,
    /// The first literal among the operands.
    pub literal: u64,
}

impl Form {
    pub fn has(&self, flag: u16) -> bool {
        self.flags & flag != 0
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

/// An instruction.
#[derive(Debug)]
pub(crate) struct Instr {
    /// The predicate it depends on, and whether that must be false.
    pub guard: Option<(Slot, bool)>,
    /// Its row in the table of instructions.
    pub row: u16,
    pub line: u32,
    pub form: Form,
    /// The operands by the letters of the row: destinations, then sources.
    pub d: Slot,
    pub p: Slot,
    pub a: Slot,
    pub b: Slot,
    pub c: Slot,
    pub e: Slot,
    more: Option<Box<More>>,
}

impl Instr {
    /// An instruction without operands.
    pub fn new(row: u16, form: Form) -> Instr {
        let (guard, line, more) = (None, 0, None);
        Instr { guard, row, line, form, d: SINK, p: SINK, a: ZERO, b: ZERO, c: ZERO, e: ZERO, more }
    }

    /// Its other operands.
    pub fn more(&self) -> &More {
        static NONE: More = More {
            d: Vec::new(),
            a: Vec::new(),
            b: Vec::new(),
            c: Vec::new(),
            at: Vec::new(),
            literals: Vec::new(),
            targets: Vec::new(),
            call: None,
            leaves: false,
            refusal: None,
        };
        self.more.as_deref().unwrap_or(&NONE)
    }

    pub fn more_mut(&mut self) -> &mut More {
        self.more.get_or_insert_default()
    }
}

/// Operands that few instructions have.
#[derive(Debug, Default)]
pub(crate) struct More {
    /// Vectors, by the letters of the row.
    pub d: Vec<Slot>,
    pub a: Vec<Slot>,
    pub b: Vec<Slot>,
    pub c: Vec<Slot>,
    pub at: Vec<Addr>,
    pub literals: Vec<u64>,
    /// Where a branch leads.
    pub targets: Vec<Pc>,
    pub call: Option<Call>,
    /// Whether threads may continue elsewhere than at the next instruction.
    pub leaves: bool,
    /// Why the instruction is not emulated.
    pub refusal: Option<String>,
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

/// A function that the driver supplies (PTX ISA, "System-Defined Functions"; CUDA C++ Programming Guide, "Dynamic Global
/// Memory Allocation and Operations", "Formatted Output", "Assertion").
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum System {
    Malloc,
    Free,
    Vprintf,
    AssertFail,
}

impl System {
    /// By name, the functions with the sizes of their parameters and return values in bytes. `__assertfail` takes message,
    /// file, line, function and the bytes of a character.
    pub const ALL: [(&str, System, &[u64], Option<u64>); 4] = [
        ("malloc", System::Malloc, &[8], Some(8)),
        ("free", System::Free, &[8], None),
        ("vprintf", System::Vprintf, &[8, 8], Some(4)),
        ("__assertfail", System::AssertFail, &[8, 8, 4, 8, 8], None),
    ];
}
