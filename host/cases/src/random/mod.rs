//! Random problems for every public operation: their shapes, types, options, values and places in memory follow from a seed.
//!
//! [`Drawn::new`] draws one. [`Drawn::check`] runs it as users do, compares with the oracle in `f64`, and runs it again in
//! memory with other contents. [`Totals`] adds up the errors by operation, type and layout.

mod attention;
mod axis;
pub mod bench;
mod drawn;
mod layout;
mod matmul;
mod norm;
mod softmax;
mod tokens;
mod totals;

use std::ops::Range;
use std::sync::{Mutex, PoisonError};
use std::thread;

use ferrowarp::device::Device;
use rand::{RngExt as _, SeedableRng as _, rngs::StdRng};

use drawn::pick;

pub use drawn::{Class, Drawn, Measured, Outcome};
pub use layout::Size;
pub use totals::{Total, Totals};

/// Draws a problem of one operation, in one combination of types.
type Draw = fn(&mut StdRng, &Size) -> Drawn;

/// The draws of one function, in each of its combinations of element types.
macro_rules! draws {
    ($module:ident::$draw:ident[$($($ty:ident)+),+]) => {
        &[$($module::$draw::<$($ty),+>),+]
    };
}

/// Every operation, how often of 36 problems it is drawn, and for which types.
const OPERATIONS: [(&str, u32, &[Draw]); 15] = {
    use cuda_std::half::{bf16, f16};
    [
        (
            "softmax",
            3,
            draws!(softmax::forward[f32 f32, f16 f16, bf16 bf16, f32 f16, f32 bf16, f16 f32, bf16 f32]),
        ),
        ("softmax in place", 1, draws!(softmax::in_place[f32, f16, bf16])),
        ("softmax backward", 2, draws!(softmax::backward[f32, f16, bf16])),
        ("cross entropy", 2, draws!(softmax::cross_entropy[f32, f16, bf16])),
        ("top-k", 1, draws!(tokens::top_k[f32, f16, bf16])),
        ("sample", 1, draws!(tokens::sample[f32, f16, bf16])),
        (
            "matmul",
            8,
            &[
                matmul::draw::<f32, f32>,
                matmul::draw::<f32, f32>,
                matmul::tf32,
                matmul::draw::<f16, f16>,
                matmul::draw::<bf16, bf16>,
                matmul::draw::<bf16, bf16>,
                matmul::draw::<f16, f32>,
                matmul::draw::<bf16, f32>,
            ],
        ),
        ("attention", 4, draws!(attention::forward[bf16, f16])),
        ("attention backward", 2, draws!(attention::backward[bf16, f16])),
        ("norm", 2, draws!(norm::forward[f32, f16, bf16])),
        ("norm backward", 2, draws!(norm::backward[f32, f16, bf16])),
        ("reduce", 4, draws!(axis::reduce[f32 f32, f16 f16, bf16 bf16, f16 f32, bf16 f32])),
        ("cumulative sum", 1, draws!(axis::scan[f32, f16, bf16])),
        ("transpose", 1, draws!(axis::transpose[u16, u32])),
        (
            "cast",
            2,
            draws!(axis::cast[
                f32 f32, f32 f16, f32 bf16, f16 f32, f16 f16, f16 bf16, bf16 f32, bf16 f16, bf16 bf16
            ]),
        ),
    ]
};

impl Drawn {
    /// Draws the problem with this index of a seed; of one operation, if `only` is a part of its name.
    ///
    /// # Panics
    /// No operation has that name.
    pub fn new(seed: u64, index: u64, size: &Size, only: Option<&str>) -> Self {
        let mut rng = StdRng::seed_from_u64(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(index));
        let chosen = || OPERATIONS.iter().filter(|(name, ..)| only.is_none_or(|only| name.contains(only)));
        let mut left = rng.random_range(0..chosen().map(|(_, weight, _)| weight).sum());
        let mut operations = chosen();
        let draws = loop {
            let (_, weight, draws) = operations.next().expect("the weights add up");
            match left.checked_sub(*weight) {
                Some(less) => left = less,
                None => break draws,
            }
        };
        pick(&mut rng, draws)(&mut rng, size)
    }

    /// Whether an operation's name contains `only`.
    pub fn is_operation(only: &str) -> bool {
        OPERATIONS.iter().any(|(name, ..)| name.contains(only))
    }
}

/// Checks problems of a seed on this many threads. Returns the totals, the number of problems that the device refused as
/// documented, and the errors of the wrong ones, each with what repeats it.
pub fn check_all(
    device: &Device,
    (seed, indices): (u64, Range<u64>),
    size: &Size,
    only: Option<&str>,
    threads: usize,
) -> (Totals, u64, Vec<String>) {
    let (left, all) = (Mutex::new(indices), Mutex::new((Totals::default(), 0, Vec::new())));
    let next = || left.lock().unwrap_or_else(PoisonError::into_inner).next();
    let work = || {
        while let Some(index) = next() {
            let drawn = Drawn::new(seed, index, size, only);
            let outcome = drawn.check(device);
            let mut all = all.lock().unwrap_or_else(PoisonError::into_inner);
            match outcome {
                Ok(Outcome::Right(_, measured)) => all.0.add(drawn.class(), &measured),
                Ok(Outcome::Refused) => all.1 += 1,
                Err(error) => all.2.push(format!("problem {index} of seed {seed}: {error:#}")),
            }
        }
    };
    thread::scope(|scope| {
        (1..threads).for_each(|_| _ = scope.spawn(work));
        work();
    });
    all.into_inner().unwrap_or_else(PoisonError::into_inner)
}
