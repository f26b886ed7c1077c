//! Has what writes and reads floats as decimal digits compiled for size.
//!
//! `core` computes them with integers of 1280 bits, 40 words in an array. Loops over these are unrolled at every use
//! otherwise, which libNVVM and ptxas need minutes for.

use super::IrError;
use super::module::{FunctionHeader, ItemKind, Module};
use super::path_of;

/// The modules, and how a mangled symbol names them, which is looked for first.
const MODULES: [(&str, &str); 4] = [
    ("core::num::bignum::", "3num6bignum"),
    ("core::num::flt2dec::", "3num7flt2dec"),
    ("core::num::dec2flt::", "3num7dec2flt"),
    ("core::fmt::float::", "3fmt5float"),
];

/// What is also not inlined, since libNVVM unrolls for size too: the long arithmetic, and what is built of it. Inlined into each
/// other they were 280,000 lines of PTX for one `f32`; called, 12,000 for all of formatting.
const CALLED: [&str; 3] =
    ["<core::num::bignum::Big32x40", "core::num::flt2dec::strategy::", "<core::num::dec2flt::decimal_seq::"];

/// Marks the functions of these modules, and the generic ones that were made for them.
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
