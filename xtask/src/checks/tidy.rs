//! `cargo xtask tidy`: the house rules that a search can check.

use std::path::Path;

use anyhow::{Context, bail};
use clap::Args;

use crate::checks::{links, phrases, quotes};
use crate::workspace;

const MOST_LINES: usize = 400;
const MOST_LINES_OF_A_RUNG: usize = 120;

/// Text that is only allowed in some folders.
struct Reserved {
    texts: &'static [&'static str],
    folders: &'static [&'static str],
    reason: &'static str,
}

// The texts are split in two, so that this file does not contain them itself.
const RESERVED: &[Reserved] = &[
    Reserved {
        texts: &[concat!("Library", "::new("), concat!("Symbol", "<"), concat!("#[lin", "k(name")],
        folders: &[
            "cuda/cust",
            "cuda/cuda_builder/child/nvvm.rs",
            "cuda/cuda_builder/src/native.rs",
            "host/python/src/torch.rs",
        ],
        reason: "foreign libraries belong to cust, cuda_builder/child/nvvm.rs, cuda_builder/src/native.rs and \
                 host/python/src/torch.rs",
    },
    Reserved {
        texts: &[concat!("as", "m!("), concat!("link", "_name = \"llvm"), concat!("core::arch::", "nvptx")],
        folders: &["cuda/cuda_std", "cuda/cuda_builder/tests"],
        reason: "assembly and LLVM intrinsics belong to cuda_std",
    },
    Reserved {
        texts: &[concat!("TO", "DO"), concat!("FIX", "ME"), concat!("to", "do!("), concat!("db", "g!(")],
        folders: &[],
        reason: "unfinished work belongs in no file",
    },
];

#[derive(Args)]
pub struct Tidy {}

impl Tidy {
    pub fn run(self) -> anyhow::Result<()> {
        let root = workspace::root();
        let is_text = |path: &Path| {
            path.extension().is_some_and(|e| ["rs", "toml", "md", "sh", "ll"].iter().any(|known| e == *known))
        };
        let mut found = Vec::new();
        let files = workspace::files(root, &is_text)?;
        for path in &files {
            let text =
                std::fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))?;
            let shown = workspace::shown(path);
            found.extend(problems(&shown, &text));
            found.extend(phrases::problems(&shown, &text));
            found.extend(untested(root, &shown));
            if ["host/src/", "host/device/src/"].iter().any(|folder| shown.starts_with(folder)) {
                found.extend(without_example(&shown, &text));
            }
            if shown == "ARCHITECTURE.md" {
                found.extend(missing_paths(root, &text));
            }
            if shown.ends_with(".md") {
                found.extend(quotes::problems(root, &shown, &text));
                // Of earlier versions, with their commands.
                if shown != "CHANGELOG.md" {
                    found.extend(refused_commands(&shown, &text));
                }
            }
        }
        found.extend(links::problems(root, &links::documents(&files)?));
        if !found.is_empty() {
            bail!("{} places are untidy:\n  {}", found.len(), found.join("\n  "));
        }
        println!("{} files are tidy", files.len());
        Ok(())
    }
}

/// Paths between backticks that do not exist.
fn missing_paths(root: &Path, text: &str) -> Vec<String> {
    let mut problems = Vec::new();
    for (n, line) in text.lines().enumerate() {
        let quoted = line.split('`').skip(1).step_by(2);
        for path in
            quoted.filter(|path| path.contains('/') && !path.contains(' ') && !root.join(path).exists())
        {
            problems.push(format!(
                "ARCHITECTURE.md:{}: `{path}` does not exist; name what has taken its place",
                n + 1
            ));
        }
    }
    problems
}

/// The commands `cargo xtask ..` of a page that it does not know.
fn refused_commands(path: &str, text: &str) -> Vec<String> {
    let mut problems = Vec::new();
    for (n, line) in text.lines().enumerate() {
        for command in line.split("cargo xtask ").skip(1) {
            // Up to a comment, the end of the quote, or what stands for something else.
            let command = command.split(['#', '`', '[', '|', '<', '(']).next().unwrap_or_default();
            let refusal = crate::refusal(command.split_whitespace());
            problems.extend(refusal.map(|why| format!("{path}:{}: `cargo xtask {command}`: {why}", n + 1)));
        }
    }
    problems
}

/// A file of tests in a package whose test programs are listed, if no program has it: cargo would leave it out silently.
fn untested(root: &Path, path: &str) -> Option<String> {
    let (package, file) = path.split_once("/tests/")?;
    let name = file.strip_suffix("/mod.rs").or_else(|| file.strip_suffix(".rs"))?;
    let manifest = std::fs::read_to_string(root.join(package).join("Cargo.toml")).ok()?;
    let all = std::fs::read_to_string(root.join(package).join("tests/all.rs")).unwrap_or_default();
    let has_line = |text: &str, line: &str| text.lines().any(|of_text| of_text == line);
    let is_run = name.contains('/')
        || !has_line(&manifest, "autotests = false")
        || has_line(&manifest, &format!("name = \"{name}\""))
        || has_line(&all, &format!("mod {name};"));
    (!is_run).then(|| format!("{path}: no test program has it; add `mod {name};` to {package}/tests/all.rs"))
}

/// The problems in `text`, the content of the file `path`.
fn problems(path: &str, text: &str) -> Vec<String> {
    let mut problems = Vec::new();
    let lines = text.lines().count();
    let most = if is_rung(path) { MOST_LINES_OF_A_RUNG } else { MOST_LINES };
    if path.ends_with(".rs") && lines > most {
        problems.push(format!("{path}: {lines} lines, at most {most}: split it"));
    }
    if !text.is_empty() && !text.ends_with('\n') {
        problems.push(format!("{path}: no line end at the end of the file"));
    }
    for (n, line) in text.lines().enumerate() {
        let place = format!("{path}:{}", n + 1);
        if line.ends_with([' ', '\t', '\r']) {
            problems.push(format!("{place}: white space at the end of the line"));
        }
        for rule in RESERVED.iter().filter(|_| path.ends_with(".rs")) {
            let allowed = rule.folders.iter().any(|folder| path.starts_with(folder));
            if let Some(text) = rule.texts.iter().find(|text| !allowed && has_word(line, text)) {
                problems.push(format!("{place}: `{text}`: {}", rule.reason));
            }
        }
    }
    problems
}

/// The public items of the library without a runnable example: types, traits and functions of a module.
fn without_example(path: &str, text: &str) -> Vec<String> {
    let lines: Vec<&str> = text.lines().collect();
    let is_item = |line: &str| {
        let kinds = ["struct", "enum", "trait", "unsafe trait", "fn", "unsafe fn"];
        kinds
            .iter()
            .any(|kind| line.strip_prefix("pub ").is_some_and(|rest| has_word(rest, &format!("{kind} "))))
    };
    let has_example = |n: &usize| {
        let above = lines[..*n].iter().rev().take_while(|line| !line.is_empty() && !line.starts_with('}'));
        let mut above = above.take_while(|line| !line.ends_with(';'));
        above.any(|line| line.starts_with("/// ```") || line.starts_with("#[doc(hidden)]"))
    };
    let items = (0..lines.len()).filter(|&n| is_item(lines[n]) && !has_example(&n));
    items.map(|n| format!("{path}:{}: `{}` has no example in its documentation", n + 1, lines[n])).collect()
}

/// Whether `line` contains `text` as a word, not as the end of a longer one.
fn has_word(line: &str, text: &str) -> bool {
    line.match_indices(text).any(|(at, _)| !line[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_'))
}

/// A rung of a ladder: `gpu-kernels/ladders/src/softmax/k3_warp.rs`.
fn is_rung(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or_default();
    let numbered = name.strip_prefix('k').is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
    numbered && path.starts_with("gpu-kernels/ladders/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn public_items_have_examples() {
        let with = "use a;\n/// Text.\n///\n/// ```\n/// f();\n/// ```\npub fn f() {}\n";
        assert_eq!(without_example("a.rs", with), [""; 0]);
        assert_eq!(without_example("a.rs", "#[doc(hidden)]\npub struct A;\npub(crate) fn g() {}\n"), [""; 0]);
        assert_eq!(without_example("a.rs", &format!("{with}\n/// Text.\npub struct B;\n")).len(), 1);
    }

    #[test]
    fn paths_that_do_not_exist_are_found() {
        let found = missing_paths(
            workspace::root(),
            "`xtask/src/checks/tidy.rs`, `a b/c`, `f()`\n```\n`xtask/gone.rs`\n",
        );
        assert_eq!(
            found,
            ["ARCHITECTURE.md:3: `xtask/gone.rs` does not exist; name what has taken its place"]
        );
    }

    #[test]
    fn commands_that_do_not_exist_are_found() {
        let known = "`cargo xtask new`, cargo xtask check --all [--only TEXT]\ncargo xtask ptx # a comment\n";
        assert_eq!(refused_commands("a.md", known), [""; 0]);
        let found = refused_commands("a.md", "\n`cargo xtask miri --planted`\ncargo xtask check --every\n");
        assert!(
            found.len() == 2 && found[0].starts_with("a.md:2: `cargo xtask miri --planted`: "),
            "{found:?}"
        );
    }

    #[test]
    fn files_of_tests_that_no_program_has_are_found() {
        let found = |path: &str| untested(workspace::root(), path);
        for path in ["host/tests/all.rs", "host/tests/norm.rs", "host/tests/softmax/mod.rs", "host/src/a.rs"]
        {
            assert_eq!(found(path), None);
        }
        // Another program, a part of a module, and a package whose programs cargo finds.
        for path in
            ["cuda/cuda_std/tests/ui.rs", "host/tests/softmax/traps.rs", "cuda/cust/tests/no_such_test.rs"]
        {
            assert_eq!(found(path), None);
        }
        for path in ["host/tests/no_such_test.rs", "host/tests/no_such_test/mod.rs"] {
            let needle = "no test program has it; add `mod no_such_test;` to host/tests/all.rs";
            assert!(found(path).is_some_and(|message| message.contains(needle)), "{path}");
        }
    }

    #[test]
    fn rules_and_rooms() {
        let assembly = concat!("as", "m!(\"bar.sync 0;\");\n");
        assert_eq!(problems("gpu-kernels/norm/src/a.rs", assembly).len(), 1);
        assert_eq!(problems("cuda/cuda_std/src/a.rs", assembly).len(), 0);
        assert_eq!(problems("host/src/a.rs", concat!("// TO", "DO: it\n")).len(), 1);
        assert_eq!(problems("host/src/a.rs", "let x = 1; \n").len(), 1);
        assert_eq!(problems("host/src/a.rs", "let x = 1;").len(), 1);
        assert_eq!(problems("host/src/a.rs", concat!("mastodon", "to", "do!(\n")).len(), 0);
    }

    #[test]
    fn line_budgets() {
        assert_eq!(problems("host/src/a.rs", &"x\n".repeat(401)).len(), 1);
        assert_eq!(problems("gpu-kernels/ladders/src/softmax/k3_warp.rs", &"x\n".repeat(131)).len(), 1);
        assert_eq!(problems("gpu-kernels/softmax/src/lib.rs", &"x\n".repeat(131)).len(), 0);
    }
}
