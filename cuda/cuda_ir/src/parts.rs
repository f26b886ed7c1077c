//! Cuts a module into parts that are compiled separately.
//!
//! A part holds some kernels and everything that these reach. Its text depends on nothing else: names, attribute groups and
//! metadata are renumbered in order of occurrence. So editing one kernel does not change the text of the other parts, and
//! their cached output stays valid.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::lex::{Kind, tokens};
use super::module::{Item, ItemKind, Module};
use super::names::Names;
use super::{Lowered, PlacedStatic, plain};

/// Maximum kernels of a family that are compiled together: a larger family is cut, so that its parts are compiled in
/// parallel.
const MOST_KERNELS: usize = 16;

/// The variable that is copied into every module.
const PANIC_SLOT: &str = "__ferrowarp_panic_slot";

/// How a module is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// Not at all.
    Whole,
    /// By the kernels' Rust modules; long ones are cut again. Kernels that share a mutable variable stay together.
    Families,
}

/// A position in an item's text that is rewritten.
struct Mention {
    start: usize,
    end: usize,
    what: What,
}

#[derive(Clone, Copy)]
enum What {
    /// A symbol that the item of this index defines or declares.
    Symbol(usize),
    /// `!7`.
    Node(u64),
    /// `#7`.
    Group(u64),
}

/// A module with the mentions between its items.
struct Linked<'a> {
    items: &'a [Item],
    mentions: Vec<Vec<Mention>>,
    /// The item that defines a node of metadata.
    nodes: HashMap<u64, usize>,
    /// The item that defines a group of attributes.
    groups: HashMap<u64, usize>,
    /// The items that are only written when mentioned: nodes and groups, and the name of the source, which never is.
    on_demand: HashSet<usize>,
}

/// Cuts `module`. Returns the parts with their names; a module that is not cut has an empty name.
pub(super) fn cut(
    module: &Module,
    families: &HashMap<String, String>,
    statics: &[PlacedStatic],
    cut: Cut,
) -> Vec<Lowered> {
    let linked = Linked::new(&module.items);
    let kernels: Vec<usize> = (0..module.items.len()).filter(|&n| module.items[n].is_kernel()).collect();
    let has_assembly = module.items.iter().any(|item| item.text.starts_with("module asm"));
    let groups = match cut {
        Cut::Families if !has_assembly => linked.families(&kernels, families),
        _ => vec![(String::new(), kernels)],
    };
    groups.into_iter().map(|(family, kernels)| linked.part(family, &kernels, statics)).collect()
}

impl<'a> Linked<'a> {
    fn new(items: &'a [Item]) -> Linked<'a> {
        let symbols: HashMap<&str, usize> =
            items.iter().enumerate().filter_map(|(n, item)| Some((item.symbol()?, n))).collect();
        let number = |text: &str| text[1..].parse::<u64>().ok();
        let mentions = items.iter().map(|item| {
            let of_token = |token: super::lex::Token<'_>| {
                let what = match token.kind {
                    Kind::Global => What::Symbol(*symbols.get(token.text)?),
                    Kind::Metadata => What::Node(number(token.text)?),
                    Kind::Group => What::Group(number(token.text)?),
                    _ => return None,
                };
                Some(Mention { start: token.start, end: token.end(), what })
            };
            tokens(&item.text).filter_map(of_token).collect()
        });
        let mentions: Vec<Vec<Mention>> = mentions.collect();
        let (mut nodes, mut groups, mut on_demand) = (HashMap::new(), HashMap::new(), HashSet::new());
        for (n, item) in items.iter().enumerate().filter(|(_, item)| item.kind == ItemKind::Other) {
            match mentions[n].first().map(|first| (first.start, first.what)) {
                Some((0, What::Node(node))) => drop(nodes.insert(node, n)),
                Some((_, What::Group(group))) if item.text.starts_with("attributes ") => {
                    groups.insert(group, n);
                }
                _ if item.text.starts_with("source_filename") => {}
                _ => continue,
            }
            on_demand.insert(n);
        }
        Linked { items, mentions, nodes, groups, on_demand }
    }

    /// The symbols' items that `from` reach, including themselves, in order of first mention.
    fn reached(&self, from: &[usize]) -> Vec<usize> {
        let (mut reached, mut known) = (Vec::new(), HashSet::new());
        let mut open: Vec<usize> = from.iter().rev().copied().collect();
        while let Some(n) = open.pop() {
            if known.insert(n) {
                reached.push(n);
                open.extend(self.mentions[n].iter().rev().filter_map(|mention| match mention.what {
                    What::Symbol(other) => Some(other),
                    _ => None,
                }));
            }
        }
        reached
    }

    /// The kernels by family, in the order of the module; long families are split.
    fn families(&self, kernels: &[usize], families: &HashMap<String, String>) -> Vec<(String, Vec<usize>)> {
        let name_of = |kernel: usize| plain(self.items[kernel].symbol().unwrap_or_default());
        let family_of = |kernel: usize| families.get(name_of(kernel)).map_or("", String::as_str);
        // Families that share a variable are joined under the first name.
        let mut owner: HashMap<usize, &str> = HashMap::new();
        let mut joined: BTreeMap<&str, &str> = BTreeMap::new();
        fn first<'n>(joined: &BTreeMap<&'n str, &'n str>, mut name: &'n str) -> &'n str {
            while let Some(other) = joined.get(name) {
                name = other;
            }
            name
        }
        for &kernel in kernels {
            for variable in self.reached(&[kernel]).into_iter().filter(|&n| is_shared_state(&self.items[n])) {
                let own = first(&joined, family_of(kernel));
                let other = first(&joined, owner.entry(variable).or_insert(own));
                if own != other {
                    joined.insert(own.max(other), own.min(other));
                }
            }
        }
        let mut grouped: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
        for &kernel in kernels {
            grouped.entry(first(&joined, family_of(kernel))).or_default().push(kernel);
        }
        let shares: HashSet<&str> = owner.values().map(|name| first(&joined, name)).collect();
        let mut parts = Vec::new();
        for (path, kernels) in grouped {
            let name = path.split_once("::").map_or("", |(_, path)| path).replace("::", ".");
            let pieces = if shares.contains(path) { 1 } else { kernels.len().div_ceil(MOST_KERNELS) };
            let each = kernels.len().div_ceil(pieces.max(1));
            for (n, piece) in kernels.chunks(each.max(1)).enumerate() {
                let numbered =
                    if name.is_empty() { format!("{}", n + 1) } else { format!("{name}.{}", n + 1) };
                let name = if pieces == 1 { name.clone() } else { numbered };
                parts.push((name, piece.to_vec()));
            }
        }
        parts
    }

    /// The module of `kernels` and everything they reach, in order of mention, because rustc orders by hashes.
    fn part(&self, family: String, kernels: &[usize], statics: &[PlacedStatic]) -> Lowered {
        let mut visible: Vec<usize> = (0..self.items.len()).filter(|&n| self.items[n].is_visible()).collect();
        visible.sort_by_key(|&n| self.items[n].symbol());
        let reached = self.reached(&[kernels, &visible].concat());
        let is_function = |n: &usize| matches!(self.items[*n].kind, ItemKind::Function(_));
        let (functions, variables): (Vec<usize>, Vec<usize>) = reached.into_iter().partition(is_function);
        let others = (0..self.items.len())
            .filter(|n| self.items[*n].kind == ItemKind::Other && !self.on_demand.contains(n));
        let (named, head): (Vec<usize>, Vec<usize>) =
            others.partition(|&n| self.items[n].text.starts_with('!'));
        let kept = [head, variables, functions, named].concat();
        let mut writer = Writer::new(self, &kept);
        for &n in &kept {
            writer.write(n);
        }
        writer.write_groups_and_nodes();
        let names = &writer.names;
        let renamed = |symbol: &str| -> Option<String> {
            let item = kept.iter().find(|&&n| self.items[n].symbol().is_some_and(|s| plain(s) == symbol))?;
            Some(names.get(item).cloned().unwrap_or_else(|| symbol.to_owned()))
        };
        let statics = statics
            .iter()
            .filter_map(|placed| Some(PlacedStatic { symbol: renamed(&placed.symbol)?, space: placed.space }))
            .collect();
        let kernels = kernels.iter().filter_map(|&n| self.items[n].symbol());
        let kernels = kernels.map(|symbol| plain(symbol).to_owned()).collect();
        Lowered { family, text: writer.out, kernels, statics }
    }
}

/// Whether kernels that reach the variable must be in one module: one writes what the other reads, or the host sets it.
fn is_shared_state(item: &Item) -> bool {
    let ItemKind::Variable(symbol) = &item.kind else { return false };
    if plain(symbol) == PANIC_SLOT {
        return false;
    }
    let words: Vec<_> = tokens(&item.text).take_while(|token| !token.is("align")).collect();
    let has = |word: &str| words.iter().any(|token| token.is(word));
    let space = words.windows(3).find(|at| at[0].is("addrspace")).map(|at| at[2].text);
    match space {
        // Each block has its own shared memory.
        Some("3") => false,
        // The host can write constant memory with an external name.
        Some("4") => !has("private") && !plain(symbol).starts_with("_R"),
        _ => has("global"),
    }
}

/// Writes the items of a part one after the other, with new names and numbers.
struct Writer<'l, 'a> {
    linked: &'l Linked<'a>,
    out: String,
    names: HashMap<usize, String>,
    nodes: HashMap<u64, usize>,
    node_order: Vec<u64>,
    groups: HashMap<u64, usize>,
    group_order: Vec<u64>,
}

impl<'l, 'a> Writer<'l, 'a> {
    fn new(linked: &'l Linked<'a>, kept: &[usize]) -> Writer<'l, 'a> {
        let symbols = || kept.iter().filter_map(|&n| Some((n, linked.items[n].symbol()?)));
        let is_own = |symbol: &str| !plain(symbol).starts_with("_R");
        let mut names = Names::other_than(symbols().map(|(_, symbol)| symbol).filter(|s| is_own(s)));
        let names = symbols().filter_map(|(n, symbol)| Some((n, names.for_symbol(symbol)?))).collect();
        Writer {
            linked,
            out: String::new(),
            names,
            nodes: HashMap::new(),
            node_order: Vec::new(),
            groups: HashMap::new(),
            group_order: Vec::new(),
        }
    }

    fn write(&mut self, n: usize) {
        let text = &self.linked.items[n].text;
        let mut copied = 0;
        for mention in &self.linked.mentions[n] {
            let new = match mention.what {
                What::Symbol(other) => match self.names.get(&other) {
                    Some(name) => format!("@{name}"),
                    None => continue,
                },
                What::Node(node) => format!("!{}", number(&mut self.nodes, &mut self.node_order, node)),
                What::Group(group) => format!("#{}", number(&mut self.groups, &mut self.group_order, group)),
            };
            self.out.push_str(&text[copied..mention.start]);
            self.out.push_str(&new);
            copied = mention.end;
        }
        self.out.push_str(&text[copied..]);
        self.out.push('\n');
    }

    /// Writes the mentioned groups and nodes, and those that these mention in turn.
    fn write_groups_and_nodes(&mut self) {
        for at in 0..self.group_order.len() {
            if let Some(&n) = self.linked.groups.get(&self.group_order[at]) {
                self.write(n);
            }
        }
        let mut at = 0;
        while let Some(&node) = self.node_order.get(at) {
            at += 1;
            if let Some(&n) = self.linked.nodes.get(&node) {
                self.write(n);
            }
        }
    }
}

/// The new number of `old`, in order of request.
fn number(numbers: &mut HashMap<u64, usize>, order: &mut Vec<u64>, old: u64) -> usize {
    *numbers.entry(old).or_insert_with(|| {
        order.push(old);
        order.len() - 1
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const MODULE: &str = "source_filename = \"mine.0123-cgu.0\"
target triple = \"nvptx64-nvidia-cuda\"
@alloc_0123 = private unnamed_addr constant [4 x i8] c\"text\", align 1
@_RNvCsabc_4mine5COUNT = internal global i32 0, align 4
@__ferrowarp_panic_slot = global ptr null, align 8
define ptx_kernel void @one(ptr %x) #3 {
  call void @_RNvCsabc_4mine6helper(ptr @alloc_0123), !dbg !7
  ret void
}
define ptx_kernel void @two(ptr %x) #4 {
  store ptr @__ferrowarp_panic_slot, ptr %x, !noalias !9
  ret void
}
define ptx_kernel void @three(ptr %x) #4 {
  store ptr @_RNvCsabc_4mine5COUNT, ptr %x
  ret void
}
define ptx_kernel void @four(ptr %x) #4 {
  store ptr @_RNvCsabc_4mine5COUNT, ptr %x
  ret void
}
define internal void @_RNvCsabc_4mine6helper(ptr %text) #4 {
  ret void
}
attributes #3 = { nounwind }
attributes #4 = { noinline }
!named = !{!5}
!5 = !{i32 1}
!7 = !{!8}
!8 = distinct !{!8}
!9 = !{!\"unused by others\"}
";

    fn parts(text: &str, by: Cut, families: &[(&str, &str)]) -> Vec<Lowered> {
        let module = Module::parse(text).unwrap();
        let families = families.iter().map(|(kernel, path)| (kernel.to_string(), path.to_string())).collect();
        cut(&module, &families, &[], by)
    }

    const FAMILIES: &[(&str, &str)] =
        &[("one", "mine::a"), ("two", "mine::b::c"), ("three", "mine::d"), ("four", "mine::a")];

    #[test]
    fn a_part_holds_its_kernels_and_what_they_reach_numbered_anew() {
        let parts = parts(MODULE, Cut::Families, &FAMILIES[..3]);
        let kernels: Vec<_> =
            parts.iter().map(|part| (part.family.as_str(), part.kernels.join(" "))).collect();
        // The kernel without a family shares COUNT with `three`; the first name becomes the part's.
        assert_eq!(
            kernels,
            [("", "three four".to_owned()), ("a", "one".to_owned()), ("b.c", "two".to_owned())]
        );
        assert_eq!(
            parts[1].text,
            "target triple = \"nvptx64-nvidia-cuda\"
@__constant_0 = private unnamed_addr constant [4 x i8] c\"text\", align 1
define ptx_kernel void @one(ptr %x) #0 {
  call void @mine__helper(ptr @__constant_0), !dbg !0
  ret void
}
define internal void @mine__helper(ptr %text) #1 {
  ret void
}
!named = !{!1}
attributes #0 = { nounwind }
attributes #1 = { noinline }
!0 = !{!2}
!1 = !{i32 1}
!2 = distinct !{!2}
"
        );
        assert!(parts[2].text.contains("!0 = !{!\"unused by others\"}") && !parts[2].text.contains("COUNT"));
    }

    #[test]
    fn kernels_that_share_a_variable_stay_together() {
        let parts = parts(MODULE, Cut::Families, FAMILIES);
        let kernels: Vec<_> =
            parts.iter().map(|part| (part.family.as_str(), part.kernels.join(" "))).collect();
        assert_eq!(kernels, [("a", "one three four".to_owned()), ("b.c", "two".to_owned())]);
    }

    #[test]
    fn an_edit_of_one_family_leaves_the_text_of_the_others() {
        let before = parts(MODULE, Cut::Families, FAMILIES);
        let edited = MODULE.replace("c\"text\"", "c\"TEXT\"").replace("alloc_0123", "alloc_9876");
        let edited = edited.replace("!7 =", "!6 = !{}\n!7 =").replace("Csabc_", "Csxyz_");
        let after = parts(&edited, Cut::Families, FAMILIES);
        assert_ne!(before[0].text, after[0].text);
        assert_eq!(before[1].text, after[1].text);
    }

    #[test]
    fn a_long_family_is_cut_and_a_whole_module_is_not() {
        let kernel = |n: usize| format!("define ptx_kernel void @k{n:02}() {{\n  ret void\n}}\n");
        let text: String = (0..40).map(kernel).collect();
        let names: Vec<String> = (0..40).map(|n| format!("k{n:02}")).collect();
        let families: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), "mine::long")).collect();
        let cut = parts(&text, Cut::Families, &families);
        let sizes: Vec<_> = cut.iter().map(|part| (part.family.as_str(), part.kernels.len())).collect();
        assert_eq!(sizes, [("long.1", 14), ("long.2", 14), ("long.3", 12)]);
        let whole = parts(&text, Cut::Whole, &families);
        assert_eq!((whole.len(), whole[0].kernels.len(), whole[0].family.as_str()), (1, 40, ""));
        // A module with module-level assembly cannot be cut.
        assert_eq!(parts(&format!("module asm \"x\"\n{text}"), Cut::Families, &families).len(), 1);
    }
}
