//! Structs that kernels take by value.
//!
//! rustc passes them as arrays of integers as wide as the struct's alignment, `[8 x i64]`. LLVM's passes then split the
//! integers: two `f32` in one `i64` cost a shift and the registers of both. With `byval`, which clang writes for CUDA C++,
//! each field is loaded separately.
//!
//! rustc rejects structs with an alignment of more than 16 bytes. For these `#[kernel]` declares a pointer and emits a
//! static with their layout, and the pointer becomes `byval` too. The kernel only reads it, so it is a `grid_constant`: its
//! address can be used without a copy in local memory.

use core::ops::Range;

use super::families::text_in;
use super::lex::{Kind, Token, lex, split_at_commas};
use super::module::{FunctionHeader, ItemKind, Module};
use super::{IrError, plain};

/// The prefix of those statics' names.
const LAYOUT: &str = "__ferrowarp_layout_";

/// A parameter that is a pointer for rustc.
pub(super) struct OverAligned {
    /// The kernel, with its `@`.
    kernel: String,
    /// The parameter, with its `%`.
    name: String,
    bytes: u64,
    align: u64,
}

/// Removes those statics from the module and returns their parameters.
pub(super) fn take(module: &mut Module) -> Vec<OverAligned> {
    let mut found = Vec::new();
    module.items.retain(|item| {
        let ItemKind::Variable(symbol) = &item.kind else { return true };
        let Some(rest) = plain(symbol).strip_prefix(LAYOUT) else { return true };
        found.extend(over_aligned(rest, &item.text));
        false
    });
    found
}

/// The parameter described by `0_of_KERNEL` and the static's text; `None` if rustc passes it by value.
fn over_aligned(symbol: &str, text: &str) -> Option<OverAligned> {
    let (_, kernel) = symbol.split_once("_of_")?;
    let row = text_in(text)?;
    let number = |range: Range<usize>| row.get(range).and_then(|digits| digits.parse::<u64>().ok());
    let (bytes, align) = (number(0..8)?, number(8..16)?);
    let name = format!("%{}", row.get(16..)?);
    (bytes > 0).then(|| OverAligned { kernel: format!("@{kernel}"), name, bytes, align })
}

/// Turns each of `parameters` from a pointer into the memory behind it.
pub(super) fn place(module: &mut Module, parameters: &[OverAligned]) -> Result<(), IrError> {
    for OverAligned { kernel, name, bytes, align } in parameters {
        // The kernel may have been removed.
        let Some(item) = module.function_mut(kernel) else { continue };
        let parsed = FunctionHeader::parse(item.header())?;
        let inner = &parsed.tokens[parsed.name + 2..parsed.close];
        let is_named = |part: &Range<usize>| inner[part.clone()].last().is_some_and(|last| last.text == name);
        let part =
            split_at_commas(inner).into_iter().find(is_named).filter(|part| inner[part.start].is("ptr"));
        let part = part.ok_or_else(|| {
            let reason = format!("its parameter {name}, which is passed by value, is no pointer");
            IrError::new("by_value", kernel, reason)
        })?;
        let place = inner[part.start].start..inner[part.end - 1].end();
        let attributes = format!("byval([{bytes} x i8]) align {align} \"nvvm.grid_constant\"");
        item.text.replace_range(place, &format!("ptr noalias readonly {attributes} {name}"));
    }
    Ok(())
}

/// Turns each array parameter that the kernel only stores into a pointer to memory of its own.
pub(super) fn point_to(module: &mut Module) -> Result<(), IrError> {
    const COPY: &str = "@llvm.memcpy.p0.p0.i64";
    let mut is_copied = false;
    for item in module.items.iter_mut().filter(|item| item.is_kernel()) {
        // Last first, so that the positions of the others stay valid.
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
    /// Its range in the header.
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
