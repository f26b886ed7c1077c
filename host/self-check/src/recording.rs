//! A recording of kernels that were never launched.

use std::time::Instant;

use anyhow::{Result, ensure};
use cuda_std::launch::LaunchConfig;
use ferrowarp::device::{Buffer, Device, DeviceChoice, DeviceError, Queue, Stream};
use ferrowarp::{Softmax, TensorView, TensorViewMut};
use ferrowarp_report::print_line;
use gpu_kernels::mlp::activation::relu_forward;

use crate::mechanics::in_new_process;

const ROWS: usize = 64;
const COLS: usize = 1000;

fn softmax_to(queue: &impl Queue, out: &mut Buffer<f32>, inp: &Buffer<f32>) -> Result<(), DeviceError> {
    let (out, inp) = (TensorViewMut::new(out, [ROWS, COLS])?, TensorView::new(inp, [ROWS, COLS])?);
    Ok(Softmax::new().run_into(queue, out, inp)?)
}

/// Runs a softmax on new buffers.
pub fn softmax_of_zeros(device: &Device) -> Result<()> {
    let (mut out, inp) = (device.alloc_zeroed(ROWS * COLS)?, device.alloc_zeroed(ROWS * COLS)?);
    Ok(softmax_to(device, &mut out, &inp)?)
}

/// Checks a first recording in a separate process, in which no module but one is loaded.
pub fn is_right(choice: DeviceChoice) -> Result<()> {
    let text = in_new_process("--record-first", choice)?;
    ensure!(text.contains("recorded in"), "the process says {text}");
    Ok(())
}

/// Records kernels that this process has never launched: one that can panic, and a softmax.
pub fn first(device: &Device) -> Result<()> {
    let numbers: Vec<f32> = (0..ROWS * COLS).map(|i| (i * 31 % 101) as f32 / 16.0 - 3.0).collect();
    let buffers =
        [device.upload(&numbers)?, device.alloc_zeroed(ROWS * COLS)?, device.alloc_zeroed(ROWS * COLS)?];
    let start = Instant::now();
    let mut graph =
        device.record(buffers, move |stream: &Stream, [inp, relu, out]: &mut [Buffer<f32>; 3]| {
            let config = LaunchConfig::new(((COLS as u32).div_ceil(32), (ROWS as u32).div_ceil(8)), (32, 8));
            // SAFETY: both have this many rows and columns, and there is a thread for each element.
            unsafe { relu_forward::launch(stream, config, &mut *relu, &*inp, ROWS as u32, COLS as u32) }?;
            softmax_to(stream, out, relu)
        })?;
    let recorded = start.elapsed();
    ensure!(graph.state()[2].to_vec()?.iter().all(|&p| p == 0.0), "the recording ran the kernels");
    graph.launch()?;
    let relu: Vec<f32> = numbers.iter().map(|x| x.max(0.0)).collect();
    ensure!(graph.state()[1].to_vec()? == relu, "the graph's first kernel is wrong");
    for (row, got) in relu.chunks(COLS).zip(graph.state()[2].to_vec()?.chunks(COLS)) {
        let sum: f64 = row.iter().map(|x| f64::from(*x).exp()).sum();
        let worst = row.iter().zip(got).map(|(x, p)| (f64::from(*x).exp() / sum - f64::from(*p)).abs());
        ensure!(worst.fold(0.0, f64::max) < 1e-6, "the graph's softmax is wrong");
    }
    print_line(format_args!("recorded in {:.3} s", recorded.as_secs_f64()))?;
    Ok(())
}
