//! The engine of the reports: the results of runs, their checks, and the parts of a page. `crate::pages` has the subjects.

mod files;
mod ladder;
mod markdown;
pub mod peaks;
mod results;
pub mod stale;
mod subject;

pub use files::{Files, Turns};
pub use ladder::{Section, ladder};
pub use markdown::{number_of, or_empty, percent, row, table, time, times, update_page, with_section};
pub use results::{Entry, Profile, Results, Run, Timed, merged, short_commit, stem};
pub use subject::{Contest, IN_CACHE, Subject, clock_and_power, geometric_mean};
