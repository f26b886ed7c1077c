//! Timed attention.
//!
//! `benches/peers/attention.py` holds the same table of shapes.

mod shapes;

use anyhow::{Context as _, ensure};
use cuda_std::half::{bf16, f16};
use ferrowarp::attention::{Element16, run_rung};
use ferrowarp::device::Device;
use ferrowarp_cases::reference::Number;
use gpu_kernels::ladders::attention::RUNGS;

use crate::contest::{self, Contender, TFLOPS, Type, Unit};
use crate::random::attention::{Forward, Set};
use crate::random::gradients::Backward;
use crate::random::{Instead, Operation, Pace, ready};
use crate::timed::Prepared;
use shapes::{CPU_SHAPES, RUNG_SHAPE, SHAPES, Shape};

/// `cargo bench attention`.
pub struct Bench;

impl contest::Bench for Bench {
    type Shape = Shape;
    const NAME: &'static str = "attention";
    const UNIT: Unit = TFLOPS;
    const TYPES: &'static [Type] = &[Type::Bf16, Type::F16];

    fn contenders(device: &Device) -> anyhow::Result<Vec<Contender<Shape>>> {
        let contender = |name: &str, dtype, shape| Contender { name: name.to_owned(), dtype, shape };
        let shapes: &[Shape] = if device.is_cuda() { &SHAPES } else { &CPU_SHAPES };
        let of_type = |&dtype| shapes.iter().map(move |&shape| contender(Self::NAME, dtype, shape));
        let rungs = RUNGS.iter().filter(|_| device.is_cuda());
        let rungs = rungs.map(|rung| contender(rung.name, Type::Bf16, RUNG_SHAPE));
        Ok(Self::TYPES.iter().flat_map(of_type).chain(rungs).collect())
    }

    fn id(Contender { name, dtype, shape }: &Contender<Shape>) -> String {
        let end = if name == Self::NAME { String::new() } else { format!("/{name}") };
        format!("{}/{shape}{end}", dtype.name())
    }

    fn work(contender: &Contender<Shape>) -> f64 {
        contender.shape.operations()
    }

    fn rungs() -> Vec<&'static str> {
        RUNGS.iter().map(|rung| rung.name).collect()
    }

    /// The name is `attention`, a rung, or a kernel to use instead of the chosen ones.
    fn prepare(device: &Device, contender: &Contender<Shape>) -> anyhow::Result<Prepared> {
        let (name, shape) = (contender.name.as_str(), contender.shape);
        if let Some(rung) = RUNGS.iter().find(|rung| rung.name == name) {
            let Shape { causal, backward, .. } = shape;
            ensure!(!causal && !backward, "{name} computes neither a mask nor gradients; pass another shape");
            let drawn = shape.operation();
            let operation = Forward::<bf16>::new(device, &drawn, Some(shape.inputs))?;
            let launch = move |on: &Device, Set { q, k, v, out, .. }: &mut Set<bf16>| {
                let [q, k, v] =
                    [drawn.q.view::<_, 4>(q)?, drawn.k.view::<_, 4>(k)?, drawn.k.view::<_, 4>(v)?];
                run_rung(on, rung, drawn.q.view_mut::<_, 4>(out)?, [q, k, v])
            };
            return ready(device, Instead(operation, launch), None, Pace::OF_LIST);
        }
        let prepared = match contender.dtype {
            Type::F16 => prepare_as::<f16>(device, name, shape),
            _ => prepare_as::<bf16>(device, name, shape),
        };
        prepared.with_context(|| format!("{} {shape}", contender.dtype.name()))
    }
}

fn prepare_as<T: Number + Element16>(device: &Device, name: &str, shape: Shape) -> anyhow::Result<Prepared> {
    let (drawn, inputs) = (shape.operation(), Some(shape.inputs));
    if shape.backward {
        prepare(device, name, Backward::<T>::new(device, &drawn, inputs)?)
    } else {
        prepare(device, name, Forward::<T>::new(device, &drawn, inputs)?)
    }
}

/// Prepares an operation with its own choice of kernels, or with named ones: all of a choice, or one of them.
fn prepare(device: &Device, name: &str, operation: impl Operation) -> anyhow::Result<Prepared> {
    if name == <Bench as contest::Bench>::NAME {
        return ready(device, operation, None, Pace::OF_LIST);
    }
    let choices = operation.choices();
    let all = choices.iter().find(|(kernels, _)| kernels == name);
    let one = || choices.iter().find(|(kernels, _)| kernels.split(" + ").any(|kernel| kernel == name));
    let (kernels, by) = all.or_else(one).with_context(|| format!("no kernel {name}"))?;
    let (timed, _) = ready(device, operation, Some(*by), Pace::OF_LIST)?;
    Ok((timed, kernels.clone()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contest::tests::{assert_prepared, assert_shapes_of_peers};

    #[test]
    fn the_peers_have_the_same_shapes() {
        assert_shapes_of_peers("attention.py", &["--list-shapes"], SHAPES.iter().map(Shape::to_string));
    }

    #[test]
    fn shapes_are_found_by_their_words() {
        assert!(SHAPES.iter().all(|shape| shape.to_string().parse::<Shape>().unwrap() == *shape));
        let error = "8x4096-causal".parse::<Shape>().unwrap_err().to_string();
        assert!(error.contains("8x4096-causal is not a shape"), "{error}");
    }

    #[test]
    fn a_wrong_result_is_not_timed() {
        let words = "1x8x2x1x8-causal";
        let shape: Shape = words.parse().unwrap();
        let operation = Forward::<bf16>::new(&Device::cpu(), &shape.operation(), Some(shape.inputs)).unwrap();
        let prepared = ready(
            &Device::cpu(),
            Instead(operation, |_: &Device, _: &mut Set<bf16>| Ok(())),
            None,
            Pace::OF_LIST,
        );
        let error = format!("{:#}", prepared.err().unwrap());
        assert!(error.contains("result[0] is 0e0, not "), "{error}");
        assert_prepared::<Bench>(["attention".to_owned()].into_iter(), Type::F16, words);
        assert_prepared::<Bench>(["attention".to_owned()].into_iter(), Type::Bf16, "1x8x2x1x8-backward");
        for words in ["1x8x2x1x8-large", "1x9x2x1x8-causal-backward-dominant"] {
            assert_prepared::<Bench>(["attention".to_owned()].into_iter(), Type::Bf16, words);
        }
    }
}
