//! Splits PTX text into tokens (PTX ISA, chapter "Syntax").

use crate::error::EmulatorError;

/// A token with its line, from 1.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Token<'a> {
    pub kind: Kind<'a>,
    pub line: u32,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Kind<'a> {
    /// A name, a register, or an opcode with its modifiers: `%r1`, `$L__BB0_2`, `ld.global.v4.b32`.
    Word(&'a str),
    /// A directive or a type, with its dot: `.reg`, `.b32`.
    Dotted(&'a str),
    /// An integer without its sign.
    Int(u64),
    /// The bits of `0f` and eight hexadecimal digits.
    F32(u32),
    /// The bits of `0d` and sixteen hexadecimal digits, or of a decimal literal.
    F64(u64),
    /// Text in quotation marks, without them.
    Text(&'a str),
    /// One character of punctuation.
    Punct(u8),
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$' | b'%')
}

/// All tokens of `text`, without comments.
pub(crate) fn tokens(text: &str) -> Result<Vec<Token<'_>>, EmulatorError> {
    let bytes = text.as_bytes();
    let (mut all, mut at, mut line) = (Vec::new(), 0, 1);
    while at < bytes.len() {
        let (start, rest) = (at, &bytes[at..]);
        let kind = match rest[0] {
            b'\n' => {
                line += 1;
                at += 1;
                continue;
            }
            byte if byte.is_ascii_whitespace() => {
                at += 1;
                continue;
            }
            b'/' if rest.starts_with(b"//") => {
                at += rest.iter().position(|&b| b == b'\n').unwrap_or(rest.len());
                continue;
            }
            b'/' if rest.starts_with(b"/*") => {
                let end = text[at..].find("*/").ok_or_else(|| syntax(line, "a comment has no end"))?;
                line += rest[..end].iter().filter(|&&b| b == b'\n').count() as u32;
                at += end + 2;
                continue;
            }
            b'"' => {
                let end = rest[1..].iter().position(|&b| b == b'"');
                at += 2 + end.ok_or_else(|| syntax(line, "a text has no end"))?;
                Kind::Text(&text[start + 1..at - 1])
            }
            b'0'..=b'9' => {
                at += rest.iter().take_while(|b| b.is_ascii_alphanumeric()).count();
                let is_decimal = bytes[start..at].iter().all(u8::is_ascii_digit);
                if is_decimal
                    && bytes.get(at) == Some(&b'.')
                    && bytes.get(at + 1).is_some_and(u8::is_ascii_digit)
                {
                    at += 1 + bytes[at + 1..].iter().take_while(|b| b.is_ascii_digit()).count();
                }
                number(&text[start..at])
                    .ok_or_else(|| syntax(line, &format!("`{}` is no number", &text[start..at])))?
            }
            b'.' => {
                at += 1 + rest[1..].iter().take_while(|&&b| is_word(b)).count();
                Kind::Dotted(&text[start..at])
            }
            byte if is_word(byte) => {
                at = word_end(bytes, at);
                Kind::Word(&text[start..at])
            }
            byte if byte.is_ascii() => {
                at += 1;
                Kind::Punct(byte)
            }
            _ => return Err(syntax(line, "a character outside ASCII")),
        };
        all.push(Token { kind, line });
    }
    Ok(all)
}

/// The end of a word with modifiers that may contain `::`, as in `.L1::evict_last`.
fn word_end(bytes: &[u8], mut at: usize) -> usize {
    loop {
        let next = |offset: usize| bytes.get(at + offset).copied().unwrap_or(0);
        if is_word(next(0)) {
            at += 1;
        } else if next(0) == b'.' && is_word(next(1)) {
            at += 2;
        } else if next(0) == b':' && next(1) == b':' && is_word(next(2)) {
            at += 3;
        } else {
            return at;
        }
    }
}

fn number(text: &str) -> Option<Kind<'_>> {
    let hexadecimal = |prefix: [&str; 2], digits: usize| {
        let rest = text.strip_prefix(prefix[0]).or_else(|| text.strip_prefix(prefix[1]))?;
        (rest.len() == digits).then(|| u64::from_str_radix(rest, 16).ok())?
    };
    if let Some(bits) = hexadecimal(["0f", "0F"], 8) {
        return Some(Kind::F32(bits as u32));
    }
    if let Some(bits) = hexadecimal(["0d", "0D"], 16) {
        return Some(Kind::F64(bits));
    }
    if text.contains('.') {
        return text.parse::<f64>().ok().map(|value| Kind::F64(value.to_bits()));
    }
    let digits = text.strip_suffix('U').unwrap_or(text);
    let value = match digits.strip_prefix("0x").or_else(|| digits.strip_prefix("0X")) {
        Some(hexadecimal) => u64::from_str_radix(hexadecimal, 16),
        None => match digits.strip_prefix('0').filter(|rest| !rest.is_empty()) {
            Some(rest) => match rest.strip_prefix(['b', 'B']) {
                Some(binary) => u64::from_str_radix(binary, 2),
                None => u64::from_str_radix(rest, 8),
            },
            None => digits.parse(),
        },
    };
    value.ok().map(Kind::Int)
}

fn syntax(line: u32, message: &str) -> EmulatorError {
    EmulatorError::Syntax { line, message: message.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_numbers_and_punctuation() {
        let kinds = |text| tokens(text).unwrap().into_iter().map(|t| t.kind).collect::<Vec<_>>();
        assert_eq!(
            kinds("ld.global.nc.L1::evict_last.v4.b32 {%r1, _}, [%rd1+-32]; // end"),
            [
                Kind::Word("ld.global.nc.L1::evict_last.v4.b32"),
                Kind::Punct(b'{'),
                Kind::Word("%r1"),
                Kind::Punct(b','),
                Kind::Word("_"),
                Kind::Punct(b'}'),
                Kind::Punct(b','),
                Kind::Punct(b'['),
                Kind::Word("%rd1"),
                Kind::Punct(b'+'),
                Kind::Punct(b'-'),
                Kind::Int(32),
                Kind::Punct(b']'),
                Kind::Punct(b';'),
            ]
        );
        assert_eq!(
            kinds("$L__BB0_2: .b32"),
            [Kind::Word("$L__BB0_2"), Kind::Punct(b':'), Kind::Dotted(".b32")]
        );
        assert_eq!(
            kinds("0f3F800000 0d3ff0000000000000"),
            [Kind::F32(0x3f80_0000), Kind::F64(0x3ff0_0000_0000_0000)]
        );
        assert_eq!(kinds("0x3340U 1.5"), [Kind::Int(0x3340), Kind::F64(1.5f64.to_bits())]);
        assert_eq!(kinds("017 0b101 0U"), [Kind::Int(15), Kind::Int(5), Kind::Int(0)]);
        assert!(tokens("08").is_err());
    }

    #[test]
    fn lines_are_counted_through_comments() {
        let lines = tokens("a /* \n\n */ b\n// c\nd").unwrap().iter().map(|t| t.line).collect::<Vec<_>>();
        assert_eq!(lines, [1, 3, 5]);
    }
}
