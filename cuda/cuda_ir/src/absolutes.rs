//! Absolute values of integers of 16 bits and fewer, for LLVM's own back end.
//!
//! Of -32768 in 16 bits, `llvm.abs` is -32768 (LLVM Language Reference, "llvm.abs Intrinsic"). LLVM's back end emits `abs.s16`,
//! of which ptxas 13.0.88 makes an operation of 32 bits with the result 32768, and a shift that follows does not extend the
//! sign again: `-32768_i16.wrapping_abs() >> 4` gave 2048. So the larger of the number and its negation is asked for, as
//! libNVVM does. No kernel of `gpu-kernels` takes such an absolute value.

use super::lex::{Kind, closing, lex, split_at_commas};

const INTRINSIC: &str = "@llvm.abs.";

/// The text, after LLVM's passes, which would make `llvm.abs` of it again.
pub fn spell_out(text: &str) -> String {
    let mut edited = String::with_capacity(text.len() + text.len() / 64);
    let mut count = 0;
    let mut types: Vec<(&str, &str)> = Vec::new();
    for line in text.split_inclusive('\n') {
        match line.contains(INTRINSIC).then(|| Absolute::read(line)).flatten() {
            Some(absolute) => {
                count += 1;
                absolute.write(&mut edited, count);
                if !types.contains(&(absolute.suffix, absolute.ty)) {
                    types.push((absolute.suffix, absolute.ty));
                }
            }
            None => edited.push_str(line),
        }
    }
    for (suffix, ty) in types {
        let start = format!("declare {ty} @llvm.smax.{suffix}(");
        if !text.contains(&start) {
            edited.push_str(&format!("\n{start}{ty}, {ty})\n"));
        }
    }
    edited
}

/// `%r = call TYPE @llvm.abs.SUFFIX(TYPE VALUE, i1 FLAG)`.
struct Absolute<'a> {
    result: &'a str,
    ty: &'a str,
    suffix: &'a str,
    value: &'a str,
    /// What follows the arguments: attributes, metadata and the end of the line.
    rest: &'a str,
}

impl<'a> Absolute<'a> {
    fn read(line: &'a str) -> Option<Absolute<'a>> {
        let tokens = lex(line);
        let result = tokens.first().filter(|token| token.kind == Kind::Local)?;
        let callee = tokens.iter().position(|token| token.text.starts_with(INTRINSIC))?;
        let suffix = tokens[callee].text.strip_prefix(INTRINSIC)?;
        if !["i8", "i16"].iter().any(|narrow| suffix.ends_with(narrow)) {
            return None;
        }
        let close = closing(&tokens, callee + 1)?;
        let arguments = &tokens[callee + 2..close];
        let first = &arguments[split_at_commas(arguments).first()?.clone()];
        // The type is a word or a vector; attributes such as `noundef` follow it, and the value is last.
        let type_end = if first.first()?.is("<") { closing(first, 0)? } else { 0 };
        let ty = &line[first[0].start..first[type_end].end()];
        let value_at = first.iter().position(|token| token.kind == Kind::Local)?;
        let (value, rest) = (first[value_at].text, &line[tokens[close].end()..]);
        Some(Absolute { result: result.text, ty, suffix, value, rest })
    }

    fn write(&self, edited: &mut String, number: usize) {
        let Absolute { result, ty, suffix, value, rest } = self;
        let zero = if ty.starts_with('<') { "zeroinitializer" } else { "0" };
        // No name of the source has a space.
        let negated = format!("%\"negated {number}\"");
        *edited += &format!(
            "  {negated} = sub {ty} {zero}, {value}\n  \
               {result} = call {ty} @llvm.smax.{suffix}({ty} {value}, {ty} {negated}){rest}"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn narrow_absolutes_are_maxima_and_wide_ones_stay() {
        let text = "  %a = tail call noundef i16 @llvm.abs.i16(i16 %x, i1 false), !dbg !7
  %b = call <2 x i8> @llvm.abs.v2i8(<2 x i8> noundef %v, i1 true) #3
  %c = call i32 @llvm.abs.i32(i32 %x, i1 false)
  %d = call i16 @llvm.abs.i16(i16 %a, i1 false)
declare i16 @llvm.abs.i16(i16, i1 immarg)
";
        assert_eq!(
            spell_out(text),
            "  %\"negated 1\" = sub i16 0, %x
  %a = call i16 @llvm.smax.i16(i16 %x, i16 %\"negated 1\"), !dbg !7
  %\"negated 2\" = sub <2 x i8> zeroinitializer, %v
  %b = call <2 x i8> @llvm.smax.v2i8(<2 x i8> %v, <2 x i8> %\"negated 2\") #3
  %c = call i32 @llvm.abs.i32(i32 %x, i1 false)
  %\"negated 3\" = sub i16 0, %a
  %d = call i16 @llvm.smax.i16(i16 %a, i16 %\"negated 3\")
declare i16 @llvm.abs.i16(i16, i1 immarg)

declare i16 @llvm.smax.i16(i16, i16)

declare <2 x i8> @llvm.smax.v2i8(<2 x i8>, <2 x i8>)
"
        );
    }

    #[test]
    fn a_maximum_is_declared_once() {
        let text = "  %a = call i8 @llvm.abs.i8(i8 %x, i1 false)\ndeclare i8 @llvm.smax.i8(i8, i8)\n";
        assert_eq!(spell_out(text).matches("declare").count(), 1);
    }
}
