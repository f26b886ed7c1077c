//! The end of a program: its error and its exit code.

use std::error::Error;
use std::process::ExitCode;

use crate::print_note;

/// Prints clap's error, help or version text to the right stream, and returns clap's exit code for `main`: 2, or 0 for
/// requested text.
pub fn usage_exit_code(error: &clap::Error) -> ExitCode {
    // If the stream is closed, the exit code still shows the error.
    let _ = error.print();
    u8::try_from(error.exit_code()).map_or(ExitCode::FAILURE, ExitCode::from)
}

/// Returns the exit code for `main`: success, or 1 after printing the error and its causes to standard error. After an error
/// it calls `before` with the code, for cleanup such as `ferrowarp::device::exit_if_hung`.
pub fn exit_code<E: AsRef<dyn Error>>(result: Result<(), E>, before: impl FnOnce(u8)) -> ExitCode {
    let Err(error) = result else {
        return ExitCode::SUCCESS;
    };
    // If standard error is closed, the exit code still shows the error.
    print_note(format_args!("error: {}", in_one_line(error.as_ref())));
    before(1);
    ExitCode::FAILURE
}

/// Formats the error and its causes in one line. It omits a cause whose text is already in the previous message.
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
