//! Expands messages with arguments as far as they are known: `panic!("no {x} in {y}")` prints `no {} in {}`.
//!
//! `core` has two forms of a message, distinguished by the lowest bit of the second word: a text, with twice its length plus
//! one, or a template with the address of the arguments (`core::fmt::Arguments`, "Internal representation"). If the template
//! is a constant, the second form is replaced by the first.

use std::borrow::Cow;
use std::collections::HashMap;

use super::lex::{Kind, Token, closing, lex, split_at_commas, symbols_in};
use super::module::{ItemKind, Module, call_on};

/// Replaces the template and the arguments after it by a text, in each call of one of `callees`, given with the index of the
/// template argument. A template that this function cannot read stays unchanged.
pub(super) fn write_out(module: &mut Module, callees: &HashMap<String, usize>) -> Vec<String> {
    let constants: HashMap<String, Vec<u8>> = module
        .items
        .iter()
        .filter_map(|item| match &item.kind {
            ItemKind::Variable(symbol) => Some((symbol.clone(), constant_bytes(&item.text)?)),
            _ => None,
        })
        .collect();
    let mut texts = Vec::new();
    for item in module.items.iter_mut().filter(|item| matches!(item.kind, ItemKind::Function(_))) {
        if !symbols_in(&item.text).any(|symbol| callees.contains_key(symbol.text)) {
            continue;
        }
        let mut is_changed = false;
        let with_texts = item.text.lines().map(|line| {
            let text = with_text(line, callees, &constants, &mut texts);
            is_changed |= text.is_some();
            text.map_or(Cow::Borrowed(line), Cow::Owned)
        });
        let lines: Vec<Cow<'_, str>> = with_texts.collect();
        if is_changed {
            item.text = lines.join("\n");
        }
    }
    let item = |(n, text): (usize, &String)| {
        let (len, text) = (text.len(), escaped(text));
        format!("@__ferrowarp_message_{n} = private unnamed_addr constant [{len} x i8] c\"{text}\", align 1")
    };
    texts.iter().enumerate().map(item).collect()
}

/// The line with a text instead of its template, if it is such a call.
fn with_text(
    line: &str,
    callees: &HashMap<String, usize>,
    constants: &HashMap<String, Vec<u8>>,
    texts: &mut Vec<String>,
) -> Option<String> {
    let callee = call_on(line)?.callee;
    let at = callees.get(callee.text)?;
    let tokens = lex(line);
    let open = tokens.iter().position(|token| token.start == callee.start)? + 1;
    let inner = &tokens[open + 1..closing(&tokens, open)?];
    let parts = split_at_commas(inner);
    // First and last token of an argument: its type and, after any attributes, its value.
    let ends = |part: usize| -> Option<(Token<'_>, Token<'_>)> {
        let tokens = &inner[parts.get(part)?.clone()];
        Some((*tokens.first()?, *tokens.last()?))
    };
    let ((template_type, template), (arguments_type, arguments)) = (ends(*at)?, ends(at + 1)?);
    if template.kind != Kind::Global || arguments.kind != Kind::Local {
        return None;
    }
    let text = text_of(constants.get(template.text)?)?;
    let n = texts.iter().position(|known| *known == text).unwrap_or_else(|| {
        texts.push(text.clone());
        texts.len() - 1
    });
    let tagged_len = 2 * text.len() + 1;
    // The attributes belonged to the old values.
    Some(format!(
        "{}ptr @__ferrowarp_message_{n}{}ptr inttoptr (i64 {tagged_len} to ptr){}",
        &line[..template_type.start],
        &line[template.end()..arguments_type.start],
        &line[arguments.end()..]
    ))
}

/// The bytes of `@x = private constant [3 x i8] c"..."`, if the variable is a constant with a single string.
pub(super) fn constant_bytes(variable: &str) -> Option<Vec<u8>> {
    let tokens = lex(variable);
    let mut strings = tokens.iter().filter(|token| token.kind == Kind::Text);
    let string = strings.next()?.text;
    if !tokens.iter().any(|token| token.is("constant")) || strings.next().is_some() {
        return None;
    }
    let content = string.split_once('"')?.1.strip_suffix('"')?.as_bytes();
    let mut bytes = Vec::with_capacity(content.len());
    let mut at = 0;
    while let Some(&byte) = content.get(at) {
        if byte != b'\\' {
            bytes.push(byte);
            at += 1;
            continue;
        }
        // LLVM writes a backslash as two.
        if content.get(at + 1) == Some(&b'\\') {
            bytes.push(b'\\');
            at += 2;
            continue;
        }
        let digits = std::str::from_utf8(content.get(at + 1..at + 3)?).ok()?;
        bytes.push(u8::from_str_radix(digits, 16).ok()?);
        at += 3;
    }
    Some(bytes)
}

/// Reads a template: pieces of text with their length, placeholders with their options, a zero byte.
fn text_of(template: &[u8]) -> Option<String> {
    let mut text = Vec::new();
    let mut rest = template;
    loop {
        let (&first, behind) = rest.split_first()?;
        let (piece, next): (&[u8], &[u8]) = match first {
            0 => return String::from_utf8(text).ok().filter(|_| behind.is_empty()),
            1..=0x7f => behind.split_at_checked(usize::from(first))?,
            0x80 => {
                let (len, behind) = behind.split_first_chunk::<2>()?;
                behind.split_at_checked(usize::from(u16::from_le_bytes(*len)))?
            }
            0x81..=0xbf => return None,
            0xc0.. => {
                // Flags, width, precision, index of the argument: each present if its bit is set.
                let options: usize = [4, 2, 2, 2]
                    .iter()
                    .enumerate()
                    .map(|(bit, len)| usize::from(first >> bit & 1) * len)
                    .sum();
                (b"{}", behind.get(options..)?)
            }
        };
        text.extend_from_slice(piece);
        rest = next;
    }
}

/// Escapes the text for the quotes of a constant.
fn escaped(text: &str) -> String {
    let plain = |byte: u8| (byte == b' ' || byte.is_ascii_graphic()) && byte != b'"' && byte != b'\\';
    let escape = |byte: u8| if plain(byte) { char::from(byte).to_string() } else { format!("\\{byte:02X}") };
    text.bytes().map(escape).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn templates_are_read() {
        let text = |template: &[u8]| text_of(template);
        assert_eq!(text(b"\x06hello \xC0\x01\n\0").unwrap(), "hello {}\n");
        assert_eq!(text(b"\xC3\0\0\0\0\x05\0\x01%\xC8\x01\0\0").unwrap(), "{}%{}");
        assert_eq!(text(b"\x80\x03\0abc\0").unwrap(), "abc");
        for wrong in
            [&b""[..], b"\x06hello", b"\x80\x03", b"\x90a\0", b"\xC1\0\0", b"\x01a\0b", b"\x01\xFF\0"]
        {
            assert_eq!(text(wrong), None, "{wrong:?}");
        }
    }

    #[test]
    fn constants_are_read() {
        let bytes = constant_bytes(r#"@a = private unnamed_addr constant [5 x i8] c"a\22\5C\\\00", align 1"#);
        assert_eq!(bytes.unwrap(), b"a\"\\\\\0");
        for no_constant in [
            r#"@a = internal global [1 x i8] c"a", align 1"#,
            r#"@a = private constant <{ [1 x i8], [1 x i8] }> <{ [1 x i8] c"a", [1 x i8] c"b" }>"#,
            r#"@a = private constant [1 x i8] c"\0""#,
            "@a = private constant i8 1",
        ] {
            assert_eq!(constant_bytes(no_constant), None, "{no_constant}");
        }
        assert_eq!(escaped("a\"\\\n{}ä"), "a\\22\\5C\\0A{}\\C3\\A4");
    }
}
