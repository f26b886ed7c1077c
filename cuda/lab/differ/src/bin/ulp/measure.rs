//! The evaluated functions, and their inputs.

use ferrowarp_device::device::{Buffer, Device};
use float_kernels::{BINARY, BinaryRow, DEVICE_ONLY, DOUBLE, Format, SINGLE, UNARY, UnaryRow};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use crate::device::launch;
use crate::judge::Judged;

/// The measurements of a run.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Report {
    /// The GPU, or its replacement.
    pub device: String,
    /// The host's processor, which evaluates the oracles.
    pub host: String,
    pub cores: usize,
    pub date: String,
    pub commit: String,
    pub seconds: u64,
    pub rows: Vec<Row>,
}

/// The measurements of one function.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Row {
    pub function: String,
    /// `f32` or `f64`.
    pub float: String,
    /// Whether it is in `fastmath`.
    pub is_fast: bool,
    /// `nvvm`, `llvm` or `executor`.
    pub by: String,
    /// The number of inputs.
    pub inputs: u64,
    /// Whether these are all inputs.
    pub is_exhaustive: bool,
    /// The largest error, in units in the last place.
    pub error: f64,
    /// `f(inputs) = result, exactly ..`.
    pub worst: String,
    /// The number of results that are NaN, or a zero of one sign, where the exact result is not.
    pub others: u64,
    /// One of them.
    pub other: String,
}

/// The numbers of inputs.
#[derive(Clone, Copy, Debug)]
pub struct Size {
    /// Threads of a scan, and inputs per thread.
    scan: [u32; 2],
    /// Distance between the inputs that the host checks, and their number per launch.
    stride: u32,
    list: u32,
    /// Pairs, and `f64` numbers.
    random: u32,
}

impl Size {
    /// All inputs in scans, and 2^32 / 127 of them in lists.
    pub const GPU: Size = Size { scan: [1 << 18, 1 << 14], stride: 127, list: 1 << 24, random: 1 << 21 };
    /// A few.
    pub const EMULATOR: Size = Size { scan: [64, 2], stride: 40_000_003, list: 128, random: 1 << 9 };

    fn is_exhaustive(self) -> bool {
        u64::from(self.scan[0]) * u64::from(self.scan[1]) == 1 << 32
    }

    /// Inputs of all lists.
    fn listed(self) -> u64 {
        (1_u64 << 32).div_ceil(u64::from(self.stride))
    }
}

/// Measures every function with `only` in its name, using the device's modules.
pub fn on_device(
    device: &Device,
    by: &str,
    size: Size,
    only: &str,
    rows: &mut Vec<Row>,
) -> anyhow::Result<()> {
    let mut worst = device.alloc_zeroed::<u32>(size.scan[0] as usize * 6)?;
    let mut out = device.alloc_zeroed::<f32>(size.list as usize)?;
    for row in UNARY.iter().filter(|row| row.name.contains(only)) {
        let judged = scanned(device, row, size, &mut worst)?.and(listed(device, row, size, &mut out)?);
        let inputs = if size.is_exhaustive() { 1 << 32 } else { size.listed() };
        rows.push(done(row.name, "f32", row.is_fast, by, inputs, size.is_exhaustive(), &judged, 1));
        report(rows);
    }
    let (singles, doubles) = (Pairs::new(size, single_of), Pairs::new(size, double_of));
    let single_buffers = singles.map(|x| x as f32).upload(device)?;
    let double_buffers = doubles.upload(device)?;
    let mut out64 = device.alloc_zeroed::<f64>(doubles.x.len())?;
    let mut out32 = device.alloc_zeroed::<f32>(doubles.x.len())?;
    let (count, inputs) = (doubles.x.len() as u32, doubles.x.len() as u64);
    for row in UNARY.iter().filter(|row| row.name.contains(only) && !row.is_fast) {
        let kernel = format!("double_{}", row.name);
        // SAFETY: the kernel takes one input, its length and the output of the same length.
        unsafe { launch(device, &kernel, count, &[&double_buffers[0]], &[count], &mut out64) }?;
        let judged = doubles.judge(&out64.to_vec()?, |x, _| (row.oracle)(x), DOUBLE);
        rows.push(done(row.name, "f64", false, by, inputs, false, &judged, 1));
    }
    for row in BINARY.iter().filter(|row| row.name.contains(only)) {
        let [x, y] = &single_buffers;
        let kernel = format!("pairs_{}", row.name);
        // SAFETY: the kernel takes two inputs, their length and the output of the same length.
        unsafe { launch(device, &kernel, count, &[x, y], &[count], &mut out32) }?;
        let results: Vec<f64> = out32.to_vec()?.into_iter().map(f64::from).collect();
        let judged = singles.judge(&results, row.oracle, SINGLE);
        rows.push(done(row.name, "f32", row.is_fast(), by, inputs, false, &judged, 2));
        if row.is_fast() {
            continue;
        }
        let [x, y] = &double_buffers;
        let kernel = format!("double_pairs_{}", row.name);
        // SAFETY: same as above.
        unsafe { launch(device, &kernel, count, &[x, y], &[count], &mut out64) }?;
        let judged = doubles.judge(&out64.to_vec()?, row.oracle, DOUBLE);
        rows.push(done(row.name, "f64", false, by, inputs, false, &judged, 2));
    }
    Ok(())
}

/// Measures the executor's `f32` functions; its `f64` functions are the host's own.
pub fn executor(size: Size, only: &str, rows: &mut Vec<Row>) {
    for row in UNARY.iter().filter(|row| row.name.contains(only) && !DEVICE_ONLY.contains(&row.name)) {
        let judged = (0..size.listed() as u32)
            .into_par_iter()
            .fold(Judged::default, |mut judged, index| {
                let x = f32::from_bits(index.wrapping_mul(size.stride));
                judged.add(alone(x), f64::from((row.single)(x)), (row.oracle)(f64::from(x)), SINGLE);
                judged
            })
            .reduce(Judged::default, Judged::and);
        rows.push(done(row.name, "f32", row.is_fast, "executor", size.listed(), false, &judged, 1));
    }
    let pairs = Pairs::new(size, single_of);
    for row in BINARY.iter().filter(|row| row.name.contains(only)) {
        let of = |(&x, &y): (&f64, &f64)| f64::from((row.single)(x as f32, y as f32));
        let results: Vec<f64> = pairs.x.par_iter().zip(&pairs.y).map(of).collect();
        let judged = pairs.judge(&results, row.oracle, SINGLE);
        rows.push(done(row.name, "f32", row.is_fast(), "executor", pairs.x.len() as u64, false, &judged, 2));
    }
}

/// The worst of all inputs, which the device finds with its `f64` function and the host checks again.
fn scanned(device: &Device, row: &UnaryRow, size: Size, worst: &mut Buffer<u32>) -> anyhow::Result<Judged> {
    let [threads, each] = size.scan;
    // SAFETY: the kernel takes two words and an output of 6 words per thread.
    unsafe { launch(device, &format!("scan_{}", row.name), threads, &NONE, &[0, each], worst) }?;
    let found = worst.to_vec()?;
    let value = |bits: u32| f64::from(f32::from_bits(bits));
    let judged = found.par_chunks(6).fold(Judged::default, |mut judged, of_thread| {
        let &[input, _, result, others, other, other_result] = of_thread else { return judged };
        let mut add = |input: u32, result: u32| {
            let x = f32::from_bits(input);
            judged.add(alone(x), value(result), (row.oracle)(f64::from(x)), SINGLE)
        };
        add(input, result);
        // The first of them has just been counted.
        if others > 0 && add(other, other_result) {
            judged.others += u64::from(others) - 1;
        }
        judged
    });
    Ok(judged.reduce(Judged::default, Judged::and))
}

/// Every `stride`th input, checked only by the host.
fn listed(device: &Device, row: &UnaryRow, size: Size, out: &mut Buffer<f32>) -> anyhow::Result<Judged> {
    let mut all = Judged::default();
    let mut next = 0;
    while next < size.listed() {
        let first = (next * u64::from(size.stride)) as u32;
        let words = [first, size.stride, size.list];
        // SAFETY: the kernel takes three words; the last one is the length of the output.
        unsafe { launch(device, &format!("list_{}", row.name), size.list, &NONE, &words, out) }?;
        let results = out.to_vec()?;
        let count = (size.listed() - next).min(u64::from(size.list)) as usize;
        let judged =
            results[..count].par_iter().enumerate().fold(Judged::default, |mut judged, (i, &got)| {
                let x = f32::from_bits(first.wrapping_add((i as u32).wrapping_mul(size.stride)));
                judged.add(alone(x), f64::from(got), (row.oracle)(f64::from(x)), SINGLE);
                judged
            });
        let mut judged = judged.reduce(Judged::default, Judged::and);
        if size.is_exhaustive() {
            // The scan has already counted them.
            judged.others = 0;
        }
        all = all.and(judged);
        next += u64::from(size.list);
    }
    Ok(all)
}

/// No inputs.
const NONE: [&Buffer<u32>; 0] = [];

fn alone(x: f32) -> [f64; 2] {
    [f64::from(x), 0.0]
}

/// Inputs of functions of two numbers, and of `f64` functions.
struct Pairs<T> {
    x: Vec<T>,
    y: Vec<T>,
}

/// Numbers where functions change, used in all pairs.
const SPECIAL: [f64; 40] = [
    0.0,
    -0.0,
    0.5,
    -0.5,
    1.0,
    -1.0,
    1.5,
    2.0,
    -2.0,
    2.5,
    3.0,
    -3.0,
    3.5,
    10.0,
    0.1,
    -0.1,
    1e-5,
    -1e-5,
    1e-20,
    1e-38,
    1e-40,
    -1e-45,
    1e10,
    -1e10,
    5e8,
    16_777_215.0,
    16_777_217.0,
    1e30,
    -1e30,
    3.4e38,
    88.7,
    -87.3,
    127.0,
    -149.0,
    std::f64::consts::PI,
    std::f64::consts::FRAC_PI_2,
    f64::MAX,
    f64::INFINITY,
    f64::NEG_INFINITY,
    f64::NAN,
];

fn single_of(bits: u64) -> f64 {
    f64::from(f32::from_bits(bits as u32))
}

fn double_of(bits: u64) -> f64 {
    f64::from_bits(bits)
}

impl Pairs<f64> {
    /// All pairs of special numbers, pairs of arbitrary bits, of numbers below 100, and of such a number and an integer.
    fn new(size: Size, of_bits: fn(u64) -> f64) -> Pairs<f64> {
        let mut state = 41_u64;
        let mut random = || {
            // SplitMix64.
            state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let x = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            x ^ (x >> 31)
        };
        let special = SPECIAL.iter().flat_map(|&x| SPECIAL.iter().map(move |&y| (x, y)));
        let mut pairs: Vec<(f64, f64)> = special.collect();
        for index in 0..size.random {
            let (a, b) = (random(), random());
            let small = |bits: u64| ((bits >> 11) as f64 / (1_u64 << 52) as f64 - 1.0) * 100.0;
            pairs.push(match index % 3 {
                0 => (of_bits(a), of_bits(b)),
                1 => (small(a), small(b)),
                _ => (small(a), (b % 81) as f64 - 40.0),
            });
        }
        // The number that an `f32` function gets.
        let is_single = of_bits(0x3f80_0000) == 1.0;
        let round = |x: f64| if is_single { f64::from(x as f32) } else { x };
        pairs.iter_mut().for_each(|(x, y)| (*x, *y) = (round(*x), round(*y)));
        let (x, y) = pairs.into_iter().unzip();
        Pairs { x, y }
    }

    fn judge(&self, got: &[f64], oracle: impl Fn(f64, f64) -> f64 + Sync, format: Format) -> Judged {
        let one = |mut judged: Judged, ((&x, &y), &got): ((&f64, &f64), &f64)| {
            judged.add([x, y], got, oracle(x, y), format);
            judged
        };
        let all = self.x.par_iter().zip(&self.y).zip(got);
        all.fold(Judged::default, one).reduce(Judged::default, Judged::and)
    }

    fn map<T>(&self, to: impl Fn(f64) -> T + Copy) -> Pairs<T> {
        let all = |numbers: &[f64]| numbers.iter().map(|&x| to(x)).collect();
        Pairs { x: all(&self.x), y: all(&self.y) }
    }
}

impl<T: bytemuck::Pod> Pairs<T> {
    fn upload(&self, device: &Device) -> anyhow::Result<[Buffer<T>; 2]> {
        Ok([device.upload(&self.x)?, device.upload(&self.y)?])
    }
}

/// Whether a function of two numbers is in `fastmath`.
trait Fast {
    fn is_fast(&self) -> bool;
}

impl Fast for BinaryRow {
    fn is_fast(&self) -> bool {
        self.name.contains("_approx")
    }
}

#[allow(clippy::too_many_arguments, reason = "a field each")]
fn done(
    function: &str,
    float: &str,
    is_fast: bool,
    by: &str,
    inputs: u64,
    is_exhaustive: bool,
    judged: &Judged,
    arguments: usize,
) -> Row {
    let shown = |found: &Option<([f64; 2], f64, f64)>| {
        found.as_ref().map_or_else(String::new, |(inputs, got, exact)| {
            let inputs: Vec<String> = inputs[..arguments].iter().map(|x| format!("{x:e}")).collect();
            format!("{function}({}) = {got:e}, exactly {exact:e}", inputs.join(", "))
        })
    };
    Row {
        function: function.to_owned(),
        float: float.to_owned(),
        is_fast,
        by: by.to_owned(),
        inputs,
        is_exhaustive,
        error: judged.error,
        worst: shown(&judged.worst),
        others: judged.others,
        other: shown(&judged.other),
    }
}

fn report(rows: &[Row]) {
    if let Some(Row { function, by, error, others, .. }) = rows.last() {
        eprintln!("{by} {function}: {error:.3} ulp, {others} of another class");
    }
}
