//! Source text quoted in documents.
//!
//! A line `<!-- from PATH -->` above a code block states that the file PATH contains the block unchanged, except for
//! indentation. A line `// ...` in the block stands for omitted lines. In `docs`, every block of Rust names its source.

use std::path::Path;

/// The problems of the quotations in `text`, the document `shown`; paths are relative to `root`.
pub fn problems(root: &Path, shown: &str, text: &str) -> Vec<String> {
    let mut problems = Vec::new();
    let mut lines = text.lines().enumerate();
    let mut above = "";
    while let Some((n, line)) = lines.next() {
        let named = above.strip_prefix("<!-- from ").and_then(|rest| rest.strip_suffix(" -->"));
        if line.starts_with("```") {
            let block: Vec<&str> =
                lines.by_ref().map(|(_, line)| line).take_while(|line| !line.starts_with("```")).collect();
            let place = format!("{shown}:{}", n + 1);
            match named {
                Some(path) => {
                    problems.extend(complaint(root, path, &block).map(|it| format!("{place}: {it}")))
                }
                None if line == "```rust" && shown.starts_with("docs/") => {
                    problems
                        .push(format!("{place}: a quotation without a line `<!-- from PATH -->` above it"));
                }
                None => (),
            }
        } else if let Some(path) = named {
            problems.push(format!("{shown}:{n}: no block of code below `<!-- from {path} -->`"));
        }
        above = line;
    }
    problems
}

/// The problem of a quotation from the file `path`, if any.
fn complaint(root: &Path, path: &str, block: &[&str]) -> Option<String> {
    let source = match std::fs::read_to_string(root.join(path)) {
        Ok(source) => source,
        Err(error) => return Some(format!("cannot read {path}: {error}")),
    };
    let source: Vec<&str> = source.lines().collect();
    let mut from = 0;
    for piece in block.split(|line| line.trim() == "// ...").filter(|piece| !piece.is_empty()) {
        let found = source[from..].windows(piece.len()).position(|lines| is_same(lines, piece));
        let Some(at) = found else {
            let first = piece[0].trim();
            return Some(format!("{path} does not contain the lines from `{first}` on; quote it again"));
        };
        from += at + piece.len();
    }
    (from == 0).then(|| format!("nothing is quoted from {path}"))
}

/// Whether source lines equal the quoted ones, except for a common indentation.
fn is_same(lines: &[&str], quoted: &[&str]) -> bool {
    let indent = lines[0].strip_suffix(quoted[0]);
    let is_line = |(line, quoted): (&&str, &&str)| {
        line == quoted || indent.is_some_and(|indent| line.strip_prefix(indent) == Some(*quoted))
    };
    indent.is_some_and(|indent| indent.chars().all(|c| c == ' ')) && lines.iter().zip(quoted).all(is_line)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(document: &str) -> Vec<String> {
        let root = tempfile::tempdir().unwrap();
        std::fs::write(
            root.path().join("a.rs"),
            "fn a() {\n    if b {\n        c();\n\n        d();\n    }\n}\n",
        )
        .unwrap();
        problems(root.path(), "docs/a.md", document)
    }

    #[test]
    fn what_the_source_holds_is_right() {
        assert_eq!(of("<!-- from a.rs -->\n```rust\nif b {\n    c();\n\n    d();\n}\n```\n"), [""; 0]);
        assert_eq!(of("<!-- from a.rs -->\n```rust\nfn a() {\n// ...\n    d();\n}\n```\n"), [""; 0]);
        assert_eq!(of("```console\nls\n```\n"), [""; 0]);
    }

    #[test]
    fn what_it_does_not_hold_is_found() {
        for (block, complaint) in [
            ("    c();\nd();", "docs/a.md:2: a.rs does not contain the lines from `c();` on; quote it again"),
            (
                "d();\n// ...\nc();",
                "docs/a.md:2: a.rs does not contain the lines from `c();` on; quote it again",
            ),
            ("// ...", "docs/a.md:2: nothing is quoted from a.rs"),
        ] {
            assert_eq!(of(&format!("<!-- from a.rs -->\n```rust\n{block}\n```\n")), [complaint]);
        }
        let gone = of("<!-- from gone.rs -->\n```rust\na\n```\n");
        assert!(gone[0].starts_with("docs/a.md:2: cannot read gone.rs: "), "{gone:?}");
        assert_eq!(
            of("<!-- from a.rs -->\nfn a()\n"),
            ["docs/a.md:1: no block of code below `<!-- from a.rs -->`"]
        );
        assert_eq!(of("```rust\nfn a()\n```\n").len(), 1);
    }
}
