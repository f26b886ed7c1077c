//! Statements.

use super::Generator;
use crate::programs::ast::*;

impl Generator {
    /// The code that is run: it declares, changes and emits values.
    pub(super) fn main(&mut self) {
        self.has_input = true;
        self.elsewhere = false;
        self.work = 0;
        self.most_work = super::MOST_WORK;
        self.program.main_inline = self.random.chance(50);
        let (declared, count) = if self.is_short() {
            (1, self.random.between(1, 2))
        } else {
            (self.random.between(2, 5), self.random.between(3, 8))
        };
        let mut block = Block::default();
        for _ in 0..declared {
            let ty = self.palette_ty();
            let stmt = self.declaration(ty, 2);
            block.stmts.push(stmt);
        }
        if self.has_enum_in_a_register() {
            let value = self.value_of_chosen_variant(0);
            block.stmts.push(Stmt::Form(Form {
                text: "$a0.emit(s);".to_owned(),
                args: vec![value],
                ..Form::default()
            }));
        }
        for _ in 0..self.random.between(1, 3) {
            let int = Int::new(*self.random.pick(&[8, 16, 32, 32, 32, 64]), self.random.chance(70));
            let value = self.edge(int, 2);
            block.stmts.push(Stmt::Form(Form {
                text: "$a0.emit(s);".to_owned(),
                args: vec![value],
                ..Form::default()
            }));
        }
        let depth = if self.is_short() { 2 } else { 3 };
        for _ in 0..count {
            let stmt = self.statement(depth);
            block.stmts.push(stmt);
        }
        for visible in self.scope.clone() {
            block
                .stmts
                .push(Self::emit(&visible.ty, Place { var: visible.var, deref: false, steps: Vec::new() }));
        }
        self.program.main = block;
    }

    /// Emits a value.
    fn emit(ty: &Ty, place: Place) -> Stmt {
        let value = Expr { ty: ty.clone(), node: Node::Place(place) };
        Stmt::Form(Form { text: "$a0.emit(s);".to_owned(), args: vec![value], ..Form::default() })
    }

    /// Statements in a scope of their own, followed by statements that use some of their variables.
    pub(super) fn block(&mut self, depth: usize) -> Block {
        self.scoped(|this| {
            let first = this.scope.len();
            let mut block = Block::default();
            for _ in 0..this.random.between(1, 3) {
                let stmt = this.statement(depth);
                block.stmts.push(stmt);
            }
            let declared = this.scope[first..].to_vec();
            for visible in declared {
                let place = Place { var: visible.var, deref: false, steps: Vec::new() };
                if this.has_input && this.times < 4 && this.random.chance(30) {
                    block.stmts.push(Self::emit(&visible.ty, place));
                } else if this.random.chance(75) {
                    block.stmts.extend(this.absorb(place, first));
                }
            }
            block
        })
    }

    /// Mixes a value into an integer that outlives it: one of the first `outer` visible variables.
    pub(super) fn absorb(&mut self, value: Place, outer: usize) -> Option<Stmt> {
        let inner = self.scope.split_off(outer);
        let ints = [Ty::unsigned(64), self.some_int(), self.some_int(), self.some_int(), Ty::unsigned(8)];
        let found = ints.iter().find_map(|ty| Some((self.place(ty, true, 0)?, ty.name())));
        self.scope.extend(inner);
        let (place, name) = found?;
        self.work += self.times * 10;
        Some(Stmt::Form(Form {
            text: format!("{{ let x = $p1.mix(3) as {name}; $p0 = $p0.rotate_left(5) ^ x; }}"),
            places: vec![place, value],
            ..Form::default()
        }))
    }

    pub(super) fn declaration(&mut self, ty: Ty, depth: usize) -> Stmt {
        let value = self.expr(&ty, depth);
        let var = self.declare(ty, Mode::Value, true);
        Stmt::Let(var, value)
    }

    /// Any statement.
    pub(super) fn statement(&mut self, depth: usize) -> Stmt {
        let is_flat = depth == 0 || self.work > self.most_work;
        let nested = if is_flat { 0 } else { 1 };
        let weights = [
            24,
            14,
            12,
            32,
            10 * nested,
            12 * nested,
            6 * nested,
            10 * nested,
            14 * nested,
            4 * nested,
            if self.loops.is_empty() { 0 } else { 5 },
            6,
            2,
            4,
        ];
        let made = match self.random.weighted(&weights) {
            0 => None,
            1 => self.assignment(),
            2 => self.change(),
            3 => self.memory(),
            4 => Some(self.branch(depth - 1)),
            5 => Some(self.any_loop(depth - 1)),
            6 => self.choice(depth - 1),
            7 => self.iteration(depth - 1),
            8 => self.call_statement(),
            9 => Some(self.closure(depth - 1)),
            10 => Some(self.jump()),
            11 => self.sorting(),
            12 => Some(self.text()),
            _ => self.field_change(),
        };
        made.unwrap_or_else(|| {
            let ty = self.palette_ty();
            self.declaration(ty, 3)
        })
    }

    fn assignment(&mut self) -> Option<Stmt> {
        let ty = if self.random.chance(60) { self.scalar_ty() } else { self.palette_ty() };
        let place = self.place(&ty, true, 1)?;
        let value = self.expr(&ty, 3);
        Some(Stmt::Form(Form {
            text: "$p0 = $a0;".to_owned(),
            args: vec![value],
            places: vec![place],
            ..Form::default()
        }))
    }

    /// An operation on a place.
    fn change(&mut self) -> Option<Stmt> {
        let ty = self.scalar_ty();
        let ops: &[&str] = match &ty {
            Ty::Int(_) => {
                &["$p0 ^= $a0;", "$p0 &= $a0;", "$p0 |= $a0;", "$p0 += $a0;", "$p0 -= $a0;", "$p0 *= $a0;"]
            }
            Ty::F32 | Ty::F64 => &["$p0 += $a0;", "$p0 -= $a0;", "$p0 *= $a0;", "$p0 /= $a0;", "$p0 %= $a0;"],
            Ty::Bool => &["$p0 ^= $a0;", "$p0 |= $a0;", "$p0 &= $a0;"],
            _ => &["$p0 = $a0;"],
        };
        let text = ops[self.random.below(ops.len())].to_owned();
        let place = self.place(&ty, true, 1)?;
        let value = self.expr(&ty, 2);
        // The place's index is evaluated before the value, and the value must not read the place in between.
        let text = format!("{{ let x = $a0; {} }}", text.replace("$a0", "x"));
        Some(Stmt::Form(Form { text, args: vec![value], places: vec![place], ..Form::default() }))
    }

    fn branch(&mut self, depth: usize) -> Stmt {
        let condition = self.expr(&Ty::Bool, 3);
        let blocks = vec![self.block(depth), self.block(depth)];
        let text = if self.random.chance(40) { "if $a0 $b0" } else { "if $a0 $b0 else $b1" };
        Stmt::Form(Form { text: text.to_owned(), args: vec![condition], blocks, ..Form::default() })
    }

    /// A `match` on an integer, a tuple, an enum or an option.
    fn choice(&mut self, depth: usize) -> Option<Stmt> {
        let knows_all = !self.elsewhere || self.program.types_elsewhere;
        if knows_all && !self.program.enums.is_empty() && self.random.chance(50) {
            return Some(self.choice_of_enum(depth));
        }
        let ty = self.some_int();
        let value = self.expr(&ty, 2);
        let Ty::Int(int) = ty else { return None };
        let most = if int.bits == 8 && int.signed { 60 } else { 200 };
        let mut cuts: Vec<usize> = (0..3).map(|_| self.random.below(most)).collect();
        cuts.sort_unstable();
        let blocks = vec![self.block(depth), self.block(depth), self.block(depth)];
        let guard = self.expr(&Ty::Bool, 1);
        let texts = [
            format!("match $a0 {{ {}..={} => $b0 {} if $a1 => $b1 _ => $b2 }}", cuts[0], cuts[1], cuts[2]),
            "match $a0 % 4 { 0 => $b0 1 | 2 => $b1 _ => $b2 }".to_owned(),
            "match ($a0, $a1) { (0, _) => $b0 (_, true) => $b1 _ => $b2 }".to_owned(),
            "match $a0.checked_mul(3) { None => $b0 Some(x) if $a1 && x > 5 => $b1 _ => $b2 }".to_owned(),
        ];
        let text = texts[self.random.below(texts.len())].clone();
        Some(Stmt::Form(Form { text, args: vec![value, guard], blocks, ..Form::default() }))
    }

    fn choice_of_enum(&mut self, depth: usize) -> Stmt {
        let number = self.random.below(self.program.enums.len());
        let value = self.expr(&Ty::Enum(number), 2);
        let variants = self.program.enums[number].variants.clone();
        let (mut text, mut binds, mut blocks) = ("match $a0 { ".to_owned(), Vec::new(), Vec::new());
        for (i, Variant { data, .. }) in variants.iter().enumerate() {
            let block = self.scoped(|this| {
                let vars: Vec<Var> =
                    data.iter().map(|ty| this.declare(ty.clone(), Mode::Value, true)).collect();
                let names: Vec<String> =
                    (0..vars.len()).map(|at| format!("mut $v{}", binds.len() + at)).collect();
                let names = if names.is_empty() { String::new() } else { format!("({})", names.join(", ")) };
                text.push_str(&format!("E{number}::V{i}{names} => $b{i} "));
                binds.extend(vars);
                this.block(depth)
            });
            blocks.push(block);
        }
        text.push('}');
        Stmt::Form(Form { text, args: vec![value], blocks, binds, ..Form::default() })
    }

    /// A `break` or `continue`, under a condition.
    fn jump(&mut self) -> Stmt {
        let label = self.random.pick(&self.loops.clone()).clone();
        let condition = self.expr(&Ty::Bool, 2);
        let word = if self.random.chance(50) { "break" } else { "continue" };
        Stmt::Form(Form {
            text: format!("if $a0 {{ {word} {label}; }}"),
            args: vec![condition],
            ..Form::default()
        })
    }
}
