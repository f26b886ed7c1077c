//! What libNVVM wants of a module as a whole: its data layout, the version of NVVM IR, no processor of rustc's.

use super::IrError;
use super::lex::{Kind, lex, tokens};
use super::module::Module;

/// The data layout of NVVM IR; rustc's is refused as incompatible.
pub(crate) const DATA_LAYOUT: &str = "e-p:64:64:64-p6:32:32:32-i1:8:8-i8:8:8-i16:16:16-i32:32:32-i64:64:64-i128:128:128-\
                           f32:32:32-f64:64:64-f128:128:128-v16:16:16-v32:32:32-v64:64:64-v128:128:128-\
                           n16:32:64-a:8:8";
/// NVVM IR 2.0 with debug metadata 3.2.
pub(crate) const IR_VERSION: &str = "{i32 2, i32 0, i32 3, i32 2}";

/// Replaces the data layout, names the IR version, and takes the processor from the attribute groups: it is libNVVM's
/// `-arch` that decides, and functions with another processor than libdevice's would not be inlined into each other.
pub(super) fn adapt(module: &mut Module) -> Result<(), IrError> {
    let layout = module.items.iter_mut().find(|item| item.text.starts_with("target datalayout"));
    let layout = layout.ok_or_else(|| IrError::new("target", "module", "the module has no data layout"))?;
    layout.text = format!("target datalayout = \"{DATA_LAYOUT}\"");
    for item in module.items.iter_mut().filter(|item| item.text.starts_with("attributes #")) {
        item.text = without_processor(&item.text);
    }
    let numbers =
        module.items.iter().flat_map(|item| tokens(&item.text).filter(|t| t.kind == Kind::Metadata));
    let highest = numbers.filter_map(|t| t.text[1..].parse::<u64>().ok()).max();
    let free = highest.map_or(0, |n| n + 1);
    module.push(format!("!nvvmir.version = !{{!{free}}}\n!{free} = !{IR_VERSION}"))
}

/// The attribute group without `"target-cpu"="..."` and `"target-features"="..."`.
fn without_processor(text: &str) -> String {
    let group = lex(text);
    let mut out = String::with_capacity(text.len());
    let mut copied = 0;
    for (i, token) in group.iter().enumerate() {
        let valued = group.get(i + 1).is_some_and(|t| t.is("="));
        // A value may read as a name itself; it went with its own name.
        if valued && token.start >= copied && matches!(token.text, "\"target-cpu\"" | "\"target-features\"") {
            out.push_str(text[copied..token.start].trim_end());
            copied = group.get(i + 2).map_or(text.len(), |value| value.end());
        }
    }
    out.push_str(&text[copied..]);
    out
}
