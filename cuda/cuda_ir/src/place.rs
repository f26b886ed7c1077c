//! Places marked statics in shared and constant memory.
//!
//! Rust has no syntax for a static's address space, so `#[address_space(shared)]` puts it in a section. Here the section
//! becomes the address space, and every mention of the symbol becomes a cast of its address to a generic pointer. libNVVM
//! folds the casts, so loads and stores become `ld.shared` and `st.shared`.

use std::collections::HashMap;

use super::lex::{Kind, Token, closing, lex, split_at_commas, symbols_in, tokens, with_replaced};
use super::module::{ItemKind, Module};
use super::{IrError, PlacedStatic, Space, path_of, plain};

const EDIT: &str = "place";
const SECTION_PREFIX: &str = "\".ferrowarp.";
/// Maximum nesting of arrays and structs in a static. rustc writes one level per level of the source's types.
const MOST_LEVELS: usize = 100;
const DYNAMIC_SHARED: &str = "@__ferrowarp_dynamic_shared";

impl Space {
    fn of_section(section: &str) -> Option<Space> {
        match section {
            "\".ferrowarp.shared\"" => Some(Space::Shared),
            "\".ferrowarp.constant\"" => Some(Space::Constant),
            _ => None,
        }
    }

    fn number(self) -> u32 {
        match self {
            Space::Shared => 3,
            Space::Constant => 4,
        }
    }
}

/// Bytes of constant memory for a module's variables (CUDA programming guide, "technical specifications").
const CONSTANT_BYTES: u64 = 64 * 1024;

/// Marks immutable statics for constant memory, in order, each that still fits next to those that the source places there.
pub(super) fn mark_constants(module: &mut Module) {
    let is_placed = |text: &str| text.contains("\".ferrowarp.constant\"");
    let variables = || module.items.iter().filter(|item| matches!(item.kind, ItemKind::Variable(_)));
    let placed = variables().filter(|item| is_placed(&item.text));
    let mut used: u64 =
        placed.filter_map(|item| bytes_of(&item.text)).map(|bytes| bytes.next_multiple_of(16)).sum();
    for item in &mut module.items {
        let ItemKind::Variable(symbol) = &item.kind else { continue };
        let is_static = path_of(symbol).is_some() && !item.text.contains("section");
        let is_constant = tokens(&item.text).take_while(|t| t.kind != Kind::Text).any(|t| t.is("constant"));
        let Some(bytes) = bytes_of(&item.text).filter(|_| is_static && is_constant) else { continue };
        if used + bytes.next_multiple_of(16) <= CONSTANT_BYTES {
            used += bytes.next_multiple_of(16);
            item.text.push_str(", section \".ferrowarp.constant\"");
        }
    }
}

/// The size of a variable with an array of bytes or a struct of them and of pointers as its type, as rustc writes statics;
/// `None` for other types.
fn bytes_of(text: &str) -> Option<u64> {
    let tokens = lex(text);
    let keyword = tokens.iter().position(|t| t.is("global") || t.is("constant"))?;
    let end = end_of_type(&tokens[keyword + 1..])?;
    size_of_type(&tokens[keyword + 1..keyword + 1 + end])
}

fn size_of_type(ty: &[Token<'_>]) -> Option<u64> {
    match ty {
        [word] if word.is("ptr") => Some(8),
        [word] => word.text.strip_prefix('i')?.parse::<u64>().ok().map(|bits| bits.div_ceil(8)),
        [open, count, x, inner @ .., _] if open.is("[") && x.is("x") => {
            count.text.parse::<u64>().ok()?.checked_mul(size_of_type(inner)?)
        }
        [open, brace, fields @ .., _, _] if open.is("<") && brace.is("{") => {
            split_at_commas(fields).into_iter().map(|part| size_of_type(&fields[part])).sum()
        }
        _ => None,
    }
}

/// Moves marked statics and the dynamic shared memory to their address spaces, with all their uses.
pub(super) fn place_statics(module: &mut Module) -> Result<Vec<PlacedStatic>, IrError> {
    let mut placed: Vec<(String, Space)> = Vec::new();
    let mut spaces: HashMap<String, Space> = HashMap::new();
    for item in &mut module.items {
        let ItemKind::Variable(symbol) = &item.kind else {
            continue;
        };
        if matches!(symbol.as_str(), "@llvm.used" | "@llvm.compiler.used") {
            continue;
        }
        if let Some((text, space)) = placed_variable(symbol, &item.text)? {
            placed.push((symbol.clone(), space));
            spaces.insert(symbol.clone(), space);
            item.text = text;
        }
    }
    module.items.retain(|item| !matches!(item.symbol(), Some("@llvm.used" | "@llvm.compiler.used")));
    let space_of = |name: &str| spaces.get(name).copied();
    for item in &mut module.items {
        if symbols_in(&item.text).any(|symbol| spaces.contains_key(symbol.text)) {
            item.text = with_casts(item.symbol(), &item.text, space_of);
        }
    }
    if let Some(left) = module.items.iter().find(|item| item.text.contains(SECTION_PREFIX)) {
        let name = left.symbol().unwrap_or(&left.text);
        return Err(IrError::new(EDIT, name, "a marker section is left where no static can be placed"));
    }
    let statics = placed.iter().filter(|(symbol, _)| symbol != DYNAMIC_SHARED);
    Ok(statics.map(|(s, space)| PlacedStatic { symbol: plain(s).to_owned(), space: *space }).collect())
}

/// The text of a variable in its own address space, if it is marked for one.
fn placed_variable(symbol: &str, text: &str) -> Result<Option<(String, Space)>, IrError> {
    if symbol == DYNAMIC_SHARED {
        let text = format!("{symbol} = external addrspace(3) global [0 x i8], align 16");
        return Ok(Some((text, Space::Shared)));
    }
    let fail = |reason: &str| IrError::new(EDIT, symbol, reason);
    let tokens = lex(text);
    let Some(keyword) = tokens.iter().position(|t| t.is("global") || t.is("constant")) else {
        let marked = text.contains(SECTION_PREFIX);
        return if marked { Err(fail("the symbol is marked but no variable")) } else { Ok(None) };
    };
    let behind = &tokens[keyword + 1..];
    let parts = split_at_commas(behind);
    let mut space = None;
    let mut attributes = String::new();
    for part in parts.iter().skip(1).map(|part| &behind[part.clone()]) {
        let (Some(first), Some(last)) = (part.first(), part.last()) else {
            return Err(fail("there is nothing between two of its commas"));
        };
        match (first.text, part.get(1)) {
            ("section", Some(section)) if section.text.starts_with(SECTION_PREFIX) => {
                let known = Space::of_section(section.text);
                space = Some(
                    known.ok_or_else(|| fail("its section names no memory that statics can be placed in"))?,
                );
            }
            ("section" | "align" | "comdat" | "partition" | "code_model", _) => {
                attributes.extend([", ", &text[first.start..last.end()]]);
            }
            _ if first.kind == Kind::Metadata
                || first.text.starts_with("no_sanitize")
                || first.is("sanitize_address_dyninit") =>
            {
                attributes.extend([", ", &text[first.start..last.end()]]);
            }
            _ => return Err(fail(&format!("the attribute `{}` is not known", first.text))),
        }
    }
    let Some(space) = space else { return Ok(None) };
    let value = &behind[parts[0].clone()];
    if space == Space::Shared && !is_uninitialised(value, MOST_LEVELS) {
        return Err(fail(
            "shared memory cannot have an initial value: make the static an array of MaybeUninit, uninit() each",
        ));
    }
    let prefix = text[..tokens[keyword].start].trim_end();
    let value = &text[tokens[keyword].start..value.last().map_or(tokens[keyword].end(), |t| t.end())];
    Ok(Some((format!("{prefix} addrspace({}) {value}{attributes}", space.number()), space)))
}

/// Whether `tokens`, a type and a value of at most `levels` levels, leave every byte undefined.
fn is_uninitialised(tokens: &[Token<'_>], levels: usize) -> bool {
    let Some(value_at) = end_of_type(tokens).filter(|_| levels > 0) else {
        return false;
    };
    let value = &tokens[value_at..];
    match value {
        [word] => word.is("undef") || word.is("poison"),
        [first, inner @ .., _] if first.nesting() > 0 => {
            // A packed struct has two brackets on each side.
            let inner = match inner {
                [brace, fields @ .., _] if first.is("<") && brace.is("{") => fields,
                _ => inner,
            };
            split_at_commas(inner).into_iter().all(|part| is_uninitialised(&inner[part], levels - 1))
        }
        _ => false,
    }
}

/// The index of the first token after the type at the start of `tokens`.
fn end_of_type(tokens: &[Token<'_>]) -> Option<usize> {
    let first = tokens.first()?;
    if first.nesting() > 0 {
        return closing(tokens, 0).map(|close| close + 1);
    }
    match tokens.get(1) {
        Some(space) if space.is("addrspace") => closing(tokens, 2).map(|close| close + 1),
        _ => Some(1),
    }
}

/// Casts every mention of a placed symbol in `text`, except its own definition, to a generic pointer.
fn with_casts(own: Option<&str>, text: &str, space_of: impl Fn(&str) -> Option<Space>) -> String {
    let cast = |token: Token<'_>| {
        let is_definition = own == Some(token.text) && token.start == 0;
        let space = space_of(token.text).filter(|_| token.kind == Kind::Global && !is_definition)?;
        let cast = format!("addrspacecast (ptr addrspace({}) {} to ptr)", space.number(), token.text);
        Some((token.start..token.end(), cast.into()))
    };
    with_replaced(text, tokens(text).filter_map(cast))
}
