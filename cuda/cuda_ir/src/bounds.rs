//! Launch bounds: turns the section in which `#[kernel(max_threads = .., min_blocks = ..)]` puts a kernel into attributes.

use super::IrError;
use super::lex::Kind;
use super::module::{FunctionHeader, ItemKind, Module};

const EDIT: &str = "bounds";
const SECTION_PREFIX: &str = "\".ferrowarp.bounds.";

/// Replaces all sections of functions that encode launch bounds.
pub(super) fn set(module: &mut Module) -> Result<(), IrError> {
    for item in module.items.iter_mut().filter(|item| matches!(item.kind, ItemKind::Function(_))) {
        if !item.header().contains(SECTION_PREFIX) {
            continue;
        }
        let header = item.header();
        let parsed = FunctionHeader::parse(header)?;
        let marker = parsed.tokens[parsed.close..].windows(2).find(|pair| {
            pair[0].is("section") && pair[1].kind == Kind::Text && pair[1].text.starts_with(SECTION_PREFIX)
        });
        let fail = |reason: &str| IrError::new(EDIT, item.symbol().unwrap_or_default(), reason);
        let [keyword, section] = marker.ok_or_else(|| fail("the mark is no section"))? else { continue };
        let numbers = section.text[SECTION_PREFIX.len()..].trim_end_matches('"').split_once('.');
        let numbers = numbers.and_then(|(t, b)| Some((t.parse::<u32>().ok()?, b.parse::<u32>().ok()?)));
        let (threads, blocks) = numbers.ok_or_else(|| fail("its section does not name two numbers"))?;
        let mut attributes = format!(" \"nvvm.maxntid\"=\"{threads}\"");
        if blocks > 0 {
            attributes += &format!(" \"nvvm.minctasm\"=\"{blocks}\"");
        }
        let at = parsed.attributes_at();
        let rest = [&header[at..keyword.start], header[section.end()..].trim_start()].concat();
        let text = [&header[..at], &attributes, &rest, &item.text[header.len()..]].concat();
        item.text = text;
    }
    Ok(())
}
