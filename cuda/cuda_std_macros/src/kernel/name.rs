//! The names of a kernel and of its launch type.

use proc_macro2::{Ident, Span};
use quote::format_ident;
use std::path::Path;
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
    let has_clash = file.is_some_and(|file| {
        is_module(&name, &file) || std::fs::read_to_string(&file).is_ok_and(|text| declares(&name, &text))
    });
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

/// Returns whether the source has a `mod name;` or a `mod name {`.
fn declares(name: &str, source: &str) -> bool {
    let code = source.lines().map(|line| line.split_once("//").map_or(line, |(code, _)| code));
    code.flat_map(|line| line.match_indices("mod ").map(move |(at, keyword)| (line, at, at + keyword.len())))
        .any(|(line, at, tail)| {
            let is_word = !line[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_');
            let rest = line[tail..].trim_start().strip_prefix(name).map(str::trim_start);
            is_word && rest.is_some_and(|rest| rest.is_empty() || rest.starts_with([';', '{']))
        })
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
            assert!(declares("gemm", source), "{source}");
        }
        for source in
            ["// mod gemm;", "mod gemm_naive;", "mod naive_gemm;", "a_mod gemm;", "use gemm::gemm;", ""]
        {
            assert!(!declares("gemm", source), "{source}");
        }
    }
}
