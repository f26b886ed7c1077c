//! Code that compilers for GPUs have got wrong: chains of minima and maxima with negations, narrow integers that live across
//! loops, methods at the limits of a type, atomic operations on each kind of memory, and the bits of NaNs.

use super::Generator;
use crate::programs::ast::*;

/// What a loop does to its counter. `D` stands for a small number.
const UP: [&str; 4] = [
    "match k.checked_add(D) { Some(x) => k = x, None => break }",
    "let (x, is_over) = k.overflowing_add(D); if is_over { break; } k = x;",
    "k = k.saturating_add(D);",
    "k = k.wrapping_add(D);",
];

const DOWN: [&str; 4] = [
    "match k.checked_sub(D) { Some(x) => k = x, None => break }",
    "let (x, is_over) = k.overflowing_sub(D); if is_over { break; } k = x;",
    "k = k.saturating_sub(D);",
    "k = k.wrapping_sub(D);",
];

/// Methods of two numbers, for `add`, `sub` and `mul`, which stand for `OP`.
const METHODS: [&str; 4] = [
    "h = joined(h, match a.checked_OP(b) { Some(x) => x as u64, None => 77 });",
    "h = joined(h, a.saturating_OP(b) as u64);",
    "let (x, is_over) = a.overflowing_OP(b); h = joined(h, x as u64 ^ (is_over as u64) << 62);",
    "h = joined(h, a.wrapping_OP(b) as u64);",
];

const OTHER_METHODS: [&str; 7] = [
    "h = joined(h, a.checked_neg().map_or(78, |x| x as u64));",
    "h = joined(h, a.checked_div(b).map_or(79, |x| x as u64));",
    "h = joined(h, a.checked_rem(b).map_or(80, |x| x as u64));",
    "h = joined(h, a.overflowing_neg().0 as u64);",
    "h = joined(h, a.checked_shl(b as u32 & 31).map_or(81, |x| x as u64));",
    "h = joined(h, a.abs_diff(b) as u64);",
    "h = joined(h, (a == b) as u64 + 2 * (a < b) as u64);",
];

const SIGNED_METHODS: [&str; 5] = [
    "h = joined(h, a.saturating_abs() as u64);",
    "h = joined(h, a.checked_abs().map_or(82, |x| x as u64));",
    "h = joined(h, a.overflowing_abs().1 as u64);",
    "h = joined(h, a.saturating_neg() as u64);",
    "h = joined(h, a.unsigned_abs() as u64);",
];

/// Operations on an atomic cell `c`; `RMW`, `LOAD`, `STORE` and `FENCE` stand for orderings.
const ATOMIC: [&str; 15] = [
    "h = joined(h, c.fetch_add(y, RMW) as u64);",
    "h = joined(h, c.fetch_sub(y, RMW) as u64);",
    "h = joined(h, c.fetch_and(y, RMW) as u64);",
    "h = joined(h, c.fetch_or(y, RMW) as u64);",
    "h = joined(h, c.fetch_xor(x, RMW) as u64);",
    "h = joined(h, c.fetch_nand(y, RMW) as u64);",
    "h = joined(h, c.fetch_max(y, RMW) as u64);",
    "h = joined(h, c.fetch_min(y, RMW) as u64);",
    "h = joined(h, c.swap(y, RMW) as u64);",
    "match c.compare_exchange(x, y, RMW, LOAD) { Ok(v) => h = joined(h, v as u64), Err(v) => h ^= v as u64 }",
    "h = joined(h, c.fetch_update(RMW, LOAD, |v| v.checked_add(y)).is_ok() as u64);",
    "c.store(y, STORE);",
    "h = joined(h, c.load(LOAD) as u64);",
    "fence(FENCE);",
    "compiler_fence(FENCE);",
];

/// Changes of a float `x` that keep its bits, except for the sign; `y` is another one.
const SIGNS: [&str; 12] = [
    "-x",
    "x.abs()",
    "x.copysign(y)",
    "x.copysign(-1.0)",
    "y.copysign(x)",
    "passed(x)",
    "passed(-x)",
    "either(y.is_sign_negative(), -x, x.abs())",
    "if y.is_nan() { -x } else { x }",
    "Some(x).map(|x| -x).unwrap_or(y)",
    "[x, -y, x.abs(), -x][(y.to_bits() & 3) as usize]",
    "core::cell::Cell::new(-x).replace(y)",
];

impl Generator {
    /// An integer of this type from code of one of these kinds.
    pub(super) fn edge(&mut self, int: Int, depth: usize) -> Expr {
        match self.random.weighted(&[30, 10, 18, 14, 18, 16]) {
            0 => self.chain(int, depth),
            1 => self.largest(int, depth),
            2 => self.narrow_loop(int, depth),
            3 => self.limit_values(int, depth),
            4 => self.atomic(int, depth),
            _ => self.nan_bits(int, depth),
        }
    }

    /// A chain of minima and maxima, of numbers, their negations and their absolute values.
    fn chain(&mut self, int: Int, depth: usize) -> Expr {
        let ty = Ty::Int(int);
        let mut args = vec![self.expr(&ty, depth)];
        let mut text = "$a0".to_owned();
        let signs = ["", "", ".wrapping_abs()", ".wrapping_neg()"];
        let sign = |this: &mut Self| if int.signed { *this.random.pick(&signs) } else { "" };
        text += sign(self);
        for n in 1..=self.random.between(1, 4) {
            args.push(self.expr(&ty, depth.min(1)));
            let other = match self.random.below(6) {
                0 if int.signed => format!("$a0.wrapping_sub($a{n}).wrapping_abs()"),
                1 if int.signed => format!("($a{n}.unsigned_abs() as {})", int.name()),
                _ => format!("$a{n}{}", sign(self)),
            };
            let extreme = *self.random.pick(&["max", "max", "min"]);
            text = if self.random.chance(75) {
                format!("{text}.{extreme}({other})")
            } else {
                format!("{other}.{extreme}({text})")
            };
            if self.random.chance(15) {
                text += sign(self);
            }
        }
        Expr::form(ty, text, args)
    }

    /// The largest absolute value of an array, or something like it.
    fn largest(&mut self, int: Int, depth: usize) -> Expr {
        let found = (0..4).find_map(|_| {
            self.sequence(false).filter(|(_, element, _)| matches!(element, Ty::Int(of) if of.signed))
        });
        let Some((place, element, len)) = found else { return self.chain(int, depth) };
        if !self.spend(2 * len as u64) {
            return self.chain(int, depth);
        }
        let start = self.expr(&element, depth.min(1));
        let texts = [
            "m.max(x.wrapping_abs())",
            "m.max(x).max(x.wrapping_neg())",
            "m.min(x.wrapping_neg()).min(x)",
            "m.max(m.wrapping_sub(x).wrapping_abs())",
            "x.wrapping_abs().max(m.wrapping_neg())",
        ];
        let text = texts[self.random.below(texts.len())];
        let form = Form {
            text: format!("$p0.iter().fold($a0, |m, &x| {text}) as {}", int.name()),
            args: vec![start],
            places: vec![place],
            ..Form::default()
        };
        Expr { ty: Ty::Int(int), node: Node::Form(form) }
    }

    /// A loop that compares narrow integers, which live across it.
    fn narrow_loop(&mut self, int: Int, depth: usize) -> Expr {
        const STEPS: usize = 24;
        let narrow = Int::new(*self.random.pick(&[8, 8, 16, 32]), self.random.chance(70));
        if !self.spend(4 * STEPS as u64) {
            return self.chain(int, depth);
        }
        let (name, ty) = (narrow.name(), Ty::Int(narrow));
        let is_up = self.random.chance(50);
        let mut pick = |all: &[&'static str]| all[self.random.below(all.len())];
        let step = pick(if is_up { &UP } else { &DOWN }).replace('D', pick(&["1", "1", "2", "7"]));
        let (start, end, goes_on) = if is_up { ("lo", "hi", "<=") } else { ("hi", "lo", ">=") };
        let goes_on = pick(&[goes_on, goes_on, "!="]);
        let (first, second, last) =
            (pick(&[">", "<", "=="]), pick(&["==", "==", "!=", "<="]), pick(&["==", "<", "!="]));
        let inline = pick(&["#[inline(never)] ", ""]);
        let other = pick(&["b", "a", "a.wrapping_add(b & 7)"]);
        let text = format!(
            "{{ {inline}fn c(lo: {name}, hi: {name}, n: &mut u64) -> u64 {{ if lo {first} hi {{ return 1; }} \
             let r = if lo {second} hi {{ 2 }} else {{ 3 }}; let (mut k, mut left) = ({start}, {STEPS}u32); \
             while k {goes_on} {end} {{ *n = joined(*n, k as u64); left -= 1; if left == 0 {{ break; }} {step} }} \
             r + (k {last} lo) as u64 * 8 }} \
             let (mut n, a, b) = (1u64, $a0, $a1); let r = c(a, {other}, &mut n); joined(n, r) as {} }}",
            int.name()
        );
        Expr::form(Ty::Int(int), text, vec![self.expr(&ty, depth), self.expr(&ty, depth)])
    }

    /// Methods of an integer type for all pairs of limit values.
    fn limit_values(&mut self, int: Int, depth: usize) -> Expr {
        let of = Int::new(*self.random.pick(&[8, 8, 8, 16, 32, 64]), self.random.chance(60));
        if !self.spend(250) {
            return self.chain(int, depth);
        }
        let mut text = String::new();
        for _ in 0..self.random.between(2, 4) {
            let pick = if of.signed { self.random.below(10) } else { self.random.below(8) };
            let method = match pick {
                0..6 => {
                    METHODS[self.random.below(4)].replace("OP", ["add", "sub", "mul"][self.random.below(3)])
                }
                6 | 7 => OTHER_METHODS[self.random.below(OTHER_METHODS.len())].to_owned(),
                _ => SIGNED_METHODS[self.random.below(SIGNED_METHODS.len())].to_owned(),
            };
            text += &format!("{{ {method} }} ");
        }
        let name = of.name();
        let limits = |other: &str| format!("[{name}::MIN, {name}::MAX, 0, 1, !0, {other}]");
        let text = format!(
            "{{ let (mut h, x, y) = (1u64, $a0, $a1); for a in {} {{ for b in {} {{ {text}}} }} h as {} }}",
            limits("x"),
            limits("y"),
            int.name()
        );
        Expr::form(Ty::Int(int), text, vec![self.expr(&Ty::Int(of), depth), self.expr(&Ty::Int(of), depth)])
    }

    /// Atomic operations and fences, on local, shared or global memory.
    fn atomic(&mut self, int: Int, depth: usize) -> Expr {
        let of = Int::new(*self.random.pick(&[32, 32, 64]), self.random.chance(50));
        if !self.spend(40) {
            return self.chain(int, depth);
        }
        let (name, atomic) = (of.name(), format!("Atomic{}", of.name().to_uppercase()));
        let mut operations = String::new();
        for _ in 0..self.random.between(2, 5) {
            let ordering = |this: &mut Self, all: &[&str]| format!("Ordering::{}", this.random.pick(all));
            let operation = ATOMIC[self.random.below(ATOMIC.len())]
                .replace("RMW", &ordering(self, &["Relaxed", "Acquire", "Release", "AcqRel", "SeqCst"]))
                .replace("LOAD", &ordering(self, &["Relaxed", "Acquire", "SeqCst"]))
                .replace("STORE", &ordering(self, &["Relaxed", "Release", "SeqCst"]))
                .replace("FENCE", &ordering(self, &["Acquire", "Release", "AcqRel", "SeqCst"]));
            operations += &operation;
            operations += " ";
        }
        let places = [
            format!("let own = {atomic}::new(x); let cell = &own;"),
            format!("let own = [{atomic}::new(x), {atomic}::new(y)]; let cell = &own[(y & 1) as usize];"),
            format!("let cell = shared_{name}(); cell.store(x, Ordering::Relaxed);"),
            format!("let cell = global_{name}(); cell.store(x, Ordering::Relaxed);"),
            format!(
                "let own = {atomic}::new(y); let cell = if x & 1 == 0 {{ &own }} else {{ shared_{name}() }}; \
                 cell.store(x, Ordering::Relaxed);"
            ),
        ];
        let place = &places[self.random.below(places.len())];
        let inline = *self.random.pick(&["#[inline(never)] ", ""]);
        let text = format!(
            "{{ use core::sync::atomic::*; {inline}fn f(c: &{atomic}, x: {name}, y: {name}) -> u64 \
             {{ let mut h = 1u64; {operations}h }} \
             let (x, y) = ($a0, $a1); {place} let h = f(cell, x, y); \
             joined(h, cell.load(Ordering::Relaxed) as u64) as {} }}",
            int.name()
        );
        Expr::form(Ty::Int(int), text, vec![self.expr(&Ty::Int(of), depth), self.expr(&Ty::Int(of), depth)])
    }

    /// The bits of a NaN, of which only the sign has changed.
    fn nan_bits(&mut self, int: Int, depth: usize) -> Expr {
        let (float, of, exponent) = if self.random.chance(60) {
            ("f32", 32, "0x7f80_0000")
        } else {
            ("f64", 64, "0x7ff0_0000_0000_0000")
        };
        let mut pick = |all: &[&'static str]| all[self.random.below(all.len())];
        let bits =
            |is_nan: bool, arg: &str| if is_nan { format!("{arg} | {exponent}") } else { arg.to_owned() };
        let (x, y) = (
            bits(!pick(&["", "y"]).is_empty() || depth == 0, "$a0"),
            bits(!pick(&["", "y"]).is_empty(), "$a1"),
        );
        let mut text = format!("{{ let (x, y) = ({float}::from_bits({x}), {float}::from_bits({y})); ");
        for _ in 0..pick(&["1", "12", "123"]).len() {
            text += &format!("let x = {}; ", pick(&SIGNS));
        }
        text += &match pick(&["bits", "bits", "order", "sign", "key"]) {
            "order" => "x.total_cmp(&y) as i8".to_owned(),
            "sign" => "(x.is_sign_negative() as u8 * 2 + y.is_sign_positive() as u8)".to_owned(),
            "key" => format!(
                "({{ let b = x.to_bits() as i{of}; b ^ (((b >> {}) as u{of}) >> 1) as i{of} }})",
                of - 1
            ),
            _ => "x.to_bits()".to_owned(),
        };
        text += &format!(" as {} }}", int.name());
        let of = Ty::unsigned(of);
        Expr::form(Ty::Int(int), text, vec![self.expr(&of, depth), self.expr(&of, depth)])
    }
}
