//! Draws tokens from a softmax.

use cuda_std::launch::RawBuffer;
use gpu_kernels::softmax::sample::{GREEDY, SampleLaunch};

use super::row_kernel::RowKernel;
use super::top_k::check_k;
use super::{DeviceProfile, Matrix, Real, SoftmaxError, check};
use crate::device::{BufferViewMut, Device, Queue};

/// How tokens are drawn: temperature, cuts, and the seed of the random numbers. The default is the plain softmax.
///
/// ```
/// use ferrowarp::softmax::Sampling;
///
/// let _usual = Sampling::new(42).temperature(0.8).top_k(50).top_p(0.95);
/// let _greedy = Sampling::new(0).temperature(0.0);
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sampling {
    seed: u64,
    temperature: f32,
    top_k: Option<usize>,
    top_p: f32,
}

impl Sampling {
    /// Draws from the softmax of the logits. The random numbers depend on the seed, the draw, the row and the column.
    pub const fn new(seed: u64) -> Self {
        Self { seed, temperature: 1.0, top_k: None, top_p: 1.0 }
    }

    /// Draws from `softmax(logits / temperature)`. At 0 it takes the largest logit (the first of equal ones), whatever the
    /// seed and cuts are. Other temperatures must be finite and at least 2^-126.
    pub const fn temperature(self, temperature: f32) -> Self {
        Self { temperature, ..self }
    }

    /// Draws only from the `k` largest logits, `k` from 1 to 128. Of equal logits, those in the smaller columns come first.
    pub const fn top_k(self, k: usize) -> Self {
        Self { top_k: Some(k), ..self }
    }

    /// Draws only from the fewest most probable tokens that together have probability `p` or more (nucleus sampling:
    /// Holtzman et al., 2020). `p` is over 0 and at most 1; 1 disables the cut. Probabilities are at the temperature and,
    /// with [`top_k`](Self::top_k), among the tokens that it leaves, where they sum to 1.
    pub const fn top_p(self, p: f32) -> Self {
        Self { top_p: p, ..self }
    }

    /// The factor of the logits, and whether the temperature is 0.
    fn checked(&self) -> Result<(f32, bool), SoftmaxError> {
        let Self { temperature, top_k, top_p, .. } = *self;
        let is_greedy = temperature == 0.0;
        if !(is_greedy || (f32::MIN_POSITIVE..=f32::MAX).contains(&temperature)) {
            return Err(SoftmaxError::Temperature { temperature });
        }
        if let Some(k) = top_k {
            check_k(k)?;
        }
        if !(top_p > 0.0 && top_p <= 1.0) {
            return Err(SoftmaxError::TopP { p: top_p });
        }
        Ok((if is_greedy { 1.0 } else { 1.0 / temperature }, is_greedy))
    }
}

impl Default for Sampling {
    fn default() -> Self {
        Self::new(0)
    }
}

/// Draws a token, the number of a column, for each row of `logits`. On a GPU the work is queued.
///
/// ```
/// use ferrowarp::device::Device;
/// use ferrowarp::softmax::{Matrix, Sampling, SoftmaxError, sample};
///
/// let device = Device::cpu();
/// let logits = device.upload(&[1.0f32, 5.0, 0.0, 7.0, 7.0, f32::NEG_INFINITY])?;
/// let mut tokens = device.alloc_zeroed::<u32>(2)?;
/// for draw in 0..100 {
///     sample(&device, &mut tokens, &Matrix::new(&logits, 2, 3)?, &Sampling::new(42).top_p(0.5), draw)?;
///     let tokens = tokens.to_vec()?;
///     assert_eq!(tokens[0], 1); // Its probability is 0.98.
///     assert!(tokens[1] < 2); // To one of probability 0.5 none is added.
/// }
/// # Ok::<(), SoftmaxError>(())
/// ```
///
/// # Random numbers
/// They are words of Philox4x32-10 (Salmon et al., 2011), with the seed as key. The counter consists of `draw`, the row
/// modulo 2^32, and the group of 1024 columns, so no two rows or draws share numbers. They have the same bits on every
/// device and for every type.
///
/// First a group of 1024 columns is drawn: the one with the largest `ln(sum of exp(logit / temperature)) + noise`, where the
/// noise has the standard Gumbel distribution. Then a column of the group is drawn, by inverting their distribution
/// function. If [`Sampling::top_p`] excludes the token, it is drawn again, only from larger ones, with new numbers. So the
/// token is the same on every device, unless two compared sums are equal up to `f32` rounding. Pass a new `draw` at every
/// step of a generation; a [recorded](Device::record) call repeats its own.
///
/// # Hard rows
/// A row with a NaN or a +inf, or with only -inf, gives [`u32::MAX`], no token, at every temperature. A -inf among finite
/// logits is never drawn. A `top_k` above the number of columns has no effect. Without columns nothing is written.
///
/// # Errors
/// The temperature is negative, NaN, infinite, or between 0 and 2^-126; `top_k` is 0 or over 128; `top_p` is not in
/// (0, 1]; there is not one token per row; a row has 2^32 elements or more; memory lives on another device; the device failed.
pub fn sample<'a, T: Real>(
    queue: &impl Queue,
    tokens: impl Into<BufferViewMut<'a, u32>>,
    logits: &Matrix<'_, T>,
    sampling: &Sampling,
    draw: u64,
) -> Result<(), SoftmaxError> {
    run(queue, tokens.into(), None, logits, sampling, draw)
}

/// Same as [`sample`], and also writes the logarithm of each token's probability in `softmax(logits / temperature)`, before
/// the cuts; at temperature 0 in `softmax(logits)`. It is NaN if there is no token.
///
/// ```
/// use ferrowarp::device::Device;
/// use ferrowarp::softmax::{Matrix, Sampling, SoftmaxError, sample_with_log_probabilities};
///
/// let device = Device::cpu();
/// let logits = device.upload(&[3.0f32, 3.0])?;
/// let mut token = device.alloc_zeroed::<u32>(1)?;
/// let mut logarithm = device.alloc_zeroed::<f32>(1)?;
/// let (row, greedy) = (Matrix::new(&logits, 1, 2)?, Sampling::new(0).temperature(0.0));
/// sample_with_log_probabilities(&device, &mut token, &mut logarithm, &row, &greedy, 0)?;
/// assert_eq!(token.to_vec()?, [0]);
/// assert!((logarithm.to_vec()?[0] + 2f32.ln()).abs() < 1e-6);
/// # Ok::<(), SoftmaxError>(())
/// ```
///
/// # Errors
/// Same as for [`sample`]; or there is not one logarithm per row.
pub fn sample_with_log_probabilities<'a, T: Real>(
    queue: &impl Queue,
    tokens: impl Into<BufferViewMut<'a, u32>>,
    log_probabilities: impl Into<BufferViewMut<'a, f32>>,
    logits: &Matrix<'_, T>,
    sampling: &Sampling,
    draw: u64,
) -> Result<(), SoftmaxError> {
    run(queue, tokens.into(), Some(log_probabilities.into()), logits, sampling, draw)
}

fn run<T: Real>(
    queue: &impl Queue,
    tokens: BufferViewMut<'_, u32>,
    log_probabilities: Option<BufferViewMut<'_, f32>>,
    logits: &Matrix<'_, T>,
    sampling: &Sampling,
    draw: u64,
) -> Result<(), SoftmaxError> {
    let (device, shape) = (queue.device(), logits.shape());
    let (scale, is_greedy) = sampling.checked()?;
    check(device, "logits", shape, (shape, logits.device()))?;
    let check_len = |what, len, at: &Device| {
        if len != shape[0] {
            return Err(SoftmaxError::LengthDiffers { operation: "sampling", what, len, rows: shape[0] });
        }
        check(device, what, [len, 1], ([len, 1], at))
    };
    check_len("tokens", tokens.len(), tokens.device())?;
    if let Some(view) = &log_probabilities {
        check_len("log-probabilities", view.len(), view.device())?;
    }
    let profile = DeviceProfile::from(device);
    let top_k = if is_greedy { 0 } else { sampling.top_k.unwrap_or(0) };
    let kernels = if top_k > 0 { &T::SAMPLING.sample_top_k } else { &T::SAMPLING.sample };
    let Some(kernel) = RowKernel::new::<T>(kernels, &profile, shape)? else { return Ok(()) };
    let (stride, from, to) = (logits.stride(), logits.raw(), RawBuffer::written(tokens));
    let logarithms = log_probabilities.map_or(RawBuffer::NULL, RawBuffer::written);
    for (first, rows) in kernel.launches() {
        let args = SampleLaunch {
            tokens: to.skip(first),
            log_probabilities: logarithms.skip(first),
            logits: from.skip(first * stride),
            rows,
            stride: stride as u64,
            seed: sampling.seed,
            draw,
            cols: kernel.cols,
            first_row: first as u32,
            top_k: top_k as u32,
            top_p: sampling.top_p,
            scale,
            flags: if is_greedy { GREEDY } else { 0 },
        };
        // SAFETY: all memory was checked against the shape and the device and is borrowed, outputs exclusively. Later uses
        // of it wait for the device or are queued after this. The grid is for this many rows.
        unsafe { kernel.spread.variant.launch(queue, kernel.config(rows), args) }?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_that_mean_nothing_are_refused_in_words() {
        let new = Sampling::new(1);
        for (sampling, words) in [
            (new.temperature(-1.0), "sampling at a temperature of -1 failed: it is 0, or from 2^-126 on"),
            (new.temperature(f32::NAN), "a temperature of NaN"),
            (new.temperature(f32::INFINITY), "a temperature of inf"),
            (new.temperature(1e-40), "a temperature of 0.0000"),
            (new.top_k(0), "top-k with k = 0 failed"),
            (new.top_k(129), "top-k with k = 129 failed"),
            (
                new.top_p(0.0),
                "sampling with a top-p of 0 failed: it must be over 0 and at most 1; 1 disables the cut",
            ),
            (new.top_p(1.0001), "a top-p of 1.0001"),
            (new.top_p(-0.5), "a top-p of -0.5"),
            (new.top_p(f32::NAN), "a top-p of NaN"),
            (new.temperature(0.0).top_p(2.0), "a top-p of 2"),
        ] {
            let error = sampling.checked().unwrap_err().to_string();
            assert!(error.contains(words), "`{words}` is not in: {error}");
        }
        assert_eq!(new.temperature(0.0).checked().unwrap(), (1.0, true));
        assert_eq!(new.temperature(-0.0).checked().unwrap(), (1.0, true));
        assert_eq!(new.temperature(0.5).top_k(128).top_p(1e-45).checked().unwrap(), (2.0, false));
        assert_eq!(new.temperature(f32::MIN_POSITIVE).checked().unwrap(), (2f32.powi(126), false));
        assert!(new.temperature(f32::MAX).checked().unwrap().0 > 0.0);
    }
}
