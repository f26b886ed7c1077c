//! The operations along the last axis of a tensor, and checks that a run has all of them.

use std::path::Path;

use anyhow::{Context, ensure};

use crate::report::Results;
use crate::workspace;

/// An operation along the last axis of a tensor.
#[derive(Debug)]
pub struct Operation {
    /// The name in benchmarks and reports.
    pub name: &'static str,
    /// The method of the library that computes it, after its file; empty if an option of another operation gives it.
    pub method: &'static str,
    /// The number of matrices of the input's shape that it must read or write at least once. One that reads a single matrix can be
    /// faster than a copy.
    pub matrices: f64,
}

/// Every operation of the library, so that no public one can be omitted, in the order of tables.
pub const OPERATIONS: [Operation; 7] = [
    Operation { name: "softmax", method: "forward::run", matrices: 2.0 },
    Operation { name: "log_softmax", method: "", matrices: 2.0 },
    Operation { name: "backward", method: "backward::backward", matrices: 3.0 },
    Operation { name: "cross_entropy", method: "cross_entropy::run", matrices: 2.0 },
    Operation { name: "top_k", method: "top_k::run", matrices: 1.0 },
    Operation { name: "sample", method: "sample::run", matrices: 1.0 },
    Operation { name: "sample_top_p", method: "", matrices: 1.0 },
];

/// The operation of an entry. The bench appends a number if it times several settings, as in `top_k_64`.
pub fn operation(op: &str) -> Option<&'static Operation> {
    let is_it = |operation: &&Operation| {
        let rest = op.strip_prefix(operation.name);
        let setting = rest.map(|rest| rest.strip_prefix('_').unwrap_or(rest));
        setting.is_some_and(|setting| setting.bytes().all(|byte| byte.is_ascii_digit()))
    };
    OPERATIONS.iter().find(is_it)
}

/// Checks that a new run has times of every operation, and no operation that the library does not have.
pub fn check_run(results: &Results) -> anyhow::Result<()> {
    let unlisted = unlisted(&workspace::root().join("host/src/softmax"))?;
    ensure!(
        unlisted.is_empty(),
        "{} of ferrowarp::softmax are in no row of the report; add them to {} and to benches/src/op.rs",
        unlisted.join(", "),
        file!()
    );
    for operation in &OPERATIONS {
        for dtype in ["f32", "bf16"] {
            let at = [("op", operation.name), ("dtype", dtype)];
            ensure!(
                results.ours.iter().any(|entry| entry.is_at(&at) && entry.microseconds.is_some()),
                "the run has no time of {} in {dtype}, which ferrowarp::softmax offers; run the whole bench",
                operation.name
            );
        }
    }
    for entry in results.all() {
        let op = entry.text("op");
        ensure!(
            op == "copy" || operation(&op).is_some(),
            "{} was timed with {op}, which is not in {}; add it there",
            entry.name,
            file!()
        );
    }
    Ok(())
}

/// The methods `run` and `backward` in `folder` that no operation lists. Others of their kind, like `run_into`, compute the same.
pub fn unlisted(folder: &Path) -> anyhow::Result<Vec<String>> {
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
