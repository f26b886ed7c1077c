//! Edits the text of PTX functions, line by line. The back ends write instructions on lines of their own, and the braces of
//! a function at the start of a line.

use std::borrow::Cow;

use crate::ptx::function_name;

/// Replaces the body of each function by what `edit` returns for its name and body; `None` keeps it.
pub(crate) fn edit_bodies(ptx: &str, edit: impl Fn(&str, &str) -> Option<String>) -> Cow<'_, str> {
    let (mut edited, mut copied, mut start) = (String::new(), 0, None);
    let (mut at, mut head) = (0, 0);
    for line in ptx.split_inclusive('\n') {
        at += line.len();
        match (line.as_bytes()[0], start) {
            (b'{', None) => start = Some(at),
            (_, None) if line.trim_end().ends_with(';') => head = at,
            (b'}', Some(start_of_body)) => {
                let name = function_name(&ptx[head..start_of_body]).unwrap_or_default();
                head = at;
                if let Some(body) = edit(name, &ptx[start_of_body..at]) {
                    edited.push_str(&ptx[copied..start_of_body]);
                    edited.push_str(&body);
                    copied = at;
                }
                start = None;
            }
            _ => {}
        }
    }
    if copied == 0 {
        return Cow::Borrowed(ptx);
    }
    edited.push_str(&ptx[copied..]);
    Cow::Owned(edited)
}

/// The opcode and operands of the line's instruction.
pub(crate) fn instruction(line: &str) -> Option<(&str, &str)> {
    let code = line.trim_start();
    let code =
        if code.starts_with('@') { code.split_once(char::is_whitespace)?.1.trim_start() } else { code };
    let (opcode, operands) = code.split_once(char::is_whitespace)?;
    opcode.starts_with(|c: char| c.is_ascii_lowercase()).then(|| (opcode, operands.trim_start()))
}
