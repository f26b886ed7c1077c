//! Hides from libNVVM that a divisor was compared with zero.
//!
//! A GPU does not trap on a division by zero, and libNVVM 13.5.37 moves divisions ahead of the check for zero. It then
//! simplifies `if n == 0 { 0 } else { x % n }` to `x % n`. That would be right if the moved division were undefined for 0
//! (LLVM Language Reference, "urem Instruction"), but the result is the GPU's value of `x % 0`. This holds for `-opt=1` to
//! `-opt=3`, and for quotients too. So the divisor becomes a copy of the compared value. The copying instruction is opaque
//! to libNVVM, but not to ptxas.

use std::collections::HashMap;

use super::lex::{Kind, Token, tokens};

const DIVISIONS: [&str; 4] = ["udiv", "sdiv", "urem", "srem"];

/// Copies the divisor before each division of integers by a value that is not a constant.
pub fn hide(text: &str) -> String {
    let mut edited = String::with_capacity(text.len() + text.len() / 64);
    let mut copies = 0;
    // Values that were extended, with their bits before.
    let mut extended: HashMap<&str, u32> = HashMap::new();
    for line in text.split_inclusive('\n') {
        if line.starts_with("define ") {
            extended.clear();
        }
        // A quick search before the line is split into tokens, which is slow.
        if line.contains(" = zext ") {
            extended.extend(extension(line));
        } else if DIVISIONS.iter().any(|name| line.contains(name))
            && let Some(division) = Division::read(line)
        {
            copies += 1;
            let known = extended.get(division.divisor).copied().filter(|&known| known < division.bits);
            let copy = division.write_copy(&mut edited, copies, known);
            edited.push_str(&line[..division.at]);
            edited.push_str(&copy);
            edited.push_str(&line[division.at + division.divisor.len()..]);
            continue;
        }
        edited.push_str(line);
    }
    edited
}

/// `%wide = zext i32 %narrow to i64`: the value, and the bits of its operand.
fn extension(line: &str) -> Option<(&str, u32)> {
    let mut words = tokens(line);
    let name = words.next().filter(is_value)?.text;
    let (equals, zext) = (words.next()?, words.next()?);
    let kind = words.find(|token| !token.is("nneg"))?;
    (equals.is("=") && zext.is("zext")).then_some((name, bits(&kind)?))
}

/// A division in a line of a function.
struct Division<'a> {
    bits: u32,
    divisor: &'a str,
    /// The offset of the divisor in the line.
    at: usize,
}

impl<'a> Division<'a> {
    /// The division on the line, if its divisor is a value of a type that fits one or two registers.
    fn read(line: &'a str) -> Option<Division<'a>> {
        let mut words = tokens(line);
        words.next().filter(is_value)?;
        words.next().filter(|token| token.is("="))?;
        words.next().filter(|token| DIVISIONS.contains(&token.text))?;
        let kind = words.find(|token| !token.is("exact"))?;
        let bits = bits(&kind).filter(|&bits| bits <= 64 || bits == 128)?;
        words.find(|token| token.is(","))?;
        let divisor = words.next().filter(is_value)?;
        Some(Division { bits, divisor: divisor.text, at: divisor.start })
    }

    /// Writes the copy, whose bits from `known` upwards are zero, and returns its name. It uses the divisor once, like the
    /// division: the text may list each use in a use-list order.
    fn write_copy(&self, edited: &mut String, number: usize, known: Option<u32>) -> String {
        // No name in the source has a space.
        let name = |what: &str| format!("%\"{what} {number}\"");
        let (bits, divisor, result) = (self.bits, self.divisor, name("divisor"));
        match (bits, known) {
            (16 | 32 | 64, None) => copy(edited, &result, divisor, bits),
            (16 | 32 | 64, Some(known)) => {
                let whole = name("whole divisor");
                copy(edited, &whole, divisor, bits);
                line(edited, &result, &format!("and i{bits} {whole}, {}", (1_u64 << known) - 1));
            }
            (128, _) => {
                let [halves, low, high, with_low, with_both] =
                    ["halves", "low", "high", "with low", "with both"]
                        .map(|what| name(&format!("{what} of divisor")));
                line(edited, &halves, &format!("bitcast i128 {divisor} to <2 x i64>"));
                let mut made = "poison".to_owned();
                for (lane, (half, with)) in [(low, with_low), (high, with_both)].into_iter().enumerate() {
                    let copied = half.replacen("%\"", "%\"copy of ", 1);
                    line(edited, &half, &format!("extractelement <2 x i64> {halves}, i32 {lane}"));
                    copy(edited, &copied, &half, 64);
                    line(edited, &with, &format!("insertelement <2 x i64> {made}, i64 {copied}, i32 {lane}"));
                    made = with;
                }
                line(edited, &result, &format!("bitcast <2 x i64> {made} to i128"));
            }
            _ => {
                let register = [16, 32, 64].into_iter().find(|&register| bits < register).unwrap_or(64);
                let [wide, whole] = ["wide divisor", "whole divisor"].map(name);
                line(edited, &wide, &format!("zext i{bits} {divisor} to i{register}"));
                copy(edited, &whole, &wide, register);
                line(edited, &result, &format!("trunc i{register} {whole} to i{bits}"));
            }
        }
        result
    }
}

/// Writes a copy of a value of 16, 32 or 64 bits, with an instruction that no compiler pass understands.
pub(super) fn copy(edited: &mut String, name: &str, value: &str, bits: u32) {
    let register = match bits {
        16 => 'h',
        32 => 'r',
        _ => 'l',
    };
    let assembly = format!("asm \"mov.b{bits} $0, $1;\", \"={register},{register}\"");
    line(edited, name, &format!("call i{bits} {assembly}(i{bits} {value}) nounwind willreturn memory(none)"));
}

fn line(edited: &mut String, name: &str, code: &str) {
    for part in ["  ", name, " = ", code, "\n"] {
        edited.push_str(part);
    }
}

fn is_value(token: &Token<'_>) -> bool {
    token.kind == Kind::Local
}

/// The bits of the type `i32`.
fn bits(kind: &Token<'_>) -> Option<u32> {
    kind.text.strip_prefix('i')?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn divisors_that_are_values_are_copied() {
        let text = "define void @f(i64 %x, i64 %\"a b\", i32 %n) {
  %q = udiv i64 %x, %\"a b\", !dbg !7
  %r = srem exact i32 7, %n
  %by_constant = urem i64 %x, 3
  %by_others = udiv <2 x i64> %v, %w
  %wide = zext nneg i32 %n to i64
  %s = urem i64 %x, %wide
}
define void @g(i64 %x, i64 %wide) {
  %s = urem i64 %x, %wide
}
";
        assert_eq!(
            hide(text),
            "define void @f(i64 %x, i64 %\"a b\", i32 %n) {
  %\"divisor 1\" = call i64 asm \"mov.b64 $0, $1;\", \"=l,l\"(i64 %\"a b\") nounwind willreturn memory(none)
  %q = udiv i64 %x, %\"divisor 1\", !dbg !7
  %\"divisor 2\" = call i32 asm \"mov.b32 $0, $1;\", \"=r,r\"(i32 %n) nounwind willreturn memory(none)
  %r = srem exact i32 7, %\"divisor 2\"
  %by_constant = urem i64 %x, 3
  %by_others = udiv <2 x i64> %v, %w
  %wide = zext nneg i32 %n to i64
  %\"whole divisor 3\" = call i64 asm \"mov.b64 $0, $1;\", \"=l,l\"(i64 %wide) nounwind willreturn memory(none)
  %\"divisor 3\" = and i64 %\"whole divisor 3\", 4294967295
  %s = urem i64 %x, %\"divisor 3\"
}
define void @g(i64 %x, i64 %wide) {
  %\"divisor 4\" = call i64 asm \"mov.b64 $0, $1;\", \"=l,l\"(i64 %wide) nounwind willreturn memory(none)
  %s = urem i64 %x, %\"divisor 4\"
}
"
        );
    }

    #[test]
    fn divisors_that_fit_no_register_are_copied_in_one_that_is_wider_or_in_two() {
        let narrow = hide("  %r = sdiv i8 %x, %n\n");
        let wide = "  %\"wide divisor 1\" = zext i8 %n to i16\n";
        assert!(narrow.starts_with(wide) && narrow.contains("(i16 %\"wide divisor 1\")"), "{narrow}");
        assert!(narrow.ends_with("to i8\n  %r = sdiv i8 %x, %\"divisor 1\"\n"), "{narrow}");
        let long = hide("  %r = udiv i128 %x, %n\n");
        assert_eq!(long.matches("mov.b64").count(), 2, "{long}");
        assert!(long.ends_with("  %r = udiv i128 %x, %\"divisor 1\"\n"), "{long}");
        for kept in ["  %r = udiv i256 %x, %n\n", "  store i64 1, ptr %udiv\n", "; %r = udiv i64 %x, %n\n"] {
            assert_eq!(hide(kept), kept);
        }
    }
}
