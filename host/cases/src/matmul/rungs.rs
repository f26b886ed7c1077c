//! The rungs of the ladder.

use anyhow::Result;
use cuda_std::half::bf16;
use ferrowarp::device::Device;
use ferrowarp::matmul::run_rung;
use gpu_kernels::ladders::matmul::{RUNGS, Rung};

use super::problem::{Operands, PLAIN, Problem};
use crate::case::Case;
use crate::compare::Outputs;
use crate::later::Later;
use crate::place::{Place, UNTOUCHED};
use crate::scopes::{Scope, Setting};

/// Shapes of a scope: `[m, n, k]`. One partial tile; several, and more tiles than blocks.
fn shapes(scope: Scope) -> &'static [[usize; 3]] {
    match scope {
        Scope::Tiny => &[[3, 8, 8]],
        Scope::Small => &[[70, 72, 200]],
        Scope::OldEmulator => &[],
        Scope::NewEmulator => &[[130, 264, 136]],
        Scope::Executor => &[[1, 8, 8], [129, 264, 392], [300, 520, 64], [257, 16, 1032]],
        Scope::Device => &[[1, 8, 8], [129, 264, 392], [1000, 1032, 520]],
    }
}

/// Elements after the result that no rung may write.
const GUARD: usize = 300;

/// A case for every shape and every rung that runs.
pub(super) fn cases(setting: &Setting) -> Vec<Case> {
    let mut cases = Vec::new();
    for &shape @ [m, n, k] in shapes(setting.scope) {
        let problem = Problem { shape, ..PLAIN };
        // The rungs read rows of B's transpose.
        let operands = Later::new(move || Operands::<bf16, bf16>::new(&problem, [false, true]));
        for rung in RUNGS.iter().filter(|rung| setting.profile.limits.runs(rung.kernel.meta)) {
            let case = Case::of(
                &operands,
                vec![rung.kernel.meta.name],
                move |_| format!("{m} x {n} x {k}"),
                move |of, device| run(of, device, rung, [m, n]),
                |of| of.expected(0.0),
            );
            let is_cluster = rung.kernel.cluster > 1;
            cases.push(case.with_cluster_threads(if is_cluster { 2 * rung.kernel.threads } else { 0 }));
        }
    }
    cases
}

fn run(
    of: &Operands<bf16, bf16>,
    device: &Device,
    rung: &Rung,
    shape @ [m, n]: [usize; 2],
) -> Result<Outputs> {
    let (a, b) = (of.a.upload(device)?, of.b.upload(device)?);
    let of_out = Place::matrix(shape, 0, 0).with_guard(GUARD);
    let mut out = of_out.output::<bf16>(device, UNTOUCHED)?;
    let k = a.len() / m;
    let (a, b) = (of.a.view(&a)?.reshape([m, k])?, of.b.view(&b)?.t().reshape([n, k])?);
    run_rung(device, rung, of_out.view_mut::<_, 2>(&mut out)?, a, b)?;
    Ok(vec![("out", of_out.read(&out, UNTOUCHED)?)])
}
