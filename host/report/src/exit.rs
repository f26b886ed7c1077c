//! The end of a program: its error and its exit code.

use std::error::Error;
use std::process::ExitCode;

use crate::print_note;

/// What a program's `main` answers when its arguments cannot be parsed, or ask for help or the version: the text
/// on the stream it belongs to, and clap's code: 2, or 0 if it was asked for.
pub fn usage_exit_code(error: &clap::Error) -> ExitCode {
    // With the stream closed, the exit code still tells.
    let _ = error.print();
    u8::try_from(error.exit_code()).map_or(ExitCode::FAILURE, ExitCode::from)
}

/// What a program's `main` answers: success, or the error with its causes on the standard error and code 1. `before`
/// is called with the code after an error is shown: a device's last work, as `ferrowarp::device::exit_if_hung`.
pub fn exit_code<E: AsRef<dyn Error>>(result: Result<(), E>, before: impl FnOnce(u8)) -> ExitCode {
    let Err(error) = result else {
        return ExitCode::SUCCESS;
    };
    // With the standard error closed, the exit code still tells.
    print_note(format_args!("error: {}", in_one_line(error.as_ref())));
    before(1);
    ExitCode::FAILURE
}

/// The error and its causes. A cause whose text the message before already holds is not repeated.
pub fn in_one_line(error: &dyn Error) -> String {
    let mut line = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let text = error.to_string();
        if !line.contains(&text) {
            line.push_str(": ");
            line.push_str(&text);
        }
        cause = error.source();
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("{text}")]
    struct Link {
        text: &'static str,
        source: Option<Box<Link>>,
    }

    #[test]
    fn causes_follow_the_error_once() {
        let inner = Link { text: "no such file", source: None };
        let middle = Link { text: "could not read x", source: Some(Box::new(inner)) };
        let outer = Link { text: "loading failed: could not read x", source: Some(Box::new(middle)) };
        assert_eq!(in_one_line(&outer), "loading failed: could not read x: no such file");
    }
}
