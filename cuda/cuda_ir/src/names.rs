//! Readable names for PTX that do not depend on the crate's folder.
//!
//! A mangled symbol contains hashes of the crates' identities, which differ with the folder, the flags and the architecture;
//! nothing outside the module can know them. Symbols that the source named itself stay unchanged.

use std::collections::HashMap;

use sha2::{Digest, Sha256};

use super::{path_of, plain};

/// Maximum length of a name.
const LONGEST: usize = 96;

/// New names for the symbols of one module, each used once.
pub(super) struct Names {
    taken: HashMap<String, usize>,
    constants: usize,
}

impl Names {
    /// Creates names that differ from `kept`, the symbols that stay unchanged.
    pub fn other_than<'a>(kept: impl Iterator<Item = &'a str>) -> Names {
        let taken = kept.map(|symbol| (plain(symbol).to_owned(), 1)).collect();
        Names { taken, constants: 0 }
    }

    /// The new name of the symbol, which has its `@`; `None` if it stays unchanged.
    pub fn for_symbol(&mut self, symbol: &str) -> Option<String> {
        let name = plain(symbol);
        if is_anonymous(name) {
            self.constants += 1;
            return Some(format!("__constant_{}", self.constants - 1));
        }
        if !name.starts_with("_R") {
            return None;
        }
        let readable = readable(&path_of(symbol)?);
        let mut name = readable.clone();
        // A numbered name may itself be another path's name.
        while self.taken.contains_key(&name) {
            let count = self.taken.entry(readable.clone()).or_insert(1);
            *count += 1;
            name = format!("{readable}_{count}");
        }
        self.taken.insert(name.clone(), 1);
        Some(name)
    }
}

/// Constants that rustc and LLVM name by contents, by number or by hash.
fn is_anonymous(name: &str) -> bool {
    ["alloc_", "anon.", "vtable.", "switch.table.", "str."].iter().any(|prefix| name.starts_with(prefix))
}

/// `core::panicking::panic_fmt` as `core__panicking__panic_fmt`; other characters become one underscore. A name begins with
/// two underscores only if its path does.
fn readable(path: &str) -> String {
    let mut name = String::with_capacity(path.len());
    for part in path.split("::") {
        if !name.is_empty() {
            name.push_str("__");
        }
        let mut is_gap = false;
        for c in part.chars() {
            if c.is_ascii_alphanumeric() || c == '_' {
                name.push(c);
                is_gap = false;
            } else if !is_gap {
                name.push('_');
                is_gap = true;
            }
        }
    }
    if name.starts_with(|c: char| c.is_ascii_digit()) {
        name.insert(0, '_');
    }
    if name.len() > LONGEST {
        let hash: String = Sha256::digest(path)[..6].iter().map(|byte| format!("{byte:02x}")).collect();
        name.truncate(LONGEST - 13);
        name = format!("{name}_{hash}");
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mangled_names_become_readable_and_stay_apart() {
        let mut names = Names::other_than(["@core__option__expect_failed_2"].into_iter());
        let mut name = |symbol: &str| names.for_symbol(symbol);
        let symbol = |hash: &str| format!("@_RNvNtCs{hash}_4core6option13expect_failed");
        assert_eq!(name(&symbol("abc")).unwrap(), "core__option__expect_failed");
        assert_eq!(name(&symbol("abd")).unwrap(), "core__option__expect_failed_3");
        // Names numbered by LLVM are numbered again.
        assert_eq!(name(&(symbol("abc") + "91")).unwrap(), "core__option__expect_failed_4");
        assert_eq!(name("@alloc_0123456789abcdef").unwrap(), "__constant_0");
        assert_eq!(name("@anon.0123.7").unwrap(), "__constant_1");
        for kept in ["@saxpy", "@__ferrowarp_panic_slot", "@\"a name\"", "@llvm.nvvm.barrier0", "@_Rubbish"] {
            assert_eq!(name(kept), None, "{kept}");
        }
    }

    #[test]
    fn long_and_odd_paths_become_names() {
        assert_eq!(readable("<a::B<[u8; 4]> as c::D>::e"), "_a__B_u8_4_as_c__D___e");
        let long = |end: char| format!("{}{end}", "module::".repeat(40));
        let (a, b) = (readable(&long('a')), readable(&long('b')));
        assert!(a != b && a.len() <= LONGEST && b.len() <= LONGEST, "{a} {b}");
        assert_eq!(readable("1x"), "_1x");
    }
}
