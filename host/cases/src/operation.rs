//! The softmax that users call, its gradient and cross entropy: every kernel, in every type, against references in f64.

use crate::reference::{self, Number};
use anyhow::{Context as _, Result, ensure};
use cuda_std::half::{bf16, f16};
use cuda_std::launch::RawBuffer;
use ferrowarp::device::{Buffer, Device};
use ferrowarp::softmax::{CrossEntropy, Matrix, MatrixMut, Options, Plan, Real, SoftmaxAs, softmax_backward};
use gpu_kernels::softmax::operation::Variant;
use gpu_kernels::softmax::{backward, cross_entropy, forward_kernels, serial};

/// Widths at which every kernel that holds them is run: one element, half a warp's vectors, several warps.
const WIDTHS: [usize; 3] = [1, 35, 2053];

/// Elements from a row to the next, besides those of the row.
pub(crate) const GAP: usize = 3;

/// The largest relative error of a sum of exponentials.
const RELATIVE: f64 = 2e-6;

/// A check with its name, and the most rows that one launch of it may have.
pub type Case = (&'static str, fn(&Device, usize) -> Result<()>);

/// All checks.
pub const CASES: &[Case] = &[
    ("softmax of f32", softmax::<f32, f32>),
    ("softmax of f16", softmax::<f16, f16>),
    ("softmax of bf16", softmax::<bf16, bf16>),
    ("softmax of f16 as f32", softmax::<f16, f32>),
    ("softmax of bf16 as f32", softmax::<bf16, f32>),
    ("softmax of f32 as f16", softmax::<f32, f16>),
    ("softmax of f32 as bf16", softmax::<f32, bf16>),
    ("softmax of f32 in place", |device, _| in_place::<f32>(device)),
    ("softmax of f16 in place", |device, _| in_place::<f16>(device)),
    ("softmax of bf16 in place", |device, _| in_place::<bf16>(device)),
    ("gradient through a softmax of f32", |device, _| backward::<f32>(device)),
    ("gradient through a softmax of f16", |device, _| backward::<f16>(device)),
    ("gradient through a softmax of bf16", |device, _| backward::<bf16>(device)),
    ("cross entropy of f32", |device, _| cross_entropy::<f32>(device)),
    ("cross entropy of f16", |device, _| cross_entropy::<f16>(device)),
    ("cross entropy of bf16", |device, _| cross_entropy::<bf16>(device)),
];

/// Rows apart from each other, off a boundary, with elements around them that must stay.
pub(crate) struct Rows<T> {
    buffer: Buffer<T>,
    cols: usize,
}

/// What lies around the rows.
fn filler<T: Number>() -> T {
    T::nearest(-77.0)
}

impl<T: Number> Rows<T> {
    pub fn new(device: &Device, packed: &[T], cols: usize) -> Result<Self> {
        let mut elements = vec![filler(); 1];
        for row in packed.chunks(cols) {
            elements.extend_from_slice(row);
            elements.extend([filler::<T>(); GAP]);
        }
        Ok(Self { buffer: device.upload(&elements)?, cols })
    }

    /// Room for rows that a kernel writes whole.
    pub fn output(device: &Device, [rows, cols]: [usize; 2]) -> Result<Self> {
        let mut output = Self::new(device, &vec![filler(); rows * cols], cols)?;
        for row in 0..rows {
            let start = 1 + row * (cols + GAP);
            // SAFETY: the kernel writes them before anybody reads: if not, that is to be found.
            unsafe { output.buffer.view_mut(start..start + cols)?.mark_uninit() };
        }
        Ok(output)
    }

    fn rows(&self) -> usize {
        (self.buffer.len() - 1) / (self.cols + GAP)
    }

    pub fn matrix(&self) -> Result<Matrix<'_, T>> {
        Ok(Matrix::new(self.buffer.view(1..)?, self.rows(), self.cols)?.with_stride(self.cols + GAP)?)
    }

    pub fn matrix_mut(&mut self) -> Result<MatrixMut<'_, T>> {
        let (rows, cols) = (self.rows(), self.cols);
        Ok(MatrixMut::new(self.buffer.view_mut(1..)?, rows, cols)?.with_stride(cols + GAP)?)
    }

    /// The first row, for a kernel that is launched by hand.
    pub fn read(&self) -> Result<RawBuffer<T>> {
        Ok(RawBuffer::read(self.buffer.view(1..)?))
    }

    /// As [`Self::read`], for a kernel to write.
    pub fn written(&mut self) -> Result<RawBuffer<T>> {
        Ok(RawBuffer::written(self.buffer.view_mut(1..)?))
    }

    /// The rows without what lies between them, which must be as it was.
    pub fn packed(&self) -> Result<Vec<T>> {
        let all = self.buffer.to_vec()?;
        let is_filler = |&x: &T| bytemuck::bytes_of(&x) == bytemuck::bytes_of(&filler::<T>());
        let mut packed = Vec::new();
        ensure!(is_filler(&all[0]), "an element before the rows was written");
        for row in all[1..].chunks(self.cols + GAP) {
            let (row, gap) = row.split_at(self.cols);
            ensure!(gap.iter().all(is_filler), "an element between the rows was written");
            packed.extend_from_slice(row);
        }
        Ok(packed)
    }
}

/// The type's nearest number, of finite ones a finite one.
fn nearest<T: Number>(x: f32) -> T {
    T::nearest(if x.is_finite() { x.clamp(-T::LARGEST, T::LARGEST) } else { x })
}

/// Numbers in -8..8, the same in every run.
pub(crate) fn numbers<T: Number>(len: usize, seed: usize) -> Vec<T> {
    (0..len).map(|i| nearest(((i + seed) * 7919 % 4099) as f32 / 256.0 - 8.0)).collect()
}

pub(crate) fn values<T: Number>(numbers: &[T]) -> Vec<f32> {
    numbers.iter().map(|x| x.value()).collect()
}

/// Numbers of some rows, and the hard rows where they are wide enough.
fn logits<T: Number>(cols: usize) -> Vec<T> {
    let mut logits = numbers(3 * cols, cols);
    if cols >= 5 {
        let hard = reference::edge_rows(cols).into_iter().flat_map(|(_, row)| row);
        logits.extend(hard.map(nearest::<T>));
    }
    logits
}

fn softmax<I: Number + SoftmaxAs<O>, O: Number>(device: &Device, most_rows: usize) -> Result<()> {
    let all = [Options::new(), Options::new().log().scale(0.5), Options::new().zero_masked()];
    for (cols, options) in WIDTHS.into_iter().zip(all) {
        for logits in logits::<I>(cols).chunks(most_rows.saturating_mul(cols)) {
            every_kernel::<I, O>(device, logits, cols, &options)?;
        }
    }
    Ok(())
}

/// Every kernel that holds such rows, on these.
fn every_kernel<I: Number + SoftmaxAs<O>, O: Number>(
    device: &Device,
    logits: &[I],
    cols: usize,
    options: &Options,
) -> Result<()> {
    let inp = Rows::new(device, logits, cols)?;
    for mut plan in Plan::<I, O>::every(device, inp.rows(), cols, options)? {
        let mut out = Rows::<O>::output(device, [logits.len() / cols, cols])?;
        let names: Vec<_> = plan.kernel_choice().kernels().map(|meta| meta.name).collect();
        let what = format!("{names:?} {:?} on {cols} columns", plan.kernel_choice().config());
        plan.run(&mut out.matrix_mut()?, &inp.matrix()?).context(what.clone())?;
        let got = out.packed().context(what.clone())?;
        let complaint = reference::softmax_complaint(&got, &values(logits), cols, options, RELATIVE);
        ensure!(complaint.is_none(), "{what}: {}", complaint.unwrap_or_default());
        plan.run(&mut out.matrix_mut()?, &inp.matrix()?)?;
        let again = out.packed()?;
        let same = bytemuck::cast_slice::<O, u8>(&got) == bytemuck::cast_slice::<O, u8>(&again);
        ensure!(same, "{what}: a second run gave other results");
    }
    Ok(())
}

/// The chosen kernels at widths that fill their registers, from narrow ones to clusters and the pair.
fn in_place<T: Number + Real>(device: &Device) -> Result<()> {
    for cols in [67, 515, 3079, 16_391, 40_000, 300_001] {
        let logits = numbers::<T>(3 * cols, cols);
        let mut matrix = Rows::new(device, &logits, cols)?;
        let mut plan = Plan::<T>::new(device, 3, cols, &Options::new())?;
        plan.run_in_place(&mut matrix.matrix_mut()?)?;
        let got = matrix.packed()?;
        let complaint = reference::softmax_complaint(&got, &values(&logits), cols, &Options::new(), RELATIVE);
        ensure!(complaint.is_none(), "{:?}: {}", plan.kernel_choice(), complaint.unwrap_or_default());
    }
    Ok(())
}

/// The widest rows of each kernel, and for the last, which takes any width, some more.
fn widths<A>(variants: &'static [Variant<A>]) -> impl Iterator<Item = (&'static str, usize)> {
    variants.iter().scan(0, |before, variant| {
        let width = (variant.elements as usize).min(*before + 1111);
        let width = if variant.elements == u32::MAX { width } else { variant.elements as usize };
        *before = width;
        Some((variant.meta.name, width))
    })
}

/// Whether each is near: `computed` roundings of f32 of the magnitude, and one of the type.
fn ensure_near<T: Number>(what: &str, got: &[T], want: &[(f64, f64)], computed: f64) -> Result<()> {
    ensure!(got.len() == want.len(), "{what}: {} elements, not {}", got.len(), want.len());
    for (i, (&got, &(want, magnitude))) in got.iter().zip(want).enumerate() {
        let tolerance = computed * f32::ROUNDING * magnitude + T::ROUNDING * want.abs() + T::SMALLEST;
        let error = (f64::from(got.value()) - want).abs();
        let is_right = error <= tolerance || got.value().is_nan() && want.is_nan();
        ensure!(is_right, "{what}: element {i} is {:e}, not {want:e}", got.value());
    }
    Ok(())
}

/// For a sum over many elements by threads that add at most some dozens each, and exponentials.
const SUM: f64 = 96.0;

fn backward<T: Number + Real>(device: &Device) -> Result<()> {
    for (name, cols) in widths(T::BACKWARD) {
        let numbers = numbers::<T>(2 * cols, 1);
        let y: Vec<f64> = reference::softmax(&values(&numbers), cols);
        let y: Vec<T> = y.into_iter().map(|y| T::nearest(y as f32)).collect();
        let dy = self::numbers::<T>(2 * cols, 5);
        let (dy_rows, y_rows) = (Rows::new(device, &dy, cols)?, Rows::new(device, &y, cols)?);
        let mut dx = Rows::<T>::output(device, [2, cols])?;
        softmax_backward(
            device,
            &mut dx.matrix_mut()?,
            &dy_rows.matrix()?,
            &y_rows.matrix()?,
            &Options::new(),
        )?;
        let (dy, y) = (values(&dy), values(&y));
        let rows = dy.chunks(cols).zip(y.chunks(cols));
        let want = rows.flat_map(|(dy, y)| reference::softmax_backward(dy, y, false));
        let want: Vec<_> = want.map(|sum| (sum.value, sum.magnitude)).collect();
        ensure_near(&format!("{name} on {cols} columns"), &dx.packed()?, &want, SUM)?;
    }
    Ok(())
}

fn cross_entropy<T: Number + Real>(device: &Device) -> Result<()> {
    for (name, cols) in widths(T::CROSS_ENTROPY) {
        let logits = numbers::<T>(3 * cols, 2);
        // The second row is ignored.
        let targets = [cols as i64 - 1, -100, 0];
        let (inp, classes) = (Rows::new(device, &logits, cols)?, device.upload(&targets)?);
        let mut gradient = Rows::<T>::output(device, [3, cols])?;
        let mut losses = device.upload(&[f32::NAN; 3])?;
        CrossEntropy::new(&mut losses, inp.matrix()?, &classes)
            .with_gradient(gradient.matrix_mut()?, 0.25)
            .run(device)?;
        let what = format!("{name} on {cols} columns");
        let (mut want_losses, mut want) = (Vec::new(), Vec::new());
        for (row, target) in values(&logits).chunks(cols).zip(targets) {
            let expected = reference::cross_entropy(row, target, -100);
            want_losses.push((expected.loss, expected.loss.abs() + 1.0));
            want.extend(expected.gradient.iter().map(|g| (g * 0.25, 0.25)));
        }
        ensure_near(&format!("losses of {what}"), &losses.to_vec()?, &want_losses, SUM)?;
        ensure_near(&what, &gradient.packed()?, &want, SUM)?;
    }
    Ok(())
}

/// The kernels that they launch.
pub fn kernels() -> impl Iterator<Item = &'static str> {
    let lists = [
        forward_kernels::softmax::KERNELS,
        forward_kernels::reduce::KERNELS,
        forward_kernels::write::KERNELS,
        serial::softmax_serial::KERNELS,
        backward::softmax_backward::KERNELS,
        cross_entropy::cross_entropy_rows::KERNELS,
    ];
    lists.into_iter().flatten().map(|meta| meta.name)
}
