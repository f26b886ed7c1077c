//! Routes panics to the panic handler without `core::fmt`.
//!
//! `core` formats the messages of failed index checks, `expect` and `assert_eq!`. Formatting code costs registers and local
//! memory in every kernel that can panic, and its text could not reach the host anyway. So the bodies of those functions are
//! replaced:
//!
//! - `panic_bounds_check(index, len, location)` calls `__ferrowarp_panic_bounds_check`, if the crate has it;
//! - the others call `core::panicking::panic` with a text that is known here or passed as an argument;
//! - a message with arguments becomes the text between them (`messages.rs`).
//!
//! `panic_fmt` and the panic handler are inlined into their callers. The handler then knows at compile time whether a
//! message has no arguments; the arguments of any other are dead and take no local memory.

use std::collections::HashSet;

use super::IrError;
use super::lex::{Kind, lex, symbols_in};
use super::module::{FunctionHeader, Item, ItemKind, Module, call_on};
use super::{messages, path_of};

const PANIC: &str = "core::panicking::panic";
const PANIC_FMT: &str = "core::panicking::panic_fmt";
const HANDLER: &str = "__rustc::rust_begin_unwind";
const BOUNDS_CHECK_HOOK: &str = "@__ferrowarp_panic_bounds_check";
/// Attributes for functions that must be inlined into their callers.
const INLINED: &str = "alwaysinline noreturn nounwind";

/// The new body of a function of `core`.
#[derive(Clone, Copy)]
enum Route {
    /// Passes index, length and location to the hook.
    BoundsCheck,
    /// The message is the first two parameters.
    Forward,
    /// The message is this text.
    Literal(&'static str),
    /// The message depends on the kind of assertion, the first parameter, unless the caller passed one.
    Assertion,
}

/// The functions of `core` with replaced bodies. If this compiler's `core` does not have a path, that is not an error: its
/// function keeps its body, and the message arrives with arguments.
const ROUTES: &[(&str, Route)] = &[
    ("core::panicking::panic_bounds_check", Route::BoundsCheck),
    ("core::option::expect_failed", Route::Forward),
    ("core::result::unwrap_failed", Route::Forward),
    ("core::panicking::panic_str_2015", Route::Forward),
    ("core::panicking::assert_failed", Route::Assertion),
    ("core::slice::index::slice_index_fail", Route::Literal("slice index out of range")),
    (
        "core::slice::copy_from_slice_impl::len_mismatch_fail",
        Route::Literal("copy_from_slice: the slices differ in length"),
    ),
    (
        "core::str::slice_error_fail",
        Route::Literal("string index out of range or not on a character boundary"),
    ),
    ("core::cell::panic_already_borrowed", Route::Literal("RefCell already borrowed")),
    ("core::cell::panic_already_mutably_borrowed", Route::Literal("RefCell already mutably borrowed")),
];

const ASSERTIONS: [&str; 3] = [
    "assertion `left == right` failed",
    "assertion `left != right` failed",
    "assertion `left matches right` failed",
];

/// Replaces the bodies of the functions in [`ROUTES`], and marks `panic_fmt` and the panic handler for inlining.
pub(super) fn route(module: &mut Module) -> Result<(), IrError> {
    let functions = functions(module);
    let symbol_at = |path: &str| functions.iter().find(|f| f.path == path).map(|f| f.symbol.clone());
    let panic = symbol_at(PANIC);
    let panic_fmt = symbol_at(PANIC_FMT);
    let formatting = functions.iter().filter_map(|f| match without_generics(&f.path) {
        PANIC_FMT => Some((f.symbol.clone(), 0)),
        "core::panicking::assert_failed" => Some((f.symbol.clone(), 3)),
        _ => None,
    });
    let messages = messages::write_out(module, &formatting.collect());
    let has_hook = module.function_mut(BOUNDS_CHECK_HOOK).is_some();

    let mut texts = Texts::default();
    for Function { item, path, .. } in &functions {
        let Some((_, route)) = ROUTES.iter().find(|(name, _)| *name == without_generics(path)) else {
            continue;
        };
        let header = without_debug_info(module.items[*item].header());
        let parameters = FunctionHeader::parse(&header)?.parameters();
        let body = match (route, &panic) {
            (Route::BoundsCheck, _) if has_hook => bounds_check(&parameters),
            (Route::Forward, Some(panic)) => forward(&parameters, panic),
            (Route::Literal(text), Some(panic)) => literal(&parameters, panic, text, &mut texts),
            (Route::Assertion, Some(panic)) => {
                assertion(&parameters, panic, panic_fmt.as_deref(), &mut texts)
            }
            _ => continue,
        };
        let body = body.ok_or_else(|| {
            IrError::new("panics", path, format!("its parameters are not as expected: {parameters:?}"))
        })?;
        module.items[*item].text = format!("{header}\nstart:\n{body}  unreachable\n}}");
    }
    for text in texts.items().into_iter().chain(messages) {
        module.push(text)?;
    }
    let inlined: Vec<String> = [PANIC_FMT, HANDLER].into_iter().filter_map(symbol_at).collect();
    inline_everywhere(module, &inlined)
}

/// The header without `!dbg !7`: a function with a source location must have one at each of its calls.
pub(super) fn without_debug_info(header: &str) -> String {
    let tokens = lex(header);
    match tokens.iter().position(|token| token.text == "!dbg").filter(|at| at + 1 < tokens.len()) {
        Some(at) => format!("{}{}", &header[..tokens[at].start], header[tokens[at + 1].end()..].trim_start()),
        None => header.to_owned(),
    }
}

fn without_generics(path: &str) -> &str {
    path.split_once("::<").map_or(path, |(before, _)| before)
}

/// Whether the function of that path takes part in panics.
fn has_part(path: &str) -> bool {
    let path = without_generics(path);
    [PANIC, PANIC_FMT, HANDLER].contains(&path) || ROUTES.iter().any(|(name, _)| *name == path)
}

/// A function of the module that takes part in panics.
struct Function {
    item: usize,
    symbol: String,
    path: String,
}

fn functions(module: &Module) -> Vec<Function> {
    let read = |(item, found): (usize, &Item)| {
        let ItemKind::Function(symbol) = &found.kind else { return None };
        // The crate's name is part of the mangled name.
        let is_of_a_crate = ["4core", "7___rustc"].iter().any(|name| symbol.contains(name));
        let path = is_of_a_crate.then(|| path_of(symbol))?.filter(|path| has_part(path))?;
        Some(Function { item, symbol: symbol.clone(), path })
    };
    module.items.iter().enumerate().filter_map(read).collect()
}

fn bounds_check(parameters: &[&str]) -> Option<String> {
    let [index, len, location] = parameters else {
        return None;
    };
    Some(format!("  call void {BOUNDS_CHECK_HOOK}(i64 {index}, i64 {len}, ptr {location})\n"))
}

/// The caller's location is the last parameter of every `#[track_caller]` function.
fn forward(parameters: &[&str], panic: &str) -> Option<String> {
    let [text, len, .., location] = parameters else {
        return None;
    };
    Some(format!("  call void {panic}(ptr {text}, i64 {len}, ptr {location})\n"))
}

fn literal(parameters: &[&str], panic: &str, text: &'static str, texts: &mut Texts) -> Option<String> {
    let location = parameters.last()?;
    let (symbol, len) = texts.symbol(text);
    Some(format!("  call void {panic}(ptr {symbol}, i64 {len}, ptr {location})\n"))
}

fn assertion(parameters: &[&str], panic: &str, panic_fmt: Option<&str>, texts: &mut Texts) -> Option<String> {
    let [kind, _left, _right, template, arguments, location] = parameters else {
        return None;
    };
    let [equal, unequal, matches] = ASSERTIONS.map(|text| texts.symbol(text));
    let own_text = match panic_fmt {
        Some(panic_fmt) => format!(
            "  %given = icmp ne ptr {template}, null\n  \
               br i1 %given, label %given_text, label %own_text\n\
             given_text:\n  \
               call void {panic_fmt}(ptr {template}, ptr {arguments}, ptr {location})\n  \
               unreachable\n\
             own_text:\n"
        ),
        None => String::new(),
    };
    Some(format!(
        "{own_text}  \
           %is_equal = icmp eq i8 {kind}, 0\n  \
           %is_unequal = icmp eq i8 {kind}, 1\n  \
           %text_not = select i1 %is_unequal, ptr {}, ptr {}\n  \
           %text = select i1 %is_equal, ptr {}, ptr %text_not\n  \
           %len_not = select i1 %is_unequal, i64 {}, i64 {}\n  \
           %len = select i1 %is_equal, i64 {}, i64 %len_not\n  \
           call void {panic}(ptr %text, i64 %len, ptr {location})\n",
        unequal.0, matches.0, equal.0, unequal.1, matches.1, equal.1
    ))
}

/// The constants that hold message texts.
#[derive(Default)]
struct Texts {
    texts: Vec<&'static str>,
}

impl Texts {
    fn symbol(&mut self, text: &'static str) -> (String, usize) {
        let n = self.texts.iter().position(|t| *t == text).unwrap_or_else(|| {
            self.texts.push(text);
            self.texts.len() - 1
        });
        (format!("@__ferrowarp_text_{n}"), text.len())
    }

    fn items(&self) -> Vec<String> {
        let item = |(n, text): (usize, &&str)| {
            let len = text.len();
            format!("@__ferrowarp_text_{n} = private unnamed_addr constant [{len} x i8] c\"{text}\", align 1")
        };
        self.texts.iter().enumerate().map(item).collect()
    }
}

/// Marks `symbols` for inlining, and removes `noinline` from their calls.
fn inline_everywhere(module: &mut Module, symbols: &[String]) -> Result<(), IrError> {
    for symbol in symbols {
        let Some(item) = module.function_mut(symbol) else {
            continue;
        };
        let header = item.header().to_owned();
        let parsed = FunctionHeader::parse(&header)?;
        let behind = &parsed.tokens[parsed.close..];
        let new_header = match behind.iter().find(|t| t.kind == Kind::Group) {
            Some(group) => format!("{}{INLINED}{}", &header[..group.start], &header[group.end()..]),
            None => {
                let at = parsed.attributes_at();
                format!("{} {INLINED}{}", &header[..at], &header[at..])
            }
        };
        item.text.replace_range(..header.len(), &new_header);
    }
    let groups = module.items.iter().filter(|item| is_noinline_group(&item.text));
    let groups: HashSet<String> =
        groups.filter_map(|item| item.text.split_whitespace().nth(1)).map(str::to_owned).collect();
    for item in module.items.iter_mut().filter(|item| matches!(item.kind, ItemKind::Function(_))) {
        if !symbols_in(&item.text).any(|found| symbols.iter().any(|symbol| symbol == found.text)) {
            continue;
        }
        let lines = item.text.lines().map(|line| {
            let call = call_on(line).filter(|call| symbols.iter().any(|symbol| symbol == call.callee.text));
            match call.and_then(|call| call.group).filter(|group| groups.contains(group.text)) {
                Some(group) => format!("{}noreturn nounwind{}", &line[..group.start], &line[group.end()..]),
                None => line.to_owned(),
            }
        });
        item.text = lines.collect::<Vec<_>>().join("\n");
    }
    Ok(())
}

fn is_noinline_group(text: &str) -> bool {
    text.starts_with("attributes #") && text.split_whitespace().any(|word| word == "noinline")
}
