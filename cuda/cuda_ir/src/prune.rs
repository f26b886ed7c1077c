//! Removes everything that no kernel reaches, and makes everything internal except kernels and functions marked as visible.
//!
//! The module holds all of `core`, unoptimised. Reachability follows every mention of a symbol, with one exception. A
//! function that takes a `core::fmt::Formatter` can only run if a Formatter exists, and only `core::fmt::write` creates one.
//! So if `core::fmt::write` is only reached by such functions, a mention of one of them outside a call (in the arguments of
//! a message, in a vtable) can never be called, and becomes null.

use std::collections::{HashMap, HashSet};

use super::IrError;
use super::lex::{Kind, Token, lex, symbols_in, tokens, with_replaced};
use super::module::{ItemKind, Module};
use super::path_of;

const FORMATTING_TRAITS: &[&str] =
    &["Display", "Debug", "LowerHex", "UpperHex", "Octal", "Binary", "LowerExp", "UpperExp", "Pointer"];

/// The section that `#[externally_visible]` puts a function in.
const VISIBLE: &str = " section \".ferrowarp.visible\"";

/// Whether mentions of formatting functions outside calls count.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Formatters {
    Follow,
    Ignore,
}

/// Keeps the kernels, the statics in `llvm.used`, everything that these reach, and items without a symbol.
pub(super) fn keep_reachable(module: &mut Module) -> Result<(), IrError> {
    let formatters: HashSet<String> =
        symbols(module).filter(|s| is_formatter(s)).map(str::to_owned).collect();
    let write: Option<String> = symbols(module)
        .find(|s| s.contains("5write") && path_of(s).is_some_and(|p| p == "core::fmt::write"))
        .map(str::to_owned);
    let roots = roots(module)?;

    let mut kept = reach(module, &roots, &formatters, Formatters::Ignore);
    let is_written = write.is_some_and(|write| kept.contains(&write));
    if is_written {
        kept = reach(module, &roots, &formatters, Formatters::Follow);
    }
    module.items.retain(|item| item.symbol().is_none_or(|symbol| kept.contains(symbol)));
    if !is_written {
        for item in &mut module.items {
            if symbols_in(&item.text).any(|symbol| formatters.contains(symbol.text)) {
                item.text = without_formatters(&item.text, &formatters);
            }
        }
    }
    for item in &mut module.items {
        if matches!(item.kind, ItemKind::Function(_)) {
            let is_visible = item.header().contains(VISIBLE);
            item.text = with_linkage(&item.text, item.is_kernel() || is_visible).replacen(VISIBLE, "", 1);
        }
    }
    Ok(())
}

fn symbols(module: &Module) -> impl Iterator<Item = &str> {
    module.items.iter().filter_map(|item| item.symbol())
}

/// `<T as core::fmt::Trait>::fmt` for one of the formatting traits.
fn is_formatter(symbol: &str) -> bool {
    // The trait's path is part of the mangled name.
    let path = || symbol.contains("3fmt").then(|| path_of(symbol))?;
    let Some(path) = path() else { return false };
    let Some(implementor) = path.strip_prefix('<').and_then(|p| p.strip_suffix(">::fmt")) else {
        return false;
    };
    let formatting_trait = implementor.rsplit(" as core::fmt::").next().unwrap_or_default();
    FORMATTING_TRAITS.contains(&formatting_trait)
}

/// Kernels, visible functions, and `#[used]` items except the panic machinery, which only counts when it is reached.
fn roots(module: &Module) -> Result<Vec<String>, IrError> {
    let mut roots: Vec<String> = module
        .items
        .iter()
        .filter(|item| item.is_kernel())
        .filter_map(|item| item.symbol())
        .map(str::to_owned)
        .collect();
    let visible = module
        .items
        .iter()
        .filter(|item| matches!(item.kind, ItemKind::Function(_)) && item.header().contains(VISIBLE));
    let visible: Vec<String> = visible.filter_map(|item| item.symbol()).map(str::to_owned).collect();
    if roots.is_empty() {
        return Err(IrError::new(
            "prune",
            "module",
            "there is no kernel in the crate: mark a function with #[kernel]",
        ));
    }
    roots.extend(visible);
    for item in &module.items {
        if matches!(item.symbol(), Some("@llvm.used" | "@llvm.compiler.used")) {
            let used = tokens(&item.text).skip(1).filter(|t| t.kind == Kind::Global).map(|t| t.text);
            roots.extend(used.filter(|name| !name.starts_with("@__ferrowarp_")).map(str::to_owned));
        }
    }
    Ok(roots)
}

fn reach(
    module: &Module,
    roots: &[String],
    formatters: &HashSet<String>,
    mode: Formatters,
) -> HashSet<String> {
    let by_symbol: HashMap<&str, &str> =
        module.items.iter().filter_map(|item| Some((item.symbol()?, item.text.as_str()))).collect();
    let mut reached: HashSet<String> = HashSet::new();
    let mut open: Vec<String> = roots.to_vec();
    while let Some(symbol) = open.pop() {
        let Some(text) = by_symbol.get(symbol.as_str()) else {
            continue;
        };
        if !reached.insert(symbol) {
            continue;
        }
        for token in symbols_in(text) {
            let called = || text[token.end()..].starts_with('(');
            let counts = mode == Formatters::Follow || !formatters.contains(token.text) || called();
            if counts && !reached.contains(token.text) {
                open.push(token.text.to_owned());
            }
        }
    }
    reached
}

/// Replaces every mention of a formatting function outside a call by null.
fn without_formatters(text: &str, formatters: &HashSet<String>) -> String {
    let is_called = |token: &Token<'_>| text[token.end()..].starts_with('(');
    let globals = tokens(text).filter(|token| token.kind == Kind::Global && formatters.contains(token.text));
    let mentions = globals.filter(|token| !is_called(token));
    with_replaced(text, mentions.map(|token| (token.start..token.end(), "null".into())))
}

/// A function's text with its linkage: visible for kernels, internal for all others.
fn with_linkage(text: &str, kernel: bool) -> String {
    const LINKAGE: &[&str] = &[
        "private",
        "internal",
        "available_externally",
        "linkonce",
        "weak",
        "common",
        "linkonce_odr",
        "weak_odr",
        "external",
        "extern_weak",
        "dso_local",
        "dso_preemptable",
        "default",
        "hidden",
        "protected",
    ];
    let header = text.lines().next().unwrap_or_default();
    let words = lex(header);
    let first = words.iter().skip(1).find(|t| !LINKAGE.contains(&t.text)).map_or(header.len(), |t| t.start);
    let linkage = if kernel { "" } else { "internal " };
    format!("define {linkage}{}", &text[first..])
}
