//! The operations as users call them, with the kernels that they choose for the device and its PTX.

use anyhow::{Context as _, Result, ensure};
use cuda_std::half::{bf16, f16};
use ferrowarp::attention::{Attention, Causal, Element16};
use ferrowarp::device::Device;
use ferrowarp::matmul::Precision;
use ferrowarp::{CumulativeSum, Element, Error, Kind, Matmul, Norm, Reduce, Reduction, Transpose};

/// A type of elements.
trait Number: bytemuck::Pod + Into<f32> {
    fn of(number: f32) -> Self;
}

macro_rules! numbers {
    ($($t:ident $of:expr;)*) => {$(
        impl Number for $t {
            fn of(number: f32) -> Self {
                $of(number)
            }
        }
    )*};
}

numbers! { f32 (|number| number); bf16 bf16::from_f32; f16 f16::from_f32; }

/// Some numbers around 0 that each type holds exactly.
fn numbers<T: Number>(len: usize, step: usize) -> Vec<T> {
    (0..len).map(|i| T::of((i * step % 17) as f32 / 8.0 - 1.0)).collect()
}

/// Fails if results of the device are far from those of the CPU.
fn compare<T: Number>(what: &str, [got, want]: [Vec<T>; 2]) -> Result<()> {
    let most = want.iter().map(|&number| number.into().abs()).fold(1.0f32, f32::max);
    let worst = got.iter().zip(&want).map(|(&got, &want)| {
        let difference = (got.into() - want.into()).abs();
        if difference.is_nan() { f32::INFINITY } else { difference }
    });
    let (worst, kind) = (worst.fold(0.0, f32::max), std::any::type_name::<T>());
    ensure!(
        worst <= most / 64.0,
        "{what} of {kind} differs from the CPU's by {worst}, and its largest number is {most}"
    );
    Ok(())
}

/// Compares the results of operations with the CPU's. The device may have no kernel for some of them.
pub fn are_right(device: &Device) -> Result<()> {
    let cpu = Device::cpu();
    let on = [device, &cpu];
    rows::<f32>(on)?;
    rows::<bf16>(on)?;
    rows::<f16>(on)?;
    products::<f32>(on)?;
    products::<bf16>(on)?;
    products::<f16>(on)?;
    attentions::<bf16>(on)?;
    attentions::<f16>(on)
}

fn rows<T: Number + Element>(on: [&Device; 2]) -> Result<()> {
    for (rows, cols) in [(7, 33), (65, 1024), (3, 40_000), (1, 200_000)] {
        let run = |operation: &str, device: &Device| -> Result<Vec<T>> {
            let x = device.tensor(&numbers::<T>(rows * cols, 5), [rows, cols])?;
            let out = match operation {
                "RMSNorm" => Norm::rms().run(device, &x)?,
                "LayerNorm" => Norm::layer().run(device, &x)?,
                "the maximum of rows" => Reduce::rows(Reduction::Max).run(device, &x)?,
                "the mean of columns" => Reduce::columns(Reduction::Mean).run(device, &x)?,
                "the cumulative sum" => CumulativeSum::new().run(device, &x)?,
                _ => Transpose::new().run(device, &x)?,
            };
            Ok(out.to_vec()?)
        };
        for operation in [
            "RMSNorm",
            "LayerNorm",
            "the maximum of rows",
            "the mean of columns",
            "the cumulative sum",
            "the transpose",
        ] {
            let what = format!("{operation} of {rows} x {cols}");
            let [got, want] = on.map(|device| run(operation, device).with_context(|| what.clone()));
            compare(&what, [got?, want?])?;
        }
    }
    Ok(())
}

fn products<T: Number + Element>(on: [&Device; 2]) -> Result<()> {
    for [m, n, k] in [[1, 100, 300], [33, 65, 100], [128, 256, 512], [300, 128, 64]] {
        for (is_transposed, precision) in [
            (false, Precision::F32),
            (true, Precision::F32),
            (false, Precision::Tf32),
            (true, Precision::Tf32),
        ] {
            let run = |device: &Device| -> Result<Vec<T>, Error> {
                let a = device.tensor(&numbers::<T>(m * k, 5), [m, k])?;
                let b = numbers::<T>(k * n, 7);
                let b = device.tensor(&b, if is_transposed { [n, k] } else { [k, n] })?;
                let b = if is_transposed { b.t() } else { b.view() };
                Matmul::new().precision(precision).run(device, &a, b)?.to_vec()
            };
            let what = format!(
                "the product of {m} x {k} and {k} x {n} (transposed: {is_transposed}, {precision:?})"
            );
            match (run(on[0]), run(on[1])) {
                (Err(error), _) if matches!(error.kind(), Kind::Unsupported { .. }) => {}
                (got, want) => compare(&what, [got.context(what.clone())?, want.context(what.clone())?])?,
            }
        }
    }
    Ok(())
}

fn attentions<T: Number + Element16>(on: [&Device; 2]) -> Result<()> {
    for (queries, keys, head_size) in
        [(1, 500, 64), (100, 100, 64), (200, 333, 128), (50, 70, 96), (33, 20, 40)]
    {
        let (q_shape, k_shape) = ([2, queries, 4, head_size], [2, keys, 2, head_size]);
        let run = |device: &Device| -> Result<Vec<T>, Error> {
            let of =
                |shape: [usize; 4], step| device.tensor(&numbers::<T>(shape.iter().product(), step), shape);
            let (q, k, v) = (of(q_shape, 5)?, of(k_shape, 7)?, of(k_shape, 3)?);
            let call = Attention::new();
            let call = if queries > 1 { call.causal(Causal::TopLeft) } else { call };
            call.run(device, &q, &k, &v)?.to_vec()
        };
        let what =
            format!("the attention of {queries} queries to {keys} keys with a head size of {head_size}");
        match (run(on[0]), run(on[1])) {
            (Err(error), _) if matches!(error.kind(), Kind::Unsupported { .. }) => {}
            (got, want) => compare(&what, [got.context(what.clone())?, want.context(what.clone())?])?,
        }
    }
    Ok(())
}
