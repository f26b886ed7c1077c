//! The network's kernels on one layer: for each, how to run it and the expected values.

mod batch;
mod check;
mod fused;
mod head;
mod linear;
mod problem;
pub mod resident;
mod rounded;
mod rows;
mod run;
pub mod short;
mod update;

use std::sync::Arc;

use cuda_std::launch::Limits;

use crate::case::Case;
use check::{Check, case};

pub use problem::{Problem, problems, small_problems};

/// The kernels of the last layer that run on a device with these limits.
pub fn last(problem: &Arc<Problem>, limits: &Limits) -> Vec<Case> {
    head::cases(problem, limits)
}

/// Every kernel of the network on a layer that runs on a device with these limits.
pub fn cases(problem: &Arc<Problem>, limits: &Limits) -> impl Iterator<Item = Case> + use<> {
    let checks = [batch::CHECKS, linear::CHECKS, rows::CHECKS, update::CHECKS].into_iter().flatten();
    let fused = fused::cases(problem, limits);
    let resident = resident::cases(problem, limits);
    let short = short::cases(problem);
    let problem = problem.clone();
    let naive = checks.map(move |&Check { kernel, run, expected }| {
        case(&problem, kernel, move |p, device| run(device, p), expected)
    });
    naive.chain(fused).chain(resident).chain(short)
}
