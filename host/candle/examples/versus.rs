//! Times ferrowarp's operations and candle's own on candle's tensors, in turns, on the first GPU, and writes a JSON file for `cargo xtask
//! report candle`: `versus FILE`. `FERROWARP_COMMIT` names the commit.

use std::error::Error;
use std::process::Command;

use candle_core::cuda_backend::{WrapErr, cudarc::driver::sys::CUevent_flags};
use candle_core::{D, DType, Device, Result, Tensor, Var};
use candle_nn::{loss, ops};
use ferrowarp_candle::{Attention, Causal, Softmax, attention, cross_entropy, rms_norm, softmax};
use serde_json::{Value, json};

/// Samples of each contender; the median counts.
const ROUNDS: usize = 5;
/// Milliseconds of work in a sample.
const SAMPLE: f32 = 4.0;
/// Bytes of inputs that take turns, so that L2 is cold.
const COLD: usize = 200 << 20;

/// An operation of both on one set of inputs.
type Run = fn(&[Tensor]) -> Result<Tensor>;

/// An operation, whether it needs gradients, ours, and candle's.
struct Operation {
    name: &'static str,
    is_training: bool,
    shapes: &'static [&'static [usize]],
    dtypes: &'static [DType],
    ours: Run,
    theirs: Run,
}

const ROWS: &[&[usize]] = &[&[32768, 1024], &[16384, 4096], &[4096, 32768], &[1024, 4096], &[64, 4096]];
const CLASSES: &[&[usize]] = &[&[16384, 1000], &[8192, 32000], &[2048, 128256], &[256, 32000]];
/// `[batch, heads, length, head size]`, as candle has them.
const HEADS: &[&[usize]] =
    &[&[16, 16, 512, 64], &[4, 16, 2048, 64], &[4, 16, 2048, 128], &[1, 16, 8192, 128], &[1, 16, 512, 128]];
const TRAINED: &[&[usize]] =
    &[&[16, 16, 512, 64], &[4, 16, 2048, 64], &[4, 16, 2048, 128], &[1, 16, 512, 128]];
const BOTH: &[DType] = &[DType::BF16, DType::F32];
const EPSILON: f32 = 1e-6;

const OPERATIONS: &[Operation] = &[
    Operation {
        name: "softmax",
        is_training: false,
        shapes: ROWS,
        dtypes: BOTH,
        ours: |x| softmax(&x[0], Softmax::new()),
        theirs: |x| ops::softmax_last_dim(&x[0]),
    },
    Operation {
        name: "softmax with gradient",
        is_training: true,
        shapes: ROWS,
        dtypes: BOTH,
        ours: |x| softmax(&x[0], Softmax::new()),
        theirs: |x| ops::softmax(&x[0], D::Minus1),
    },
    Operation {
        name: "RMSNorm",
        is_training: false,
        shapes: ROWS,
        dtypes: BOTH,
        ours: |x| rms_norm(&x[0], &x[1], EPSILON),
        theirs: |x| ops::rms_norm(&x[0], &x[1], EPSILON),
    },
    Operation {
        name: "RMSNorm with gradients",
        is_training: true,
        shapes: ROWS,
        dtypes: BOTH,
        ours: |x| rms_norm(&x[0], &x[1], EPSILON),
        theirs: |x| ops::rms_norm_slow(&x[0], &x[1], EPSILON),
    },
    Operation {
        name: "cross entropy",
        is_training: false,
        shapes: CLASSES,
        dtypes: BOTH,
        ours: |x| cross_entropy(&x[0], &x[2])?.mean_all(),
        theirs: |x| loss::cross_entropy(&x[0], &x[2]),
    },
    Operation {
        name: "cross entropy with gradient",
        is_training: true,
        shapes: CLASSES,
        dtypes: BOTH,
        ours: |x| cross_entropy(&x[0], &x[2])?.mean_all(),
        theirs: |x| loss::cross_entropy(&x[0], &x[2]),
    },
    Operation {
        name: "attention",
        is_training: false,
        shapes: HEADS,
        dtypes: &[DType::BF16],
        ours: |x| own_attention(x, Attention::new()),
        theirs: |x| their_attention(x, None),
    },
    Operation {
        name: "causal attention",
        is_training: false,
        shapes: HEADS,
        dtypes: &[DType::BF16],
        ours: |x| own_attention(x, Attention::new().causal(Causal::TopLeft)),
        theirs: |x| their_attention(x, Some(&x[3])),
    },
    Operation {
        name: "attention with gradients",
        is_training: true,
        shapes: TRAINED,
        dtypes: &[DType::BF16],
        ours: |x| own_attention(x, Attention::new()),
        theirs: |x| their_attention(x, None),
    },
];

fn own_attention(x: &[Tensor], options: Attention<'static>) -> Result<Tensor> {
    let [q, k, v] = [&x[0], &x[1], &x[2]].map(|x| x.transpose(1, 2));
    attention(&q?, &k?, &v?, options)?.transpose(1, 2)
}

/// candle's own kernels one after the other. Its softmax without a graph is one kernel.
fn their_attention(x: &[Tensor], mask: Option<&Tensor>) -> Result<Tensor> {
    let logits = (x[0].matmul(&x[1].t()?)? * (x[0].dim(D::Minus1)? as f64).sqrt().recip())?;
    let logits = mask.map_or(Ok(logits.clone()), |mask| logits.broadcast_add(mask))?;
    let weights =
        if logits.track_op() { ops::softmax(&logits, D::Minus1) } else { ops::softmax_last_dim(&logits) };
    weights?.matmul(&x[2])
}

/// The inputs of an operation: variables if it needs gradients.
fn inputs(operation: &Operation, shape: &[usize], dtype: DType, device: &Device) -> Result<Vec<Tensor>> {
    let random = |shape: &[usize]| -> Result<Tensor> {
        let x = Tensor::randn(0f32, 1.0, shape, device)?.to_dtype(dtype)?;
        if operation.is_training { Ok(Var::from_tensor(&x)?.into_inner()) } else { Ok(x) }
    };
    let last = shape[shape.len() - 1];
    if let &[_, _, length, _] = shape {
        let positions = Tensor::arange(0, length as u32, device)?;
        let hides = positions.unsqueeze(1)?.broadcast_lt(&positions.unsqueeze(0)?)?;
        let mask = (hides.to_dtype(dtype)? * -1e30)?;
        return Ok(vec![random(shape)?, random(shape)?, random(shape)?, mask]);
    }
    let targets: Vec<u32> = (0..shape[0]).map(|i| (i * 7919 % last) as u32).collect();
    Ok(vec![random(shape)?, random(&[last])?, Tensor::from_vec(targets, shape[0], device)?])
}

/// Microseconds for each of `count` runs, by the device's clock.
fn time(operation: &Operation, run: Run, sets: &[Vec<Tensor>], count: usize, device: &Device) -> Result<f32> {
    let stream = device.as_cuda_device()?.cuda_stream();
    let record = || stream.record_event(Some(CUevent_flags::CU_EVENT_DEFAULT)).w();
    let start = record()?;
    for i in 0..count {
        let result = run(&sets[i % sets.len()])?;
        if operation.is_training {
            result.backward()?;
        }
    }
    Ok(1e3 * start.elapsed_ms(&record()?).w()? / count as f32)
}

/// Times both at one problem.
fn problem(operation: &Operation, shape: &[usize], dtype: DType, device: &Device) -> Result<Vec<Value>> {
    let bytes = shape.iter().product::<usize>() * dtype.size_in_bytes();
    let sets = (0..(COLD / bytes).clamp(1, 16)).map(|_| inputs(operation, shape, dtype, device));
    let sets = sets.collect::<Result<Vec<_>>>()?;
    let runs = [("ferrowarp", operation.ours), ("candle", operation.theirs)];
    let [ours, theirs] = runs.map(|(_, run)| run(&sets[0])?.to_dtype(DType::F32)?.flatten_all());
    let difference = (ours? - theirs?)?.abs()?.max(0)?.to_scalar::<f32>()?;
    let mut counts = [0; 2];
    for (count, (_, run)) in counts.iter_mut().zip(runs) {
        time(operation, run, &sets, 3, device)?;
        *count = ((1e3 * SAMPLE / time(operation, run, &sets, 3, device)?) as usize).clamp(3, 100);
    }
    let mut samples = [const { Vec::new() }; 2];
    for _ in 0..ROUNDS {
        for (at, (_, run)) in runs.into_iter().enumerate() {
            samples[at].push(time(operation, run, &sets, counts[at], device)?);
        }
    }
    let clock_and_power: Vec<f64> =
        smi("clocks.sm,power.draw").split(", ").filter_map(|number| number.parse().ok()).collect();
    let shape: Vec<String> = shape.iter().map(usize::to_string).collect();
    let entry = |((name, _), mut samples): ((&str, Run), Vec<f32>)| {
        samples.sort_by(f32::total_cmp);
        json!({
            "name": name, "microseconds": samples[ROUNDS / 2], "least": samples[0], "op": operation.name,
            "dtype": dtype.as_str(), "shape": shape.join(" x "), "largest_difference": difference,
            "clock_and_power": clock_and_power,
        })
    };
    Ok(runs.into_iter().zip(samples).map(entry).collect())
}

/// What a program prints, in one line.
fn printed(command: &str) -> String {
    let mut words = command.split(' ');
    let output = Command::new(words.next().unwrap_or_default()).args(words).output();
    output.map_or_else(|_| String::new(), |it| String::from_utf8_lossy(&it.stdout).trim().to_owned())
}

fn smi(fields: &str) -> String {
    printed(&format!("nvidia-smi --id=0 --format=csv,noheader,nounits --query-gpu={fields}"))
}

fn main() -> std::result::Result<(), Box<dyn Error>> {
    let path = std::env::args().nth(1).ok_or("usage: versus FILE")?;
    let device = Device::new_cuda(0)?;
    let mut run = json!({
        "machine": smi("name"), "driver": smi("driver_version"), "date": printed("date +%F"),
        "commit": std::env::var("FERROWARP_COMMIT").ok(), "versions": {"candle": "0.11.1"},
    });
    let mut entries = Vec::new();
    for operation in OPERATIONS {
        for (dtype, shape) in
            operation.dtypes.iter().flat_map(|dtype| operation.shapes.iter().map(move |shape| (dtype, shape)))
        {
            match problem(operation, shape, *dtype, &device) {
                Ok(both) => {
                    let [ours, theirs] =
                        [0, 1].map(|at| both[at]["microseconds"].as_f64().unwrap_or(f64::NAN));
                    println!(
                        "{}, {dtype:?}, {shape:?}: {ours:.1} us, candle {theirs:.1} us, {:.2} x; difference {}",
                        operation.name,
                        theirs / ours,
                        both[0]["largest_difference"]
                    );
                    entries.extend(both);
                }
                Err(error) => println!("{}, {dtype:?}, {shape:?}: {error}", operation.name),
            }
        }
        run["entries"] = json!(entries);
        std::fs::write(&path, format!("{run:#}\n"))?;
    }
    Ok(())
}
