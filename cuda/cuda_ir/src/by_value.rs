//! Structs that kernels take by value.
//!
//! rustc passes them as arrays of integers as wide as the struct's alignment, `[8 x i64]`. LLVM's passes then cut the
//! integers up: two `f32` of one `i64` cost a shift and the registers of both. As `byval`, which clang writes for CUDA C++,
//! each field is loaded by itself.

use core::ops::Range;

use super::IrError;
use super::lex::{Kind, Token, lex, split_at_commas};
use super::module::{FunctionHeader, Module};

/// Makes each such parameter a pointer to memory of its own, where the kernel does nothing but store it.
pub(super) fn point_to(module: &mut Module) -> Result<(), IrError> {
    const COPY: &str = "@llvm.memcpy.p0.p0.i64";
    let mut is_copied = false;
    for item in module.items.iter_mut().filter(|item| item.is_kernel()) {
        // The last first, so that the places of the others stay what they are.
        for array in arrays(item.header())?.into_iter().rev() {
            let Array { name, ty, place: parameter, bytes, align } = &array;
            let uses = item.text.lines().skip(1).filter(|line| lex(line).iter().any(|t| t.text == name));
            let uses: Vec<&str> = uses.collect();
            let start = format!("store {ty} {name}, ptr ");
            let [line] = uses[..] else { continue };
            let Some(place) = line.trim_start().strip_prefix(&start).map(lex) else { continue };
            let Some(to) = place.first().filter(|token| token.kind == Kind::Local) else { continue };
            let copy = format!(
                "  call void {COPY}(ptr {}, ptr align {align} {name}, i64 {bytes}, i1 false)",
                to.text
            );
            item.text = item.text.replacen(line, &copy, 1);
            item.text.replace_range(parameter.clone(), &format!("ptr byval({ty}) align {align} {name}"));
            is_copied = true;
        }
    }
    if is_copied && !module.items.iter().any(|item| item.symbol() == Some(COPY)) {
        module.push(format!("declare void {COPY}(ptr, ptr, i64, i1)"))?;
    }
    Ok(())
}

/// A parameter `[N x iBITS] %name`.
struct Array {
    name: String,
    ty: String,
    /// Where it stands in the header.
    place: Range<usize>,
    bytes: u64,
    align: u64,
}

fn arrays(header: &str) -> Result<Vec<Array>, IrError> {
    let parsed = FunctionHeader::parse(header)?;
    let inner = &parsed.tokens[parsed.name + 2..parsed.close];
    Ok(split_at_commas(inner).into_iter().filter_map(|part| array(&inner[part], header)).collect())
}

fn array(parameter: &[Token<'_>], header: &str) -> Option<Array> {
    let [open, len, by, element, close, name] = parameter else { return None };
    let is_array = open.is("[") && by.is("x") && close.is("]") && name.kind == Kind::Local;
    let bits: u64 = element.text.strip_prefix('i').filter(|_| is_array)?.parse().ok()?;
    let align = bits / 8;
    let bytes = len.text.parse::<u64>().ok()?.checked_mul(align)?;
    let ty = header[open.start..close.end()].to_owned();
    let place = open.start..name.end();
    bits.is_multiple_of(8).then(|| Array { name: name.text.to_owned(), ty, place, bytes, align })
}
