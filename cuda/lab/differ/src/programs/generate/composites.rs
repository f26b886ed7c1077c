//! Composite values as a whole: compared, hashed, passed to functions that are not inlined, and formatted as text.

use super::Generator;
use crate::programs::ast::*;

/// Comparisons of any two values, by operators and by functions that take them by value.
const COMPARISONS: [&str; 12] = [
    "$a0 == $a1",
    "$a0 == $a1",
    "$a0 != $a1",
    "$a0 < $a1",
    "$a0 <= $a1",
    "$a0 > $a1",
    "$a0 >= $a1",
    "same($a0, $a1)",
    "same(passed($a0), $a1)",
    "less($a0, $a1)",
    "less(passed($a0), $a1)",
    "{ let x = $a0; same(passed(x), x) }",
];

/// The same for values with a total order.
const ORDERED: [&str; 5] = [
    "ordered($a0, $a1) > 0",
    "hashed(&$a0) == hashed(&$a1)",
    "{ let (x, y) = ($a0, $a1); x.max(y) == passed(y) }",
    "{ let (x, y) = ($a0, $a1); core::cmp::min(x, y) == x }",
    "matches!($a0.cmp(&$a1), core::cmp::Ordering::Greater)",
];

impl Generator {
    /// Whether one value is equal to, less or greater than another of its type.
    pub(super) fn compared(&mut self, ty: &Ty, depth: usize) -> Expr {
        let args = vec![self.expr(ty, depth), self.expr(ty, depth)];
        let is_ordered = self.program.is_ordered(ty) && self.random.chance(40);
        let texts: &[&str] = if *ty == Ty::Generic {
            &COMPARISONS[..7]
        } else if is_ordered {
            &ORDERED
        } else {
            &COMPARISONS
        };
        let text = texts[self.random.below(texts.len())];
        Expr::form(Ty::Bool, text, args)
    }

    /// An integer computed from a composite value.
    pub(super) fn of_composite(&mut self, int: Int, depth: usize) -> Expr {
        let (ty, name) = (Ty::Int(int), int.name());
        let field = self.field_of_packed(&ty);
        if let Some(field) = field.filter(|_| self.random.chance(40)) {
            return field;
        }
        let from = self.palette_ty();
        if from == Ty::Generic {
            return self.leaf(&ty);
        }
        if let Ty::Enum(number) = from
            && self.random.chance(70)
        {
            return self.of_enum(int, number, depth);
        }
        let args = vec![self.expr(&from, depth), self.leaf(&from)];
        let text = match self.random.below(5) {
            0 if self.program.is_ordered(&from) => format!("hashed(&$a0) as {name}"),
            1 if self.program.is_ordered(&from) => format!("ordered($a0, $a1) as {name}"),
            2 => format!("if less(passed($a0), $a1) {{ 1 }} else {{ $a0.mix(1) as {name} }}"),
            3 => format!("passed($a0).mix(2) as {name}"),
            _ => format!("$a0.partial_cmp(&$a1).map_or(5, |x| x as i8) as {name}"),
        };
        Expr::form(ty, text, args)
    }

    /// The result of a function that takes an enum by value.
    fn of_enum(&mut self, int: Int, number: usize, depth: usize) -> Expr {
        let from = Ty::Enum(number);
        let args = vec![self.expr(&from, depth), self.expr(&Ty::unsigned(64), depth.min(1))];
        let name = int.name();
        let texts = [
            format!("value_of_e{number}($a0) as {name}"),
            format!("value_of_e{number}(pass_e{number}($a0, $a1)) as {name}"),
            format!(
                "{{ let e = $a0; (value_of_e{number}(e) << 1 | (pass_e{number}(e, $a1) == e) as u64) as {name} }}"
            ),
            format!(
                "{{ let e = $a0; e.partial_cmp(&pass_e{number}(e, $a1)).map_or(9, |x| x as i8) as {name} }}"
            ),
            format!("$a0 as i64 as {name}"),
        ];
        let last = if self.program.enums[number].is_plain() { 5 } else { 4 };
        Expr::form(Ty::Int(int), texts[self.random.below(last)].clone(), args)
    }

    /// A field of this type in a packed structure.
    fn field_of_packed(&mut self, ty: &Ty) -> Option<Expr> {
        let (number, field) = self.packed_field(Some(ty))?;
        let value = self.leaf(&Ty::Struct(number));
        Some(Expr::form(ty.clone(), format!("{{ let x = $a0; x.f{field} }}"), vec![value]))
    }

    /// A packed structure that is visible here, and one of its fields.
    fn packed_field(&mut self, ty: Option<&Ty>) -> Option<(usize, usize)> {
        let knows = !self.elsewhere || self.program.types_elsewhere;
        let all = self.program.structs.iter().enumerate().filter(|(_, s)| s.is_packed && knows);
        let fields: Vec<(usize, usize)> = all
            .flat_map(|(number, s)| (0..s.fields.len()).map(move |i| (number, i)))
            .filter(|&(number, i)| ty.is_none_or(|ty| self.program.structs[number].fields[i] == *ty))
            .collect();
        if fields.is_empty() { None } else { Some(*self.random.pick(&fields)) }
    }

    /// Sets a field of a packed structure.
    pub(super) fn field_change(&mut self) -> Option<Stmt> {
        let (number, field) = self.packed_field(None)?;
        let place = self.place(&Ty::Struct(number), true, 1)?;
        let ty = self.program.structs[number].fields[field].clone();
        let args = vec![self.expr(&ty, 2)];
        let text = format!("{{ let x = $a0; $p0.f{field} = x; }}");
        Some(Stmt::Form(Form { text, args, places: vec![place], ..Form::default() }))
    }

    /// Formats one or two values as text, and keeps its length and a hash.
    pub(super) fn text(&mut self) -> Stmt {
        let formats = |ty: &Ty| -> &[&str] {
            match ty {
                Ty::Int(_) => &["{}", "{:x}", "{:>12}", "{:+}", "{:08}", "{:?}", "{}", "{:^9}"],
                Ty::F32 | Ty::F64 => &["{}", "{:?}", "{:.3}", "{:8.2}", "{:+}"],
                Ty::Bool => &["{}", "{:?}", "{:>7}"],
                Ty::Char => &["{}", "{:?}", "{:<3}"],
                _ => &["{:?}"],
            }
        };
        self.work += self.times * 300;
        let (a, mut b) = (self.scalar_ty(), self.palette_ty());
        // Derived code is fully inlined: a thousand lines of PTX per field.
        if b == Ty::Generic || self.random.chance(98) {
            b = self.scalar_ty();
        }
        let mut text = "shown(format_args!(\"".to_owned();
        for ty in [&a, &b] {
            let all = formats(ty);
            text.push_str(all[self.random.below(all.len())]);
            text.push(' ');
        }
        text.push_str("\", $a0, $a1))");
        let args = vec![self.expr(&a, 2), self.expr(&b, 1)];
        let ty = Ty::unsigned(64);
        let var = self.declare(ty.clone(), Mode::Value, true);
        Stmt::Let(var, Expr::form(ty, text, args))
    }
}
