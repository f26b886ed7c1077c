//! Checks the PTX against conditions in the sources.
//!
//! ```text
//! //@ ptx: bar.sync == 0, .local == 0
//! //@ ptx(softmax_k3_warp, compute_80): shfl.sync.bfly >= 2
//! //@ ptx(softmax_k9_cluster, compute_90+): mapa == 1
//! //@ allow-local(softmax_k1): the row is an array with an index known at run time only
//! //@ allow-local(softmax_k5, compute_75): one register of 64 too few
//! ```
//!
//! Without names, a line applies to every kernel of the file except CPU-only ones; after a row of `instances(..)`, to that
//! instance, on every architecture. A plus after an architecture adds all later ones. A kernel with `arch = "90a"` is
//! checked on `compute_90a`. A pattern is an opcode's beginning in whole parts or, with a dot in front, parts anywhere.

mod kernels;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use cuda_builder::ptx::Ptx;

use crate::workspace;
use kernels::{instance, kernels_in, kernels_with_archs};

/// A line of conditions and where it applies.
#[derive(Debug, PartialEq)]
struct Check {
    place: String,
    kernels: Vec<String>,
    archs: Archs,
    conditions: Vec<Condition>,
}

/// Architectures as a line names them, such as `compute_75` and `compute_90+`; all if it names none.
#[derive(Debug, PartialEq)]
struct Archs(Vec<String>);

impl Archs {
    /// Whether modules for `arch`, such as `compute_90`, are among them.
    fn contain(&self, arch: &str) -> bool {
        let number = |arch: &str| -> Option<u32> {
            let digits = arch.strip_prefix("compute_")?.trim_end_matches(|c: char| !c.is_ascii_digit());
            digits.parse().ok()
        };
        let names = |name: &String| match name.strip_suffix('+') {
            Some(first) => number(first) <= number(arch),
            None => name == arch,
        };
        self.0.is_empty() || self.0.iter().any(names)
    }
}

/// Kernels that may use local memory.
pub struct Allowed {
    kernels: Vec<String>,
    archs: Archs,
}

impl Allowed {
    /// Whether `kernel` may use local memory on `arch`, such as `compute_90`.
    pub fn covers(&self, kernel: &str, arch: &str) -> bool {
        self.archs.contain(arch) && self.kernels.iter().any(|name| name == kernel)
    }
}

/// `bar.sync == 0`
#[derive(Debug, PartialEq)]
struct Condition {
    pattern: String,
    relation: Relation,
    number: usize,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Relation {
    Equal,
    Unequal,
    AtLeast,
    AtMost,
    More,
    Less,
}

const RELATIONS: &[(&str, Relation)] = &[
    ("==", Relation::Equal),
    ("!=", Relation::Unequal),
    (">=", Relation::AtLeast),
    ("<=", Relation::AtMost),
    (">", Relation::More),
    ("<", Relation::Less),
];

impl Relation {
    fn holds(self, found: usize, number: usize) -> bool {
        match self {
            Relation::Equal => found == number,
            Relation::Unequal => found != number,
            Relation::AtLeast => found >= number,
            Relation::AtMost => found <= number,
            Relation::More => found > number,
            Relation::Less => found < number,
        }
    }
}

/// The PTX of an architecture.
struct Modules<'a> {
    arch: &'a str,
    modules: Vec<Ptx>,
    /// Whether they only hold the kernels for the architecture alone.
    is_specific: bool,
}

/// Checks the modules, given by architecture, against the sources in `folders`. Returns the failures.
pub fn run(folders: &[PathBuf], modules: &[(String, PathBuf)]) -> anyhow::Result<Vec<String>> {
    let checks = all(folders)?;
    let mut by_arch: BTreeMap<&str, Modules<'_>> = BTreeMap::new();
    for (arch, path) in modules {
        let text = std::fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))?;
        let none = Modules { arch, modules: Vec::new(), is_specific: true };
        let of_arch = by_arch.entry(arch).or_insert(none);
        of_arch.modules.push(Ptx::parse(&text));
        of_arch.is_specific &= is_specific(path);
    }
    let specific = specific_kernels(folders)?;
    let mut failures = Vec::new();
    for modules in by_arch.values() {
        for check in checks.iter().filter(|check| check.archs.contain(modules.arch)) {
            failures.extend(failures_of(check, modules, &specific));
        }
    }
    Ok(failures)
}

/// Whether the file holds kernels for one architecture alone: `matmul_kernels.operation.only_90a.compute_90a.ptx`.
fn is_specific(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    name.split('.').any(|part| part.starts_with("only_"))
}

/// The kernels that may use local memory according to the sources in `folders`, which must say why.
pub fn allowed(folders: &[PathBuf]) -> anyhow::Result<Vec<Allowed>> {
    let lines = marked_lines(folders)?.into_iter();
    lines.filter_map(|(place, line)| allowance(&line).with_context(|| place).transpose()).collect()
}

/// Parses an `allow-local` line; `None` if the line is of another kind.
fn allowance(line: &str) -> anyhow::Result<Option<Allowed>> {
    let Some(rest) = line.strip_prefix("allow-local(") else { return Ok(None) };
    let (names, reason) = rest.split_once("):").with_context(|| format!("no `):` in `{line}`"))?;
    if reason.trim().is_empty() {
        bail!("allow-local({names}) gives no reason");
    }
    let (archs, kernels) = archs_and_kernels(names);
    if kernels.is_empty() {
        bail!("allow-local({names}) names no kernel");
    }
    // As a kernel's name, a misspelt architecture would make the line hold for all architectures.
    if let Some(arch) = kernels.iter().find(|name| name.starts_with("compute")) {
        bail!("allow-local({names}): {arch} is not an architecture like compute_75");
    }
    Ok(Some(Allowed { kernels, archs }))
}

/// Splits names between commas into architectures and kernels.
fn archs_and_kernels(names: &str) -> (Archs, Vec<String>) {
    let names = names.split(',').map(|name| name.trim().to_owned()).filter(|name| !name.is_empty());
    let (archs, kernels) = names.partition(|name| name.starts_with("compute_"));
    (Archs(archs), kernels)
}

fn failures_of(check: &Check, modules: &Modules<'_>, specific: &BTreeMap<String, String>) -> Vec<String> {
    let Modules { arch, ref modules, is_specific } = *modules;
    let mut failures = Vec::new();
    // A kernel of one architecture is in no other, and modules of such kernels have no others.
    let is_there = |kernel: &&String| specific.get(*kernel).map_or(!is_specific, |only| only == arch);
    for kernel in check.kernels.iter().filter(is_there) {
        let entry = modules.iter().flat_map(Ptx::entries).find(|entry| entry.name == *kernel);
        let Some(entry) = entry else {
            failures.push(format!("{}: no kernel {kernel} in the PTX for {arch}", check.place));
            continue;
        };
        for condition in &check.conditions {
            let found = entry.count(&condition.pattern);
            if !condition.relation.holds(found, condition.number) {
                let sign =
                    RELATIONS.iter().find(|(_, r)| *r == condition.relation).map_or("", |(sign, _)| sign);
                failures.push(format!(
                    "{}: {kernel} for {arch} has {found} of `{}`, expected {sign} {}",
                    check.place, condition.pattern, condition.number
                ));
            }
        }
    }
    failures
}

fn sources(folders: &[PathBuf]) -> anyhow::Result<Vec<PathBuf>> {
    let of = |folder: &PathBuf| workspace::files(folder, &|path| path.extension().is_some_and(|e| e == "rs"));
    Ok(folders.iter().map(of).collect::<anyhow::Result<Vec<_>>>()?.concat())
}

/// Every source line that begins with `//@`, with its location.
fn marked_lines(folders: &[PathBuf]) -> anyhow::Result<Vec<(String, String)>> {
    let mut lines = Vec::new();
    for path in sources(folders)? {
        let text = std::fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
        for (n, line) in text.lines().enumerate() {
            if let Some(rest) = line.trim_start().strip_prefix("//@") {
                lines.push((format!("{}:{}", workspace::shown(&path), n + 1), rest.trim().to_owned()));
            }
        }
    }
    Ok(lines)
}

fn all(folders: &[PathBuf]) -> anyhow::Result<Vec<Check>> {
    let mut checks = Vec::new();
    for path in sources(folders)? {
        let text = std::fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
        let kernels = kernels_in(&text);
        for (n, line) in text.lines().enumerate() {
            let place = format!("{}:{}", workspace::shown(&path), n + 1);
            let Some((code, rest)) = line.split_once("//@").filter(|(code, _)| !code.contains(['/', '"']))
            else {
                continue;
            };
            let of_row = instance(code).map(|name| vec![name.to_owned()]);
            let kernels = of_row.as_ref().unwrap_or(&kernels);
            checks.extend(parse(&place, rest.trim(), kernels).with_context(|| place.clone())?);
        }
    }
    Ok(checks)
}

/// Parses a check; `None` if the line is of another kind.
fn parse(place: &str, line: &str, kernels_of_file: &[String]) -> anyhow::Result<Option<Check>> {
    if allowance(line)?.is_some() {
        return Ok(None);
    }
    let Some(rest) = line.strip_prefix("ptx") else {
        bail!("`//@ {line}` is neither `ptx:` nor `allow-local(KERNEL):`");
    };
    let (names, conditions) = rest.split_once(':').context("no `:` behind `ptx`")?;
    let names = names.trim().strip_prefix('(').and_then(|names| names.strip_suffix(')')).unwrap_or("");
    let (archs, mut kernels) = archs_and_kernels(names);
    if kernels.is_empty() {
        kernels = kernels_of_file.to_vec();
    }
    if kernels.is_empty() {
        bail!("the file has no kernel that this could hold for");
    }
    let conditions = conditions.split(',').map(condition).collect::<anyhow::Result<_>>()?;
    Ok(Some(Check { place: place.to_owned(), kernels, archs, conditions }))
}

fn condition(text: &str) -> anyhow::Result<Condition> {
    let found = RELATIONS.iter().find_map(|(sign, relation)| Some((text.split_once(sign)?, *relation)));
    let ((pattern, number), relation) =
        found.with_context(|| format!("no comparison in `{}`", text.trim()))?;
    let number = number.trim().parse().with_context(|| format!("`{}` is not a number", number.trim()))?;
    if pattern.trim().is_empty() {
        bail!("no instruction in `{}`", text.trim());
    }
    Ok(Condition { pattern: pattern.trim().to_owned(), relation, number })
}

/// The architecture of each kernel in `folders` that is for one alone, by kernel.
fn specific_kernels(folders: &[PathBuf]) -> anyhow::Result<BTreeMap<String, String>> {
    let mut specific = BTreeMap::new();
    for path in sources(folders)? {
        let text = std::fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
        let kernels = kernels_with_archs(&text).into_iter();
        specific.extend(kernels.filter_map(|(kernel, arch)| Some((kernel, arch?))));
    }
    Ok(specific)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: &str = "/// The fn of it.\n#[kernel]\n#[rustfmt::skip]\npub unsafe fn one(x: *mut f32) {}\n\
        fn helper() {}\n    #[kernel]\n    // about fn names\n    pub unsafe fn two<'a>() {}\n";

    #[test]
    fn kernels_are_found_by_their_attribute() {
        assert_eq!(kernels_in(SOURCE), ["one", "two"]);
    }

    #[test]
    fn instances_stand_for_their_kernel_and_have_lines_of_their_own() {
        let folder = tempfile::tempdir().unwrap();
        let source = "//@ ptx: .local == 0\n#[kernel(\n    instances(\n        one_64 = <64>; //@ ptx: bar == 1\n        \
            one_128 = <128>, widest = 3; //@ ptx: bar == 2\n    ),\n)]\npub unsafe fn one<const N: usize>() {}\n\
            /// Not this: //@ ptx: bar == 3\n#[kernel]\npub unsafe fn two() {}\n";
        std::fs::write(folder.path().join("one.rs"), source).unwrap();
        assert_eq!(kernels_in(source), ["one_64", "one_128", "two"]);
        let checks = all(&[folder.path().to_owned()]).unwrap();
        let kernels: Vec<_> = checks.iter().map(|check| check.kernels.join(" ")).collect();
        assert_eq!(kernels, ["one_64 one_128 two", "one_64", "one_128"]);
        assert_eq!(checks[2].conditions[0].number, 2);
    }

    #[test]
    fn kernels_of_one_architecture_are_looked_for_there_alone() {
        let folder = tempfile::tempdir().unwrap();
        let source = "//@ ptx: .local == 0\n#[kernel(\n    instances(\n        one_1 = <1>, arch = \"90a\";\n        \
            one_2 = <2>;\n        arch = \"100a\" {\n            one_3 = <3>;\n            one_4 = <4>, min_arch = 80;\n\
            }\n    ),\n)]\npub unsafe fn one<const N: usize>() {\n}\n#[kernel(max_threads = 32, arch = \"90a\")]\n\
            #[cfg(target_arch = \"90b\")]\npub unsafe fn two() {}\n//@ ptx(two): wgmma.fence == 1\n";
        std::fs::write(folder.path().join("one.rs"), source).unwrap();
        let specific = specific_kernels(&[folder.path().to_owned()]).unwrap();
        let expected = [("one_1", "compute_90a"), ("one_3", "compute_100a"), ("two", "compute_90a")];
        assert!(specific.iter().map(|(kernel, arch)| (&**kernel, &**arch)).eq(expected));
        let module = |name: &str, kernels: &[&str]| {
            let path = folder.path().join(name);
            let entry = |kernel: &&str| format!(".visible .entry {kernel}() {{ ret; }}\n");
            std::fs::write(&path, kernels.iter().map(entry).collect::<String>()).unwrap();
            let arch = name.split('.').find(|part| part.starts_with("compute_")).unwrap();
            (arch.to_owned(), path)
        };
        let portable = module("k.m.compute_90.ptx", &["one_2", "one_4"]);
        let hopper = module("k.m.only_90a.compute_90a.ptx", &["one_1", "two"]);
        let failures = run(&[folder.path().to_owned()], &[portable.clone(), hopper]).unwrap();
        assert_eq!(failures.len(), 1, "{failures:?}");
        assert!(
            failures[0].ends_with("two for compute_90a has 0 of `wgmma.fence`, expected == 1"),
            "{failures:?}"
        );
        // A module of all kernels for the architecture has the other kernels, too.
        let whole = module("k.m.compute_90a.ptx", &["one_1", "two"]);
        let failures = run(&[folder.path().to_owned()], &[portable, whole]).unwrap();
        let missing = failures.iter().filter(|failure| failure.contains("in the PTX for compute_90a"));
        assert_eq!(missing.count(), 2, "{failures:?}");
    }

    #[test]
    fn a_line_is_read() {
        let kernels = kernels_in(SOURCE);
        let check = parse("p", "ptx(two, compute_80): bar.sync == 0, .v4 >= 2", &kernels).unwrap().unwrap();
        assert_eq!(
            (check.kernels.as_slice(), check.archs.0.as_slice()),
            (&["two".to_owned()][..], &["compute_80".to_owned()][..])
        );
        assert_eq!(
            check.conditions[1],
            Condition { pattern: ".v4".to_owned(), relation: Relation::AtLeast, number: 2 }
        );
        let archs = ["compute_75", "compute_90", "compute_90a", "compute_100"];
        for (names, holds) in [
            ("", [true; 4]),
            ("(compute_90)", [false, true, false, false]),
            ("(compute_90+)", [false, true, true, true]),
        ] {
            let check = parse("p", &format!("ptx{names}: bar == 1"), &kernels).unwrap().unwrap();
            assert_eq!(archs.map(|arch| check.archs.contain(arch)), holds, "{names}");
        }
        assert_eq!(parse("p", "ptx: bar == 1", &kernels).unwrap().unwrap().kernels, ["one", "two"]);
        assert!(parse("p", "allow-local(one): it must", &kernels).unwrap().is_none());
        for wrong in ["ptx bar == 1", "ptx: bar", "ptx: bar == x", "ptx: == 1", "pxt: bar == 1"] {
            assert!(parse("p", wrong, &kernels).is_err(), "{wrong}");
        }
        assert!(parse("p", "ptx: bar == 1", &[]).is_err());
    }

    #[test]
    fn local_memory_is_allowed_by_kernel_and_architecture() {
        let allowed = |line, kernel, arch| allowance(line).unwrap().unwrap().covers(kernel, arch);
        for arch in ["compute_75", "compute_90"] {
            assert!(allowed("allow-local(one): it must", "one", arch), "{arch}");
            assert!(!allowed("allow-local(one): it must", "two", arch), "{arch}");
        }
        let on_one = "allow-local(one, two, compute_75): one register too few";
        assert!(allowed(on_one, "one", "compute_75") && allowed(on_one, "two", "compute_75"));
        assert!(!allowed(on_one, "one", "compute_90"));
        for wrong in ["one)", "one): ", "compute_75): it must", "one, compute75): it must"] {
            assert!(parse("p", &format!("allow-local({wrong}"), &["one".to_owned()]).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_failure_says_what_was_found() {
        let ptx = [Ptx::parse(""), Ptx::parse(".visible .entry one() { bar.sync 0; bar.sync 0; ret; }")];
        let ptx = Modules { arch: "compute_75", modules: ptx.into(), is_specific: false };
        let failures_of = |check: Check| failures_of(&check, &ptx, &BTreeMap::new());
        let check = |line| parse("src/one.rs:3", line, &["one".to_owned()]).unwrap().unwrap();
        assert_eq!(failures_of(check("ptx: bar.sync == 2, .local < 1")), [""; 0]);
        assert_eq!(
            failures_of(check("ptx: bar.sync <= 1")),
            ["src/one.rs:3: one for compute_75 has 2 of `bar.sync`, expected <= 1"]
        );
        assert_eq!(
            failures_of(check("ptx(three): bar.sync <= 1")),
            ["src/one.rs:3: no kernel three in the PTX for compute_75"]
        );
    }
}
