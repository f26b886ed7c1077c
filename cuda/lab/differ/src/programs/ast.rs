//! Programs as trees with self-contained nodes: replacing a node by another of the same type gives another valid program
//! that terminates.
//!
//! Most nodes are a [`Form`]: a text with holes. `$a0` stands for its first argument in parentheses, `$p0` for its first
//! place, `$b0` for its first block and `$v0` for the first variable that it binds.

/// A type.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Ty {
    /// An integer.
    Int(Int),
    /// The runtime's 16-bit float with 11 bits of precision.
    F16,
    /// The runtime's 16-bit float with 8 bits of precision.
    Bf16,
    /// `f32`
    F32,
    /// `f64`
    F64,
    /// `bool`
    Bool,
    /// `char`
    Char,
    /// `[T; N]`
    Array(Box<Ty>, usize),
    /// `(A, B)`
    Tuple(Vec<Ty>),
    /// The program's structure with this index.
    Struct(usize),
    /// The program's enum with this index.
    Enum(usize),
    /// `Option<T>`
    Option(Box<Ty>),
    /// The type parameter of a generic function.
    Generic,
}

/// An integer type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Int {
    /// Its width.
    pub bits: u32,
    /// Whether it has a sign.
    pub signed: bool,
    /// Whether it is `usize`.
    pub size: bool,
}

/// `usize`
pub const USIZE: Ty = Ty::Int(Int { bits: 64, signed: false, size: true });

impl Int {
    /// An integer of a fixed width.
    pub const fn new(bits: u32, signed: bool) -> Int {
        Int { bits, signed, size: false }
    }

    /// The unsigned type of the same width.
    pub fn unsigned(self) -> Int {
        Int { signed: false, ..self }
    }

    /// All bits of the type.
    pub fn mask(self) -> u128 {
        u128::MAX >> (128 - self.bits)
    }

    /// The type's name.
    pub fn name(self) -> String {
        match self {
            Int { size: true, .. } => "usize".to_owned(),
            Int { bits, signed: true, .. } => format!("i{bits}"),
            Int { bits, .. } => format!("u{bits}"),
        }
    }
}

impl Ty {
    /// The unsigned integer of this width.
    pub fn unsigned(bits: u32) -> Ty {
        Ty::Int(Int::new(bits, false))
    }

    /// `[T; N]`
    pub fn array(element: Ty, len: usize) -> Ty {
        Ty::Array(Box::new(element), len)
    }

    /// The type as it is written.
    pub fn name(&self) -> String {
        match self {
            Ty::Int(int) => int.name(),
            Ty::F16 => "F16".to_owned(),
            Ty::Bf16 => "Bf16".to_owned(),
            Ty::F32 => "f32".to_owned(),
            Ty::F64 => "f64".to_owned(),
            Ty::Bool => "bool".to_owned(),
            Ty::Char => "char".to_owned(),
            Ty::Array(element, len) => format!("[{}; {len}]", element.name()),
            Ty::Tuple(parts) => {
                format!("({},)", parts.iter().map(Ty::name).collect::<Vec<_>>().join(", "))
            }
            Ty::Struct(number) => format!("S{number}"),
            Ty::Enum(number) => format!("E{number}"),
            Ty::Option(inner) => format!("Option<{}>", inner.name()),
            Ty::Generic => "T".to_owned(),
        }
    }

    /// The same type with the parameter replaced.
    pub fn with(&self, concrete: &Ty) -> Ty {
        match self {
            Ty::Generic => concrete.clone(),
            Ty::Array(element, len) => Ty::array(element.with(concrete), *len),
            Ty::Tuple(parts) => Ty::Tuple(parts.iter().map(|part| part.with(concrete)).collect()),
            Ty::Option(inner) => Ty::Option(Box::new(inner.with(concrete))),
            other => other.clone(),
        }
    }

    /// Whether it is a 16-bit float.
    pub fn is_half(&self) -> bool {
        matches!(self, Ty::F16 | Ty::Bf16)
    }

    /// Whether it is any float.
    pub fn is_float(&self) -> bool {
        matches!(self, Ty::F32 | Ty::F64) || self.is_half()
    }

    /// Whether it contains structures or enums of the program.
    pub fn is_of_program(&self) -> bool {
        match self {
            Ty::Struct(_) | Ty::Enum(_) => true,
            Ty::Array(inner, _) | Ty::Option(inner) => inner.is_of_program(),
            Ty::Tuple(parts) => parts.iter().any(Ty::is_of_program),
            _ => false,
        }
    }
}

/// A variable's number.
pub type Var = u32;

/// A variable, or a part of one.
#[derive(Clone, Debug)]
pub struct Place {
    /// The variable.
    pub var: Var,
    /// Whether the variable is a reference to a single value.
    pub deref: bool,
    /// The steps to the part.
    pub steps: Vec<Step>,
}

/// A step from a value to a part of it.
#[derive(Clone, Debug)]
pub enum Step {
    /// `.f0` or `.0`
    Field(String),
    /// An element; its index is the expression modulo the length.
    Index(Box<Expr>, Option<usize>),
}

/// A value.
#[derive(Clone, Debug)]
pub struct Expr {
    /// Its type.
    pub ty: Ty,
    /// How it is computed.
    pub node: Node,
}

/// How a value is computed.
#[derive(Clone, Debug)]
pub enum Node {
    /// The bits of a number, a `bool` or a `char`.
    Literal(u128),
    /// The value at a place.
    Place(Place),
    /// Anything else.
    Form(Form),
}

/// A text with holes.
#[derive(Clone, Debug, Default)]
pub struct Form {
    /// The text.
    pub text: String,
    /// `$a0` and so on.
    pub args: Vec<Expr>,
    /// `$p0` and so on.
    pub places: Vec<Place>,
    /// `$b0` and so on.
    pub blocks: Vec<Block>,
    /// `$v0` and so on.
    pub binds: Vec<Var>,
    /// The function that the text calls.
    pub call: Option<usize>,
}

/// Statements, and optionally a value.
#[derive(Clone, Debug, Default)]
pub struct Block {
    /// The statements.
    pub stmts: Vec<Stmt>,
    /// The value.
    pub value: Option<Box<Expr>>,
}

/// A statement.
#[derive(Clone, Debug)]
pub enum Stmt {
    /// `let mut v1: T = value;`
    Let(Var, Expr),
    /// Anything else.
    Form(Form),
}

/// A function's inlining attribute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Inline {
    /// Nothing.
    Free,
    /// `#[inline(never)]`
    Never,
    /// `#[inline(always)]`
    Always,
}

/// How a parameter is passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// `x: T`
    Value,
    /// `x: &T`
    Ref,
    /// `x: &mut T`
    RefMut,
    /// `x: &[T]`
    Slice,
    /// `x: &mut [T]`
    SliceMut,
}

/// A parameter.
#[derive(Clone, Debug)]
pub struct Param {
    /// Its variable.
    pub var: Var,
    /// How it is passed.
    pub mode: Mode,
    /// The type; for slices, the element's type.
    pub ty: Ty,
}

/// A function.
#[derive(Clone, Debug)]
pub struct Function {
    /// Its parameters.
    pub params: Vec<Param>,
    /// Its result.
    pub result: Option<Ty>,
    /// Its body.
    pub body: Block,
    /// Its inlining attribute.
    pub inline: Inline,
    /// Whether it is in the other crate.
    pub elsewhere: bool,
    /// Whether it has a type parameter.
    pub is_generic: bool,
    /// The approximate work of a call.
    pub work: u64,
}

/// A method of the program's trait: its parameters in addition to `self`, and its result.
#[derive(Clone, Debug)]
pub struct Method {
    /// Whether it takes `&mut self`.
    pub is_mut: bool,
    /// Its parameter.
    pub param: Ty,
    /// Its result.
    pub result: Ty,
}

/// A structure.
#[derive(Clone, Debug)]
pub struct Structure {
    /// The types of its fields.
    pub fields: Vec<Ty>,
    /// Whether it is packed, so that no field may be borrowed.
    pub is_packed: bool,
}

/// An enum.
#[derive(Clone, Debug)]
pub struct Enumeration {
    /// The integer type of the discriminant, if it is set explicitly.
    pub repr: Option<Int>,
    /// The variants.
    pub variants: Vec<Variant>,
}

/// A variant of an enum.
#[derive(Clone, Debug)]
pub struct Variant {
    /// Its fields.
    pub data: Vec<Ty>,
    /// Its discriminant, if it is set explicitly.
    pub discriminant: Option<i64>,
}

impl Enumeration {
    /// Whether no variant has fields, so a value can be cast to an integer.
    pub fn is_plain(&self) -> bool {
        self.variants.iter().all(|variant| variant.data.is_empty())
    }
}

/// A program: a deterministic function of its input.
#[derive(Clone, Debug, Default)]
pub struct Program {
    /// Its seed.
    pub seed: u64,
    /// The structures.
    pub structs: Vec<Structure>,
    /// The enums.
    pub enums: Vec<Enumeration>,
    /// Tables.
    pub statics: Vec<Vec<Expr>>,
    /// The functions; each only calls earlier ones.
    pub functions: Vec<Function>,
    /// The methods of the trait.
    pub methods: Vec<Method>,
    /// The methods of each structure that implements the trait.
    pub impls: Vec<(usize, Vec<Function>)>,
    /// Whether types and tables are in the other crate.
    pub types_elsewhere: bool,
    /// The code that is run.
    pub main: Block,
    /// Whether it is never inlined.
    pub main_inline: bool,
    /// The first unused variable number.
    pub next_var: Var,
}

impl Program {
    /// Whether values of the type have a total order and a hash, because it contains no floats.
    pub fn is_ordered(&self, ty: &Ty) -> bool {
        let all = |types: &[Ty]| types.iter().all(|ty| self.is_ordered(ty));
        match ty {
            Ty::Int(_) | Ty::Bool | Ty::Char => true,
            Ty::F16 | Ty::Bf16 | Ty::F32 | Ty::F64 | Ty::Generic => false,
            Ty::Array(inner, _) | Ty::Option(inner) => self.is_ordered(inner),
            Ty::Tuple(parts) => all(parts),
            Ty::Struct(number) => all(&self.structs[*number].fields),
            Ty::Enum(number) => self.enums[*number].variants.iter().all(|variant| all(&variant.data)),
        }
    }
}

impl Expr {
    /// A literal.
    pub fn literal(ty: Ty, bits: u128) -> Expr {
        Expr { ty, node: Node::Literal(bits) }
    }

    /// A number of type `usize`.
    pub fn size(value: usize) -> Expr {
        Expr::literal(USIZE, value as u128)
    }

    /// A text with arguments.
    pub fn form(ty: Ty, text: impl Into<String>, args: Vec<Expr>) -> Expr {
        Expr { ty, node: Node::Form(Form { text: text.into(), args, ..Form::default() }) }
    }
}
