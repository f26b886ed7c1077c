//! The rungs of the ladder.

use anyhow::Result;
use cuda_std::half::bf16;
use ferrowarp::attention::run_rung;
use ferrowarp::device::Device;
use gpu_kernels::ladders::attention::ladder::SIZE;
use gpu_kernels::ladders::attention::{RUNGS, Rung};

use super::operands::Operands;
use super::problem::{PLAIN, Problem};
use crate::case::Case;
use crate::compare::Outputs;
use crate::later::Later;
use crate::place::UNTOUCHED;
use crate::scopes::{Scope, Setting};

/// Problems of a scope: batch, heads, and the minimum queries and keys. A rung rounds these up to multiples of its tiles.
fn problems(scope: Scope) -> &'static [[usize; 4]] {
    match scope {
        Scope::Small => &[[1, 2, 3, 130]],
        Scope::Tiny | Scope::OldEmulator => &[],
        Scope::NewEmulator => &[[1, 2, 3, 130]],
        Scope::Executor => &[[2, 3, 5, 129], [1, 1, 129, 300]],
        Scope::Device => &[[1, 1, 1, 1], [2, 3, 200, 700], [5, 7, 300, 128]],
    }
}

/// Elements after the result that no rung may write.
const GUARD: usize = 300;

/// A case for every problem and every rung that runs.
pub(super) fn cases(setting: &Setting) -> Vec<Case> {
    let runs = |rung: &&Rung| rung.kernels.iter().all(|kernel| setting.profile.limits.runs(kernel.meta));
    let of_problem = |&problem: &[usize; 4]| RUNGS.iter().filter(runs).map(move |rung| case(rung, problem));
    problems(setting.scope).iter().flat_map(of_problem).collect()
}

fn case(rung: &'static Rung, [batch, heads, queries, keys]: [usize; 4]) -> Case {
    let shape = rung.kernels[0].facts;
    let queries = queries.next_multiple_of(shape.queries as usize);
    let keys = keys.next_multiple_of(shape.keys as usize);
    let problem = Problem {
        lengths: [queries, keys],
        batch,
        heads: [heads, 1],
        head_size: SIZE,
        has_log: false,
        ..PLAIN
    };
    Case::of(
        Later::new(move || Operands::new(&problem)),
        rung.kernels.iter().map(|kernel| kernel.meta.name).collect(),
        move |_| format!("{batch} x {queries} x {keys}, {heads} heads"),
        move |of, device| run(of, device, rung),
        // Tensor cores round the weights.
        |of| of.expected(true),
    )
}

fn run(of: &Operands<bf16>, device: &Device, rung: &Rung) -> Result<Outputs> {
    let (q, k, v) = (of.q.upload(device)?, of.k.upload(device)?, of.v.upload(device)?);
    let of_out = of.q.place.clone().with_guard(GUARD);
    let mut out = of_out.output::<bf16>(device, UNTOUCHED)?;
    let inputs = [of.q.place.view::<_, 4>(&q)?, of.k.place.view::<_, 4>(&k)?, of.v.place.view::<_, 4>(&v)?];
    run_rung(device, rung, of_out.view_mut::<_, 4>(&mut out)?, inputs)?;
    Ok(vec![("out", of_out.read(&out, UNTOUCHED)?)])
}
