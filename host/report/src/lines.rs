//! Writes lines to standard output and standard error.

use std::fmt::Display;
use std::io::{self, Write as _};

/// A line could not be written; the cause is the system's error.
#[derive(Debug, thiserror::Error)]
#[error("could not write to the standard output")]
pub struct OutputError(#[source] pub io::Error);

/// Writes a line to standard output. Unlike `println!`, it does not panic.
///
/// # Errors
/// Standard output refuses it, such as a closed pipe.
pub fn print_line(line: impl Display) -> Result<(), OutputError> {
    let mut out = io::stdout().lock();
    writeln!(out, "{}", printable(line)).and_then(|()| out.flush()).map_err(OutputError)
}

/// Writes a line to standard error. If that is closed, the line is lost. Unlike `eprintln!`, it does not panic.
pub fn print_note(line: impl Display) {
    let _ = writeln!(io::stderr(), "{}", printable(line));
}

/// Escapes control characters except line feeds and tabs: file names may contain any, and a terminal would obey them.
pub fn printable(text: impl Display) -> String {
    let mut printable = String::new();
    for char in text.to_string().chars() {
        match char {
            '\n' | '\t' => printable.push(char),
            _ if char.is_control() => printable.extend(char.escape_default()),
            _ => printable.push(char),
        }
    }
    printable
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_escaped() {
        assert_eq!(printable("a\u{1b}[31m \u{9b}é\tb\n"), "a\\u{1b}[31m \\u{9b}é\tb\n");
    }
}
