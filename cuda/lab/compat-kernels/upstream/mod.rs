//! Rust-CUDA's public items (of its commit 946c91f), and what is here in their places.
//!
//! `build.rs` makes calls of all that is the same, with upstream's own signatures, and the compiler checks them; `cargo
//! lab compat` writes the page `docs/rust-cuda.md`.

#![allow(dead_code, reason = "each of the two uses a part")]

mod atomics;
mod builder;
mod cust;
mod device;
mod libdevice;

/// One module of upstream's, or another group of what belongs together.
pub struct Group {
    /// Its path in upstream: `cuda_std::thread`.
    pub path: &'static str,
    /// On what it exists.
    pub on: On,
    pub rows: &'static [Row],
    /// The tests that run what is the same, `FILE::FUNCTION` in the folder `cuda`.
    pub tests: &'static [&'static str],
}

/// Where items exist.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum On {
    /// In kernels, which host and device compile.
    Both,
    /// On the device alone.
    Device,
    /// In a build script.
    Builder,
    /// In the program that launches kernels.
    Host,
}

/// Upstream's items on one line of the page.
pub enum Row {
    /// Functions that are called as upstream's are: `unsafe sync_warp(u32)`, `index() -> u32`. A name in braces stands for
    /// several: `{add|sub}`, or with a letter, which the signature can repeat, `fetch_{T:u32|i32}(*mut {T})`.
    Same(&'static str),
    /// Types, traits, macros, modules and attributes of the same name and use.
    Item(&'static str),
    /// Upstream's documentation holds here, and its code does otherwise.
    Fixed(Fixed),
    /// It is there and not the same.
    Differs(Difference),
    /// It is not there.
    Absent(Difference),
}

/// A bug of upstream.
pub struct Fixed {
    /// What upstream does.
    pub item: &'static str,
    /// What happens here, as upstream documents it.
    pub here: &'static str,
    /// The test of it, as in [`Group::tests`].
    pub test: &'static str,
}

/// A difference that a user meets, never silently.
pub struct Difference {
    /// Upstream's item.
    pub item: &'static str,
    /// What to use here.
    pub here: &'static str,
    /// Why.
    pub reason: &'static str,
    /// What says so, where a source relies on it.
    pub error: &'static str,
    /// The test of it, as in [`Group::tests`].
    pub test: &'static str,
}

/// All that there is.
pub fn groups() -> impl Iterator<Item = &'static Group> {
    [device::GROUPS, atomics::GROUPS, libdevice::GROUPS, builder::GROUPS, cust::GROUPS].into_iter().flatten()
}

/// Rust code that calls everything which is the same, where it is wanted.
pub fn calls(wanted: impl Fn(On) -> bool) -> String {
    let mut code = String::new();
    for (n, group) in groups().enumerate().filter(|(_, group)| wanted(group.on)) {
        let cfg = if group.on == On::Device { "#[cfg(target_arch = \"nvptx64\")]\n" } else { "" };
        code += &format!("{cfg}mod group_{n} {{\nuse {}::*;\n{PREAMBLE}", group.path);
        let mut number = 0;
        for row in group.rows {
            let (Row::Same(text) | Row::Item(text)) = row else { continue };
            for one in expand(text) {
                code += &match row {
                    Row::Item(_) => format!("use {}::{one} as _item_{number};\n", group.path),
                    _ => call(&one, number),
                };
                number += 1;
            }
        }
        code += "}\n";
    }
    code
}

const PREAMBLE: &str = "use core::ffi::c_void;\nuse core::sync::atomic::Ordering;\n";

/// A function of upstream's signature that does nothing but call.
fn call(signature: &str, number: usize) -> String {
    let (unsafety, signature) =
        signature.strip_prefix("unsafe ").map_or(("", signature), |signature| ("unsafe ", signature));
    // The last bracket at the top level opens the parameters: `<T as Trait>::f(T) -> (T, T)`.
    let open = signature.find('(').unwrap_or(signature.len());
    let close = closing(signature, open);
    let result = &signature[close + 1..];
    let types = split(&signature[open + 1..close]);
    let list = |of: &dyn Fn((usize, &String)) -> String| {
        types.iter().enumerate().map(of).collect::<Vec<_>>().join(", ")
    };
    let parameters = list(&|(i, ty)| format!("a{i}: {ty}"));
    let arguments = list(&|(i, _)| format!("a{i}"));
    let call = format!("{}({arguments})", &signature[..open]);
    format!(
        "{unsafety}fn call_{number}({parameters}){result} {{ {} }}\n",
        match unsafety {
            "" => call,
            _ => format!("unsafe {{ {call} }}"),
        }
    )
}

/// Where the bracket that opens at `open` closes.
fn closing(text: &str, open: usize) -> usize {
    let mut depth = 0;
    for (at, c) in text.char_indices().skip(open) {
        depth += match c {
            '(' => 1,
            ')' => -1,
            _ => 0,
        };
        if depth == 0 {
            return at;
        }
    }
    panic!("`{text}` has no parameters")
}

/// The parts between commas that stand in no brackets.
fn split(text: &str) -> Vec<String> {
    let (mut parts, mut depth) = (vec![String::new()], 0);
    for c in text.chars() {
        depth += match c {
            '(' | '<' | '[' => 1,
            ')' | '>' | ']' => -1,
            _ => 0,
        };
        match c {
            ',' if depth == 0 => parts.push(String::new()),
            _ => parts.last_mut().unwrap().push(c),
        }
    }
    parts.retain(|part| !part.trim().is_empty());
    parts
}

/// Every text that `pattern` stands for.
pub fn expand(pattern: &str) -> Vec<String> {
    let Some((before, rest)) = pattern.split_once('{') else { return vec![pattern.to_owned()] };
    let (inside, after) = rest.split_once('}').expect("a brace has no end");
    let (letter, choices) = match inside.split_once(':') {
        Some((letter, choices)) => (Some(format!("{{{letter}}}")), choices),
        None => (None, inside),
    };
    let with = |choice: &str| {
        let after = letter.as_ref().map_or(after.to_owned(), |letter| after.replace(letter, choice));
        expand(&format!("{before}{choice}{after}"))
    };
    choices.split('|').flat_map(with).collect()
}
