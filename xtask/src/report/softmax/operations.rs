//! The operations of the softmax report: those of the library, so that no public one can be omitted.

use std::path::Path;

use anyhow::{Context, ensure};

use crate::operations::{OPERATIONS, Operation};
use crate::report::softmax::Results;
use crate::workspace;

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
            "{} was timed with {}, which is not in host/src/softmax/operations.rs; add it there",
            entry.name,
            entry.op
        );
    }
    Ok(())
}

/// Checks that every public function of `ferrowarp::softmax` belongs to an operation.
pub fn check_library() -> anyhow::Result<()> {
    let missing = unlisted(&workspace::root().join("host/src/softmax"))?;
    ensure!(
        missing.is_empty(),
        "{} of ferrowarp::softmax are in no row of the report; add them to host/src/softmax/operations.rs and to \
         benches/src/op.rs",
        missing.join(", ")
    );
    Ok(())
}

/// The public functions in `folder` that no operation lists: those that `mod.rs` defines or re-exports, and methods that run
/// something.
fn unlisted(folder: &Path) -> anyhow::Result<Vec<String>> {
    let read =
        |path: &Path| std::fs::read_to_string(path).with_context(|| format!("reading {}", path.display()));
    let module = read(&folder.join("mod.rs"))?;
    let exports = module.split(';').filter_map(|statement| Some(statement.split_once("pub use ")?.1));
    let exported: Vec<&str> =
        exports.flat_map(|path| path.split(|c: char| !c.is_alphanumeric() && c != '_')).collect();
    let mut missing = Vec::new();
    for path in workspace::files(folder, &|path| path.extension().is_some_and(|ext| ext == "rs"))? {
        let stem = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
        for line in read(&path)?.lines() {
            let method = line.strip_prefix("    pub fn ").map(name).filter(|name| name.starts_with("run"));
            let function = line.strip_prefix("pub fn ").map(name);
            let function = function.filter(|name| stem == "mod" || exported.contains(name));
            let found = method.map(|name| format!("{stem}::{name}")).or(function.map(str::to_owned));
            let Some(found) = found else { continue };
            if !OPERATIONS.iter().any(|operation| operation.functions.contains(&found.as_str())) {
                missing.push(found);
            }
        }
    }
    Ok(missing)
}

/// The name at the beginning of a function's declaration.
fn name(declaration: &str) -> &str {
    declaration.split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_public_function_of_the_library_is_in_the_report() {
        check_library().unwrap();
    }

    #[test]
    fn a_public_function_without_a_row_is_found() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
        write("mod.rs", "pub use top_k::{Most, softmax_top_k, softmax_median};\npub fn softmax(\n");
        write(
            "top_k.rs",
            "pub fn softmax_top_k<T>(\npub fn softmax_median(\npub fn helper(\nimpl A {\n    pub fn run(\n}\n",
        );
        assert_eq!(unlisted(folder.path()).unwrap(), ["softmax_median", "top_k::run"]);
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
