//! A module as a list of its top-level items, each with its text.

use super::IrError;
use super::lex::{Kind, Token, closing, lex, split_at_commas, tokens};

/// The kinds of top-level items.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ItemKind {
    /// `define ... @name(...) { ... }`
    Function(String),
    /// `declare ... @name(...)`
    Declaration(String),
    /// `@name = ...`: a variable or an alias.
    Variable(String),
    /// Types, attribute groups, metadata, target lines.
    Other,
}

/// One item; a function spans several lines.
#[derive(Clone, Debug)]
pub(super) struct Item {
    pub kind: ItemKind,
    pub text: String,
}

impl Item {
    /// The symbol that this item defines or declares, with its `@`.
    pub fn symbol(&self) -> Option<&str> {
        match &self.kind {
            ItemKind::Function(name) | ItemKind::Declaration(name) | ItemKind::Variable(name) => Some(name),
            ItemKind::Other => None,
        }
    }

    /// The first line of a function, or the whole of another item.
    pub fn header(&self) -> &str {
        self.text.lines().next().unwrap_or_default()
    }

    /// Whether this is a function with the kernel calling convention.
    pub fn is_kernel(&self) -> bool {
        matches!(self.kind, ItemKind::Function(_))
            && tokens(self.header()).take_while(|t| t.kind != Kind::Global).any(|t| t.is("ptx_kernel"))
    }

    /// Whether this is a function that other modules may call by its name, and not a kernel.
    pub fn is_visible(&self) -> bool {
        matches!(self.kind, ItemKind::Function(_))
            && !self.is_kernel()
            && !tokens(self.header()).take_while(|t| t.kind != Kind::Global).any(|t| t.is("internal"))
    }
}

/// A module in LLVM's text form.
#[derive(Clone, Debug)]
pub(super) struct Module {
    pub items: Vec<Item>,
}

impl Module {
    /// Splits `text` into items; comments and empty lines between them are dropped.
    pub fn parse(text: &str) -> Result<Module, IrError> {
        let mut items = Vec::new();
        let mut lines = text.lines();
        while let Some(line) = lines.next() {
            let first = line.split_whitespace().next().unwrap_or_default();
            if first.is_empty() || first.starts_with(';') {
                continue;
            }
            let mut text = line.to_owned();
            let kind = match first {
                "define" => {
                    while !text.ends_with("\n}") {
                        let line = lines.next().ok_or_else(|| malformed(line, "the function has no end"))?;
                        text.push('\n');
                        text.push_str(line);
                    }
                    ItemKind::Function(symbol_of(line)?)
                }
                "declare" => ItemKind::Declaration(symbol_of(line)?),
                _ if first.starts_with('@') => ItemKind::Variable(symbol_of(line)?),
                "source_filename" | "target" | "attributes" => ItemKind::Other,
                _ if first.starts_with(['%', '!', '$']) => ItemKind::Other,
                "module" => ItemKind::Other,
                _ => return Err(malformed(line, "this kind of line is not known")),
            };
            items.push(Item { kind, text });
        }
        Ok(Module { items })
    }

    /// The function named `symbol` (with its `@`).
    pub fn function_mut(&mut self, symbol: &str) -> Option<&mut Item> {
        self.items.iter_mut().find(|i| matches!(&i.kind, ItemKind::Function(name) if name == symbol))
    }

    /// Appends an item.
    pub fn push(&mut self, text: String) -> Result<(), IrError> {
        self.items.extend(Module::parse(&text)?.items);
        Ok(())
    }

    /// Appends the items of `texts` whose symbols the module lacks.
    pub fn push_missing(&mut self, texts: &[String]) -> Result<(), IrError> {
        for text in texts {
            for item in Module::parse(text)?.items {
                if !self.items.iter().any(|known| known.symbol() == item.symbol()) {
                    self.items.push(item);
                }
            }
        }
        Ok(())
    }
}

impl std::fmt::Display for Module {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.items.iter().try_for_each(|item| writeln!(f, "{}", item.text))
    }
}

/// The positions of the parts of a `define` line, as indices into its tokens.
pub(super) struct FunctionHeader<'a> {
    pub tokens: Vec<Token<'a>>,
    pub name: usize,
    pub close: usize,
}

impl<'a> FunctionHeader<'a> {
    pub fn parse(line: &'a str) -> Result<FunctionHeader<'a>, IrError> {
        let tokens = lex(line);
        let name = tokens.iter().position(|t| t.kind == Kind::Global);
        let name = name.ok_or_else(|| malformed(line, "the function has no name"))?;
        let close = closing(&tokens, name + 1).filter(|_| tokens[name + 1].is("("));
        let close = close.ok_or_else(|| malformed(line, "the parameters have no end"))?;
        Ok(FunctionHeader { tokens, name, close })
    }

    /// The names of the parameters, each as `%x`.
    pub fn parameters(&self) -> Vec<&'a str> {
        let inner = &self.tokens[self.name + 2..self.close];
        let last_local = |part: &[Token<'a>]| part.iter().rfind(|t| t.kind == Kind::Local).map(|t| t.text);
        split_at_commas(inner).into_iter().filter_map(|part| last_local(&inner[part])).collect()
    }

    /// The position for function attributes: after the parameters and the address markers.
    pub fn attributes_at(&self) -> usize {
        let marker = self.tokens.get(self.close + 1);
        let marked = marker.is_some_and(|t| t.is("unnamed_addr") || t.is("local_unnamed_addr"));
        self.tokens[self.close + usize::from(marked)].end()
    }
}

/// A call instruction on one line.
pub(super) struct Call<'a> {
    pub callee: Token<'a>,
    /// Offset just after the arguments, the position for call attributes.
    pub attributes_at: usize,
    /// The attribute group after it, if any.
    pub group: Option<Token<'a>>,
    /// Whether it is inline assembly without side effects: `asm`, not `asm sideeffect`.
    pub is_pure_assembly: bool,
}

/// The call on `line`, if any. LLVM prints an instruction with its operands on one line.
pub(super) fn call_on(line: &str) -> Option<Call<'_>> {
    if !line.contains("call ") && !line.contains("invoke ") {
        return None;
    }
    let tokens = lex(line);
    let keyword = tokens.iter().position(|t| t.is("call") || t.is("invoke"))?;
    // After the keyword: attributes and types, in brackets or not, then the callee and the argument list.
    let mut at = keyword + 1;
    while at < tokens.len() {
        let followed_by_arguments = tokens.get(at + 1).is_some_and(|t| t.is("("));
        let callee = match tokens[at].kind {
            Kind::Global | Kind::Local => followed_by_arguments,
            // `asm sideeffect "code", "constraints"(arguments)`: the last string is before the bracket.
            Kind::Text => followed_by_arguments,
            _ => false,
        };
        if callee {
            let close = closing(&tokens, at + 1)?;
            let group = tokens.get(close + 1).filter(|t| t.kind == Kind::Group).copied();
            let before = &tokens[keyword..at];
            let is_pure_assembly =
                tokens[at].kind == Kind::Text && !before.iter().any(|token| token.is("sideeffect"));
            return Some(Call {
                callee: tokens[at],
                attributes_at: tokens[close].end(),
                group,
                is_pure_assembly,
            });
        }
        at = if tokens[at].nesting() > 0 { closing(&tokens, at)? + 1 } else { at + 1 };
    }
    None
}

fn symbol_of(line: &str) -> Result<String, IrError> {
    let symbol = tokens(line).find(|t| t.kind == Kind::Global).map(|t| t.text.to_owned());
    symbol.ok_or_else(|| malformed(line, "no symbol on the line"))
}

fn malformed(line: &str, reason: &str) -> IrError {
    IrError::new("parse", line.chars().take(120).collect::<String>(), reason)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_told_apart() {
        let call = call_on("  %4 = call noundef range(i8 0, 3) i1 @f(ptr %0, i64 (1)) #21, !dbg !3").unwrap();
        assert_eq!((call.callee.text, call.group.unwrap().text), ("@f", "#21"));
        assert_eq!(call_on("  tail call void %fp(ptr @x)").unwrap().callee.kind, Kind::Local);
        let asm = "  call void asm sideeffect \"bar.sync 0;\", \"~{memory}\"() #3";
        assert_eq!(call_on(asm).unwrap().callee.kind, Kind::Text);
        assert!(call_on("  store ptr @call, ptr %x").is_none());
    }

    #[test]
    fn a_cut_off_module_is_an_error() {
        assert!(Module::parse("define void @f() {\nstart:\n").is_err());
        assert!(Module::parse("<html>").is_err());
    }

    #[test]
    fn header_parts() {
        let line = "define internal void @f(i8 range(i8 0, 3) %kind, ptr %0) unnamed_addr #1 {";
        let header = FunctionHeader::parse(line).unwrap();
        assert_eq!(header.parameters(), ["%kind", "%0"]);
        assert_eq!(&line[header.attributes_at()..], " #1 {");
    }
}
