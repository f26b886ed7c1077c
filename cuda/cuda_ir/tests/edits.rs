//! The IR edits, one file each case: `tests/edits/*.ll` holds the edit's name, the input, and the expected output.
//!
//! `UPDATE_EXPECT=1 cargo test -p ferrowarp-cuda-ir --test edits` writes what comes out as the expectation.

use std::path::{Path, PathBuf};

use cuda_ir::{Cut, Edits};

const SEPARATOR: &str = "\n; ---- becomes ----\n";

/// What the edit makes of the input: a module, or an error as a comment.
fn outcome(edit: &str, input: &str) -> String {
    match cuda_ir::apply(edit, input) {
        Ok(text) => {
            // What an edit writes is a module for the next one.
            cuda_ir::apply("tensor_maps", &text).unwrap_or_else(|error| panic!("{edit}: {error}\n{text}"));
            text
        }
        Err(error) => format!("; error: {error}\n"),
    }
}

fn check(path: &Path) -> Result<(), String> {
    let text = std::fs::read_to_string(path).unwrap();
    let (input, expected) = text.split_once(SEPARATOR).unwrap_or((&text, ""));
    let edit =
        input.lines().next().and_then(|line| line.strip_prefix("; edit: ")).expect("`; edit: NAME` on top");
    let found = outcome(edit.trim(), input);
    if found == expected {
        return Ok(());
    }
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        std::fs::write(path, format!("{input}{SEPARATOR}{found}")).unwrap();
        return Ok(());
    }
    Err(format!("{}:{}", path.file_name().unwrap().display(), difference(expected, &found)))
}

/// The lines that are expected and those that were found, without the lines at the start and the end that are the same.
fn difference(expected: &str, found: &str) -> String {
    let [expected, found] = [expected, found].map(|text| text.split('\n').collect::<Vec<_>>());
    let start = expected.iter().zip(&found).take_while(|(a, b)| a == b).count();
    let ends = expected[start..].iter().rev().zip(found[start..].iter().rev());
    let end = ends.take_while(|(a, b)| a == b).count();
    let lines = |sign: char, text: &[&str]| {
        text[start..text.len() - end].iter().map(|line| format!("{sign}{line}\n")).collect::<String>()
    };
    format!("{}:\n{}{}", start + 1, lines('-', &expected), lines('+', &found))
}

#[test]
fn edits() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/edits");
    let mut paths: Vec<PathBuf> = folder.read_dir().unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    assert!(paths.len() >= 15, "the files of tests/edits are missing");
    let failures: Vec<String> = paths.iter().filter_map(|path| check(path).err()).collect();
    let cure = "run with UPDATE_EXPECT=1 if the new output is right";
    assert!(failures.is_empty(), "{}\n{cure}", failures.join("\n"));
}

/// No text is a reason to panic: whatever is cut off or put in is an error or an output.
#[test]
fn damaged_modules_are_no_panic() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/edits");
    for entry in folder.read_dir().unwrap() {
        let text = std::fs::read_to_string(entry.unwrap().path()).unwrap();
        let input = text.split_once(SEPARATOR).map_or(text.as_str(), |(input, _)| input);
        for cut in (0..input.len()).filter(|&cut| input.is_char_boundary(cut)) {
            for edit in [
                "libm",
                "panics",
                "prune",
                "bounds",
                "by_value",
                "tensor_maps",
                "constants",
                "place",
                "convergent",
                "target",
                "overflow",
                "wide",
                "remainders",
                "decimal",
            ] {
                let _ = cuda_ir::apply(edit, &input[..cut]);
                let _ = cuda_ir::apply(edit, &input[cut..]);
            }
            for (cut_by, only) in [(Cut::Whole, None), (Cut::Families, Some("only_90a".to_owned()))] {
                let edits =
                    Edits { cut: cut_by, override_libm: true, constant_memory: true, only, library: None };
                let _ = cuda_ir::lower(&format!("{}({}", &input[..cut], &input[cut..]), &edits);
            }
        }
    }
}

#[test]
fn a_static_with_two_commas_in_a_row_is_refused() {
    let error = cuda_ir::apply("place", "@s = global i8 0,, align 1").unwrap_err();
    assert!(error.to_string().contains("nothing between two of its commas"), "{error}");
}

/// However deep a static is nested, reading it takes a bounded stack.
#[test]
fn nesting_is_bounded() {
    let nested = |levels: usize| {
        let (open, close) = ("[1 x i8] [".repeat(levels), "]".repeat(levels));
        let text = format!(
            "@s = internal global {open}[1 x i8] undef{close}, section \".ferrowarp.shared\", align 1"
        );
        cuda_ir::apply("place", &text)
    };
    assert!(nested(50).unwrap().contains("addrspace(3)"));
    assert!(nested(100_000).unwrap_err().to_string().contains("initial value"));
}
