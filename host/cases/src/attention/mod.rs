//! Attention: every kernel of the operation in every type and head size, and the rungs of the ladder.
//!
//! [`problem`] has the table. A row states its [`Scope`](crate::Scope)s, and gives a case for each kernel that supports it.

pub(crate) mod gradients;
pub(crate) mod operands;
pub mod oracle;
pub mod problem;
mod rungs;

use cuda_std::half::{bf16, f16};

use crate::case::Case;
use crate::scopes::{Setting, cases_of_types};
use gradients::BACKWARD;
use operands::of_type;
use problem::PROBLEMS;

/// Every case of the setting.
pub fn cases(setting: &Setting) -> Vec<Case> {
    // Rungs have no serial kernels.
    let mut cases = if setting.is_serial() { Vec::new() } else { rungs::cases(setting) };
    for problem in PROBLEMS.iter().filter(|problem| problem.scopes.contains(&setting.scope)) {
        cases.extend(cases_of_types!(bf16, f16 => of_type::<T>(problem, setting)));
    }
    for problem in BACKWARD.iter().filter(|problem| problem.scopes.contains(&setting.scope)) {
        cases.extend(cases_of_types!(bf16, f16 => gradients::of_type::<T>(problem, setting)));
    }
    cases
}
