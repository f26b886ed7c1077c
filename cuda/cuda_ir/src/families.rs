//! Finds the family of each kernel: its Rust module.
//!
//! `#[kernel]` emits a static named after the kernel that holds the module's path. For a kernel of one architecture alone,
//! the path ends in `only_90a`; a module for another architecture has a static in its place that requests one for that.

use std::collections::{BTreeSet, HashMap};

use super::lex::{Kind, tokens};
use super::module::{ItemKind, Module};
use super::plain;

const PREFIX: &str = "__ferrowarp_family_of_";

/// The prefix before the compute capability of the architecture that a kernel is for.
const WANTS: &str = "__ferrowarp_wants_";

/// The compute capabilities, such as 90, for which `text` lacks kernels that are only for `compute_90a`.
pub(super) fn wanted_archs(text: &str) -> BTreeSet<u32> {
    let capability = |(at, _): (usize, &str)| {
        let rest = &text[at + WANTS.len()..];
        let (digits, rest) = rest.split_at(rest.find(|c: char| !c.is_ascii_digit())?);
        digits.parse().ok().filter(|_| rest.starts_with("a_for_"))
    };
    text.match_indices(WANTS).filter_map(capability).collect()
}

/// Keeps only the kernels with a path for which `is_wanted` returns true.
pub(super) fn keep_only(
    module: &mut Module,
    families: &HashMap<String, String>,
    is_wanted: impl Fn(&str) -> bool,
) {
    let is_wanted = |symbol: &str| families.get(plain(symbol)).is_some_and(|path| is_wanted(path));
    module.items.retain(|item| !item.is_kernel() || item.symbol().is_some_and(is_wanted));
}

/// Removes those statics from the module, and returns the paths by kernel.
pub(super) fn take(module: &mut Module) -> HashMap<String, String> {
    let mut families = HashMap::new();
    module.items.retain(|item| {
        let ItemKind::Variable(symbol) = &item.kind else { return true };
        let symbol = plain(symbol);
        let Some(kernel) = symbol.strip_prefix(PREFIX) else { return !symbol.starts_with(WANTS) };
        if let Some(path) = text_in(&item.text) {
            families.insert(kernel.to_owned(), path.to_owned());
        }
        false
    });
    families
}

/// The text of `c"..."`, which has no escapes here.
pub(super) fn text_in(text: &str) -> Option<&str> {
    let mut before = "";
    for token in tokens(text) {
        if token.kind == Kind::Text && before == "c" {
            return Some(token.text.trim_matches('"'));
        }
        before = token.text;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn architectures_are_wanted_by_name() {
        let text = "@__ferrowarp_wants_90a_for_k = constant <{ [1 x i8] }> zeroinitializer, align 1\n\
                    @__ferrowarp_wants_100a_for_k90 = constant <{ [1 x i8] }> zeroinitializer, align 1\n\
                    @__ferrowarp_wants_k = constant <{ [1 x i8] }> zeroinitializer, align 1\n\
                    define ptx_kernel void @k() {\n  ret void\n}\n";
        assert_eq!(wanted_archs(text), BTreeSet::from([90, 100]));
        let mut module = Module::parse(text).unwrap();
        assert!(take(&mut module).is_empty());
        assert!(!module.to_string().contains("wants"), "{module}");
    }

    #[test]
    fn kernels_of_other_architectures_go() {
        let kernel = |name: &str| format!("define ptx_kernel void @{name}() {{\n  ret void\n}}\n");
        let mut module = Module::parse(&["a", "b", "c", "d"].map(kernel).concat()).unwrap();
        let paths = [("a", "m::only_90a"), ("b", "m"), ("c", "m::n::only_90a"), ("d", "m::only_100a")];
        let paths = paths.map(|(kernel, path)| (kernel.to_owned(), path.to_owned())).into();
        keep_only(&mut module, &paths, |path| path.ends_with("::only_90a"));
        let left: Vec<_> = module.items.iter().filter_map(|item| item.symbol()).collect();
        assert_eq!(left, ["@a", "@c"]);
    }
}
