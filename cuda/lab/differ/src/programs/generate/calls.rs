//! Calls of functions, of methods through trait objects, and of closures.

use super::{Generator, Visible};
use crate::programs::ast::*;

impl Generator {
    /// Whether the code here can call the function, and has enough work left for it.
    fn can_call(&self, function: &Function) -> bool {
        let is_seen = function.elsewhere || !self.elsewhere;
        is_seen && self.work + self.times * function.work <= self.most_work
    }

    /// A call without side effects, for its result.
    pub(super) fn call(&mut self, ty: &Ty, depth: usize) -> Option<Expr> {
        let fits = |function: &Function| {
            let reads =
                function.params.iter().all(|param| !matches!(param.mode, Mode::RefMut | Mode::SliceMut));
            reads && function.result.as_ref() == Some(ty) && !function.is_generic && self.can_call(function)
        };
        let known: Vec<usize> =
            self.program.functions.iter().enumerate().filter(|(_, f)| fits(f)).map(|(i, _)| i).collect();
        if known.is_empty() {
            return self.dynamic_call(ty, depth);
        }
        let index = *self.random.pick(&known);
        let form = self.call_form(index, &Ty::Generic)?;
        Some(Expr { ty: ty.clone(), node: Node::Form(form) })
    }

    /// A call of any function; its result is kept or discarded.
    pub(super) fn call_statement(&mut self) -> Option<Stmt> {
        let known: Vec<usize> = (0..self.program.functions.len())
            .filter(|&index| self.can_call(&self.program.functions[index]))
            .collect();
        let index = *known.get(self.random.below(known.len().max(1)))?;
        let concrete = match self.scalar_ty() {
            Ty::Bool | Ty::Char | Ty::F16 | Ty::Bf16 => self.some_int(),
            other => other,
        };
        let mut form = self.call_form(index, &concrete)?;
        match self.program.functions[index].result.clone() {
            None => {
                form.text.push(';');
                Some(Stmt::Form(form))
            }
            Some(result) => {
                let ty = result.with(&concrete);
                let var = self.declare(ty.clone(), Mode::Value, true);
                Some(Stmt::Let(var, Expr { ty, node: Node::Form(form) }))
            }
        }
    }

    /// The text of a call, with one argument per parameter.
    fn call_form(&mut self, index: usize, concrete: &Ty) -> Option<Form> {
        let function = self.program.functions[index].clone();
        self.work += self.times * function.work;
        let mut form = Form { call: Some(index), ..Form::default() };
        let locked = self.locked.len();
        let mut names = vec![String::new(); function.params.len()];
        // Borrowed arguments are chosen first, so that no other argument uses them.
        for writes in [true, false] {
            for (name, param) in names.iter_mut().zip(&function.params) {
                let ty = param.ty.with(concrete);
                let lends = match param.mode {
                    Mode::RefMut | Mode::SliceMut => writes,
                    Mode::Ref | Mode::Slice => !writes,
                    Mode::Value => false,
                };
                if !lends {
                    continue;
                }
                let number = form.places.len();
                let place = match param.mode {
                    Mode::Slice | Mode::SliceMut => {
                        let found = (0..8)
                            .find_map(|_| self.sequence(writes).filter(|(_, element, _)| *element == ty));
                        found.map(|(place, _, len)| self.slice(place, number, len))
                    }
                    _ => self.place(&ty, writes, 0).map(|place| (place, format!("$p{number}"))),
                };
                let Some((place, text)) = place else {
                    self.locked.truncate(locked);
                    return None;
                };
                if writes {
                    self.locked.push(place.var);
                }
                form.places.push(place);
                *name = format!("{}{text}", if writes { "&mut " } else { "&" });
            }
        }
        for (name, param) in names.iter_mut().zip(&function.params) {
            if param.mode == Mode::Value {
                *name = format!("$a{}", form.args.len());
                let ty = param.ty.with(concrete);
                form.args.push(self.expr(&ty, 1));
            }
        }
        self.locked.truncate(locked);
        form.text = format!("f{index}({})", names.join(", "));
        Some(form)
    }

    /// A nonempty part of a sequence.
    fn slice(&mut self, place: Place, number: usize, len: usize) -> (Place, String) {
        let is_slice = |visible: &Visible| matches!(visible.mode, Mode::Slice | Mode::SliceMut);
        let has_len = !self.scope.iter().any(|visible| visible.var == place.var && is_slice(visible));
        let start = self.random.below(len);
        let text = match self.random.below(3) {
            0 if has_len => format!("$p{number}[{start}..]"),
            1 if has_len => format!("$p{number}[..={start}]"),
            _ => format!("$p{number}[..]"),
        };
        (place, text)
    }

    /// A method of one of two structures; a condition selects which.
    fn dynamic_call(&mut self, ty: &Ty, depth: usize) -> Option<Expr> {
        let knows = !self.elsewhere || self.program.types_elsewhere;
        // Methods call no methods.
        if self.program.impls.is_empty() || !self.has_input || !knows {
            return None;
        }
        let method = &self.program.methods[0];
        if method.result != *ty || self.work + self.times * 200 > self.most_work {
            return None;
        }
        self.work += self.times * 200;
        let param = method.param.clone();
        let last = self.program.impls.len() - 1;
        let (a, b) = (Ty::Struct(self.program.impls[0].0), Ty::Struct(self.program.impls[last].0));
        let args = vec![self.leaf(&a), self.leaf(&b), self.expr(&Ty::Bool, depth), self.expr(&param, depth)];
        let text = if self.random.chance(70) {
            "{ let (a, b) = ($a0, $a1); let all: [&dyn Act; 2] = [&a, &b]; all[$a2 as usize].m0($a3) }"
        } else {
            "if $a2 { $a0.m0($a3) } else { $a1.m0($a3) }"
        };
        Some(Expr::form(ty.clone(), text, args))
    }

    /// A closure, called here or passed to a function, or a method that changes a structure.
    pub(super) fn closure(&mut self, depth: usize) -> Stmt {
        if self.has_input && !self.program.impls.is_empty() && self.random.chance(50) {
            return self.changing_method();
        }
        let (param, result) = (self.some_int(), self.some_int());
        let (bound, value) = self.repeated(8, |this| {
            let bound = this.declare(param.clone(), Mode::Value, false);
            (bound, this.expr(&result, depth.min(2)))
        });
        let args = vec![value, self.expr(&param, 1), self.expr(&param, 1), self.expr(&result, 1)];
        let (takes, gives) = (param.name(), result.name());
        // A value lent to the function cannot be moved.
        let by = if self.has_input { "move " } else { "" };
        let texts = [
            format!("{{ let c = |$v0: {takes}| -> {gives} {{ $a0 }}; c($a1).wrapping_sub(c($a2)) }}"),
            format!(
                "{{ let c = {by}|$v0: {takes}| -> {gives} {{ $a0 }}; let c: &dyn Fn({takes}) -> {gives} = &c; c($a1) ^ c($a2) }}"
            ),
            format!("twice(|$v0: {takes}| -> {gives} {{ $a0 }}, $a1, $a2).0"),
            format!(
                "{{ let mut sum = $a3; let mut c = |$v0: {takes}| sum = sum.wrapping_mul(3) ^ $a0; c($a1); c($a2); sum }}"
            ),
            format!("by_object(&|$v0: {takes}| -> {gives} {{ $a0 }}, $a1, $a2).1"),
        ];
        let text = texts[self.random.below(texts.len())].clone();
        let form = Form { text, args, binds: vec![bound], ..Form::default() };
        let var = self.declare(result.clone(), Mode::Value, true);
        Stmt::Let(var, Expr { ty: result, node: Node::Form(form) })
    }

    fn changing_method(&mut self) -> Stmt {
        let method = self.program.methods[1].clone();
        let (structure, _) = self.program.impls[self.random.below(self.program.impls.len())];
        self.work += self.times * 200;
        let param = self.expr(&method.param, 1);
        let Some(place) = self.place(&Ty::Struct(structure), true, 0) else {
            let ty = Ty::Struct(structure);
            return self.declaration(ty, 2);
        };
        let texts =
            ["{ let x = $a0; $p0.m1(x) }", "{ let x = $a0; let o: &mut dyn Act = &mut $p0; o.m1(x) }"];
        let text = texts[self.random.below(2)].to_owned();
        let form = Form { text, args: vec![param], places: vec![place], ..Form::default() };
        let var = self.declare(method.result.clone(), Mode::Value, true);
        Stmt::Let(var, Expr { ty: method.result, node: Node::Form(form) })
    }
}
