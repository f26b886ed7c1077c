//! The rungs of the ladder.

use anyhow::{Result, ensure};
use cuda_std::half::bf16;
use ferrowarp::attention::run_rung;
use ferrowarp::device::Device;
use ferrowarp::{TensorView, TensorViewMut};
use gpu_kernels::ladders::attention::{RUNGS, Rung, SIZE};
use rand::{RngExt as _, SeedableRng as _, rngs::StdRng};

use super::oracle::Row;
use crate::case::wide;
use crate::compare::{Expected, Outputs};
use crate::later::Later;
use crate::reference::Sum;
use crate::softmax::Setting;
use crate::{Case, Scope};

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

/// A problem, and its operands.
struct Operands {
    batch: usize,
    heads: usize,
    queries: usize,
    keys: usize,
    q: Vec<bf16>,
    k: Vec<bf16>,
    v: Vec<bf16>,
}

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
    let operands = Later::new(move || Operands::new([batch, heads, queries, keys]));
    let on_expect = operands.clone();
    Case::new(
        rung.kernels.iter().map(|kernel| kernel.meta.name).collect(),
        move || format!("{batch} x {queries} x {keys}, {heads} heads"),
        move |device: &Device| operands.run(device, rung),
        move || on_expect.expected(),
    )
}

impl Operands {
    fn new([batch, heads, queries, keys]: [usize; 4]) -> Self {
        let mut rng = StdRng::seed_from_u64((queries * 31 + keys) as u64);
        let mut numbers = |length: usize, range: f32| -> Vec<bf16> {
            let numbers = (0..batch * length * heads * SIZE).map(|_| rng.random_range(-1.0f32..1.0) * range);
            numbers.map(bf16::from_f32).collect()
        };
        let (q, k, v) = (numbers(queries, 2.0), numbers(keys, 2.0), numbers(keys, 1.0));
        Self { batch, heads, queries, keys, q, k, v }
    }

    fn run(&self, device: &Device, rung: &Rung) -> Result<Outputs> {
        let &Self { batch, heads, queries, keys, .. } = self;
        let (of_queries, of_keys) = ([batch, queries, heads, SIZE], [batch, keys, heads, SIZE]);
        let (q, k, v) = (device.upload(&self.q)?, device.upload(&self.k)?, device.upload(&self.v)?);
        let untouched = vec![bf16::from_f32(-77.0); self.q.len() + GUARD];
        let mut out = device.upload(&untouched)?;
        let to = TensorViewMut::new(&mut out, of_queries)?;
        let (q, k) = (TensorView::new(&q, of_queries)?, TensorView::new(&k, of_keys)?);
        run_rung(device, rung, to, [q, k, TensorView::new(&v, of_keys)?])?;
        let got = out.to_vec()?;
        ensure!(got[self.q.len()..] == untouched[self.q.len()..], "an element after the result was written");
        Ok(vec![("out", wide(&got[..self.q.len()]))])
    }

    /// The row of a position in a tensor of this length.
    fn row<'a>(&self, tensor: &'a [bf16], length: usize, [batch, position, head]: [usize; 3]) -> &'a [bf16] {
        &tensor[((batch * length + position) * self.heads + head) * SIZE..][..SIZE]
    }

    fn expected(&self) -> Expected {
        let &Self { batch, heads, queries, keys, .. } = self;
        let mut out = Vec::with_capacity(self.q.len());
        for row in 0..batch * queries * heads {
            let at @ [entry, _, head] = [row / heads / queries, row / heads % queries, row % heads];
            let q = self.row(&self.q, queries, at);
            let products = (0..keys).map(|key| {
                let terms = q.iter().zip(self.row(&self.k, keys, [entry, key, head]));
                let terms = terms.map(|(q, k)| f64::from(q.to_f32()) * f64::from(k.to_f32()));
                terms.fold(Sum::default(), Sum::and)
            });
            let logits = Row::new(products, SIZE, f64::from(1.0 / (SIZE as f32).sqrt()));
            for column in 0..SIZE {
                let value = |key| f64::from(self.row(&self.v, keys, [entry, key, head])[column].to_f32());
                // Tensor cores round the weights.
                out.push(logits.result::<bf16>(&(0..keys).map(value).collect::<Vec<_>>(), true));
            }
        }
        vec![("out", out)]
    }
}
