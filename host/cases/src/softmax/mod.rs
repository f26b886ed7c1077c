//! The softmax that users call, its gradient, cross entropy, the largest probabilities and draws from them, and the rungs of
//! the ladder: every kernel, in every type.
//!
//! Each kind has a table of problems, in [`forward`], [`backward`], [`cross_entropy`], [`sharded`], [`top_k`], [`sample`]
//! and [`ladder`]. A row states the [`Scope`](crate::Scope)s in which it runs, and gives a case for each kernel that supports it.

pub mod backward;
pub mod calls;
pub mod cross_entropy;
pub mod forward;
pub mod ladder;
pub mod logits;
pub(crate) mod rowwise;
pub mod sample;
pub mod sharded;
pub mod top_k;

use crate::case::Case;
use crate::scopes::Setting;

pub use rowwise::Rowwise;

/// Every case of the setting except those of the ladder.
pub fn cases(setting: &Setting) -> Vec<Case> {
    let mut cases = forward::cases(setting, |_| true);
    cases.extend(backward::cases(setting));
    cases.extend(cross_entropy::cases(setting));
    cases.extend(sharded::cases(setting));
    cases.extend(top_k::cases(setting));
    cases.extend(sample::cases(setting));
    cases
}
