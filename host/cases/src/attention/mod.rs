//! Attention: every kernel of the operation in every type and head size, and the rungs of the ladder.
//!
//! [`problem`] has the table. A row states its [`Scope`](crate::Scope)s, and gives a case for each kernel that supports it.

pub(crate) mod gradients;
pub(crate) mod operands;
pub mod oracle;
pub mod problem;
mod rungs;

use cuda_std::half::{bf16, f16};

use crate::Case;
use crate::softmax::Setting;
use gradients::BACKWARD;
use operands::of_type;
use problem::PROBLEMS;

/// Every case of the setting.
pub fn cases(setting: &Setting) -> Vec<Case> {
    let problems = PROBLEMS.iter().filter(|problem| problem.scopes.contains(&setting.scope));
    // Rungs have no serial kernels.
    let mut cases = if setting.is_serial() { Vec::new() } else { rungs::cases(setting) };
    for problem in problems {
        cases.extend(of_type::<bf16>(problem, setting));
        cases.extend(of_type::<f16>(problem, setting));
    }
    for problem in BACKWARD.iter().filter(|problem| problem.scopes.contains(&setting.scope)) {
        cases.extend(gradients::of_type::<bf16>(problem, setting));
        cases.extend(gradients::of_type::<f16>(problem, setting));
    }
    cases
}
