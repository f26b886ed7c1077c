//! Rows that many blocks share, which the problems of the other checks are too narrow for.

use crate::reference;
use anyhow::{Context as _, Result, ensure};
use ferrowarp::device::Device;
use gpu_kernels::softmax::{LADDER, Prepared};

/// Rows and columns: for clusters of 2 to 16 blocks, each a little less than full, and for no cluster at all.
const SHAPES: [[usize; 2]; 6] =
    [[5, 32_767], [3, 33_001], [3, 131_070], [2, 262_143], [2, 300_001], [1, 1_048_579]];

/// The largest relative error of a probability.
const RELATIVE: f64 = 2e-6;

/// Every way of the highest rung that the device has, against the reference in f64.
pub fn softmax(device: &Device) -> Result<()> {
    let highest = LADDER.last().context("the ladder has no rung")?;
    for [rows, cols] in SHAPES {
        // Between -10 and 10, with a whole number of rounding steps, and the largest of a row in any of its blocks.
        let mut logits: Vec<f32> =
            (0..rows * cols).map(|i| (i * 7919 % 10_007) as f32 / 512.0 - 10.0).collect();
        logits.chunks_mut(cols).enumerate().for_each(|(row, x)| x[(row * 2 + 1) * cols / 13] = 20.0);
        let want = reference::softmax(&logits, cols);
        let ways = highest.variants().filter_map(|variant| variant.prepare(rows, cols));
        for way in ways.filter(|way| way.runs_on(device.limits())) {
            let what = format!("{} on {rows}x{cols}", way.meta().name);
            let got = run(device, &way, &logits).context(what.clone())?;
            for (i, (&got, want)) in got.iter().zip(&want).enumerate() {
                let error = (f64::from(got) - want).abs();
                ensure!(error <= RELATIVE * want, "{what}: element {i} is {got:e}, not {want:e}");
            }
            ensure!(run(device, &way, &logits)? == got, "{what}: a second run gave other results");
        }
    }
    Ok(())
}

fn run(device: &Device, way: &Prepared, logits: &[f32]) -> Result<Vec<f32>> {
    let (inp, mut out) = (device.upload(logits)?, device.upload(&vec![f32::NAN; logits.len()])?);
    let mut workspace = device.upload(&vec![f32::NAN; way.workspace_len()])?;
    // SAFETY: the buffers are three, and have the lengths that the way was prepared for.
    unsafe { way.launch(device, &mut out, &inp, &mut workspace) }?;
    Ok(out.to_vec()?)
}
