//! Whether a kernel spreads its work over blocks and lanes.

use cuda_std::launch::KernelMeta;

use crate::problem::{Draw, Puzzle, Sizes};
use crate::ptx::Ptx;
use crate::run::{On, Run};

/// The mean share of a warp's lanes in its instructions that is too little.
const FEW_LANES: f64 = 0.3;
/// How much more than the mean of all blocks is too much for one.
const MANY_TIMES: f64 = 2.5;

/// Why the work of a right kernel is not spread, if it is not.
pub fn why_not(meta: &'static KernelMeta, puzzle: &Puzzle, ptx: &Ptx) -> Option<String> {
    let problem = (puzzle.problem)(&mut Draw::new(0, Sizes::Counted));
    let run = Run { meta, problem: &problem };
    let executed = run.counts(&ptx.emulator).ok()?.total.instructions;
    let lanes = executed.threads as f64 / (32 * executed.warps).max(1) as f64;
    let words = if lanes < FEW_LANES {
        format!(
            "few threads do all the work: on average, {:.1} of a warp's 32 lanes are active.\n    Give each thread its share: \
             the others wait, or return at once",
            32.0 * lanes
        )
    } else {
        let grid = problem.config.grid;
        let blocks = u64::from(grid.x) * u64::from(grid.y) * u64::from(grid.z);
        let most = MANY_TIMES * executed.threads as f64 / blocks as f64;
        run.outputs(On::Emulator(&ptx.with_max_steps(most as u64))).err()?;
        format!(
            "one of the {blocks} blocks does most of the work: more than {MANY_TIMES} times the mean.\n    Give each block its \
             share: the others return at once"
        )
    };
    Some(format!("\n    {words}\n    counted for the launch: {}", problem.words()))
}
