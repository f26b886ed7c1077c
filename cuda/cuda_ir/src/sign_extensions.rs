//! Hides sign-extended indices from a pass of the back ends that computes with their sources.
//!
//! LLVM's pass "straight-line strength reduction" (`slsr`), in LLVM 22.1.2 and libNVVM 13.5.37 at `-opt=1` to 3, assumes
//! that `gep p, (sext a)` and `gep p, (sext b)` are a multiple of `a - b` apart, and computes that in the type of `a` and
//! `b`. This only holds if `a - b` does not wrap there, which nothing guarantees (llvm/llvm-project#204278, "Fix slsr gep
//! stride delta miscompile"). A boolean and its negation are always 1 apart in `i1`, so `sext(!lt)` became `sext(lt) - 1`,
//! which is wrong where `lt` is false: every sort of more than 20 elements panicked. The same applies to `i8`, `i16` and
//! `i32` if an index wraps.
//!
//! So the extended value is copied, by an instruction that the pass does not understand. The pass compares no other
//! extensions, and `instcombine`, which runs before this edit, has converted all other forms of an extension to this one.

use super::divisors;
use super::lex::{Kind, Token, tokens};

/// Adds a copy after each sign extension to the width of an address.
pub fn hide(text: &str) -> String {
    let mut edited = String::with_capacity(text.len() + text.len() / 64);
    let mut copies = 0;
    for line in text.split_inclusive('\n') {
        let result = if line.contains(" = sext ") { extended(line) } else { None };
        if let Some(result) = result {
            copies += 1;
            // No name in the source has a space.
            let name = format!("%\"extended {copies}\"");
            edited.push_str(&line[..result.start]);
            edited.push_str(&name);
            edited.push_str(&line[result.end()..]);
            divisors::copy(&mut edited, result.text, &name, 64);
        } else {
            edited.push_str(line);
        }
    }
    edited
}

/// `%wide = sext i1 %narrow to i64`: the name of the result.
fn extended(line: &str) -> Option<Token<'_>> {
    let mut words = tokens(line);
    let result = words.next().filter(|token| token.kind == Kind::Local)?;
    let (equals, sext, kind) = (words.next()?, words.next()?, words.next()?);
    let (_, to, wide) = (words.next()?, words.next()?, words.next()?);
    let is_scalar = equals.is("=") && sext.is("sext") && kind.text.starts_with('i');
    (is_scalar && to.is("to") && wide.is("i64")).then_some(result)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extensions_to_64_bits_are_copied() {
        let text = "define void @f(i1 %lt, i32 %n) {
  %1 = sext i1 %lt to i64, !dbg !7
  %\"a b\" = sext i32 %n to i64
  %kept = sext i1 %lt to i32
  %vector = sext <2 x i32> %v to <2 x i64>
  %other = zext i32 %n to i64
  store i64 1, ptr %sext ; = sext i1 %lt to i64
}
";
        assert_eq!(
            hide(text),
            "define void @f(i1 %lt, i32 %n) {
  %\"extended 1\" = sext i1 %lt to i64, !dbg !7
  %1 = call i64 asm \"mov.b64 $0, $1;\", \"=l,l\"(i64 %\"extended 1\") nounwind willreturn memory(none)
  %\"extended 2\" = sext i32 %n to i64
  %\"a b\" = call i64 asm \"mov.b64 $0, $1;\", \"=l,l\"(i64 %\"extended 2\") nounwind willreturn memory(none)
  %kept = sext i1 %lt to i32
  %vector = sext <2 x i32> %v to <2 x i64>
  %other = zext i32 %n to i64
  store i64 1, ptr %sext ; = sext i1 %lt to i64
}
"
        );
    }
}
