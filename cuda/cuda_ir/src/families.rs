//! Which family each kernel belongs to: the Rust module that it stands in.
//!
//! `#[kernel]` leaves a static named after the kernel that holds the module's path.

use std::collections::HashMap;

use super::lex::{Kind, tokens};
use super::module::{ItemKind, Module};
use super::plain;

const PREFIX: &str = "__ferrowarp_family_of_";

/// Takes those statics out of the module, and gives the path by kernel.
pub(super) fn take(module: &mut Module) -> HashMap<String, String> {
    let mut families = HashMap::new();
    module.items.retain(|item| {
        let ItemKind::Variable(symbol) = &item.kind else { return true };
        let Some(kernel) = plain(symbol).strip_prefix(PREFIX) else { return true };
        if let Some(path) = path_in(&item.text) {
            families.insert(kernel.to_owned(), path.to_owned());
        }
        false
    });
    families
}

/// The text of `c"..."`, which for a path has no escapes.
fn path_in(text: &str) -> Option<&str> {
    let mut before = "";
    for token in tokens(text) {
        if token.kind == Kind::Text && before == "c" {
            return Some(token.text.trim_matches('"'));
        }
        before = token.text;
    }
    None
}
