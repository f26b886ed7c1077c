//! `cargo xtask touches`: the number of files that a change of each kind touches, counted by the names of existing items.
//!
//! Reads all sources and documents, except generated ones and those in folders named `tests`, which may name anything.

use std::collections::BTreeSet;

use anyhow::{Context, ensure};
use clap::{Args, ValueEnum};

use crate::workspace;

#[derive(Args)]
pub struct Touches {
    /// What to count [default: everything]
    #[arg(value_enum)]
    counts: Vec<Count>,
}

#[derive(Clone, Copy, ValueEnum)]
enum Count {
    /// Files that name a kernel of the network
    Kernel,
    /// Files that name a rung of the softmax ladder
    Rung,
    /// Files that name an argument of an operation
    Argument,
    /// Files and types on the path of the input of softmax
    Input,
    /// Names of the setting --batch-size, and files that check it
    BatchSize,
}

impl Touches {
    pub fn run(self) -> anyhow::Result<()> {
        let sources = sources()?;
        let counts = if self.counts.is_empty() { Count::value_variants() } else { &self.counts };
        let rows: Vec<Row> = counts.iter().flat_map(|count| count.rows(&sources)).collect();
        for Row { what, most, found } in &rows {
            println!("{:>3} of at most {most} {what}", found.len());
            found.iter().for_each(|name| println!("      {name}"));
        }
        // A name without any match would count as nothing to touch.
        let gone: Vec<&str> = rows.iter().filter(|row| row.found.is_empty()).map(|row| &*row.what).collect();
        ensure!(gone.is_empty(), "found none, so the names looked for have changed: {}", gone.join("; "));
        let above: Vec<&str> =
            rows.iter().filter(|row| row.found.len() > row.most).map(|row| &*row.what).collect();
        ensure!(above.is_empty(), "more than allowed: {}", above.join("; "));
        Ok(())
    }
}

/// The matches, and their maximum number.
struct Row {
    what: String,
    most: usize,
    found: BTreeSet<String>,
}

impl Count {
    fn rows(self, sources: &[Source]) -> Vec<Row> {
        let row = |what: String, most, found| Row { what, most, found };
        let naming = |what: &str, most, word: &str| {
            let files = sources.iter().filter(|source| source.names(word));
            let files = files.map(|source| source.path.clone()).collect();
            row(format!("files name the {what} {word}"), most, files)
        };
        match self {
            Count::Kernel => ["relu_backward", "count_correct"].map(|name| naming("kernel", 4, name)).into(),
            Count::Rung => vec![naming("rung", 3, "k6_unrolled")],
            Count::Argument => vec![naming("argument", 6, "ignore_index")],
            Count::Input => {
                let (files, types) = way_of_input(sources);
                vec![
                    row("files of softmax declare its input".to_owned(), 8, files),
                    row("types hold it".to_owned(), 5, types),
                ]
            }
            Count::BatchSize => {
                let network = || sources.iter().filter(|source| source.path.starts_with("host/mnist/src/"));
                let names = network().flat_map(|source| declarations(&source.text)).filter(|it| {
                    it.ty == "BatchSize"
                        || it.name.contains("batch") && ["usize", "u32", "u64"].contains(&it.ty)
                });
                let is_variable = |name: &&str| !name.contains(char::is_uppercase);
                let names = names.map(|it| it.name).filter(is_variable).map(str::to_owned).collect();
                let checks = network().filter(|source| source.text.contains("BatchSizeError::"));
                let checks = checks.map(|source| source.path.clone()).collect();
                vec![
                    row("names of --batch-size".to_owned(), 1, names),
                    row("files check it".to_owned(), 1, checks),
                ]
            }
        }
    }
}

/// The files that declare the input of the softmax operation, and their types. How a launch passes arguments, the same for
/// every kernel, does not count: the types of `cuda_std::launch`.
fn way_of_input(sources: &[Source]) -> (BTreeSet<String>, BTreeSet<String>) {
    let (mut files, mut types) = (BTreeSet::new(), BTreeSet::new());
    let of_launch = |ty: &&str| {
        let mut sources =
            sources.iter().filter(|source| source.path.starts_with("cuda/cuda_std/src/launch/"));
        sources.any(|source| source.defines(ty))
    };
    for source in sources.iter().filter(|source| source.is_on_way_of_input()) {
        for Declaration { name, ty, holder } in declarations(&source.text) {
            if !["inp", "view", "memory", "data"].contains(&name) {
                continue;
            }
            files.insert(source.path.clone());
            let read = [Some(ty), holder].into_iter().flatten().filter(|ty| !ty.ends_with("Mut"));
            let read = read.filter(|ty| !of_launch(ty));
            types.extend(read.map(|ty| format!("{ty}{}", source.origin_of(ty, sources))));
        }
    }
    (files, types)
}

/// A file that people write.
struct Source {
    path: String,
    /// Without generated sections.
    text: String,
}

impl Source {
    /// Whether the file has this name, or contains the word.
    fn names(&self, word: &str) -> bool {
        let name = self.path.rsplit('/').next().unwrap_or_default();
        name.split('.').next() == Some(word) || words(&self.text).any(|found| found == word)
    }

    /// Whether it defines the struct.
    fn defines(&self, ty: &str) -> bool {
        let is_named = |rest: &str| words(rest).next() == Some(ty);
        self.text.lines().any(|line| line.split_once("struct ").is_some_and(|(_, rest)| is_named(rest)))
    }

    /// The package of a type that this file names: two packages have a `Matrix`.
    fn origin_of(&self, ty: &str, sources: &[Source]) -> String {
        let packages = [self.path.split('/').next().unwrap_or_default(), "gpu-kernels"];
        let has = |package: &&str| {
            sources.iter().any(|source| source.path.starts_with(package) && source.defines(ty))
        };
        packages.iter().find(|package| has(package)).map_or(String::new(), |package| format!(" of {package}"))
    }

    /// Whether it is a file of the forward operation on the way to a kernel with rows in registers: not a rung, another
    /// operation or another kernel.
    fn is_on_way_of_input(&self) -> bool {
        let mut folders = ["host/src/softmax/", "gpu-kernels/softmax/src/"].into_iter();
        let Some(name) = folders.find_map(|folder| self.path.strip_prefix(folder)) else { return false };
        let others = ["backward", "cross_entropy", "serial", "forward_split"];
        !others.iter().any(|other| name.starts_with(other))
    }
}

fn sources() -> anyhow::Result<Vec<Source>> {
    let is_counted = |path: &std::path::Path| {
        let extension = path.extension().unwrap_or_default();
        let shown = workspace::shown(path);
        ["rs", "toml", "md", "sh"].iter().any(|known| extension == *known)
            && !shown.starts_with("docs/results/")
            && !shown.split('/').any(|folder| folder == "tests")
            && shown != "xtask/src/checks/touches.rs"
    };
    let read = |path: &std::path::PathBuf| {
        let text = std::fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))?;
        Ok(Source { path: workspace::shown(path), text: without_sections(&text) })
    };
    workspace::files(workspace::root(), &is_counted)?.iter().map(read).collect()
}

/// The text without generated sections, which are between `<!-- name -->` and `<!-- /name -->`.
fn without_sections(text: &str) -> String {
    let mut end: Option<String> = None;
    let mut kept = String::new();
    for line in text.lines() {
        let marker = line.strip_prefix("<!-- ").and_then(|rest| rest.strip_suffix(" -->"));
        match (&end, marker) {
            (Some(close), _) if line == close => end = None,
            (Some(_), _) => {}
            (None, Some(name)) if text.contains(&format!("\n<!-- /{name} -->")) => {
                end = Some(format!("<!-- /{name} -->"));
            }
            (None, _) => kept.extend([line, "\n"]),
        }
    }
    kept
}

/// Identifiers, of Rust or any other language.
fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_alphanumeric() && c != '_')
}

/// A `name: ty` of a parameter, a field or a constant.
struct Declaration<'a> {
    name: &'a str,
    /// The outermost meaningful type: `BufferView` of `impl Into<BufferView<'a, T>>`.
    ty: &'a str,
    /// The struct that it is a field of.
    holder: Option<&'a str>,
}

fn declarations(text: &str) -> impl Iterator<Item = Declaration<'_>> {
    let mut holder = None;
    let lines = text.lines().filter(|line| !line.trim_start().starts_with("//"));
    lines.flat_map(move |line| {
        match line.split_once("struct ") {
            Some((before, rest)) if before.is_empty() || before.starts_with("pub") => {
                holder = words(rest).next();
            }
            _ if line.starts_with('}') => holder = None,
            _ => {}
        }
        let holder = holder;
        line.match_indices(": ").filter_map(move |(at, _)| {
            let name = line[..at].rsplit(|c: char| !c.is_alphanumeric() && c != '_').next()?;
            let ty = type_of(&line[at + 2..])?;
            Some(Declaration { name, ty, holder })
        })
    })
}

/// The type at the start of `text`, if there is one and it is not a type parameter.
fn type_of(text: &str) -> Option<&str> {
    let mut rest = text;
    while let Some(inner) =
        ["&", "mut ", "'a ", "impl Into<", "Option<"].iter().find_map(|prefix| rest.strip_prefix(prefix))
    {
        rest = inner;
    }
    if rest.starts_with("*const ") {
        return Some("*const");
    }
    let name = words(rest).next()?;
    let is_type = name.len() > 1 && name.starts_with(char::is_uppercase);
    (is_type || ["usize", "u32", "u64"].contains(&name)).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_names_whole_words_and_its_own_name() {
        let source = |path: &str, text: &str| Source { path: path.to_owned(), text: text.to_owned() };
        assert!(source("a/b.rs", "use a::relu;").names("relu"));
        assert!(source("a/relu.rs", "").names("relu"));
        assert!(!source("a/relu/b.rs", "softmax_relu(relu2)").names("relu"));
    }

    #[test]
    fn what_programs_write_is_not_read() {
        let text = "a\n<!-- t -->\nb\n<!-- /t -->\n<!-- from x.rs -->\nc\n";
        assert_eq!(without_sections(text), "a\n<!-- from x.rs -->\nc\n");
    }

    #[test]
    fn declarations_have_names_types_and_structs() {
        let text = "pub struct A<'a> {\n    view: BufferView<'a, T>,\n}\nfn f(inp: &Matrix<'_, I>, n: *const I) {\n\
                    let x = B { inp: g() };\n// inp: No\nfn g(view: impl Into<View>, t: T)";
        let found = declarations(text).map(|it| (it.name, it.ty, it.holder)).collect::<Vec<_>>();
        let expected = [
            ("view", "BufferView", Some("A")),
            ("inp", "Matrix", None),
            ("n", "*const", None),
            ("view", "View", None),
        ];
        assert_eq!(found, expected);
    }
}
