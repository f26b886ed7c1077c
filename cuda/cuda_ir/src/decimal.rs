//! Compiles the functions that format and parse decimal floats for size.
//!
//! `core` computes them with 1280-bit integers, 40 words in an array. Otherwise loops over these are unrolled at every use,
//! which takes libNVVM and ptxas minutes.

use super::IrError;
use super::module::{FunctionHeader, ItemKind, Module};
use super::path_of;

/// The modules, and their mangled names, which are searched first.
const MODULES: [(&str, &str); 4] = [
    ("core::num::bignum::", "3num6bignum"),
    ("core::num::flt2dec::", "3num7flt2dec"),
    ("core::num::dec2flt::", "3num7dec2flt"),
    ("core::fmt::float::", "3fmt5float"),
];

/// These are not inlined either, because libNVVM also unrolls for size: the long arithmetic and its users. Inlined into each
/// other they were 280,000 lines of PTX for one `f32`; as calls, 12,000 for all of formatting.
const CALLED: [&str; 3] =
    ["<core::num::bignum::Big32x40", "core::num::flt2dec::strategy::", "<core::num::dec2flt::decimal_seq::"];

/// Marks the functions of these modules, and generic functions instantiated for them.
pub(super) fn shrink(module: &mut Module) -> Result<(), IrError> {
    for item in &mut module.items {
        let ItemKind::Function(symbol) = &item.kind else { continue };
        let is_of = |(path, mangled): &(&str, &str)| {
            symbol.contains(mangled) && path_of(symbol).is_some_and(|found| found.contains(path))
        };
        if MODULES.iter().any(is_of) {
            let is_part =
                path_of(symbol).is_some_and(|path| CALLED.iter().any(|part| path.starts_with(part)));
            let at = FunctionHeader::parse(item.header())?.attributes_at();
            item.text.insert_str(at, if is_part { " noinline minsize optsize" } else { " minsize optsize" });
        }
    }
    Ok(())
}
