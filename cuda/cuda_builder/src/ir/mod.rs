//! Edits that turn the module rustc writes into one that libNVVM takes.
//!
//! rustc runs only LLVM passes that leave signatures, statics and barriers as the source has them (see `cargo.rs`), so
//! the edits find these whole; everything else is optimised afterwards, in libNVVM, which knows what shared memory and a
//! barrier are. Each edit is a function of a module alone; `tests/ir` holds input and expected output of each.

mod bounds;
mod convergent;
mod lex;
mod messages;
mod module;
mod panics;
mod place;
mod prune;
mod target;

use module::Module;
pub(crate) use target::{DATA_LAYOUT, IR_VERSION};

/// An edit that could not be made, because the module is not what the edit was written for.
#[derive(Clone, Debug, thiserror::Error)]
#[error("edit `{edit}` of the LLVM IR failed at `{item}`: {reason}")]
pub struct IrError {
    /// The edit's name, as in [`apply`].
    pub edit: &'static str,
    /// The symbol or the start of the line it failed at.
    pub item: String,
    /// What was wrong, and the cure if there is one.
    pub reason: String,
}

impl IrError {
    fn new(edit: &'static str, item: impl Into<String>, reason: impl Into<String>) -> IrError {
        IrError { edit, item: item.into(), reason: reason.into() }
    }
}

/// A memory of the device that statics can be placed in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Space {
    /// One copy per block: `.shared`.
    Shared,
    /// Read-only for kernels, cached: `.const`.
    Constant,
}

/// A static that an edit placed in a memory of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlacedStatic {
    /// The symbol, without the `@`.
    pub symbol: String,
    /// Where it now is.
    pub space: Space,
}

/// A module ready for libNVVM, and what must be found again in the PTX.
#[derive(Clone, Debug)]
pub struct Lowered {
    /// The module's text.
    pub text: String,
    /// Symbols of the kernels.
    pub kernels: Vec<String>,
    /// The marked statics that kernels reach.
    pub statics: Vec<PlacedStatic>,
}

/// Runs every edit on the module rustc wrote.
pub fn lower(text: &str) -> Result<Lowered, IrError> {
    let mut module = Module::parse(text)?;
    panics::route(&mut module)?;
    prune::keep_reachable(&mut module)?;
    bounds::set(&mut module)?;
    let statics = place::place_statics(&mut module)?;
    convergent::mark(&mut module)?;
    target::adapt(&mut module)?;
    let kernels = module.items.iter().filter(|item| item.is_kernel());
    let kernels = kernels.filter_map(|item| item.symbol()).map(|name| plain(name).to_owned()).collect();
    Ok(Lowered { text: module.to_string(), kernels, statics })
}

/// Runs the one edit named `edit`: `panics`, `prune`, `bounds`, `place`, `convergent` or `target`.
///
/// This is what the files in `tests/ir` are checked with.
pub fn apply(edit: &str, text: &str) -> Result<String, IrError> {
    let mut module = Module::parse(text)?;
    match edit {
        "panics" => panics::route(&mut module)?,
        "prune" => prune::keep_reachable(&mut module)?,
        "bounds" => bounds::set(&mut module)?,
        "place" => drop(place::place_statics(&mut module)?),
        "convergent" => convergent::mark(&mut module)?,
        "target" => target::adapt(&mut module)?,
        _ => return Err(IrError::new("apply", edit, "there is no edit of this name")),
    }
    Ok(module.to_string())
}

/// The symbol without its `@` and quotes.
fn plain(symbol: &str) -> &str {
    symbol.trim_start_matches('@').trim_matches('"')
}

/// The path that a v0-mangled symbol stands for, without crate hashes: `core::option::expect_failed`.
fn path_of(symbol: &str) -> Option<String> {
    rustc_demangle::try_demangle(plain(symbol)).ok().map(|name| format!("{name:#}"))
}
