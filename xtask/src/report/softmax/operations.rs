//! The operations of the softmax report: those of the library, so that no public one can be omitted.

use std::path::Path;

use anyhow::{Context, ensure};

use crate::report::softmax::Results;
use crate::workspace;

/// An operation along the last axis of a tensor.
#[derive(Debug)]
pub struct Operation {
    /// The name in benchmarks and reports.
    pub name: &'static str,
    /// The method of the library that computes it, after its file; empty if an option of another operation gives it.
    method: &'static str,
    /// The number of matrices of the input's shape that it must read or write at least once.
    pub matrices: usize,
    /// Whether it writes a matrix of the input's shape. If not, it only reads memory, which is faster than a copy.
    pub writes_matrix: bool,
}

/// Every operation, in the order of tables.
pub const OPERATIONS: [Operation; 7] = [
    operation("softmax", "mod::run", 2),
    operation("log_softmax", "", 2),
    operation("backward", "backward::backward", 3),
    operation("cross_entropy", "cross_entropy::run", 2),
    operation("top_k", "top_k::run", 1),
    operation("sample", "sample::run", 1),
    operation("sample_top_p", "", 1),
];

const fn operation(name: &'static str, method: &'static str, matrices: usize) -> Operation {
    Operation { name, method, matrices, writes_matrix: matrices > 1 }
}

/// The operation of an entry. The bench appends a number if it times several settings, as in `top_k_64`.
pub fn of(op: &str) -> Option<&'static Operation> {
    let is_it = |operation: &&Operation| {
        let rest = op.strip_prefix(operation.name);
        let setting = rest.map(|rest| rest.strip_prefix('_').unwrap_or(rest));
        setting.is_some_and(|setting| setting.bytes().all(|byte| byte.is_ascii_digit()))
    };
    OPERATIONS.iter().find(is_it)
}

/// The names of all rows: every operation of the library, and its variants with other settings.
pub fn rows(results: &Results) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for operation in &OPERATIONS {
        names.push(operation.name.to_owned());
        for entry in results.ours.iter().chain(&results.peers) {
            let is_it = of(&entry.op).is_some_and(|of| of.name == operation.name);
            if is_it && !names.contains(&entry.op) {
                names.push(entry.op.clone());
            }
        }
    }
    names
}

/// Checks that a new run has times of every operation, and no operation that the library does not have.
pub fn check_run(results: &Results) -> anyhow::Result<()> {
    for operation in &OPERATIONS {
        for dtype in ["f32", "bf16"] {
            let is_timed = results
                .ours
                .iter()
                .any(|e| e.op == operation.name && e.dtype == dtype && e.microseconds.is_some());
            ensure!(
                is_timed,
                "the run has no time of {} in {dtype}, which ferrowarp::softmax offers; run the whole bench",
                operation.name
            );
        }
    }
    for entry in results.ours.iter().chain(&results.peers) {
        ensure!(
            entry.op == "copy" || of(&entry.op).is_some(),
            "{} was timed with {}, which is not in {}; add it there",
            entry.name,
            entry.op,
            file!()
        );
    }
    Ok(())
}

/// Checks that every operation of `ferrowarp::softmax` is in the list.
pub fn check_library() -> anyhow::Result<()> {
    let missing = unlisted(&workspace::root().join("host/src/softmax"))?;
    ensure!(
        missing.is_empty(),
        "{} of ferrowarp::softmax are in no row of the report; add them to {} and to benches/src/op.rs",
        missing.join(", "),
        file!()
    );
    Ok(())
}

/// The methods `run` and `backward` in `folder` that no operation lists. Others of their kind, like `run_into`, compute the same.
fn unlisted(folder: &Path) -> anyhow::Result<Vec<String>> {
    let mut missing = Vec::new();
    for path in workspace::files(folder, &|path| path.extension().is_some_and(|ext| ext == "rs"))? {
        let stem = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
        let text = std::fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
        for line in text.lines() {
            let Some(declaration) = line.strip_prefix("    pub fn ") else { continue };
            let name = declaration.split(['<', '(']).next().unwrap_or_default();
            let found = format!("{stem}::{name}");
            let is_listed = OPERATIONS.iter().any(|operation| operation.method == found);
            if matches!(name, "run" | "backward") && !is_listed {
                missing.push(found);
            }
        }
    }
    Ok(missing)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_operation_of_the_library_is_in_the_report() {
        check_library().unwrap();
        let folder = workspace::root().join("host/src/softmax");
        for method in OPERATIONS.map(|operation| operation.method).iter().filter(|it| !it.is_empty()) {
            let (file, name) = method.split_once("::").unwrap();
            let text = std::fs::read_to_string(folder.join(file).with_extension("rs")).unwrap();
            assert!(text.contains(&format!("    pub fn {name}<")), "{method}");
        }
    }

    #[test]
    fn an_operation_without_a_row_is_found() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
        write("top_k.rs", "impl TopK {\n    pub fn run<T>(\n    pub fn run_into(\n    pub fn backward(\n}\n");
        write("median.rs", "pub fn helper(\nimpl Median {\n    pub fn run(\n}\n");
        let mut found = unlisted(folder.path()).unwrap();
        found.sort_unstable();
        assert_eq!(found, ["median::run", "top_k::backward"]);
    }

    #[test]
    fn settings_of_an_operation_belong_to_it() {
        let name = |op: &str| of(op).map(|operation| operation.name);
        assert_eq!(name("top_k_64"), Some("top_k"));
        assert_eq!(name("sample_top_p"), Some("sample_top_p"));
        assert_eq!(name("softmax"), Some("softmax"));
        assert_eq!([name("copy"), name("softmax_median")], [None, None]);
    }
}
