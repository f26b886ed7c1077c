//! Extracts parts of a PTX module: some kernels, and their dependencies.
//!
//! The driver compiles a module as a whole. Its compiler may crash on one kernel; the others are then run in other parts.

use std::collections::{BTreeSet, HashMap};

/// A module as a list of its top-level items.
#[derive(Debug)]
pub struct Items<'a> {
    items: Vec<Item<'a>>,
    /// By name, the items that declare or define it.
    names: HashMap<&'a str, Vec<usize>>,
}

#[derive(Debug)]
struct Item<'a> {
    text: &'a str,
    kind: Kind<'a>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind<'a> {
    /// `.version` and similar, which every part needs.
    Head,
    Kernel(&'a str),
    /// A function or a variable.
    Other(&'a str),
}

impl<'a> Items<'a> {
    /// Parses a module with one directive per line, as the back ends write it, and without comments.
    pub fn of(ptx: &'a str) -> Items<'a> {
        let mut items = Vec::new();
        let (mut start, mut end, mut depth) = (0, 0, 0);
        for line in ptx.split_inclusive('\n') {
            end += line.len();
            for byte in line.bytes() {
                depth += i32::from(byte == b'{') - i32::from(byte == b'}');
            }
            let code = line.trim();
            let is_directive =
                [".version", ".target", ".address_size"].iter().any(|head| code.starts_with(head));
            if depth == 0 && (code.ends_with([';', '}']) || is_directive) {
                let text = &ptx[start..end];
                items.push(Item { text, kind: kind(text) });
                start = end;
            }
        }
        let mut names: HashMap<&str, Vec<usize>> = HashMap::new();
        for (i, item) in items.iter().enumerate() {
            if let Kind::Other(name) = item.kind {
                names.entry(name).or_default().push(i);
            }
        }
        Items { items, names }
    }

    /// The module of these kernels alone.
    pub fn part(&self, kernels: &BTreeSet<&str>) -> String {
        let is_wanted = |item: &Item<'_>| match item.kind {
            Kind::Head => true,
            Kind::Kernel(name) => kernels.contains(name),
            Kind::Other(_) => false,
        };
        let mut open: Vec<usize> = (0..self.items.len()).filter(|&i| is_wanted(&self.items[i])).collect();
        let mut kept: BTreeSet<usize> = open.iter().copied().collect();
        while let Some(i) = open.pop() {
            let words =
                self.items[i].text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_' || c == '$'));
            for &other in words.filter_map(|word| self.names.get(word)).flatten() {
                if kept.insert(other) {
                    open.push(other);
                }
            }
        }
        kept.into_iter().map(|i| self.items[i].text).collect()
    }
}

/// The kind of an item: the word after its linkage, and its name.
fn kind(text: &str) -> Kind<'_> {
    let mut rest = text.trim_start();
    while let Some(tail) =
        [".visible", ".weak", ".extern", ".common"].iter().find_map(|word| rest.strip_prefix(word))
    {
        rest = tail.trim_start();
    }
    if let Some(tail) = rest.strip_prefix(".entry") {
        return Kind::Kernel(first_word(tail));
    }
    if let Some(tail) = rest.strip_prefix(".func") {
        // Its result is in parentheses before its name.
        let tail = tail.trim_start();
        let tail =
            if tail.starts_with('(') { tail.split_once(')').map_or(tail, |(_, name)| name) } else { tail };
        return Kind::Other(first_word(tail));
    }
    if [".global", ".const", ".shared", ".local"].iter().any(|space| rest.starts_with(space)) {
        let declared = rest.split(['=', ';']).next().unwrap_or_default();
        let name = declared
            .split_whitespace()
            .filter(|word| !word.starts_with('.'))
            .find(|word| word.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_' || c == '$'));
        return name.map_or(Kind::Head, |name| Kind::Other(first_word(name)));
    }
    Kind::Head
}

/// The name at the start.
fn first_word(text: &str) -> &str {
    let text = text.trim_start();
    let end = text.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_' || c == '$'));
    &text[..end.unwrap_or(text.len())]
}

#[cfg(test)]
mod tests {
    use super::*;

    const PTX: &str = ".version 8.6\n.target sm_90\n.address_size 64\n.func  (.param .b32 func_retval0) f\n(\n.param .b32 f_param_0\n)\n;\n\
        .global .align 8 .u64 table[2] = {0, g};\n.global .align 1 .b8 other[2] = {0, 1};\n\
        .visible .entry k0(\n.param .u64 k0_param_0\n)\n{\n{ // call\ncall.uni (retval0), f, (param0);\n}\nret;\n}\n\
        .visible .entry k1()\n{\nmov.b64 %rd1, table;\nret;\n}\n\
        .func  (.param .b32 func_retval0) f(\n.param .b32 f_param_0\n)\n{\nret;\n}\n.func g()\n{\nret;\n}\n";

    #[test]
    fn a_part_has_what_its_kernels_need() {
        let items = Items::of(PTX);
        assert_eq!(
            items.part(&BTreeSet::from(["k0", "k1"])).len(),
            PTX.len() - ".global .align 1 .b8 other[2] = {0, 1};\n".len()
        );
        let first = items.part(&BTreeSet::from(["k0"]));
        assert!(
            first.contains("entry k0")
                && first.matches("func_retval0) f").count() == 2
                && !first.contains("table"),
            "{first}"
        );
        let second = items.part(&BTreeSet::from(["k1"]));
        assert!(
            second.contains(".func g()") && second.contains("table[2]") && !second.contains("entry k0"),
            "{second}"
        );
        assert!(second.starts_with(".version 8.6\n.target sm_90\n"));
    }
}
