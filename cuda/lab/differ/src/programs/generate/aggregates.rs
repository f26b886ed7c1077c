//! Arrays, tuples, structures, enums and options; iterators that reduce many values to one.

use super::Generator;
use crate::programs::ast::*;

/// A variant with the arguments from `first` as its fields.
fn variant_text(number: usize, variant: usize, first: usize, count: usize) -> String {
    let holes: Vec<String> = (first..first + count).map(|i| format!("$a{i}")).collect();
    let data = if holes.is_empty() { String::new() } else { format!("({})", holes.join(", ")) };
    format!("E{number}::V{variant}{data}")
}

impl Generator {
    /// A value of a composite type.
    pub(super) fn aggregate(&mut self, ty: &Ty, depth: usize) -> Expr {
        match ty {
            Ty::Array(element, len) => self.array(element, *len, depth),
            Ty::Tuple(parts) => {
                let args: Vec<Expr> = parts.iter().map(|part| self.expr(part, depth)).collect();
                let holes: Vec<String> = (0..args.len()).map(|i| format!("$a{i}")).collect();
                Expr::form(ty.clone(), format!("({},)", holes.join(", ")), args)
            }
            Ty::Struct(number) => self.structure(*number, depth),
            Ty::Enum(number) => {
                if depth > 0 && self.random.chance(60) {
                    return self.chosen_variant(*number, depth);
                }
                let variants = self.program.enums[*number].variants.clone();
                let variant = self.random.below(variants.len());
                let data = &variants[variant].data;
                let args: Vec<Expr> = data.iter().map(|part| self.expr(part, depth)).collect();
                let text = variant_text(*number, variant, 0, args.len());
                Expr::form(ty.clone(), text, args)
            }
            Ty::Option(inner) => self.option(inner, depth),
            _ => self.literal(ty),
        }
    }

    /// A variant chosen by a number, so that the fields of the value come from several branches.
    fn chosen_variant(&mut self, number: usize, depth: usize) -> Expr {
        let variants = self.program.enums[number].variants.clone();
        let mut args = vec![self.expr(&Ty::unsigned(32), depth - 1)];
        let mut text = format!("match $a0 % {} {{ ", variants.len());
        for (i, variant) in variants.iter().enumerate() {
            let first = args.len();
            args.extend(variant.data.iter().map(|part| self.expr(part, depth - 1)));
            let pattern = if i + 1 == variants.len() { "_".to_owned() } else { i.to_string() };
            let value = variant_text(number, i, first, args.len() - first);
            text.push_str(&format!("{pattern} => {value}, "));
        }
        text.push('}');
        Expr::form(Ty::Enum(number), text, args)
    }

    /// The results of two functions for a variant that the input chooses, and whether one returns it unchanged.
    pub(super) fn value_of_chosen_variant(&mut self, number: usize) -> Expr {
        let args = vec![self.chosen_variant(number, 1), self.expr(&Ty::unsigned(64), 0)];
        let text =
            format!("{{ let e = $a0; value_of_e{number}(e) << 1 | (pass_e{number}(e, $a1) == e) as u64 }}");
        Expr::form(Ty::unsigned(64), text, args)
    }

    fn structure(&mut self, number: usize, depth: usize) -> Expr {
        let fields = self.program.structs[number].fields.clone();
        let ty = Ty::Struct(number);
        if depth > 0 && self.random.chance(30) {
            let field = self.random.below(fields.len());
            let args = vec![self.expr(&fields[field], depth), self.leaf(&ty)];
            return Expr::form(ty, format!("S{number} {{ f{field}: $a0, ..$a1 }}"), args);
        }
        let args = fields.iter().map(|field| self.expr(field, depth)).collect();
        let holes: Vec<String> = (0..fields.len()).map(|i| format!("f{i}: $a{i}")).collect();
        Expr::form(ty, format!("S{number} {{ {} }}", holes.join(", ")), args)
    }

    fn option(&mut self, inner: &Ty, depth: usize) -> Expr {
        let ty = Ty::Option(Box::new(inner.clone()));
        if depth == 0 {
            return match self.random.below(4) {
                0 => Expr::form(ty, format!("None::<{}>", inner.name()), Vec::new()),
                _ => {
                    let value = self.leaf(inner);
                    Expr::form(ty, "Some($a0)", vec![value])
                }
            };
        }
        let args = vec![self.expr(inner, depth), self.leaf(&ty), self.expr(&Ty::Bool, depth - 1)];
        let texts = [
            "Some($a0)",
            "$a2.then_some($a0)",
            "$a1.filter(|x| *x == $a0)",
            "$a1.or(Some($a0))",
            "$a1.and(Some($a0))",
        ];
        Expr::form(ty, texts[self.random.below(texts.len())], args)
    }

    /// An array. Sometimes its elements are bytes that stay uninitialised until all of them are written.
    fn array(&mut self, element: &Ty, len: usize, depth: usize) -> Expr {
        let ty = Ty::array(element.clone(), len);
        let has_own_way = depth > 0 && self.spend(len as u64);
        match self.random.below(7) {
            0 if has_own_way => {
                self.with_index(ty, len, "core::array::from_fn::<_, LEN, _>(|$v0| $a0)", element, depth)
            }
            1 if has_own_way => self.with_index(
                ty,
                len,
                "{ let mut all = core::mem::MaybeUninit::<[ELEMENT; LEN]>::uninit(); \
                 let to = all.as_mut_ptr().cast::<ELEMENT>(); \
                 for $v0 in 0..LENusize { unsafe { to.add($v0).write($a0) } } unsafe { all.assume_init() } }",
                element,
                depth,
            ),
            2 if has_own_way => {
                let (bound, value) = self.of_element(element, element, depth);
                let arg = self.leaf(&ty);
                let form = Form {
                    text: "$a0.map(|$v0| $a1)".to_owned(),
                    args: vec![arg, value],
                    binds: vec![bound],
                    ..Form::default()
                };
                Expr { ty, node: Node::Form(form) }
            }
            3 | 4 if len <= 9 => {
                let args: Vec<Expr> = (0..len).map(|_| self.expr(element, depth.min(1))).collect();
                let holes: Vec<String> = (0..len).map(|i| format!("$a{i}")).collect();
                Expr::form(ty, format!("[{}]", holes.join(", ")), args)
            }
            _ => {
                let value = self.expr(element, depth.min(1));
                Expr::form(ty, format!("[$a0; {len}]"), vec![value])
            }
        }
    }

    /// A form with an argument computed from a bound `usize`.
    fn with_index(&mut self, ty: Ty, len: usize, text: &str, element: &Ty, depth: usize) -> Expr {
        let (bound, value) = self.repeated(len as u64, |this| {
            let bound = this.declare(USIZE, Mode::Value, false);
            (bound, this.expr(element, depth.min(2)))
        });
        let text = text.replace("ELEMENT", &element.name()).replace("LEN", &len.to_string());
        Expr { ty, node: Node::Form(Form { text, args: vec![value], binds: vec![bound], ..Form::default() }) }
    }

    /// A bound variable of the first type, and a value of the second computed from it.
    fn of_element(&mut self, element: &Ty, result: &Ty, depth: usize) -> (Var, Expr) {
        self.scoped(|this| {
            let bound = this.declare(element.clone(), Mode::Value, false);
            (bound, this.expr(result, depth.min(2)))
        })
    }

    /// A place to iterate over, and the type of its elements.
    pub(super) fn sequence(&mut self, writes: bool) -> Option<(Place, Ty, usize)> {
        let mut found = Vec::new();
        for visible in self.scope.clone() {
            if self.locked.contains(&visible.var) || (writes && !visible.is_mut) {
                continue;
            }
            let deref = matches!(visible.mode, Mode::Ref | Mode::RefMut);
            let place = Place { var: visible.var, deref, steps: Vec::new() };
            match (&visible.ty, visible.mode) {
                (element, Mode::Slice | Mode::SliceMut) => found.push((place, element.clone(), 40)),
                (Ty::Array(element, len), _) => found.push((place, (**element).clone(), *len)),
                (Ty::Struct(number), _) => {
                    let structure = &self.program.structs[*number];
                    let fields = if structure.is_packed { &[] } else { structure.fields.as_slice() };
                    for (i, field) in fields.iter().enumerate() {
                        if let Ty::Array(element, len) = field {
                            let mut place = place.clone();
                            place.steps.push(Step::Field(format!("f{i}")));
                            found.push((place, (**element).clone(), *len));
                        }
                    }
                }
                _ => {}
            }
        }
        if found.is_empty() { None } else { Some(self.random.pick(&found).clone()) }
    }

    /// A value that an iterator computes from all elements of an array.
    pub(super) fn fold(&mut self, ty: &Ty, depth: usize) -> Expr {
        const ITERATORS: [&str; 9] = [
            "iter().copied()",
            "iter().copied().rev()",
            "iter().copied().step_by(3)",
            "iter().copied().skip(2)",
            "iter().copied().take(5)",
            "iter().enumerate().filter(|(i, _)| i % 3 != 1).map(|(_, x)| *x)",
            "chunks_exact(2).map(|pair| pair[1])",
            "windows(3).map(|three| three[1])",
            "iter().copied().chain($p0.iter().copied().take(2))",
        ];
        let Some((place, element, len)) = self.sequence(false) else { return self.leaf(ty) };
        if !self.spend(3 * len as u64) {
            return self.leaf(ty);
        }
        let iterator = ITERATORS[self.random.below(ITERATORS.len())];
        let start = self.expr(ty, depth.min(1));
        let (sum, item, next) = self.repeated(len as u64, |this| {
            let sum = this.declare(ty.clone(), Mode::Value, false);
            let item = this.declare(element, Mode::Value, false);
            (sum, item, this.expr(ty, depth.min(2)))
        });
        let form = Form {
            text: format!("$p0.{iterator}.fold($a0, |$v0, $v1| $a1)"),
            args: vec![start, next],
            places: vec![place],
            binds: vec![sum, item],
            ..Form::default()
        };
        Expr { ty: ty.clone(), node: Node::Form(form) }
    }

    /// Whether a condition holds for elements of an array.
    pub(super) fn over_array(&mut self, depth: usize) -> Expr {
        let Some((place, element, len)) = self.sequence(false) else { return self.leaf(&Ty::Bool) };
        if !self.spend(2 * len as u64) {
            return self.leaf(&Ty::Bool);
        }
        let texts = [
            "$p0.iter().any(|&$v0| $a0)",
            "$p0.iter().all(|&$v0| $a0)",
            "$p0.iter().position(|&$v0| $a0).is_some_and(|at| at % 2 == 1)",
            "$p0.iter().filter(|&&$v0| $a0).count() > 2",
            "$p0.iter().rev().skip_while(|&&$v0| $a0).count() % 2 == 0",
            "$p0.iter().rposition(|&$v0| $a0).is_none()",
        ];
        let text = texts[self.random.below(texts.len())].to_owned();
        let (bound, value) = self.repeated(len as u64, |this| this.of_element(&element, &Ty::Bool, depth));
        let form =
            Form { text, args: vec![value], places: vec![place], binds: vec![bound], ..Form::default() };
        Expr { ty: Ty::Bool, node: Node::Form(form) }
    }

    /// The value in an option, or its replacement.
    pub(super) fn of_option(&mut self, ty: &Ty, depth: usize) -> Expr {
        let options: Vec<Ty> = self
            .palette
            .iter()
            .filter_map(|ty| match ty {
                Ty::Option(inner) => Some((**inner).clone()),
                _ => None,
            })
            .collect();
        if options.is_empty() {
            return self.leaf(ty);
        }
        let inner = self.random.pick(&options).clone();
        if inner.is_of_program() && self.elsewhere && !self.program.types_elsewhere {
            return self.leaf(ty);
        }
        let (option, other) =
            (self.expr(&Ty::Option(Box::new(inner.clone())), depth), self.expr(ty, depth.min(1)));
        let (bound, value) = self.of_element(&inner, ty, depth);
        let texts = [
            "match $a0 { Some($v0) => $a2, None => $a1 }",
            "$a0.map_or($a1, |$v0| $a2)",
            "if let Some($v0) = $a0 { $a2 } else { $a1 }",
            "$a0.map(|$v0| $a2).unwrap_or_else(|| $a1)",
            "$a0.ok_or($a1).map(|$v0| $a2).unwrap_or_else(|x| x)",
        ];
        let text = texts[self.random.below(texts.len())].to_owned();
        let form = Form { text, args: vec![option, other, value], binds: vec![bound], ..Form::default() };
        Expr { ty: ty.clone(), node: Node::Form(form) }
    }
}
