//! What a build reports while it runs.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::error;
use crate::stack::UnboundedStack;

/// The progress of downloads and other long steps, and warnings about the result.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Progress {
    /// This many bytes of `total` have arrived.
    Downloading {
        /// Name and version of the package.
        package: String,
        /// Bytes that have arrived.
        bytes: u64,
        /// Bytes of the whole package.
        total: u64,
    },
    /// The package is ready for use.
    Ready {
        /// Name and version of the package.
        package: String,
    },
    /// Nothing was reported for a while: the step that has been running longest.
    Working {
        /// The tool, with its optimisation level if it has one.
        stage: String,
        /// Its input, such as the names of kernels.
        what: String,
        /// Its time so far.
        elapsed: Duration,
        /// The number of parts compiled so far.
        done: usize,
    },
    /// A part was compiled at a lower optimisation level than requested.
    FellBack(FellBack),
    /// A kernel has a stack whose size is unknown at compile time.
    UnboundedStack(UnboundedStack),
}

impl fmt::Display for Progress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Progress::Downloading { package, total, .. } => {
                let megabytes = total / 1_000_000;
                write!(f, "fetching {package} with pip ({megabytes} MB), for this and all later builds")
            }
            Progress::Ready { package } => write!(f, "{package} is ready"),
            Progress::Working { stage, what, elapsed, done } => {
                let seconds = elapsed.as_secs();
                write!(
                    f,
                    "{stage} has been working on {what} for {seconds} s (parts compiled so far: {done})"
                )
            }
            Progress::FellBack(fell_back) => fell_back.fmt(f),
            Progress::UnboundedStack(stack) => write!(
                f,
                "{stack}; on a GPU, FERROWARP_STACK_BYTES or Device::with_stack_bytes sets the size for each thread"
            ),
        }
    }
}

/// Receives reports of a build's progress, from any of its threads.
pub type ProgressFn<'a> = dyn Fn(Progress) + Sync + 'a;

/// A part was compiled at a lower optimisation level than requested, because a tool exceeded its time limit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct FellBack {
    /// The kernels of the part.
    pub kernels: Vec<String>,
    /// The level it was compiled at.
    pub opt_level: u8,
    /// The time of this compilation.
    pub took: Duration,
    /// The tool that exceeded its limit.
    pub tool: String,
    /// The levels at which it did, from the requested one.
    pub tried: Vec<u8>,
    /// The time limit at these levels.
    pub limit: Duration,
}

impl fmt::Display for FellBack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let FellBack { kernels, opt_level, took, tool, tried, limit } = self;
        let tried = tried.iter().map(u8::to_string).collect::<Vec<_>>().join(" and ");
        write!(
            f,
            "{} compiled at optimisation level {opt_level}, in {:.1} s: {tool} did not end within {} s at level {tried}; \
             FERROWARP_COMPILER_SECONDS sets another limit",
            error::named_kernels(kernels),
            took.as_secs_f64(),
            limit.as_secs()
        )
    }
}
