//! Functions, including the trait's methods.

use super::Generator;
use crate::programs::ast::*;

/// A result that depends on the function's sum, if its type allows it.
fn with_sum(value: Expr, sum: Place) -> Expr {
    let sum = Expr { ty: Ty::unsigned(64), node: Node::Place(sum) };
    let ty = value.ty.clone();
    let text = match &ty {
        Ty::Int(int) => format!("$a0 ^ ($a1 as {})", int.name()),
        Ty::Bool => "$a0 ^ ($a1 % 2 == 1)".to_owned(),
        Ty::F32 | Ty::F64 => format!("$a0 + ($a1 % 100) as {}", ty.name()),
        Ty::Generic => "$a0.plus(T::of($a1))".to_owned(),
        Ty::Array(element, _) if matches!(**element, Ty::Int(_)) => {
            format!("{{ let mut all = $a0; all[0] ^= $a1 as {}; all }}", element.name())
        }
        _ => return value,
    };
    Expr::form(ty, text, vec![value, sum])
}

impl Generator {
    /// All functions of the program; each may call earlier ones.
    pub(super) fn functions(&mut self) {
        let count = if self.is_short() { self.random.below(3) / 2 } else { self.random.between(1, 3) };
        for _ in 0..count {
            let elsewhere = self.random.chance(45);
            let function = if self.random.chance(45) {
                self.generic_function(elsewhere)
            } else {
                self.function(elsewhere)
            };
            self.program.functions.push(function);
        }
        if !self.is_short() && self.random.chance(45) {
            self.methods();
        }
    }

    fn inline(&mut self) -> Inline {
        [Inline::Free, Inline::Never, Inline::Never, Inline::Always][self.random.below(4)]
    }

    fn function(&mut self, elsewhere: bool) -> Function {
        self.elsewhere = elsewhere;
        let mut params = Vec::new();
        for _ in 0..self.random.between(1, 4) {
            let mode = [
                Mode::Value,
                Mode::Value,
                Mode::Ref,
                Mode::RefMut,
                Mode::RefMut,
                Mode::Slice,
                Mode::SliceMut,
            ][self.random.below(7)];
            let ty = match mode {
                Mode::Slice | Mode::SliceMut => self.element_ty(),
                _ => self.palette_ty(),
            };
            let ty = if elsewhere && !self.program.types_elsewhere && ty.is_of_program() {
                self.some_int()
            } else {
                ty
            };
            params.push((mode, ty));
        }
        let result = if self.random.chance(75) { Some(self.palette_ty()) } else { None };
        let inline = self.inline();
        self.finish(params, result, inline, false)
    }

    /// The element type of an array in the palette.
    fn element_ty(&mut self) -> Ty {
        let elements: Vec<Ty> = self
            .palette
            .iter()
            .filter_map(|ty| match ty {
                Ty::Array(element, _) => Some((**element).clone()),
                _ => None,
            })
            .collect();
        self.random.pick(&elements).clone()
    }

    /// A function generic over a type that the caller chooses.
    fn generic_function(&mut self, elsewhere: bool) -> Function {
        self.elsewhere = elsewhere;
        let mode = [Mode::Slice, Mode::SliceMut, Mode::RefMut, Mode::Value][self.random.below(4)];
        let params = vec![(mode, Ty::Generic), (Mode::Value, Ty::Generic), (Mode::Value, self.some_int())];
        let own = vec![Ty::Generic, Ty::Generic, self.some_int(), Ty::Bool];
        let palette = core::mem::replace(&mut self.palette, own);
        let inline = self.inline();
        let mut function = self.finish(params, Some(Ty::Generic), inline, true);
        function.elsewhere = elsewhere;
        self.palette = palette;
        function
    }

    /// A body for these parameters.
    fn finish(
        &mut self,
        params: Vec<(Mode, Ty)>,
        result: Option<Ty>,
        inline: Inline,
        is_generic: bool,
    ) -> Function {
        let (scope, locked) = (core::mem::take(&mut self.scope), core::mem::take(&mut self.locked));
        (self.work, self.times, self.most_work) = (0, 1, super::MOST_WORK / 12);
        let declare = |(mode, ty): (Mode, Ty)| {
            let is_mut = matches!(mode, Mode::Value | Mode::RefMut | Mode::SliceMut);
            Param { var: self.declare(ty.clone(), mode, is_mut), mode, ty }
        };
        let params: Vec<Param> = params.into_iter().map(declare).collect();
        let mut body = Block::default();
        let sum = self.declare(Ty::unsigned(64), Mode::Value, true);
        body.stmts.push(Stmt::Let(sum, Expr::literal(Ty::unsigned(64), 0)));
        let first = self.scope.len();
        for _ in 0..self.random.between(1, 5) {
            let stmt = self.statement(2);
            body.stmts.push(stmt);
        }
        let declared = self.scope[first..].to_vec();
        for visible in declared {
            let place = Place { var: visible.var, deref: false, steps: Vec::new() };
            body.stmts.extend(self.absorb(place, first));
        }
        let sum = Place { var: sum, deref: false, steps: Vec::new() };
        match &result {
            Some(result) => {
                let value = self.expr(result, 2);
                body.value = Some(Box::new(with_sum(value, sum)));
            }
            // Only the parameters outlive the function.
            None => body.stmts.extend(self.absorb(sum, params.len())),
        }
        (self.scope, self.locked) = (scope, locked);
        let work = self.work.max(1);
        Function { params, result, body, inline, elsewhere: self.elsewhere, is_generic, work }
    }

    /// A trait with two methods, and structures that implement it.
    fn methods(&mut self) {
        self.elsewhere = self.program.types_elsewhere;
        for is_mut in [false, true] {
            let (param, result) = (self.scalar_ty(), self.scalar_ty());
            self.program.methods.push(Method { is_mut, param, result });
        }
        for structure in 0..self.program.structs.len() {
            let methods = self.program.methods.clone();
            let functions = methods
                .into_iter()
                .map(|Method { is_mut, param, result }| {
                    let this = if is_mut { Mode::RefMut } else { Mode::Ref };
                    let inline = if self.random.chance(50) { Inline::Never } else { Inline::Free };
                    self.finish(
                        vec![(this, Ty::Struct(structure)), (Mode::Value, param)],
                        Some(result),
                        inline,
                        false,
                    )
                })
                .collect();
            self.program.impls.push((structure, functions));
        }
    }
}
