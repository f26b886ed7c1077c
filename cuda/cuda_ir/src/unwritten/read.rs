//! Reads the functions of a module as basic blocks of register reads and writes.

use std::collections::HashMap;

use super::function::{Block, Declaration, Event, Function, Goes};
use super::opcode::{self, First, Next};
use super::tokens::{Token, Tokens};

/// All functions with a body. Invalid PTX gives fewer.
pub(super) fn functions(ptx: &str) -> Vec<Function<'_>> {
    let mut tokens = Tokens::new(ptx);
    let (mut all, mut is_function, mut name) = (Vec::new(), false, None);
    while let Some(token) = tokens.next() {
        match token {
            Token::Word(".entry" | ".func") => (is_function, name) = (true, None),
            // Its result is in parentheses before its name.
            Token::Punct(b'(') if is_function && name.is_none() => {
                while !matches!(tokens.next(), None | Some(Token::Punct(b')'))) {}
            }
            Token::Word(word) if is_function => name = name.or(Some(word)),
            Token::Punct(b';') => is_function = false,
            Token::Punct(b'{') if is_function => {
                all.push(Reader::default().body(&mut tokens, name.unwrap_or_default()));
                is_function = false;
            }
            Token::Punct(b'{') => tokens.skip_braces(),
            _ => {}
        }
    }
    all
}

#[derive(Default)]
struct Reader<'a> {
    function: Function<'a>,
    scopes: Vec<Scope<'a>>,
    /// The open scopes, innermost last.
    open: Vec<usize>,
    /// Blocks that end in branches, with scope and labels.
    branches: Vec<(usize, usize, Vec<&'a str>)>,
    tables: HashMap<&'a str, Vec<&'a str>>,
    operands: Vec<(u32, First)>,
}

/// The names between two braces.
#[derive(Default)]
struct Scope<'a> {
    parent: Option<usize>,
    /// The index of the declaration of a single register, or of numbered registers.
    single: HashMap<&'a str, usize>,
    numbered: HashMap<&'a str, usize>,
    labels: HashMap<&'a str, u32>,
    has_started: bool,
}

impl<'a> Reader<'a> {
    fn body(mut self, tokens: &mut Tokens<'a>, name: &'a str) -> Function<'a> {
        self.function.name = name;
        self.function.blocks.push(Block::default());
        self.enter(tokens.at);
        while let Some(token) = tokens.next() {
            match token {
                Token::Punct(b'{') => {
                    self.start();
                    self.enter(tokens.at);
                }
                Token::Punct(b'}') => {
                    self.open.pop();
                    if self.open.is_empty() {
                        break;
                    }
                }
                Token::Punct(b'@') => {
                    let mut guard = tokens.next();
                    if guard == Some(Token::Punct(b'!')) {
                        guard = tokens.next();
                    }
                    let (Some(Token::Word(guard)), Some(Token::Word(opcode))) = (guard, tokens.next()) else {
                        continue;
                    };
                    self.start();
                    if let Some(register) = self.register(guard) {
                        self.function.events.push(Event::Read(register));
                    }
                    self.instruction(tokens, opcode, true);
                }
                Token::Word(".loc" | ".file") => tokens.skip_line(),
                Token::Word(".reg") => self.declare(tokens),
                Token::Word(word) if word.starts_with('.') => {
                    tokens.skip_statement();
                    self.end_of_head(tokens.at);
                }
                Token::Word(word) if tokens.peek() == Some(Token::Punct(b':')) => {
                    tokens.next();
                    self.label(tokens, word);
                }
                Token::Word(opcode) => {
                    self.start();
                    self.instruction(tokens, opcode, false);
                }
                _ => {}
            }
        }
        self.finish()
    }

    fn enter(&mut self, at: usize) {
        let parent = self.open.last().copied();
        self.open.push(self.scopes.len());
        self.scopes.push(Scope { parent, ..Scope::default() });
        self.function.heads.push(at);
    }

    fn scope(&self) -> usize {
        self.open.last().copied().unwrap_or_default()
    }

    /// Marks the start of the scope's instructions.
    fn start(&mut self) {
        let scope = self.scope();
        self.scopes[scope].has_started = true;
    }

    fn end_of_head(&mut self, at: usize) {
        let scope = self.scope();
        if !self.scopes[scope].has_started {
            self.function.heads[scope] = at;
        }
    }

    fn block(&self) -> u32 {
        self.function.blocks.len() as u32 - 1
    }

    /// Ends the block and starts another.
    fn end_block(&mut self, falls_through: bool) {
        let end = self.function.events.len();
        if let Some(block) = self.function.blocks.last_mut() {
            block.events.end = end;
            block.falls_through = falls_through;
        }
        self.function.blocks.push(Block { events: end..end, ..Block::default() });
    }

    /// `.b32 %r<10>, x;`
    fn declare(&mut self, tokens: &mut Tokens<'a>) {
        let (scope, block) = (self.scope(), self.block());
        let before = self.function.declarations.len();
        let mut class = "";
        while let Some(token) = tokens.next() {
            match token {
                // `.v2 .b32`: no back end has vector registers.
                Token::Word(word) if word.starts_with('.') => {
                    class = if class.is_empty() { word } else { "" }
                }
                Token::Word(name) => {
                    let count = self.count(tokens);
                    let (index, first) = (self.function.declarations.len(), self.function.registers);
                    let names = &mut self.scopes[scope];
                    if count.is_some() { &mut names.numbered } else { &mut names.single }.insert(name, index);
                    let declaration = Declaration { class, block, name, first, count, scope, end: None };
                    self.function.declarations.push(declaration);
                    self.function.registers += count.unwrap_or(1);
                }
                Token::Punct(b';') => break,
                _ => {}
            }
        }
        self.end_of_head(tokens.at);
        if self.scopes[scope].has_started {
            let declared = &mut self.function.declarations[before..];
            declared.iter_mut().for_each(|declaration| declaration.end = Some(tokens.at));
        }
    }

    /// `<10>`, up to a reasonable limit.
    fn count(&self, tokens: &mut Tokens<'a>) -> Option<u32> {
        if tokens.peek() != Some(Token::Punct(b'<')) {
            return None;
        }
        tokens.next();
        match tokens.next() {
            Some(Token::Word(count)) => Some(count.parse::<u32>().unwrap_or(0).min(1 << 24)),
            _ => Some(0),
        }
    }

    fn label(&mut self, tokens: &mut Tokens<'a>, name: &'a str) {
        match tokens.peek() {
            Some(Token::Word(".branchtargets")) => {
                tokens.next();
                let mut targets = Vec::new();
                while let Some(token) = tokens.next().filter(|token| *token != Token::Punct(b';')) {
                    targets.extend(if let Token::Word(label) = token { Some(label) } else { None });
                }
                self.tables.insert(name, targets);
            }
            Some(Token::Word(".callprototype" | ".calltargets")) => tokens.skip_statement(),
            _ => {
                self.start();
                self.end_block(true);
                let (scope, block) = (self.scope(), self.block());
                self.scopes[scope].labels.insert(name, block);
            }
        }
    }

    /// Reads an instruction up to its semicolon: first its reads, then its writes.
    fn instruction(&mut self, tokens: &mut Tokens<'a>, opcode: &'a str, is_guarded: bool) {
        let (next, mut words) = (opcode::next(opcode), Vec::new());
        let (mut depth, mut operand, mut in_address, mut is_call_without_result) = (0, 0, false, false);
        let mut is_first_token = true;
        let mut operands = std::mem::take(&mut self.operands);
        while let Some(token) = tokens.next() {
            match token {
                Token::Punct(b';') => break,
                Token::Punct(b'[') => (in_address, depth) = (true, depth + 1),
                Token::Punct(b']') => (in_address, depth) = (false, depth - 1),
                Token::Punct(b'{' | b'(') => depth += 1,
                Token::Punct(b'}' | b')') => depth -= 1,
                Token::Punct(b',') if depth == 0 => operand += 1,
                Token::Word(word) => {
                    is_call_without_result |= is_first_token && opcode.starts_with("call");
                    if next != Next::Following {
                        words.push(word);
                    }
                    if let Some(register) = self.register(word) {
                        let is_read = operand > 0 || in_address || is_call_without_result;
                        operands.push((register, if is_read { First::Read } else { opcode::first(opcode) }));
                    }
                }
                _ => {}
            }
            is_first_token = false;
        }
        let events = &mut self.function.events;
        events.extend(operands.iter().filter(|one| one.1 != First::Written).map(|one| Event::Read(one.0)));
        if !is_guarded {
            events.extend(operands.iter().filter(|one| one.1 != First::Read).map(|one| Event::Write(one.0)));
        }
        operands.clear();
        self.operands = operands;
        if next == Next::Following {
            return;
        }
        if next == Next::BranchTable {
            words = words.last().copied().into_iter().collect();
        }
        if next != Next::Nowhere {
            let block = self.function.blocks.len() - 1;
            self.branches.push((block, self.scope(), words));
        }
        self.end_block(is_guarded);
    }

    /// The register that a word names in this scope.
    fn register(&self, word: &str) -> Option<u32> {
        if word.starts_with(|c: char| c.is_ascii_digit()) {
            return None;
        }
        let mut scope = self.open.last().copied();
        while let Some(at) = scope {
            let names = &self.scopes[at];
            if let Some(&index) = names.single.get(word) {
                return Some(self.function.declarations[index].first);
            }
            let digits = word.len() - word.trim_end_matches(|c: char| c.is_ascii_digit()).len();
            for split in word.len() - digits..word.len() {
                let Some(&index) = names.numbered.get(&word[..split]) else { continue };
                let declaration = &self.function.declarations[index];
                let number = word[split..].parse::<u32>().ok();
                if let Some(number) = number.filter(|&number| Some(number) < declaration.count) {
                    return Some(declaration.first + number);
                }
            }
            scope = names.parent;
        }
        None
    }

    fn finish(mut self) -> Function<'a> {
        self.end_block(false);
        for (block, scope, labels) in std::mem::take(&mut self.branches) {
            let labels = match labels.as_slice() {
                [table] if self.tables.contains_key(table) => self.tables[table].clone(),
                _ => labels,
            };
            let targets: Option<Vec<u32>> = labels.iter().map(|label| self.label_in(scope, label)).collect();
            let targets = targets.filter(|targets| !targets.is_empty());
            self.function.blocks[block].goes = targets.map_or(Goes::Anywhere, Goes::To);
        }
        self.function
    }

    fn label_in(&self, scope: usize, label: &str) -> Option<u32> {
        let names = &self.scopes[scope];
        names.labels.get(label).copied().or_else(|| self.label_in(names.parent?, label))
    }
}
