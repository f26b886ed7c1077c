//! `cargo lab compat`: the page `docs/rust-cuda.md`, which compares Rust-CUDA's items with ours.

use std::fmt::Write as _;

use anyhow::{Context, bail, ensure};
use clap::Args;

use crate::root;

use upstream::{Difference, Fixed, Group, On, Row};

#[path = "../compat-kernels/upstream/mod.rs"]
mod upstream;

const PAGE: &str = "docs/rust-cuda.md";

#[derive(Args)]
pub struct Compat {
    /// Write nothing, and fail if the page is not what would be written
    #[arg(long)]
    check: bool,
}

impl Compat {
    pub fn run(self) -> anyhow::Result<()> {
        let problems: Vec<String> = upstream::groups().flat_map(problems).collect();
        ensure!(problems.is_empty(), "the table is wrong:\n  {}", problems.join("\n  "));
        let (text, path) = (page(), root().join(PAGE));
        if !self.check {
            std::fs::write(&path, &text).with_context(|| format!("writing {PAGE}"))?;
            println!("{PAGE} is written");
            return Ok(());
        }
        let found = std::fs::read_to_string(&path).with_context(|| format!("reading {PAGE}"))?;
        if found != text {
            bail!("{PAGE} is out of date; run `cargo lab compat`");
        }
        println!("{PAGE} is up to date");
        Ok(())
    }
}

/// Checks the parts that the compiler does not check: every difference has a reason and an error, and the tests exist.
fn problems(group: &Group) -> Vec<String> {
    let mut problems = Vec::new();
    let mut tests: Vec<&str> = group.tests.to_vec();
    for row in group.rows {
        if let Row::Fixed(fixed) = row {
            tests.push(fixed.test);
        }
        let (Row::Differs(difference) | Row::Absent(difference)) = row else { continue };
        let Difference { item, here, reason, error, test } = difference;
        if [item, here, reason, error].iter().any(|text| text.trim().is_empty()) {
            problems
                .push(format!("`{item}` of {} differs, but its row lacks a reason or an error", group.path));
        }
        tests.push(test);
    }
    if tests.is_empty() {
        problems.push(format!("{} has no test", group.path));
    }
    problems.extend(tests.iter().filter_map(|test| missing(test)));
    problems
}

/// Checks that `FILE::FUNCTION` is a test in the folder `cuda`. Returns the problem, if any.
fn missing(test: &str) -> Option<String> {
    let Some((file, function)) = test.split_once("::") else {
        return Some(format!("`{test}` does not name a function; expected FILE::FUNCTION"));
    };
    let text = std::fs::read_to_string(root().join("cuda").join(file));
    let Ok(text) = text else { return Some(format!("the file cuda/{file} does not exist")) };
    (!is_test(&text, function)).then(|| format!("cuda/{file} has no test `{function}`"))
}

/// Whether the source has a test of that name: a function below `#[test]`, or one from which `on_all!` creates tests.
fn is_test(source: &str, function: &str) -> bool {
    let lines: Vec<&str> = source.lines().map(str::trim).collect();
    let is_function = |line: &str| {
        line.strip_prefix("fn ")
            .and_then(|rest| rest.strip_prefix(function))
            .is_some_and(|rest| rest.starts_with('('))
    };
    let is_listed = source
        .split_once("on_all! {")
        .and_then(|(_, list)| list.split_once('}'))
        .is_some_and(|(list, _)| list.split_whitespace().any(|name| name == function));
    lines
        .iter()
        .enumerate()
        .any(|(at, line)| is_function(line) && (is_listed || at > 0 && lines[at - 1] == "#[test]"))
}

fn page() -> String {
    let mut page = INTRODUCTION.to_owned();
    let count = |wanted: &dyn Fn(&Row) -> usize| -> usize {
        upstream::groups().flat_map(|group| group.rows).map(wanted).sum()
    };
    let same = count(&|row| match row {
        Row::Same(text) | Row::Item(text) => upstream::expand(text).len(),
        _ => 0,
    });
    let fixed = count(&|row| usize::from(matches!(row, Row::Fixed(_))));
    let differs = count(&|row| usize::from(matches!(row, Row::Differs(_))));
    let absent = count(&|row| usize::from(matches!(row, Row::Absent(_))));
    let _ = writeln!(
        page,
        "{same} items are the same. {fixed} bugs of upstream are fixed, so that it works as documented. {differs} items differ and \
         {absent} are absent; an error or a note reports each.\n"
    );
    for group in upstream::groups() {
        page += &section(group);
    }
    page
}

const INTRODUCTION: &str = "# Rust-CUDA's items, and ours

<!-- written by `cargo lab compat` -->

Kernels, build scripts and programs written for Rust-CUDA (commit 946c91f) compile here unchanged. This page lists every
public item of its `cuda_std` and `cuda_builder`, and the items of `cust` that its guide and examples use. For an item in
a table `the same`, `cuda/lab/compat-kernels` compiles a call with upstream's signature. Its kernels are written as
upstream's users write them, and run on the CPU and, as the PTX of both back ends, on the emulator. An item that differs
or is absent has a reason, an error or note that reports it, and a test.

";

fn section(group: &Group) -> String {
    let place = match group.on {
        On::Both => "In kernels, on device and host.",
        On::Device => "Only on the device, as in upstream.",
        On::Builder => "In build scripts.",
        On::Host => "In programs that launch kernels.",
    };
    let mut text = format!("## `{}`\n\n{place}\n\n", group.path);
    let same = group.rows.iter().filter_map(|row| match row {
        Row::Same(item) | Row::Item(item) => Some(item),
        _ => None,
    });
    let mut rows = String::new();
    for item in same {
        let _ = writeln!(rows, "| {} | {} |", code(item), upstream::expand(item).len());
    }
    if !rows.is_empty() {
        text += &format!("| the same | items |\n| --- | ---: |\n{rows}\n");
    }
    let different: Vec<(&str, &Difference)> = group
        .rows
        .iter()
        .filter_map(|row| match row {
            Row::Differs(difference) => Some(("differs", difference)),
            Row::Absent(difference) => Some(("absent", difference)),
            _ => None,
        })
        .collect();
    if !different.is_empty() {
        text +=
            "| Rust-CUDA | | here | reason | reported by | test |\n| --- | --- | --- | --- | --- | --- |\n";
        for (what, Difference { item, here, reason, error, test }) in different {
            let item = if item.contains(['`', ' ']) { cell(item) } else { code(item) };
            let _ = writeln!(
                text,
                "| {item} | {what} | {} | {} | {} | `{test}` |",
                cell(here),
                cell(reason),
                cell(error)
            );
        }
        text.push('\n');
    }
    let fixed: String = group
        .rows
        .iter()
        .filter_map(|row| match row {
            Row::Fixed(Fixed { item, here, test }) => {
                Some(format!("| {} | {} | `{test}` |\n", cell(item), cell(here)))
            }
            _ => None,
        })
        .collect();
    if !fixed.is_empty() {
        text += &format!("| fixed: Rust-CUDA | here | test |\n| --- | --- | --- |\n{fixed}\n");
    }
    let tests: Vec<String> = group.tests.iter().map(|test| format!("`{test}`")).collect();
    text + &format!("Tests: {}.\n\n", tests.join(", "))
}

/// Formats a pattern as code, with its bars escaped for a table.
fn code(pattern: &str) -> String {
    format!("`{}`", cell(pattern))
}

fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_difference_is_complete_and_every_test_is_there() {
        let problems: Vec<String> = upstream::groups().flat_map(problems).collect();
        assert_eq!(problems, Vec::<String>::new());
        const SILENT: Group = Group {
            path: "cuda_std",
            on: On::Both,
            rows: &[Row::Differs(Difference {
                item: "x",
                here: "y",
                reason: "because",
                error: "",
                test: "cuda_std/tests/thread.rs::no_such_test",
            })],
            tests: &[],
        };
        let found = super::problems(&SILENT);
        assert!(
            found[0].contains("`x` of cuda_std differs, but its row lacks a reason or an error"),
            "{found:?}"
        );
        assert!(found[1].contains("has no test `no_such_test`"), "{found:?}");
    }

    #[test]
    fn tests_are_told_from_other_functions() {
        let source = "on_all! {\n    listed\n}\nfn listed(on: &dyn Launcher) {}\n#[test]\nfn marked() {}\nfn helper() {}\n";
        assert!(is_test(source, "listed") && is_test(source, "marked"));
        assert!(!is_test(source, "helper") && !is_test(source, "mark") && !is_test(source, "on"));
    }

    #[test]
    fn patterns_stand_for_all_their_items() {
        assert_eq!(upstream::expand("f_{T:u8|i8}_{a|b}({T})").len(), 4);
        assert_eq!(upstream::expand("f{|_x}"), ["f", "f_x"]);
    }

    #[test]
    fn the_page_is_up_to_date() {
        let found = std::fs::read_to_string(root().join(PAGE)).unwrap();
        assert!(found == page(), "run `cargo lab compat`");
    }
}
