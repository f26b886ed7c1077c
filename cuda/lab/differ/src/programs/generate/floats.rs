//! Floats, only with correctly rounded operations.

use super::Generator;
use crate::programs::ast::*;

/// For `f32` and `f64`. `min` and `max` may return either zero, so a positive zero is added.
const FLOATS: [&str; 33] = [
    "$a0 % $a1",
    "$a0 % $a1",
    "$a0 % ($a1 * 0.001)",
    "euclid_rem($a0, $a1)",
    "euclid_div($a0, $a1)",
    "($a0 * 1e7) % $a1",
    "$a0 - round_down($a0)",
    "$a0 + $a1",
    "$a0 - $a1",
    "$a0 * $a1",
    "$a0 / $a1",
    "-$a0",
    "$a0.abs()",
    "$a0.min($a1) + 0.0",
    "$a0.max($a1) + 0.0",
    "square_root($a0)",
    "square_root($a0.abs())",
    "fused($a0, $a1, $a2)",
    "with_sign($a0, $a1)",
    "$a0.signum()",
    "round_down($a0)",
    "round_up($a0)",
    "round_to_zero($a0)",
    "round_away($a0)",
    "if $a0 < $a1 { $a0 } else { $a2 }",
    "if $a0 >= $a1 { $a1 } else { $a0 * $a2 }",
    "$a0.clamp(-100.0, 2.5) + 0.0",
    "$a0 * $a1 + $a2",
    "($a0 - $a1) * ($a0 + $a1)",
    "$a0.recip()",
    "if $a0.is_finite() { $a0 } else { $a1 }",
    "if $a0.is_nan() { $a1 } else { $a0 }",
    "match $a0.partial_cmp(&$a1) { Some(core::cmp::Ordering::Less) => $a2, None => $a1, _ => $a0 }",
];

/// For 16-bit floats: `HALF` stands for the type.
const HALVES: [&str; 12] = [
    "HALF::of($a0.wide() + $a1.wide())",
    "HALF::of($a0.wide() - $a1.wide())",
    "HALF::of($a0.wide() * $a1.wide())",
    "HALF::of($a0.wide() / $a1.wide())",
    "HALF::of($a0.wide() % $a1.wide())",
    "HALF::of(euclid_rem($a0.wide(), $a1.wide()))",
    "HALF::of(-$a0.wide())",
    "HALF::of($a0.wide().abs())",
    "HALF::of(square_root($a0.wide()))",
    "if $a0.wide() < $a1.wide() { $a1 } else { $a0 }",
    "HALF::of($a0.wide() * 3.0)",
    "HALF::of($a0.wide() * $a1.wide() + $a2.wide())",
];

impl Generator {
    /// The bits of a float: a usual number, an edge case, or any bits except a NaN with a payload.
    pub(super) fn float_bits(&mut self, ty: &Ty, any: u128) -> u128 {
        const USUAL: [f64; 16] = [
            0.0,
            -0.0,
            1.0,
            -1.0,
            0.5,
            2.0,
            3.0,
            -7.25,
            0.1,
            1e10,
            -1e-10,
            255.0,
            256.5,
            f64::INFINITY,
            f64::NEG_INFINITY,
            f64::NAN,
        ];
        let usual = *self.random.pick(&USUAL);
        let is_usual = self.random.chance(75);
        match ty {
            Ty::F16 => {
                const HALF: [u128; 10] =
                    [0, 0x8000, 0x3c00, 0xbc00, 0x3800, 0x4248, 0x7bff, 0x0001, 0x7c00, 0x6400];
                let bits = if is_usual { *self.random.pick(&HALF) } else { any & 0xffff };
                if bits & 0x7fff > 0x7c00 { 0x7e00 } else { bits }
            }
            Ty::Bf16 => {
                const HALF: [u128; 10] =
                    [0, 0x8000, 0x3f80, 0xbf80, 0x3f00, 0x4049, 0x7f7f, 0x0001, 0x7f80, 0x4380];
                let bits = if is_usual { *self.random.pick(&HALF) } else { any & 0xffff };
                if bits & 0x7fff > 0x7f80 { 0x7fc0 } else { bits }
            }
            Ty::F32 => {
                let value = if is_usual { usual as f32 } else { f32::from_bits(any as u32) };
                u128::from(if value.is_nan() { 0x7fc0_0000 } else { value.to_bits() })
            }
            _ => {
                let value = if is_usual { usual } else { f64::from_bits(any as u64) };
                u128::from(if value.is_nan() { 0x7ff8_0000_0000_0000 } else { value.to_bits() })
            }
        }
    }

    /// A float of this type.
    pub(super) fn float(&mut self, ty: &Ty, depth: usize) -> Expr {
        if self.random.chance(20) {
            return self.float_of(ty, depth);
        }
        let args = (0..3).map(|_| self.expr(ty, depth)).collect();
        let all: &[&str] = if ty.is_half() { &HALVES } else { &FLOATS };
        Expr::form(ty.clone(), all[self.random.below(all.len())].replace("HALF", &ty.name()), args)
    }

    /// A float computed from another number.
    fn float_of(&mut self, ty: &Ty, depth: usize) -> Expr {
        let mut from = self.scalar_ty();
        if matches!(from, Ty::Bool | Ty::Char) || matches!(from, Ty::Int(Int { bits: 128, .. })) {
            from = Ty::Int(Int::new(32, true));
        }
        let arg = self.expr(&from, depth);
        let wide = if from.is_half() { "$a0.wide()" } else { "$a0" };
        let text = match ty {
            Ty::F16 | Ty::Bf16 => format!("{}::of({wide} as f32)", ty.name()),
            _ => format!("{wide} as {}", ty.name()),
        };
        Expr::form(ty.clone(), text, vec![arg])
    }

    /// A value of the type parameter.
    pub(super) fn generic(&mut self, depth: usize) -> Expr {
        const ALL: [&str; 7] = [
            "$a0.plus($a1)",
            "$a0.times($a1)",
            "$a0.mixed($a1)",
            "if $a0 < $a1 { $a0 } else { $a1 }",
            "T::of($a0.word() ^ $a1.word())",
            "if $a0 == $a1 { $a0.plus($a0) } else { $a1 }",
            "T::of($a0.word() >> 3).plus($a1)",
        ];
        let args = vec![self.expr(&Ty::Generic, depth), self.expr(&Ty::Generic, depth)];
        Expr::form(Ty::Generic, ALL[self.random.below(ALL.len())], args)
    }
}
