//! Writes a call of every item that docs/rust-cuda.md lists as the same, with upstream's signature, for the compiler to check.

use std::path::Path;

const PAGE: &str = "../../docs/rust-cuda.md";

fn main() {
    println!("cargo::rerun-if-changed={PAGE}");
    let page = std::fs::read_to_string(PAGE).unwrap();
    let (_, same) = page.split_once("## What is the same").unwrap();
    let (mut kernels, mut host, mut items) = (String::new(), String::new(), 0);
    for (n, group) in same.split("\n### `").skip(1).enumerate() {
        let (path, rest) = group.split_once('`').unwrap();
        let lines = rest.split("```").nth(1).unwrap().lines().skip(1);
        let calls: Vec<String> =
            lines.flat_map(expand).enumerate().map(|(i, item)| call(path, &item, i)).collect();
        items += calls.len();
        let cfg =
            if rest.starts_with(", only on the device") { "#[cfg(target_arch = \"nvptx64\")]\n" } else { "" };
        let uses = format!("use {path}::*; use core::ffi::c_void; use core::sync::atomic::Ordering;");
        let code = if path.starts_with("cuda_std") { &mut kernels } else { &mut host };
        *code += &format!("{cfg}mod group_{n} {{\n{uses}\n{}}}\n", calls.concat());
    }
    host += &format!("/// The number of items.\npub const ITEMS: usize = {items};\n");
    let out = std::env::var_os("OUT_DIR").unwrap();
    for (name, code) in [("kernels.rs", kernels), ("host.rs", host)] {
        std::fs::write(Path::new(&out).join(name), code).unwrap();
    }
}

/// A function with the signature of `item` that calls it, or an import of an item without parentheses.
fn call(path: &str, item: &str, number: usize) -> String {
    let Some((name, rest)) = item.split_once('(') else {
        return format!("use {path}::{item} as _item_{number};\n");
    };
    let (types, result) = rest.split_once(')').unwrap();
    let types: Vec<&str> = types.split(", ").filter(|ty| !ty.is_empty()).collect();
    let parameters: String = types.iter().enumerate().map(|(i, ty)| format!("a{i}: {ty}, ")).collect();
    let arguments: String = (0..types.len()).map(|i| format!("a{i}, ")).collect();
    match name.strip_prefix("unsafe ") {
        Some(name) => {
            format!("unsafe fn call_{number}({parameters}){result} {{ unsafe {{ {name}({arguments}) }} }}\n")
        }
        None => format!("fn call_{number}({parameters}){result} {{ {name}({arguments}) }}\n"),
    }
}

/// Every text that `pattern` stands for.
fn expand(pattern: &str) -> Vec<String> {
    let Some((before, rest)) = pattern.split_once('{') else { return vec![pattern.to_owned()] };
    let (inside, after) = rest.split_once('}').unwrap();
    let (letter, choices) =
        inside.split_once(':').map_or((None, inside), |(l, c)| (Some(format!("{{{l}}}")), c));
    let with = |choice: &str| {
        let after = letter.as_ref().map_or(after.to_owned(), |letter| after.replace(letter, choice));
        expand(&format!("{before}{choice}{after}"))
    };
    choices.split('|').flat_map(with).collect()
}
