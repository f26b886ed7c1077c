//! Adapts a module to libNVVM: its data layout, the version of NVVM IR, no processor from rustc.

use std::collections::HashSet;

use super::IrError;
use super::lex::{Kind, lex, tokens, with_replaced};
use super::module::Module;

/// The data layout of NVVM IR; rustc's is rejected as incompatible.
pub const DATA_LAYOUT: &str = "e-p:64:64:64-p6:32:32:32-i1:8:8-i8:8:8-i16:16:16-i32:32:32-i64:64:64-i128:128:128-\
                           f32:32:32-f64:64:64-f128:128:128-v16:16:16-v32:32:32-v64:64:64-v128:128:128-\
                           n16:32:64-a:8:8";
/// NVVM IR 2.0 with debug metadata 3.2.
pub const IR_VERSION: &str = "{i32 2, i32 0, i32 3, i32 2}";

/// Replaces the data layout, adds the IR version, and removes the processor from the attribute groups: libNVVM's `-arch`
/// sets it, and functions with another processor than libdevice's would not be inlined into each other. An empty group is
/// removed with every mention of it, because libNVVM does not parse one. The source locations of inline assembly are
/// removed, too, because they change with every earlier edit.
pub(super) fn adapt(module: &mut Module) -> Result<(), IrError> {
    let layout = module.items.iter_mut().find(|item| item.text.starts_with("target datalayout"));
    let layout = layout.ok_or_else(|| IrError::new("target", "module", "the module has no data layout"))?;
    layout.text = format!("target datalayout = \"{DATA_LAYOUT}\"");
    for item in module.items.iter_mut().filter(|item| item.text.starts_with("attributes #")) {
        item.text = without_processor(&item.text);
    }
    drop_empty_groups(module);
    for item in module.items.iter_mut().filter(|item| item.text.contains("!srcloc")) {
        item.text = without_places(&item.text);
    }
    let nodes = module.items.iter().filter(|item| item.text.starts_with('!'));
    let numbers = nodes.flat_map(|item| tokens(&item.text).filter(|t| t.kind == Kind::Metadata));
    let highest = numbers.filter_map(|t| t.text[1..].parse::<u64>().ok()).max();
    let free = highest.map_or(0, |n| n + 1);
    module.push(format!("!nvvmir.version = !{{!{free}}}\n!{free} = !{IR_VERSION}"))
}

fn drop_empty_groups(module: &mut Module) {
    let empty: HashSet<String> =
        module.items.iter().filter_map(|item| empty_group(&item.text)).map(str::to_owned).collect();
    if empty.is_empty() {
        return;
    }
    module.items.retain(|item| empty_group(&item.text).is_none());
    for item in &mut module.items {
        item.text = without_groups(&item.text, &empty);
    }
}

/// The group that `attributes #7 = { }` defines.
fn empty_group(text: &str) -> Option<&str> {
    if !text.starts_with("attributes #") {
        return None;
    }
    match lex(text).as_slice() {
        [_, group, equals, open, close] if equals.is("=") && open.is("{") && close.is("}") => {
            Some(group.text)
        }
        _ => None,
    }
}

fn without_groups(text: &str, groups: &HashSet<String>) -> String {
    let mentions = tokens(text).filter(|t| t.kind == Kind::Group && groups.contains(t.text));
    let space_at = |start: usize| text[..start].trim_end_matches(' ').len();
    with_replaced(text, mentions.map(|token| (space_at(token.start)..token.end(), "".into())))
}

/// A function's text without `, !srcloc !7`.
fn without_places(text: &str) -> String {
    let tokens = lex(text);
    let places = tokens.windows(3).filter(|at| at[0].is(",") && at[1].text == "!srcloc");
    with_replaced(text, places.map(|at| (at[0].start..at[2].end(), "".into())))
}

/// The attribute group without `"target-cpu"="..."` and `"target-features"="..."`.
fn without_processor(text: &str) -> String {
    let group = lex(text);
    let mut end = 0;
    let named = group.windows(3).filter(|at| {
        // A removed attribute's value may look like a name itself.
        let is_found = at[0].start >= end
            && at[1].is("=")
            && matches!(at[0].text, "\"target-cpu\"" | "\"target-features\"");
        end = if is_found { at[2].end() } else { end };
        is_found
    });
    let space_at = |start: usize| text[..start].trim_end().len();
    with_replaced(text, named.map(|at| (space_at(at[0].start)..at[2].end(), "".into())))
}
