//! Integers, booleans and characters.

use super::Generator;
use crate::programs::ast::*;

/// Two operands and one result of the same type; a third operand replaces an undefined result.
const BINARY: [&str; 34] = [
    "$a0.wrapping_add($a1)",
    "$a0.wrapping_sub($a1)",
    "$a0.wrapping_mul($a1)",
    "$a0 + $a1",
    "$a0 - $a1",
    "$a0 * $a1",
    "$a0 & $a1",
    "$a0 | $a1",
    "$a0 ^ $a1",
    "$a0.min($a1)",
    "$a0.max($a1)",
    "$a0.saturating_add($a1)",
    "$a0.saturating_sub($a1)",
    "$a0.saturating_mul($a1)",
    "$a0.checked_add($a1).unwrap_or($a2)",
    "$a0.checked_sub($a1).unwrap_or($a2)",
    "$a0.checked_mul($a1).unwrap_or($a2)",
    "$a0.checked_div($a1).unwrap_or($a2)",
    "$a0.checked_rem($a1).unwrap_or($a2)",
    "$a0.checked_div_euclid($a1).unwrap_or($a2)",
    "$a0.checked_rem_euclid($a1).unwrap_or($a2)",
    "{ let (x, is_over) = $a0.overflowing_add($a1); if is_over { $a2 } else { x } }",
    "{ let (x, is_over) = $a0.overflowing_sub($a1); if is_over { $a2 } else { x } }",
    "{ let (x, is_over) = $a0.overflowing_mul($a1); if is_over { $a2 } else { x } }",
    "{ let d = $a1; if d == 0 { $a2 } else { $a0.wrapping_div(d) } }",
    "{ let d = $a1; if d == 0 { $a2 } else { $a0.wrapping_rem(d) } }",
    "{ let d = $a1 | 1; $a0.wrapping_div_euclid(d) }",
    "{ let d = $a1; $a0.wrapping_rem(if d == 0 { 7 } else { d }) }",
    "{ let (a, b) = ($a0, $a1); if a < b { b.wrapping_sub(a) } else { $a2 } }",
    "($a0 & $a1) | (!$a0 & $a2)",
    "match $a0.cmp(&$a1) { core::cmp::Ordering::Less => $a2, core::cmp::Ordering::Equal => $a0, _ => $a1 }",
    "{ let (a, b) = ($a0, $a1); a.wrapping_add((a ^ b) & $a2) }",
    "$a0.clamp(core::cmp::min($a1, $a2), core::cmp::max($a1, $a2))",
    "core::cmp::max_by_key($a0, $a1, |x| x.wrapping_mul($a2))",
];

/// One operand of the type.
const UNARY: [&str; 9] = [
    "!$a0",
    "$a0.wrapping_neg()",
    "$a0.swap_bytes()",
    "$a0.reverse_bits()",
    "$a0.to_be()",
    "$a0.wrapping_pow(($a1 & 7) as u32)",
    "$a0.saturating_pow(($a1 & 3) as u32)",
    "$a0.checked_pow(($a1 & 7) as u32).unwrap_or($a1)",
    "$a0.checked_neg().unwrap_or($a1)",
];

/// A bit count of the operand.
const COUNTS: [&str; 6] =
    ["leading_zeros", "trailing_zeros", "leading_ones", "trailing_ones", "count_ones", "count_zeros"];

/// A shift by an amount below or above the width; `BITS` stands for the width.
const SHIFTS: [&str; 12] = [
    "$a0 << ($a1 & (BITS - 1))",
    "$a0 >> ($a1 & (BITS - 1))",
    "$a0.wrapping_shl($a1)",
    "$a0.wrapping_shr($a1)",
    "$a0.rotate_left($a1)",
    "$a0.rotate_right($a1 & (BITS - 1))",
    "$a0.checked_shl($a1).unwrap_or($a2)",
    "$a0.checked_shr($a1 % (BITS * 2)).unwrap_or($a2)",
    "$a0.unbounded_shl($a1 % (BITS + 2))",
    "$a0.unbounded_shr($a1 % (BITS + 2))",
    "{ let n = $a1 & (BITS - 1); ($a0 >> n) ^ ($a0 << ((BITS - n) & (BITS - 1))) }",
    "{ let (x, is_over) = $a0.overflowing_shl($a1 % (BITS * 2)); if is_over { $a2 } else { x } }",
];

const SIGNED: [&str; 11] = [
    "$a0.wrapping_abs() >> ($a1 & (BITS - 1)) as u32",
    "$a0.wrapping_abs().wrapping_shr($a1 as u32) / 3",
    "$a0.wrapping_neg() >> ($a1 & 7) as u32",
    "($a0.wrapping_abs() >> 1).wrapping_add($a1.wrapping_abs())",
    "$a0.wrapping_abs()",
    "$a0.signum()",
    "$a0.unsigned_abs() as TYPE",
    "$a0.abs_diff($a1) as TYPE",
    "$a0.checked_abs().unwrap_or($a1)",
    "$a0.saturating_neg()",
    "$a0.checked_ilog2().unwrap_or(77) as TYPE",
];

const UNSIGNED: [&str; 8] = [
    "$a0.abs_diff($a1)",
    "$a0.midpoint($a1)",
    "$a0.checked_next_power_of_two().unwrap_or($a1)",
    "$a0.is_power_of_two() as TYPE",
    "$a0.checked_ilog2().unwrap_or(77) as TYPE",
    "$a0.checked_ilog10().unwrap_or(78) as TYPE",
    "$a0.checked_next_multiple_of($a1).unwrap_or($a0)",
    "$a0.checked_add_signed($a1 as SIGNED).unwrap_or($a0)",
];

impl Generator {
    /// An integer of this type.
    pub(super) fn int(&mut self, int: Int, depth: usize) -> Expr {
        let ty = Ty::Int(int);
        let own = |this: &mut Self| this.expr(&ty, depth);
        let signed = if int.size { "isize".to_owned() } else { Int { signed: true, ..int }.name() };
        let fit = |text: &str| {
            text.replace("BITS", &int.bits.to_string())
                .replace("TYPE", &int.name())
                .replace("SIGNED", &signed)
        };
        let pick = |this: &mut Self, all: &[&str]| fit(all[this.random.below(all.len())]);
        match self.random.weighted(&[40, 10, 4, 12, 8, 10, 4, 3, 5, 3, 8, 2, 6]) {
            0 => {
                let args = vec![own(self), own(self), own(self)];
                Expr::form(ty.clone(), pick(self, &BINARY), args)
            }
            1 => {
                let args = vec![own(self), own(self)];
                Expr::form(ty.clone(), pick(self, &UNARY), args)
            }
            2 => {
                let (arg, count) = (own(self), COUNTS[self.random.below(COUNTS.len())]);
                Expr::form(ty.clone(), format!("$a0.{count}() as {}", int.name()), vec![arg])
            }
            3 => {
                let args = vec![own(self), self.expr(&Ty::unsigned(32), depth), own(self)];
                Expr::form(ty.clone(), pick(self, &SHIFTS), args)
            }
            4 => {
                let args = vec![own(self), own(self)];
                let all: &[&str] = if int.signed { &SIGNED } else { &UNSIGNED };
                Expr::form(ty.clone(), pick(self, all), args)
            }
            5 => self.cast(int, depth),
            6 => self.of_bytes(int, depth),
            7 => self.of_table(int, depth),
            8 => self.fold(&ty, depth),
            9 => self.of_option(&ty, depth),
            10 => self.of_composite(int, depth),
            11 => self.recursive(int, depth),
            _ => self.edge(int, depth),
        }
    }

    /// A cast from any other number, including a float, which saturates.
    fn cast(&mut self, to: Int, depth: usize) -> Expr {
        let mut from = self.scalar_ty();
        // Conversions between floats and 128-bit integers are calls that neither back end supports.
        if to.bits == 128 && from.is_float() {
            from = Ty::unsigned(64);
        }
        let (arg, to) = (self.expr(&from, depth), Ty::Int(to));
        let text = match from {
            Ty::F16 | Ty::Bf16 => format!("$a0.wide() as {}", to.name()),
            Ty::Char => format!("$a0 as u32 as {}", to.name()),
            _ => format!("$a0 as {}", to.name()),
        };
        Expr::form(to, text, vec![arg])
    }

    /// From bytes of an array, or part of a wider product.
    fn of_bytes(&mut self, int: Int, depth: usize) -> Expr {
        let (ty, bytes) = (Ty::Int(int), int.bits as usize / 8);
        let end = ["le", "be", "ne"][self.random.below(3)];
        if let Some((place, len)) = self.byte_array(bytes, false) {
            let at = self.random.between(0, len - bytes);
            let text = format!(
                "{{ let mut b = [0u8; {bytes}]; b.copy_from_slice(&$p0[{at}..{}]); {}::from_{end}_bytes(b) }}",
                at + bytes,
                int.name()
            );
            let form = Form { text, places: vec![place], ..Form::default() };
            return Expr { ty, node: Node::Form(form) };
        }
        let args = vec![self.expr(&ty, depth), self.expr(&ty, depth)];
        let text = match (int.bits, int.signed) {
            (8..=64, false) => {
                let wide = Int::new(int.bits * 2, false).name();
                format!("(($a0 as {wide} * $a1 as {wide}) >> {}) as {}", int.bits, int.name())
            }
            (8..=64, true) => {
                let wide = Int::new(int.bits * 2, true).name();
                format!("(($a0 as {wide} * $a1 as {wide}) >> {}) as {}", int.bits / 2, int.name())
            }
            _ => "$a0.wrapping_mul($a1 | 1)".to_owned(),
        };
        Expr::form(ty, text, args)
    }

    /// A visible array of at least `least` bytes, and its length.
    pub(super) fn byte_array(&mut self, least: usize, writes: bool) -> Option<(Place, usize)> {
        let lens: Vec<usize> = self
            .palette
            .iter()
            .filter_map(|ty| match ty {
                Ty::Array(element, len) if **element == Ty::unsigned(8) && *len >= least => Some(*len),
                _ => None,
            })
            .collect();
        let len = *lens.get(self.random.below(lens.len().max(1)))?;
        self.place(&Ty::array(Ty::unsigned(8), len), writes, 0).map(|place| (place, len))
    }

    /// An entry of a table.
    fn of_table(&mut self, int: Int, depth: usize) -> Expr {
        let ty = Ty::Int(int);
        let knows = !self.elsewhere || self.program.types_elsewhere;
        let tables = &self.program.statics;
        let found =
            tables.iter().position(|table| knows && table.first().is_some_and(|first| first.ty == ty));
        match found {
            Some(number) => {
                let len = tables[number].len();
                let index = self.expr(&USIZE, depth);
                Expr::form(ty, format!("T{number}[$a0 % {len}]"), vec![index])
            }
            None => self.leaf(&ty),
        }
    }

    /// A boolean.
    pub(super) fn boolean(&mut self, depth: usize) -> Expr {
        let form = |text: &str, args| Expr::form(Ty::Bool, text, args);
        match self.random.weighted(&[30, 12, 8, 14, 6, 5]) {
            0 => {
                let ty = self.scalar_ty();
                let args = vec![self.expr(&ty, depth), self.expr(&ty, depth)];
                let compare = ["==", "!=", "<", "<=", ">", ">="][self.random.below(6)];
                form(&format!("$a0 {compare} $a1"), args)
            }
            1 => {
                let text = ["$a0 && $a1", "$a0 || $a1", "$a0 ^ $a1", "$a0 & !$a1"][self.random.below(4)];
                let args = vec![self.expr(&Ty::Bool, depth), self.expr(&Ty::Bool, depth)];
                form(text, args)
            }
            2 => {
                let ty = self.some_int();
                let texts = [
                    "($a0 & $a1) == 0",
                    "$a0.checked_add($a1).is_none()",
                    "$a0.overflowing_mul($a1).1",
                    "$a0.checked_sub($a1).is_some_and(|x| x > $a0)",
                    "($a0.min($a1)..=$a1).contains(&$a0)",
                    "$a0.wrapping_sub($a1) > $a0",
                ];
                let args = vec![self.expr(&ty, depth), self.expr(&ty, depth)];
                form(texts[self.random.below(texts.len())], args)
            }
            3 => {
                let ty = self.palette_ty();
                self.compared(&ty, depth)
            }
            4 => self.over_array(depth),
            _ => {
                let args = vec![self.expr(&Ty::Char, depth)];
                let test = [
                    "is_alphanumeric",
                    "is_ascii_digit",
                    "is_uppercase",
                    "is_ascii_punctuation",
                    "is_whitespace",
                ];
                form(&format!("$a0.{}()", test[self.random.below(test.len())]), args)
            }
        }
    }

    /// A character.
    pub(super) fn character(&mut self, depth: usize) -> Expr {
        let args = vec![self.expr(&Ty::unsigned(32), depth), self.expr(&Ty::Char, depth)];
        let texts = [
            "char::from_u32($a0).unwrap_or($a1)",
            "char::from_u32($a0 % 0x3000).unwrap_or($a1)",
            "(b'a' + ($a0 % 26) as u8) as char",
            "$a1.to_ascii_uppercase()",
            "char::from_digit($a0 % 40, 36).unwrap_or($a1)",
            "if $a1.is_ascii() { 'x' } else { $a1 }",
            "$a1.max('0')",
        ];
        Expr::form(Ty::Char, texts[self.random.below(texts.len())], args)
    }
}
