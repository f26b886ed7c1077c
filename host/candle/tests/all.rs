//! The operations and their gradients against candle's own formulas in `f64`, on the CPU and, with the feature `cuda`, on a GPU.

use candle_core::{D, DType, Device, Result, Tensor, Var};
use ferrowarp_candle::{Attention, Causal, Softmax, attention, cross_entropy, rms_norm, softmax};
use rand::{RngExt as _, SeedableRng as _, rngs::StdRng};

const ALL: [DType; 3] = [DType::F32, DType::F16, DType::BF16];

/// The CPU, and the first GPU if candle is built for it.
fn devices() -> Vec<Device> {
    let gpu = cfg!(feature = "cuda").then(|| Device::new_cuda(0).unwrap());
    std::iter::once(Device::Cpu).chain(gpu).collect()
}

/// Numbers of this type on the CPU.
fn random(rng: &mut StdRng, shape: &[usize], dtype: DType) -> Tensor {
    let numbers = (0..shape.iter().product()).map(|_| rng.random_range(-3f32..3.0)).collect();
    Tensor::from_vec(numbers, shape, &Device::Cpu).unwrap().to_dtype(dtype).unwrap()
}

/// A shape of 1 to 5 axes, and often with a long last one.
fn shape(rng: &mut StdRng) -> Vec<usize> {
    let cols = if rng.random() { rng.random_range(1..9) } else { rng.random_range(9..1500) };
    let mut shape: Vec<usize> = (0..rng.random_range(0..5)).map(|_| rng.random_range(1..4)).collect();
    shape.push(cols);
    shape
}

/// Fails if a number differs by more than some roundings of the largest one.
fn check(what: &str, got: &Tensor, expected: &Tensor, dtype: DType, roundings: f64) {
    assert_eq!(got.dims(), expected.dims(), "{what}");
    let numbers = |x: &Tensor| -> Vec<f64> {
        let x = x.to_device(&Device::Cpu).unwrap().to_dtype(DType::F64).unwrap();
        x.flatten_all().unwrap().to_vec1().unwrap()
    };
    let (got, expected) = (numbers(got), numbers(expected));
    let largest = expected.iter().fold(1e-3, |largest: f64, x| largest.max(x.abs()));
    let rounding = match dtype {
        DType::BF16 => 2f64.powi(-8),
        DType::F16 => 2f64.powi(-11),
        _ => 2f64.powi(-20),
    };
    for (i, (got, expected)) in got.iter().zip(&expected).enumerate() {
        // False for NaN too.
        let is_near = (got - expected).abs() <= roundings * rounding * largest;
        assert!(is_near, "{what}, element {i}: {got} instead of {expected}, the largest is {largest}");
    }
}

/// Runs `ours` on each device and `theirs` in `f64` on the CPU, and compares the results and the gradients of all variables. `prepare`
/// makes the operands, which may be views, from the variables.
fn compare(
    what: &str,
    rng: &mut StdRng,
    variables: &[Tensor],
    prepare: impl Fn(&[Tensor]) -> Result<Vec<Tensor>>,
    ours: impl Fn(&[Tensor]) -> Result<Tensor>,
    theirs: impl Fn(&[Tensor]) -> Result<Tensor>,
) {
    let run = |device: &Device,
               dtype: DType,
               run: &dyn Fn(&[Tensor]) -> Result<Tensor>,
               weights: Option<&Tensor>| {
        let of = |x: &Tensor| Var::from_tensor(&x.to_dtype(dtype)?.to_device(device)?);
        let variables = variables.iter().map(of).collect::<Result<Vec<Var>>>()?;
        let operands: Vec<Tensor> = variables.iter().map(|it| it.as_tensor().clone()).collect();
        let result = run(&prepare(&operands)?)?;
        let Some(weights) = weights else { return Ok((result, Vec::new())) };
        let weights = weights.to_device(device)?.to_dtype(result.dtype())?;
        let gradients = (&result * weights)?.sum_all()?.backward()?;
        let of = |it: &Var| gradients.get(it).cloned().expect("each variable has a gradient");
        Ok::<_, candle_core::Error>((result, variables.iter().map(of).collect()))
    };
    let dtype = variables[0].dtype();
    let (expected, _) = run(&Device::Cpu, DType::F64, &theirs, None).unwrap();
    let weights = random(rng, expected.dims(), dtype);
    let (expected, expected_gradients) = run(&Device::Cpu, DType::F64, &theirs, Some(&weights)).unwrap();
    for device in devices() {
        let what = format!("{what}, {dtype:?}, {:?} on {device:?}", variables[0].dims());
        let (result, gradients) = run(&device, dtype, &ours, Some(&weights)).unwrap();
        check(&what, &result, &expected, dtype, 4.0);
        for (i, (got, expected)) in gradients.iter().zip(&expected_gradients).enumerate() {
            // It is computed from results that were rounded.
            check(&format!("{what}, gradient {i}"), got, expected, dtype, 8.0);
        }
    }
}

fn as_they_are(operands: &[Tensor]) -> Result<Vec<Tensor>> {
    Ok(operands.to_vec())
}

/// Calls `run` with matrices and tensors of all types, whole and as columns of a wider tensor.
fn for_rows(seed: u64, run: impl Fn(&mut StdRng, Tensor, &dyn Fn(&[Tensor]) -> Result<Vec<Tensor>>)) {
    let mut rng = StdRng::seed_from_u64(seed);
    for case in 0..24 {
        let (mut shape, dtype) = (shape(&mut rng), ALL[case % 3]);
        let cols = shape[shape.len() - 1];
        let x = random(&mut rng, &shape, dtype);
        run(&mut rng, x, &as_they_are);
        let last = shape.len() - 1;
        shape[last] += rng.random_range(1..20);
        let first = rng.random_range(0..=shape[last] - cols);
        let wider = random(&mut rng, &shape, dtype);
        run(&mut rng, wider, &move |all| {
            let mut all = all.to_vec();
            all[0] = all[0].narrow(D::Minus1, first, cols)?;
            Ok(all)
        });
    }
}

#[test]
fn softmax_and_its_gradient_are_candles() {
    for_rows(1, |rng, x, prepare| {
        let scale = rng.random_range(0.5f32..2.0);
        let scaled = move |x: &Tensor| x.affine(f64::from(scale), 0.0);
        let options = Softmax::new().scale(scale);
        compare(
            "softmax",
            rng,
            std::slice::from_ref(&x),
            prepare,
            |x| softmax(&x[0], options),
            |x| candle_nn::ops::softmax(&scaled(&x[0])?, D::Minus1),
        );
        compare(
            "log-softmax",
            rng,
            &[x],
            prepare,
            |x| softmax(&x[0], options.log()),
            |x| candle_nn::ops::log_softmax(&scaled(&x[0])?, D::Minus1),
        );
    });
}

#[test]
fn rms_norm_and_its_gradients_are_candles() {
    for_rows(2, |rng, x, prepare| {
        let cols = prepare(std::slice::from_ref(&x)).unwrap()[0].dims().last().copied().unwrap();
        let weight = random(rng, &[cols], x.dtype());
        compare(
            "RMSNorm",
            rng,
            &[x, weight],
            prepare,
            |x| rms_norm(&x[0], &x[1], 1e-3),
            |x| candle_nn::ops::rms_norm_slow(&x[0], &x[1], 1e-3),
        );
    });
}

#[test]
fn cross_entropy_and_its_gradient_are_candles() {
    for_rows(3, |rng, x, prepare| {
        let view = prepare(std::slice::from_ref(&x)).unwrap().remove(0);
        let (cols, rows) = (view.dim(D::Minus1).unwrap(), &view.dims()[..view.rank() - 1]);
        // The types of classes; each holds the class 255 at most.
        let dtype = [DType::U8, DType::U32, DType::I64][rng.random_range(0..3)];
        let classes = (0..rows.iter().product()).map(|_| rng.random_range(0..cols.min(256) as u32)).collect();
        let classes: Vec<u32> = classes;
        let targets = Tensor::from_vec(classes, rows, &Device::Cpu).unwrap();
        let ours = |x: &[Tensor]| cross_entropy(&x[0], &targets.to_dtype(dtype)?.to_device(x[0].device())?);
        compare("cross entropy", rng, &[x], prepare, ours, |x| {
            let logarithms = candle_nn::ops::log_softmax(&x[0], D::Minus1)?;
            logarithms.gather(&targets.unsqueeze(D::Minus1)?, D::Minus1)?.squeeze(D::Minus1)?.neg()
        });
    });
}

/// Attention by candle's own operations, for tensors `[batch, length, heads, head size]`.
fn own_attention(q: &Tensor, k: &Tensor, v: &Tensor, mask: Option<Causal>, scale: f64) -> Result<Tensor> {
    let [q, k, v] = [q, k, v].map(|x| x.transpose(1, 2)?.contiguous());
    let (q, k) = (q?, k?);
    let group = q.dim(1)? / k.dim(1)?;
    // Each head of keys serves `group` heads of queries next to each other.
    let [k, v] = [k, v?].map(|x| {
        let x = x.unsqueeze(2)?;
        let (batch, heads, _, length, size) = x.dims5()?;
        x.expand((batch, heads, group, length, size))?.reshape((batch, heads * group, length, size))
    });
    let logits = (q.matmul(&k?.t()?)? * scale)?;
    let (queries, keys) = (logits.dim(2)?, logits.dim(3)?);
    let hides = |i: usize| mask.is_some_and(|mask| i % keys >= mask.visible(i / keys, queries, keys));
    let mask: Vec<f64> = (0..queries * keys).map(|i| if hides(i) { -1e30 } else { 0.0 }).collect();
    let logits = logits.broadcast_add(&Tensor::from_vec(mask, (queries, keys), &Device::Cpu)?)?;
    candle_nn::ops::softmax(&logits, D::Minus1)?.matmul(&v?)?.transpose(1, 2)
}

#[test]
fn attention_and_its_gradients_are_candles() {
    let mut rng = StdRng::seed_from_u64(4);
    for case in 0..12 {
        let dtype = ALL[1 + case % 2];
        let (batch, key_heads, group) =
            (rng.random_range(1..3), rng.random_range(1..3), rng.random_range(1..4));
        let queries = rng.random_range(1..70);
        // No query of a causal mask may be without keys: candle's formula gives it something else.
        let keys = queries + rng.random_range(0..30);
        let size = 8 * rng.random_range(1..=16);
        let mask = [None, Some(Causal::TopLeft), Some(Causal::BottomRight)][case % 3];
        let scale = rng.random_range(0.1f32..0.5);
        let options = mask.into_iter().fold(Attention::new().scale(scale), Attention::causal);
        // As projections leave them: the heads next to each other, or split off.
        let is_split = case % 4 >= 2;
        let mut tensor = |length, heads| {
            let shape = if is_split { [batch, heads, length, size] } else { [batch, length, heads, size] };
            random(&mut rng, &shape, dtype)
        };
        let variables =
            [tensor(queries, key_heads * group), tensor(keys, key_heads), tensor(keys, key_heads)];
        let prepare = |all: &[Tensor]| {
            all.iter().map(|x| if is_split { x.transpose(1, 2) } else { Ok(x.clone()) }).collect()
        };
        compare(
            "attention",
            &mut rng,
            &variables,
            prepare,
            |x| attention(&x[0], &x[1], &x[2], options),
            |x| own_attention(&x[0], &x[1], &x[2], mask, f64::from(scale)),
        );
    }
}

#[test]
fn special_rows_and_empty_tensors() {
    for device in devices() {
        let logits = Tensor::new(&[[1f32, 2.0], [f32::INFINITY, 0.0], [3.0, 4.0]], &device).unwrap();
        let targets = Tensor::new(&[-100i64, 0, 7], &device).unwrap();
        let losses: Vec<f32> = cross_entropy(&logits, &targets).unwrap().to_vec1().unwrap();
        assert!(losses[0] == 0.0 && losses[1].is_nan() && losses[2].is_nan(), "{losses:?}");
        let none = logits.narrow(0, 1, 0).unwrap();
        assert_eq!(softmax(&none, Softmax::new()).unwrap().dims(), [0, 2]);
        assert_eq!(cross_entropy(&none, &targets.narrow(0, 0, 0).unwrap()).unwrap().dims(), [0]);
        // Each thread has a stream of its own on a GPU.
        let sum = std::thread::scope(|scope| {
            let run = || softmax(&logits.narrow(0, 0, 1)?, Softmax::new())?.sum_all()?.to_scalar::<f32>();
            scope.spawn(run).join().unwrap().unwrap()
        });
        assert!((sum - 1.0).abs() < 1e-6, "{sum}");
    }
}

#[test]
fn errors_name_what_failed_and_the_fix() {
    for device in devices() {
        let zeros = |shape: &[usize], dtype| Tensor::zeros(shape, dtype, &device).unwrap();
        let (x, targets) = (zeros(&[2, 3, 8], DType::F32), zeros(&[2, 3], DType::U32));
        let heads = zeros(&[1, 4, 2, 8], DType::BF16);
        let fails: [(Result<Tensor>, &[&str]); 10] = [
            (softmax(&zeros(&[2, 3], DType::F64), Softmax::new()), &["the logits are F64", "to_dtype"]),
            (softmax(&x.t().unwrap(), Softmax::new()), &["[2, 8, 3]", "call `contiguous` first"]),
            (softmax(&x.transpose(0, 1).unwrap(), Softmax::new()), &["[3, 2, 8]", "call `contiguous` first"]),
            (softmax(&zeros(&[], DType::F32), Softmax::new()), &["a scalar has no last axis"]),
            (softmax(&x, Softmax::new().scale(0.0)), &["softmax failed: the scale is 0"]),
            (rms_norm(&x, &zeros(&[7], DType::F32), 1e-6), &["RMSNorm failed: the weight", "[7]", "[8]"]),
            (rms_norm(&x, &zeros(&[8], DType::F32), -1.0), &["epsilon is -1", "at least 0"]),
            (
                cross_entropy(&x, &targets.t().unwrap()),
                &["targets have the shape [3, 2]", "[2, 3] without gaps"],
            ),
            (
                attention(&heads, &heads, &heads.narrow(1, 0, 3).unwrap(), Attention::new()),
                &["attention failed: the value tensor has the shape [1, 3, 2, 8]", "[1, 4, 2, 8]"],
            ),
            (attention(&x, &x, &x, Attention::new()), &["the queries are F32", "F16, BF16"]),
        ];
        for (i, (result, texts)) in fails.into_iter().enumerate() {
            let error = result.unwrap_err().to_string();
            assert!(texts.iter().all(|text| error.contains(text)), "{i} on {device:?}: {error}");
        }
    }
}
