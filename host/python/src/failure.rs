//! Errors, and the Python exceptions that they become.

use std::cell::RefCell;

use ferrowarp::{Error, Kind};
use pyo3::exceptions::{PyRuntimeError, PyTypeError, PyValueError};
use pyo3::prelude::*;

/// The exception of a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Exception {
    Runtime,
    Type,
    Value,
}

/// Why an operator failed.
#[derive(Debug)]
pub struct Failure {
    exception: Exception,
    text: String,
}

impl Failure {
    /// An argument has the wrong type.
    pub fn of_type(text: String) -> Self {
        Self { exception: Exception::Type, text }
    }

    /// An argument has the wrong value or shape.
    pub fn of_value(text: String) -> Self {
        Self { exception: Exception::Value, text }
    }

    /// Something else went wrong.
    pub fn other(text: String) -> Self {
        Self { exception: Exception::Runtime, text }
    }

    /// Names the operator, unless the library's text already does.
    pub fn of(self, title: &str) -> Self {
        let is_ours = self.text.starts_with("the ");
        let text = if is_ours { format!("{title} failed: {}", self.text) } else { self.text };
        Self { text, ..self }
    }

    /// What failed, the value and the fix.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Keeps the failure for [`last_error`].
    pub fn keep(self) {
        LAST.set(Some(self));
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let exception = match error.kind() {
            Kind::Device(_) | Kind::Unsupported { .. } => Exception::Runtime,
            _ => Exception::Value,
        };
        Self { exception, text: error.to_string() }
    }
}

impl From<Failure> for PyErr {
    fn from(Failure { exception, text }: Failure) -> Self {
        match exception {
            Exception::Runtime => PyRuntimeError::new_err(text),
            Exception::Type => PyTypeError::new_err(text),
            Exception::Value => PyValueError::new_err(text),
        }
    }
}

thread_local! {
    /// The last failure of an operator that torch called. Through torch every failure is a RuntimeError.
    static LAST: RefCell<Option<Failure>> = const { RefCell::new(None) };
}

/// Takes the last failure in this thread of an operator that torch called, as an exception.
pub fn last_error() -> Option<PyErr> {
    LAST.take().map(PyErr::from)
}
