//! The names of a kernel and of its launch type.

use std::cell::RefCell;
use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use proc_macro2::{Ident, Span};
use quote::format_ident;
use syn::{Error, Result};

/// Refuses a function's name that PTX cannot have.
pub(crate) fn check(text: &str, span: Span) -> Result<()> {
    if text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') {
        return Ok(());
    }
    let message = format!(
        "`{text}` cannot be a name in PTX, which has only ASCII letters, digits and underscores; choose another, without `r#`"
    );
    Err(Error::new(span, message))
}

/// Returns the kernel's name, with the suffix `_kernel` if it clashes with a module's name.
///
/// A type and a module share a namespace; a function does not. So Rust-CUDA's `mod gemm; pub use gemm::gemm;` works if
/// the kernel is only a function, but is a clash (E0255) if its launch type has the same name: a `use` imports
/// everything with that name, and the launch type must be visible wherever the kernel is. So in such a layout the type
/// has another name. A macro does not know its module, but the file shows the layout: the file has the kernel's name,
/// or declares a module with it.
pub(super) fn of_launch_type(kernel: &Ident) -> Ident {
    let name = kernel.to_string();
    let file = kernel.span().unwrap().local_file();
    let has_clash = file.is_some_and(|file| is_module(&name, &file) || declares(&name, &file));
    if has_clash { format_ident!("{name}_kernel", span = kernel.span()) } else { kernel.clone() }
}

/// Returns whether `file` is a module called `name`: `name.rs` or `name/mod.rs`, but not the root of a test or program.
fn is_module(name: &str, file: &Path) -> bool {
    let folder = file.parent().and_then(Path::file_name);
    let is_root = folder
        .is_some_and(|folder| ["tests", "benches", "examples", "bin"].iter().any(|f| folder == *f))
        && std::env::var("CARGO_CRATE_NAME").is_ok_and(|root| root == name);
    match file.file_stem() {
        Some(stem) if stem == "mod" => folder.is_some_and(|folder| folder == name),
        stem => stem.is_some_and(|stem| stem == name) && !is_root,
    }
}

/// The modules that a file declares, and the file's path and time.
type Declared = (PathBuf, Option<SystemTime>, HashSet<String>);

/// Returns whether the file has a `mod name;` or a `mod name {`. The names of the last file are kept: a file of many kernels
/// is read once.
fn declares(name: &str, file: &Path) -> bool {
    thread_local! {
        static LAST: RefCell<Option<Declared>> = const { RefCell::new(None) };
    }
    let time = std::fs::metadata(file).and_then(|metadata| metadata.modified()).ok();
    LAST.with_borrow_mut(|last| {
        if last.as_ref().is_none_or(|(path, then, _)| path != file || *then != time) {
            let source = std::fs::read_to_string(file).unwrap_or_default();
            *last = Some((file.to_owned(), time, declared(&source)));
        }
        last.as_ref().is_some_and(|(.., names)| names.contains(name))
    })
}

/// The names of the modules that the source declares.
fn declared(source: &str) -> HashSet<String> {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let code = source.lines().map(|line| line.split_once("//").map_or(line, |(code, _)| code));
    let tails = code.flat_map(|line| {
        line.match_indices("mod ")
            .filter(move |(at, _)| !line[..*at].ends_with(is_word))
            .map(move |(at, keyword)| line[at + keyword.len()..].trim_start())
    });
    let names = tails.filter_map(|tail| {
        let (name, rest) = tail.split_at(tail.find(|c| !is_word(c)).unwrap_or(tail.len()));
        let rest = rest.trim_start();
        (rest.is_empty() || rest.starts_with([';', '{'])).then(|| name.to_owned())
    });
    names.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modules_are_known_by_their_files() {
        for file in ["src/gemm.rs", "src/a/gemm.rs", "src/gemm/mod.rs", "tests/gemm/mod.rs"] {
            assert!(is_module("gemm", Path::new(file)), "{file}");
        }
        for file in ["src/lib.rs", "src/gemm/naive.rs", "src/gemm_2.rs", "mod.rs", "gemm/lib.rs"] {
            assert!(!is_module("gemm", Path::new(file)), "{file}");
        }
    }

    #[test]
    fn declarations_are_found() {
        for source in
            ["mod gemm;", "pub mod gemm {", "  pub(crate) mod  gemm ;", "mod a; mod gemm;", "mod gemm\n{"]
        {
            assert!(declared(source).contains("gemm"), "{source}");
        }
        for source in
            ["// mod gemm;", "mod gemm_naive;", "mod naive_gemm;", "a_mod gemm;", "use gemm::gemm;", ""]
        {
            assert!(!declared(source).contains("gemm"), "{source}");
        }
    }
}
