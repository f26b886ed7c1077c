//! Matrix multiplication: every kernel of the operation in every type and layout, and the rungs of the ladder.
//!
//! [`problem`] has the tables. A row states its [`Scope`](crate::Scope)s, and gives a case for each kernel that supports it.

pub mod oracle;
pub mod problem;
mod rungs;

use cuda_std::half::{bf16, f16};

use crate::case::Case;
use crate::scopes::Setting;
use problem::{PROBLEMS, of_types};

/// Every case of the setting.
pub fn cases(setting: &Setting) -> Vec<Case> {
    // Rungs have no serial kernels.
    let mut cases = if setting.is_serial() { Vec::new() } else { rungs::cases(setting) };
    for problem in PROBLEMS.iter().filter(|problem| problem.scopes.contains(&setting.scope)) {
        cases.extend(of_types::<f32, f32>(problem, setting));
        cases.extend(of_types::<bf16, bf16>(problem, setting));
        cases.extend(of_types::<f16, f16>(problem, setting));
        if problem.is_also_f32 {
            cases.extend(of_types::<bf16, f32>(problem, setting));
            cases.extend(of_types::<f16, f32>(problem, setting));
        }
    }
    cases
}
