//! A position in the tokens.

use crate::error::EmulatorError;
use crate::lex::{Kind, Token};

/// Maximum depth of nested braces, brackets and parentheses.
const MAX_DEPTH: u32 = 256;

/// Reads tokens in order.
pub(super) struct Cursor<'t, 'a> {
    tokens: &'t [Token<'a>],
    at: usize,
    depth: u32,
}

impl<'t, 'a> Cursor<'t, 'a> {
    pub fn new(tokens: &'t [Token<'a>]) -> Self {
        Self { tokens, at: 0, depth: 0 }
    }

    pub fn peek(&self) -> Option<Kind<'a>> {
        self.peek_at(0)
    }

    pub fn peek_at(&self, ahead: usize) -> Option<Kind<'a>> {
        self.tokens.get(self.at + ahead).map(|token| token.kind)
    }

    pub fn next(&mut self) -> Option<Kind<'a>> {
        let kind = self.peek();
        self.at += 1;
        kind
    }

    /// The line of the next token.
    pub fn line(&self) -> u32 {
        self.tokens.get(self.at).or(self.tokens.last()).map_or(1, |token| token.line)
    }

    pub fn error(&self, message: impl Into<String>) -> EmulatorError {
        EmulatorError::Syntax { line: self.line(), message: message.into() }
    }

    /// Reads what stands in braces, brackets or parentheses.
    pub fn nested<T>(
        &mut self,
        read: impl FnOnce(&mut Self) -> Result<T, EmulatorError>,
    ) -> Result<T, EmulatorError> {
        if self.depth == MAX_DEPTH {
            return Err(self.error(format!("nested more than {MAX_DEPTH} deep")));
        }
        self.depth += 1;
        let result = read(self);
        self.depth -= 1;
        result
    }

    /// Takes `punct` if it is next.
    pub fn take(&mut self, punct: u8) -> bool {
        let is_next = self.peek() == Some(Kind::Punct(punct));
        self.at += usize::from(is_next);
        is_next
    }

    pub fn expect(&mut self, punct: u8) -> Result<(), EmulatorError> {
        if self.take(punct) { Ok(()) } else { Err(self.error(format!("`{}` is expected", punct as char))) }
    }

    pub fn word(&mut self) -> Result<&'a str, EmulatorError> {
        match self.peek() {
            Some(Kind::Word(word)) => {
                self.at += 1;
                Ok(word)
            }
            _ => Err(self.error("a name is expected")),
        }
    }

    /// A number with an optional minus, as the low bits of two's complement.
    pub fn int(&mut self) -> Result<u64, EmulatorError> {
        let negative = self.take(b'-');
        match self.next() {
            Some(Kind::Int(value)) => Ok(if negative { value.wrapping_neg() } else { value }),
            _ => Err(self.error("an integer is expected")),
        }
    }

    /// Skips the rest of the next token's line.
    pub fn skip_line(&mut self) {
        let line = self.line();
        while self.peek().is_some() && self.line() == line {
            self.at += 1;
        }
    }

    /// Skips everything up to and including the next `punct`.
    pub fn skip_past(&mut self, punct: u8) -> Result<(), EmulatorError> {
        while let Some(kind) = self.next() {
            if kind == Kind::Punct(punct) {
                return Ok(());
            }
        }
        Err(self.error(format!("`{}` is expected", punct as char)))
    }

    /// Skips the next group in braces.
    pub fn skip_braces(&mut self) -> Result<(), EmulatorError> {
        self.skip_past(b'{')?;
        let mut depth = 1;
        while depth > 0 {
            match self.next() {
                Some(Kind::Punct(b'{')) => depth += 1,
                Some(Kind::Punct(b'}')) => depth -= 1,
                Some(_) => {}
                None => return Err(self.error("`}` is expected")),
            }
        }
        Ok(())
    }

    /// One to three numbers, as in `.maxntid`.
    pub fn extents(&mut self) -> Result<[u32; 3], EmulatorError> {
        let mut all = [1; 3];
        for (at, extent) in all.iter_mut().enumerate() {
            if at == 0 || self.take(b',') {
                *extent = u32::try_from(self.int()?).map_err(|_| self.error("too many threads"))?;
            }
        }
        Ok(all)
    }
}
