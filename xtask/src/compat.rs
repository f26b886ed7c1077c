//! `cargo xtask compat`: the page `docs/rust-cuda.md`, of what Rust-CUDA has and what is here in its place.

use std::fmt::Write as _;

use anyhow::{Context, bail, ensure};
use clap::Args;

use crate::workspace;
use upstream::{Difference, Group, Mended, On, Row};

#[path = "../../cuda/compat-kernels/upstream/mod.rs"]
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
        let (text, path) = (page(), workspace::root().join(PAGE));
        if !self.check {
            workspace::write(&path, &text)?;
            println!("{PAGE} is written");
            return Ok(());
        }
        let found = std::fs::read_to_string(&path).with_context(|| format!("reading {PAGE}"))?;
        if found != text {
            bail!("{PAGE} is not what the table says: run `cargo xtask compat`");
        }
        println!("{PAGE} is up to date");
        Ok(())
    }
}

/// What the compiler does not check: that every difference says why and how one learns of it, and that the tests exist.
fn problems(group: &Group) -> Vec<String> {
    let mut problems = Vec::new();
    let mut tests: Vec<&str> = group.tests.to_vec();
    for row in group.rows {
        if let Row::Mended(mended) = row {
            tests.push(mended.test);
        }
        let (Row::Differs(difference) | Row::Absent(difference)) = row else { continue };
        let Difference { item, here, reason, error, test } = difference;
        if [item, here, reason, error].iter().any(|text| text.trim().is_empty()) {
            problems
                .push(format!("`{item}` of {} differs, and a reason or an error is not given", group.path));
        }
        tests.push(test);
    }
    if tests.is_empty() {
        problems.push(format!("{} has no test", group.path));
    }
    problems.extend(tests.iter().filter_map(|test| missing(test)));
    problems
}

/// What is wrong with `FILE::FUNCTION`, a test in the folder `cuda`, if anything.
fn missing(test: &str) -> Option<String> {
    let Some((file, function)) = test.split_once("::") else {
        return Some(format!("`{test}` names no function: FILE::FUNCTION is expected"));
    };
    let text = std::fs::read_to_string(workspace::root().join("cuda").join(file));
    let Ok(text) = text else { return Some(format!("there is no file cuda/{file}")) };
    (!is_test(&text, function)).then(|| format!("cuda/{file} has no test `{function}`"))
}

/// Whether the source has a test of that name: a function below `#[test]`, or one that `on_all!` makes tests of.
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
    let mended = count(&|row| usize::from(matches!(row, Row::Mended(_))));
    let differs = count(&|row| usize::from(matches!(row, Row::Differs(_))));
    let absent = count(&|row| usize::from(matches!(row, Row::Absent(_))));
    let _ = writeln!(
        page,
        "{same} items are the same; {mended} faults of upstream's are mended, so that its documentation holds; {differs} \
         things differ and {absent} are absent, each with an error that says so.\n"
    );
    for group in upstream::groups() {
        page += &section(group);
    }
    page
}

const INTRODUCTION: &str = "# Rust-CUDA's items, and ours

<!-- written by `cargo xtask compat` -->

Kernels, build scripts and programs written for Rust-CUDA (its commit 946c91f) compile here unchanged. Below is every
public item of its `cuda_std` and `cuda_builder`, and what its guide and examples use of `cust`. What is called the same is called by the compiler, with upstream's own
signatures, in `cuda/compat-kernels`, whose kernels are written as upstream's users write them and run on the CPU, and
as the PTX of both back ends on the emulator. What differs or is absent has a reason, something that says so, and a test.

";

fn section(group: &Group) -> String {
    let place = match group.on {
        On::Both => "In kernels, on device and host.",
        On::Device => "On the device alone, as in upstream.",
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
            "| Rust-CUDA | | here | reason | what says so | test |\n| --- | --- | --- | --- | --- | --- |\n";
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
    let mended: String = group
        .rows
        .iter()
        .filter_map(|row| match row {
            Row::Mended(Mended { item, here, test }) => {
                Some(format!("| {} | {} | `{test}` |\n", cell(item), cell(here)))
            }
            _ => None,
        })
        .collect();
    if !mended.is_empty() {
        text += &format!("| mended: Rust-CUDA | here | test |\n| --- | --- | --- |\n{mended}\n");
    }
    let tests: Vec<String> = group.tests.iter().map(|test| format!("`{test}`")).collect();
    text + &format!("Run by {}.\n\n", tests.join(", "))
}

/// A pattern as code, with the bars that a table would take for its own.
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
            found[0].contains("`x` of cuda_std differs, and a reason or an error is not given"),
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
        let found = std::fs::read_to_string(workspace::root().join(PAGE)).unwrap();
        assert!(found == page(), "run `cargo xtask compat`");
    }
}
