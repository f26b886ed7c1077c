//! docs/rust-cuda.md: items that are the same compile, absent ones do not, and the tests exist.

use std::path::Path;

mod host {
    #![allow(dead_code, unused_imports, clippy::all)]
    include!(concat!(env!("OUT_DIR"), "/host.rs"));
}

#[test]
fn what_is_absent_does_not_compile() {
    trybuild::TestCases::new().compile_fail("tests/absent/*.rs");
}

#[test]
fn the_page_counts_its_items_and_names_tests_that_exist() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let page = std::fs::read_to_string(root.join("docs/rust-cuda.md")).unwrap();
    let rows = |title: &str| -> Vec<&str> {
        let (_, section) = page.split_once(&format!("## What {title}\n")).unwrap();
        section.trim().lines().skip(2).take_while(|line| line.starts_with('|')).collect()
    };
    let (differ, fixed) = (rows("differs"), rows("is fixed"));
    let counts = format!(
        "{} items are the same, {} differ or are absent, and {} bugs",
        host::ITEMS,
        differ.len(),
        fixed.len()
    );
    let introduction = page.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(introduction.contains(&counts), "the page does not say: {counts}");
    for row in differ.into_iter().chain(fixed) {
        let test = row.trim_end_matches("` |").rsplit('`').next().unwrap();
        let (file, function) = test.split_once("::").unwrap_or_else(|| panic!("no test: {row}"));
        let source = std::fs::read_to_string(root.join(file)).unwrap_or_else(|e| panic!("{file}: {e}"));
        assert!(source.contains(&format!("fn {function}(")), "{file} has no test `{function}`");
    }
}
