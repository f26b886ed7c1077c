//! Tokens of PTX, with their places.

/// A token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Token<'a> {
    /// A name, a number, an opcode or a directive: `%r1`, `0f3F800000`, `ld.global.L1::evict_last.b32`, `.reg`.
    Word(&'a str),
    Punct(u8),
    /// A string.
    Text,
}

/// Reads tokens from a place on. Comments are skipped.
#[derive(Clone, Debug)]
pub(super) struct Tokens<'a> {
    text: &'a str,
    /// Where the next token may start.
    pub at: usize,
}

impl<'a> Tokens<'a> {
    pub fn new(text: &'a str) -> Tokens<'a> {
        Tokens { text, at: 0 }
    }

    pub fn next(&mut self) -> Option<Token<'a>> {
        self.skip_blanks();
        let bytes = self.text.as_bytes();
        let start = self.at;
        let first = *bytes.get(start)?;
        if is_word(first) {
            while bytes.get(self.at).is_some_and(|&byte| is_word(byte)) || self.at_double_colon() {
                self.at += 1;
            }
            // Bytes of a word are ASCII, so its ends are between characters.
            return Some(Token::Word(&self.text[start..self.at]));
        }
        self.at += 1;
        if first == b'"' {
            self.skip_until(b'"');
            return Some(Token::Text);
        }
        Some(Token::Punct(first))
    }

    pub fn peek(&self) -> Option<Token<'a>> {
        self.clone().next()
    }

    /// Goes on after the next semicolon.
    pub fn skip_statement(&mut self) {
        while !matches!(self.next(), None | Some(Token::Punct(b';'))) {}
    }

    /// Goes on after the end of the line.
    pub fn skip_line(&mut self) {
        self.skip_until(b'\n');
    }

    /// Goes on after the brace that closes the one just read.
    pub fn skip_braces(&mut self) {
        let mut depth = 1;
        while depth > 0 {
            match self.next() {
                Some(Token::Punct(b'{')) => depth += 1,
                Some(Token::Punct(b'}')) => depth -= 1,
                None => return,
                _ => {}
            }
        }
    }

    fn skip_blanks(&mut self) {
        let bytes = self.text.as_bytes();
        loop {
            match (bytes.get(self.at), bytes.get(self.at + 1)) {
                (Some(byte), _) if byte.is_ascii_whitespace() => self.at += 1,
                (Some(b'/'), Some(b'/')) => self.skip_line(),
                (Some(b'/'), Some(b'*')) => {
                    let end = self.text.get(self.at + 2..).and_then(|rest| rest.find("*/"));
                    self.at = end.map_or(bytes.len(), |end| self.at + 2 + end + 2);
                }
                _ => return,
            }
        }
    }

    /// Goes on after the next such byte.
    fn skip_until(&mut self, byte: u8) {
        let rest = &self.text.as_bytes()[self.at..];
        self.at += rest.iter().position(|&found| found == byte).map_or(rest.len(), |offset| offset + 1);
    }

    /// Whether the next byte is one of two adjacent colons, as in `L1::evict_last`.
    fn at_double_colon(&self) -> bool {
        let colon = |at: usize| self.text.as_bytes().get(at) == Some(&b':');
        colon(self.at) && (colon(self.at + 1) || colon(self.at - 1))
    }
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$' | b'%' | b'.')
}
