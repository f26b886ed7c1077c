//! Edits the text of PTX functions, line by line. The back ends write instructions on lines of their own.

use std::borrow::Cow;

use crate::ptx::function_name;

/// Replaces the body of each function by what `edit` returns for its name and body; `None` keeps it. A body ends with the
/// function's closing brace.
pub(crate) fn edit_bodies(ptx: &str, edit: impl Fn(&str, &str) -> Option<String>) -> Cow<'_, str> {
    let (mut edited, mut copied, mut start, mut depth) = (String::new(), 0, 0, 0usize);
    let (mut head, mut head_end) = (0, 0);
    for (at, mark) in marks(ptx) {
        match (mark, depth) {
            ('{', 0) => {
                (head_end, depth) = (at, 1);
                start = at + 1 + usize::from(ptx[at + 1..].starts_with('\n'));
            }
            ('{', _) => depth += 1,
            ('}', 1) => {
                let edited_body =
                    function_name(&ptx[head..head_end]).and_then(|name| edit(name, &ptx[start..=at]));
                if let Some(body) = edited_body {
                    edited.push_str(&ptx[copied..start]);
                    edited.push_str(&body);
                    copied = at + 1;
                }
                (head, depth) = (at + 1, 0);
            }
            ('}', _) => depth = depth.saturating_sub(1),
            (_, 0) => head = at + 1,
            _ => {}
        }
    }
    if copied == 0 {
        return Cow::Borrowed(ptx);
    }
    edited.push_str(&ptx[copied..]);
    Cow::Owned(edited)
}

/// The braces and semicolons outside of comments and strings, with their offsets.
fn marks(ptx: &str) -> impl Iterator<Item = (usize, char)> {
    let mut next = 0;
    std::iter::from_fn(move || {
        loop {
            let at = next + ptx[next..].find(['{', '}', ';', '"', '/'])?;
            next = at + 1;
            next += match &ptx[at..] {
                rest if rest.starts_with("//") => rest.find('\n')?,
                rest if rest.starts_with("/*") => rest.find("*/")?,
                rest if rest.starts_with('"') => rest[1..].find('"')? + 1,
                rest if rest.starts_with('/') => 0,
                rest => return rest.chars().next().map(|mark| (at, mark)),
            };
        }
    })
}

/// Replaces each line by what `edit` returns for it; `None` keeps it. Returns `None` if all stay.
pub(crate) fn edit_lines<'a>(
    text: &'a str,
    mut edit: impl FnMut(&'a str) -> Option<String>,
) -> Option<String> {
    let (mut edited, mut copied, mut at) = (String::new(), 0, 0);
    for line in text.split_inclusive('\n') {
        let start = at;
        at += line.len();
        if let Some(new) = edit(line) {
            edited.push_str(&text[copied..start]);
            edited.push_str(&new);
            copied = at;
        }
    }
    (copied > 0).then(|| edited + &text[copied..])
}

/// The opcode and operands of the line's instruction.
pub(crate) fn instruction(line: &str) -> Option<(&str, &str)> {
    let code = line.trim_start();
    let code =
        if code.starts_with('@') { code.split_once(char::is_whitespace)?.1.trim_start() } else { code };
    let (opcode, operands) = code.split_once(char::is_whitespace)?;
    opcode.starts_with(|c: char| c.is_ascii_lowercase()).then(|| (opcode, operands.trim_start()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Counts the statements of each body, in its place.
    fn counted(ptx: &str) -> Cow<'_, str> {
        edit_bodies(ptx, |name, body| {
            Some(format!("{name} {}}}", marks(body).filter(|mark| mark.1 == ';').count()))
        })
    }

    #[test]
    fn bodies_are_found_with_any_indentation() {
        let ptx = ".file 1 \"{\"\n.global .b8 x[2] = {1, 2};\n.func g\n();\n.visible .entry k()\n.maxntid 256\n\
                   {\n\tmov a, b; // }\n\t{ // callseq 0\n\tcall g, ();\n\t}\n\tret;\n}\n/* { */\n.func g()\n{\n\tret;\n}\n\
                   .section .debug_abbrev\n{\n.b8 1;\n}\n";
        let edited = ptx.replace(&ptx[ptx.find("\tmov").unwrap()..ptx.find("\n/*").unwrap()], "k 3}");
        let edited = edited.replace("\tret;\n}", "g 1}");
        assert_eq!(counted(ptx), edited);
        let flat =
            |text: &str| text.lines().map(|line| line.trim_start().to_owned() + "\n").collect::<String>();
        assert_eq!(counted(&flat(ptx)), flat(&edited));
        let deep = |text: &str| text.lines().map(|line| format!("  {line}\n")).collect::<String>();
        assert_eq!(flat(&counted(&deep(ptx))), flat(&edited));
        assert_eq!(counted(".func f() { mov a, b; { ret; } }"), ".func f() {f 2}");
    }

    #[test]
    fn damaged_text_stays() {
        for ptx in [
            "",
            "}",
            "};",
            ".func f() {",
            ".func f()\n{\n/* }",
            ".func f() { \"}",
            ".func {}",
            "} .x {}",
            "/",
        ] {
            assert!(matches!(counted(ptx), Cow::Borrowed(_)), "{ptx}");
        }
    }
}
