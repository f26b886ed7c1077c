//! The rungs of the ladder.

use std::sync::Arc;

use anyhow::{Result, ensure};
use cuda_std::half::bf16;
use ferrowarp::device::Device;
use ferrowarp::matmul::{Activation, run_rung};
use ferrowarp::{TensorView, TensorViewMut};
use gpu_kernels::ladders::matmul::ladder::{RUNGS, Rung};
use rand::{RngExt as _, SeedableRng as _, rngs::StdRng};

use super::oracle::{Ends, bound};
use crate::case::wide;
use crate::compare::{Expected, Outputs};
use crate::reference::Sum;
use crate::softmax::Setting;
use crate::{Case, Scope};

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
        let numbers = |len: usize, seed| -> Vec<bf16> {
            let mut rng = StdRng::seed_from_u64(seed);
            (0..len).map(|_| bf16::from_f32(rng.random_range(-1.0..1.0))).collect()
        };
        let (a, b) = (Arc::new(numbers(m * k, 1)), Arc::new(numbers(n * k, 2)));
        for rung in RUNGS.iter().filter(|rung| setting.profile.limits.runs(rung.kernel.meta)) {
            let (on_run, on_expect) = ((a.clone(), b.clone()), (a.clone(), b.clone()));
            let run = move |device: &Device| run(device, rung, shape, (&on_run.0, &on_run.1));
            let expected = move || expected(shape, (&on_expect.0, &on_expect.1));
            let case =
                Case::new(vec![rung.kernel.meta.name], move || format!("{m} x {n} x {k}"), run, expected);
            let is_cluster = rung.kernel.cluster > 1;
            cases.push(case.with_cluster_threads(if is_cluster { 2 * rung.kernel.threads } else { 0 }));
        }
    }
    cases
}

fn run(device: &Device, rung: &Rung, [m, n, k]: [usize; 3], (a, b): (&[bf16], &[bf16])) -> Result<Outputs> {
    let (a, b) = (device.upload(a)?, device.upload(b)?);
    let untouched = vec![bf16::from_f32(-77.0); m * n + GUARD];
    let mut out = device.upload(&untouched)?;
    let (a, b) = (TensorView::new(&a, [m, k])?, TensorView::new(&b, [n, k])?);
    run_rung(device, rung, TensorViewMut::new(&mut out, [m, n])?, a, b)?;
    let got = out.to_vec()?;
    ensure!(got[m * n..] == untouched[m * n..], "an element after the result was written");
    Ok(vec![("out", wide(&got[..m * n]))])
}

fn expected([m, n, k]: [usize; 3], (a, b): (&[bf16], &[bf16])) -> Expected {
    let ends = Ends { scale: 1.0, activation: Activation::None, ..Ends::default() };
    let bounds = (0..m * n).map(|i| {
        let (row, col) = (&a[i / n * k..][..k], &b[i % n * k..][..k]);
        let terms = row.iter().zip(col).map(|(x, y)| f64::from(x.to_f32()) * f64::from(y.to_f32()));
        bound::<bf16>(k, terms.fold(Sum::default(), Sum::and), 0.0, ends)
    });
    vec![("out", bounds.collect())]
}
