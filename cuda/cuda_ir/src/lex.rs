//! Tokens of LLVM's text form: the part of its grammar that the edits need, independent of line ends.

use std::borrow::Cow;
use std::ops::Range;

/// The kind of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// `@name` or `@"any name"`.
    Global,
    /// `%name`.
    Local,
    /// `#7`, a reference to an attribute group.
    Group,
    /// `!7` or `!dbg`; a bare `!` before a brace or a string is [`Kind::Punct`].
    Metadata,
    /// A string with its quotes. A quote inside is written `\22`, so the next quote ends it.
    Text,
    /// A keyword, a type, a number, a label.
    Word,
    /// One character of punctuation.
    Punct,
}

/// A token and its position.
#[derive(Clone, Copy, Debug)]
pub(super) struct Token<'a> {
    pub kind: Kind,
    pub text: &'a str,
    pub start: usize,
}

impl Token<'_> {
    pub fn end(&self) -> usize {
        self.start + self.text.len()
    }

    pub fn is(&self, text: &str) -> bool {
        self.text == text && matches!(self.kind, Kind::Word | Kind::Punct)
    }

    /// +1 for an opening bracket, -1 for a closing one. `<` and `>` are brackets of vectors and packed structs.
    pub fn nesting(&self) -> i32 {
        match self.text {
            _ if self.kind != Kind::Punct => 0,
            "(" | "[" | "{" | "<" => 1,
            ")" | "]" | "}" | ">" => -1,
            _ => 0,
        }
    }
}

/// The tokens of `text`, without white space and comments.
pub(super) fn tokens(text: &str) -> impl Iterator<Item = Token<'_>> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let bytes = text.as_bytes();
        loop {
            match bytes.get(at)? {
                b' ' | b'\t' | b'\n' | b'\r' => at += 1,
                b';' => at = end_of_line(bytes, at),
                _ => break,
            }
        }
        let (kind, end) = token_at(bytes, at);
        // A non-ASCII character only occurs in comments and strings; here it is one token.
        let end = (end..=text.len()).find(|&end| text.is_char_boundary(end)).unwrap_or(text.len());
        let token = Token { kind, text: &text[at..end], start: at };
        at = end;
        Some(token)
    })
}

/// The tokens of one line or item, collected.
pub(super) fn lex(text: &str) -> Vec<Token<'_>> {
    tokens(text).collect()
}

/// The symbols in `text`, also those in strings and comments. Much faster than [`tokens`] where few are wanted.
pub(super) fn symbols_in(text: &str) -> impl Iterator<Item = Token<'_>> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let start = at + text[at..].find('@')?;
        at = start + 1;
        let (kind, end) = token_at(text.as_bytes(), start);
        Some(Token { kind, text: text.get(start..end)?, start })
    })
}

/// The text with other texts in these ranges, which are in order.
pub(super) fn with_replaced<'a>(
    text: &str,
    edits: impl IntoIterator<Item = (Range<usize>, Cow<'a, str>)>,
) -> String {
    let mut out = String::with_capacity(text.len());
    let mut copied = 0;
    for (range, new) in edits {
        out.push_str(&text[copied..range.start]);
        out.push_str(&new);
        copied = range.end;
    }
    out + &text[copied..]
}

/// The index of the bracket that closes the one at `open`, if any.
pub(super) fn closing(tokens: &[Token<'_>], open: usize) -> Option<usize> {
    let mut depth = 0;
    tokens[open..]
        .iter()
        .position(|token| {
            depth += token.nesting();
            depth == 0
        })
        .map(|offset| open + offset)
}

/// The ranges of tokens between commas outside of brackets.
pub(super) fn split_at_commas(tokens: &[Token<'_>]) -> Vec<Range<usize>> {
    let mut parts = Vec::new();
    let (mut depth, mut start) = (0, 0);
    for (i, token) in tokens.iter().enumerate() {
        depth += token.nesting();
        if depth == 0 && token.is(",") {
            parts.push(start..i);
            start = i + 1;
        }
    }
    if start < tokens.len() {
        parts.push(start..tokens.len());
    }
    parts
}

fn token_at(bytes: &[u8], at: usize) -> (Kind, usize) {
    let next = bytes.get(at + 1).copied().unwrap_or(b' ');
    let sigil = |kind| {
        let end = if next == b'"' { end_of_text(bytes, at + 1) } else { end_of_word(bytes, at + 1) };
        (kind, end)
    };
    match bytes[at] {
        b'"' => (Kind::Text, end_of_text(bytes, at)),
        b'@' => sigil(Kind::Global),
        b'%' => sigil(Kind::Local),
        b'#' if next.is_ascii_digit() => {
            let digits = bytes[at + 1..].iter().take_while(|b| b.is_ascii_digit()).count();
            (Kind::Group, at + 1 + digits)
        }
        b'!' if is_word(next) => (Kind::Metadata, end_of_word(bytes, at + 1)),
        b if is_word(b) => (Kind::Word, end_of_word(bytes, at)),
        _ => (Kind::Punct, at + 1),
    }
}

// Users' build scripts are not optimised. These loops, over megabytes, call nothing.

fn end_of_text(bytes: &[u8], open: usize) -> usize {
    let (mut at, len) = (open + 1, bytes.len());
    while at < len && bytes[at] != b'"' {
        at += 1;
    }
    if at < len { at + 1 } else { len }
}

fn end_of_line(bytes: &[u8], mut at: usize) -> usize {
    let len = bytes.len();
    while at < len && bytes[at] != b'\n' {
        at += 1;
    }
    at
}

fn end_of_word(bytes: &[u8], mut at: usize) -> usize {
    let len = bytes.len();
    while at < len && IS_WORD[bytes[at] as usize] {
        at += 1;
    }
    at
}

fn is_word(byte: u8) -> bool {
    IS_WORD[byte as usize]
}

/// Whether a byte belongs to a word.
static IS_WORD: [bool; 256] = {
    let mut is_word = [false; 256];
    let mut byte = 0;
    while byte < 256 {
        is_word[byte] =
            (byte as u8).is_ascii_alphanumeric() || matches!(byte as u8, b'_' | b'.' | b'$' | b'-');
        byte += 1;
    }
    is_word
};

#[cfg(test)]
mod tests {
    use super::*;

    fn kinds(text: &str) -> Vec<(Kind, &str)> {
        tokens(text).map(|t| (t.kind, t.text)).collect()
    }

    #[test]
    fn names_strings_and_comments() {
        assert_eq!(
            kinds("@\"a, b\" = c\"x\\22;\" ; @no\n !3 !\"s\" #12"),
            [
                (Kind::Global, "@\"a, b\""),
                (Kind::Punct, "="),
                (Kind::Word, "c"),
                (Kind::Text, "\"x\\22;\""),
                (Kind::Metadata, "!3"),
                (Kind::Punct, "!"),
                (Kind::Text, "\"s\""),
                (Kind::Group, "#12"),
            ]
        );
    }

    #[test]
    fn unfinished_text_ends_with_the_input() {
        assert_eq!(kinds("\"abc"), [(Kind::Text, "\"abc")]);
        assert_eq!(kinds("@"), [(Kind::Global, "@")]);
        assert_eq!(kinds("é"), [(Kind::Punct, "é")]);
    }

    #[test]
    fn brackets_and_commas() {
        let tokens = lex("a (b, <c, d>), e");
        assert_eq!(closing(&tokens, 1), Some(9));
        assert_eq!(split_at_commas(&tokens), [0..10, 11..12]);
    }
}
