//! Generates programs from a seed.
//!
//! Every value is defined, every index is in range, every divisor is guarded and every loop is bounded, so a program has one
//! meaning. Bits of a NaN that arithmetic returns are never visible: the runtime's functions convert between floats and bits,
//! and have only one NaN. The sign of a zero, which `min` and `max` leave open, is removed.

mod aggregates;
mod calls;
mod composites;
mod edges;
mod floats;
mod functions;
mod integers;
mod loops;
mod memory;
mod recursion;
mod sorting;
mod statements;
mod types;

use super::ast::*;
use super::random::Random;

/// The approximate maximum number of operations of a program for one input.
const MOST_WORK: u64 = 12_000;

/// A visible variable.
#[derive(Clone, Debug)]
struct Visible {
    var: Var,
    ty: Ty,
    /// How it is bound; owned values are [`Mode::Value`].
    mode: Mode,
    /// Whether it may be written to.
    is_mut: bool,
}

/// The state of the generation of a program.
pub(super) struct Generator {
    random: Random,
    program: Program,
    scope: Vec<Visible>,
    /// Variables that are borrowed.
    locked: Vec<Var>,
    /// Whether `input` is visible.
    has_input: bool,
    /// Whether the code is in the other crate. That crate only knows the program's types if they are there too.
    elsewhere: bool,
    /// The labels of the enclosing loops; empty within a closure, which cannot leave an outer loop.
    loops: Vec<String>,
    labels: usize,
    /// The maximum number of times that the statement runs.
    times: u64,
    /// The work so far, and its limit.
    work: u64,
    most_work: u64,
    /// Types of the program's values.
    palette: Vec<Ty>,
}

/// The maximum length of a program's source: libNVVM takes seconds for one of twice that length.
const MOST_SOURCE: usize = 4_000;

/// Generates the program of a seed: the first one that is not too long, in the sequence that starts at the seed.
pub fn generate(seed: u64) -> Program {
    let mut start = seed;
    loop {
        let program = generate_from(seed, start);
        if super::shrink::size(&program) <= MOST_SOURCE {
            return program;
        }
        start = Random::new(start).word();
    }
}

fn generate_from(seed: u64, start: u64) -> Program {
    let mut generator = Generator {
        random: Random::new(start),
        program: Program { seed, ..Program::default() },
        scope: Vec::new(),
        locked: Vec::new(),
        has_input: false,
        elsewhere: false,
        loops: Vec::new(),
        labels: 0,
        times: 1,
        work: 0,
        most_work: MOST_WORK,
        palette: Vec::new(),
    };
    generator.types();
    generator.functions();
    generator.main();
    generator.program
}

impl Generator {
    fn new_var(&mut self) -> Var {
        self.program.next_var += 1;
        self.program.next_var - 1
    }

    /// Whether the program is short, like every other one: of these, more can be compared in the same time.
    fn is_short(&self) -> bool {
        self.program.seed.is_multiple_of(2)
    }

    /// Spends work; false if too little is left.
    fn spend(&mut self, work: u64) -> bool {
        let all = self.work + self.times * work;
        if all > self.most_work {
            return false;
        }
        self.work = all;
        true
    }

    /// Runs `make` with a scope of its own for its declarations.
    fn scoped<T>(&mut self, make: impl FnOnce(&mut Self) -> T) -> T {
        let (seen, locked) = (self.scope.len(), self.locked.len());
        let result = make(self);
        self.scope.truncate(seen);
        self.locked.truncate(locked);
        result
    }

    /// Runs `make` as the body of a loop that runs `times` times.
    fn repeated<T>(&mut self, times: u64, make: impl FnOnce(&mut Self) -> T) -> T {
        let before = self.times;
        self.times *= times.max(1);
        let result = self.scoped(make);
        self.times = before;
        result
    }

    fn declare(&mut self, ty: Ty, mode: Mode, is_mut: bool) -> Var {
        let var = self.new_var();
        self.scope.push(Visible { var, ty, mode, is_mut });
        var
    }

    /// Places of this type that can be read, or written.
    fn places(&mut self, ty: &Ty, writes: bool) -> Vec<Place> {
        let mut found = Vec::new();
        for visible in self.scope.clone().iter().rev() {
            if self.locked.contains(&visible.var) || (writes && !visible.is_mut) {
                continue;
            }
            let deref = matches!(visible.mode, Mode::Ref | Mode::RefMut);
            let whole = Place { var: visible.var, deref, steps: Vec::new() };
            match visible.mode {
                Mode::Slice | Mode::SliceMut => {
                    let mut element = whole;
                    element.steps.push(Step::Index(Box::new(Expr::size(0)), None));
                    self.parts(element, &visible.ty, ty, 1, &mut found);
                }
                _ => self.parts(whole, &visible.ty, ty, 2, &mut found),
            }
        }
        found
    }

    /// Adds the parts of type `want` in `place`, which has type `have`.
    fn parts(&self, place: Place, have: &Ty, want: &Ty, depth: usize, found: &mut Vec<Place>) {
        if have == want {
            found.push(place);
            return;
        }
        if depth == 0 {
            return;
        }
        let mut go = |step: Step, part: &Ty| {
            let mut inner = place.clone();
            inner.steps.push(step);
            self.parts(inner, part, want, depth - 1, found);
        };
        match have {
            Ty::Array(element, len) => go(Step::Index(Box::new(Expr::size(0)), Some(*len)), element),
            Ty::Tuple(parts) => {
                parts.iter().enumerate().for_each(|(i, part)| go(Step::Field(i.to_string()), part));
            }
            // A field of a packed structure must not be borrowed.
            Ty::Struct(number) if !self.program.structs[*number].is_packed => {
                let fields = self.program.structs[*number].fields.iter().enumerate();
                fields.for_each(|(i, field)| go(Step::Field(format!("f{i}")), field));
            }
            _ => {}
        }
    }

    /// One of the places of this type, with its own indices.
    fn place(&mut self, ty: &Ty, writes: bool, depth: usize) -> Option<Place> {
        let all = self.places(ty, writes);
        if all.is_empty() {
            return None;
        }
        let mut place = self.random.pick(&all).clone();
        for step in &mut place.steps {
            if let Step::Index(index, len) = step {
                **index = match len {
                    Some(len) if self.random.chance(50) => Expr::size(self.random.below(*len)),
                    _ => self.expr(&USIZE, depth.min(1)),
                };
            }
        }
        Some(place)
    }

    /// A value of this type.
    fn expr(&mut self, ty: &Ty, depth: usize) -> Expr {
        self.work += self.times;
        let is_done = depth == 0 || self.work > self.most_work;
        if is_done || self.random.chance(15) {
            return self.leaf(ty);
        }
        let depth = depth - 1;
        match self.random.below(20) {
            0 => self.conditional(ty, depth),
            1 => self.call(ty, depth).unwrap_or_else(|| self.leaf(ty)),
            _ => match ty {
                Ty::Int(int) => self.int(*int, depth),
                Ty::F16 | Ty::Bf16 | Ty::F32 | Ty::F64 => self.float(ty, depth),
                Ty::Bool => self.boolean(depth),
                Ty::Char => self.character(depth),
                Ty::Generic => self.generic(depth),
                _ => self.aggregate(ty, depth),
            },
        }
    }

    fn conditional(&mut self, ty: &Ty, depth: usize) -> Expr {
        let args = vec![self.expr(&Ty::Bool, depth), self.expr(ty, depth), self.expr(ty, depth)];
        let texts = ["if $a0 { $a1 } else { $a2 }", "if $a0 { $a1 } else { $a2 }", "either($a0, $a1, $a2)"];
        Expr::form(ty.clone(), texts[self.random.below(3)], args)
    }

    /// A variable's value, a value from the input, or a literal.
    fn leaf(&mut self, ty: &Ty) -> Expr {
        if self.random.chance(75)
            && let Some(place) = self.place(ty, false, 0)
        {
            return Expr { ty: ty.clone(), node: Node::Place(place) };
        }
        match ty {
            Ty::Array(..) | Ty::Tuple(_) | Ty::Struct(_) | Ty::Enum(_) | Ty::Option(_) => {
                self.aggregate(ty, 0)
            }
            Ty::Generic => self.literal(ty),
            _ if self.has_input && self.random.chance(60) => self.of_input(ty),
            _ if self.random.chance(70) => self.of_place(ty).unwrap_or_else(|| self.literal(ty)),
            _ => self.literal(ty),
        }
    }

    /// A number, a `bool` or a `char` from the input.
    fn of_input(&mut self, ty: &Ty) -> Expr {
        let (function, bytes, cast) = match ty {
            Ty::Int(Int { size: true, .. }) => ("u64_at".to_owned(), 8, " as usize".to_owned()),
            Ty::Int(int) => {
                (format!("u{}_at", int.bits), int.bits as usize / 8, format!(" as {}", int.name()))
            }
            Ty::F16 => ("f16_at".to_owned(), 2, String::new()),
            Ty::Bf16 => ("bf16_at".to_owned(), 2, String::new()),
            Ty::F32 => ("f32_at".to_owned(), 4, String::new()),
            Ty::F64 => ("f64_at".to_owned(), 8, String::new()),
            Ty::Char => ("char_at".to_owned(), 4, String::new()),
            _ => ("bool_at".to_owned(), 1, String::new()),
        };
        let at = self.random.below(64 - bytes + 1);
        Expr::form(ty.clone(), format!("{function}(input, {at}){cast}"), Vec::new())
    }

    /// A number, a `bool` or a `char` computed from a place of another type.
    fn of_place(&mut self, ty: &Ty) -> Option<Expr> {
        let others = [Ty::unsigned(8), self.some_int(), self.some_int(), Ty::F32, Ty::F64, Ty::Bool];
        let from = others[self.random.below(others.len())].clone();
        let value = Expr { ty: from.clone(), node: Node::Place(self.place(&from, false, 0)?) };
        let is_float = matches!(from, Ty::F32 | Ty::F64);
        let name = ty.name();
        let text = match (ty, &from) {
            (Ty::Int(Int { bits: 128, .. }), _) if is_float => format!("$a0 as u64 as {name}"),
            (Ty::F32 | Ty::F64, Ty::Int(Int { bits: 128, .. })) => format!("$a0 as i64 as {name}"),
            (Ty::F32 | Ty::F64, Ty::Bool) => format!("$a0 as u8 as {name}"),
            (Ty::Int(_) | Ty::F32 | Ty::F64, _) => format!("$a0 as {name}"),
            (Ty::Bool, Ty::Bool) => "!$a0".to_owned(),
            (Ty::Bool, _) if is_float => "$a0 < 1.5".to_owned(),
            (Ty::Bool, _) => format!("$a0 % 5 > {}", self.random.below(4)),
            (Ty::F16 | Ty::Bf16, _) => format!("{name}::of($a0 as u8 as f32)"),
            (Ty::Char, _) if is_float => "($a0 as u8) as char".to_owned(),
            (Ty::Char, Ty::Bool) => "if $a0 { 'é' } else { 'a' }".to_owned(),
            _ => "($a0 as u8) as char".to_owned(),
        };
        Some(Expr::form(ty.clone(), text, vec![value]))
    }

    /// A literal number: small, at the end of its range, or any.
    fn literal(&mut self, ty: &Ty) -> Expr {
        let any = u128::from(self.random.word()) << 64 | u128::from(self.random.word());
        let bits = match ty {
            Ty::Int(int) => {
                let high = 1u128 << (int.bits - 1);
                let around = [
                    0,
                    1,
                    2,
                    3,
                    high,
                    high - 1,
                    int.mask(),
                    int.mask() - 1,
                    1 << self.random.below(int.bits as usize),
                ];
                match self.random.below(4) {
                    0 => *self.random.pick(&around),
                    1 | 2 => any % 100,
                    _ => any & int.mask(),
                }
            }
            Ty::Char => u128::from(any as u32 % 0xd800),
            Ty::Bool => any & 1,
            Ty::Generic => any % 1000,
            _ => self.float_bits(ty, any),
        };
        Expr::literal(ty.clone(), bits)
    }
}
