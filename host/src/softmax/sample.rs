//! Draws tokens from a softmax.

use ferrowarp_device::device::Queue;
use ferrowarp_device::error::Error;
use ferrowarp_device::tensor::{Tensor, TensorView, TensorViewMut};
use softmax_kernels::sample::{GREEDY, SampleLaunch};

use super::row_kernel::RowKernel;
use super::top_k::check_k;
use crate::element::Element;
use crate::operation::{Operation, result, written};

const NAME: &str = "sampling";

/// Draws a token, the number of a column, for each row along the last axis: temperature, cuts, and the seed of the random
/// numbers. The default is the plain softmax with the seed 0.
///
/// ```
/// use ferrowarp::device::Device;
/// use ferrowarp::{Error, Sample};
///
/// let device = Device::cpu();
/// let logits = device.tensor(&[1.0f32, 5.0, 0.0, 7.0, 7.0, f32::NEG_INFINITY], [2, 3])?;
/// let sample = Sample::new().seed(42).temperature(0.9).top_p(0.5);
/// for step in 0..100 {
///     let tokens = sample.draw(step).run(&device, &logits)?.to_vec()?;
///     assert_eq!(tokens[0], 1); // Its probability is 0.98.
///     assert!(tokens[1] < 2); // To one of probability 0.5 none is added.
/// }
/// # Ok::<(), Error>(())
/// ```
///
/// # Random numbers
/// They are words of Philox4x32-10 (Salmon et al., 2011), with the seed as key. The counter consists of the
/// [draw](Self::draw), the row modulo 2^32, and the group of 1024 columns, so no two rows or draws share numbers. They have the
/// same bits on every device and for every type.
///
/// First a group of 1024 columns is drawn: the one with the largest `ln(sum of exp(logit / temperature)) + noise`, where the
/// noise has the standard Gumbel distribution. Then a column of the group is drawn, by inverting their distribution
/// function. If [`top_p`](Self::top_p) excludes the token, it is drawn again, only from larger ones, with new numbers. So the
/// token is the same on every device, unless two compared sums are equal up to `f32` rounding.
///
/// # Hard rows
/// A row with a NaN or a +inf, or with only -inf, gives [`u32::MAX`], no token, at every temperature. A -inf among finite
/// logits is never drawn. A `top_k` above the number of columns has no effect. Without columns nothing is written.
#[derive(Clone, Copy, Debug, PartialEq)]
#[must_use = "nothing is drawn before it is run"]
pub struct Sample {
    seed: u64,
    draw: u64,
    temperature: f32,
    top_k: Option<usize>,
    top_p: f32,
}

/// Where tokens are written. A tensor alone is that of the tokens.
///
/// ```
/// use ferrowarp::device::Device;
/// use ferrowarp::softmax::sample::Outputs;
/// use ferrowarp::{Error, Sample, Tensor};
///
/// let device = Device::cpu();
/// let logits = device.tensor(&[3.0f32, 3.0], [1, 2])?;
/// let (mut token, mut logarithm) = (Tensor::zeros(&device, [1])?, Tensor::zeros(&device, [1])?);
/// let outputs = Outputs::new(&mut token).log_probabilities(&mut logarithm);
/// Sample::new().temperature(0.0).run_into(&device, outputs, &logits)?;
/// assert_eq!(token.to_vec()?, [0]);
/// assert!((logarithm.to_vec()?[0] + 2f32.ln()).abs() < 1e-6);
/// # Ok::<(), Error>(())
/// ```
#[derive(Debug)]
#[must_use = "nothing is written before tokens are drawn"]
pub struct Outputs<'a> {
    tokens: TensorViewMut<'a, u32>,
    log_probabilities: Option<TensorViewMut<'a, f32>>,
}

impl<'a> Outputs<'a> {
    /// The tokens, one for each row: of the logits' shape without the last axis, or of one axis.
    pub fn new(tokens: impl Into<TensorViewMut<'a, u32>>) -> Self {
        Self { tokens: tokens.into(), log_probabilities: None }
    }

    /// Also the logarithm of each token's probability in `softmax(logits / temperature)`, before the cuts; at
    /// temperature 0 in `softmax(logits)`. It is NaN if there is no token.
    pub fn log_probabilities(self, log_probabilities: impl Into<TensorViewMut<'a, f32>>) -> Self {
        Self { log_probabilities: Some(log_probabilities.into()), ..self }
    }
}

impl<'a, V: Into<TensorViewMut<'a, u32>>> From<V> for Outputs<'a> {
    fn from(tokens: V) -> Self {
        Self::new(tokens)
    }
}

impl Default for Sample {
    fn default() -> Self {
        Self::new()
    }
}

impl Sample {
    /// Draws from the softmax of the logits.
    pub const fn new() -> Self {
        Self { seed: 0, draw: 0, temperature: 1.0, top_k: None, top_p: 1.0 }
    }

    /// Sets the seed of the random numbers, which depend on the seed, the draw, the row and the column.
    pub const fn seed(self, seed: u64) -> Self {
        Self { seed, ..self }
    }

    /// Sets the number of the draw. Pass a new one at every step of a generation; a
    /// [recorded](crate::device::Device::record) call repeats its own.
    pub const fn draw(self, draw: u64) -> Self {
        Self { draw, ..self }
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
    fn checked(&self, operation: &Operation<'_>) -> Result<(f32, bool), Error> {
        let Self { temperature, top_k, top_p, .. } = *self;
        let is_greedy = temperature == 0.0;
        if !(is_greedy || (f32::MIN_POSITIVE..=f32::MAX).contains(&temperature)) {
            let needs = "it must be 0, for the largest logit, or from 2^-126 on and finite";
            return Err(operation.refuse_option(format!("the temperature is {temperature}"), needs));
        }
        top_k.map_or(Ok(()), |k| check_k(operation, k))?;
        if !(top_p > 0.0 && top_p <= 1.0) {
            let needs = "it must be over 0 and at most 1; 1 disables the cut";
            return Err(operation.refuse_option(format!("top-p is {top_p}"), needs));
        }
        Ok((if is_greedy { 1.0 } else { 1.0 / temperature }, is_greedy))
    }

    /// Returns a token for each row, of the logits' shape without the last axis; 0 without columns.
    ///
    /// # Errors
    /// The temperature is negative, NaN, infinite, or between 0 and 2^-126; `top_k` is 0 or over 128; `top_p` is not in
    /// (0, 1]; a row has 2^32 elements or more; an operand has another shape or lives on another device; the device failed or
    /// is out of memory.
    pub fn run<'i, T: Element>(
        &self,
        queue: &impl Queue,
        logits: impl Into<TensorView<'i, T>>,
    ) -> Result<Tensor<u32>, Error> {
        let logits = logits.into();
        let mut tokens = result(queue, logits.shape().without_last(), logits.shape())?;
        self.run_into(queue, &mut tokens, logits)?;
        Ok(tokens)
    }

    /// Writes a token for each row.
    ///
    /// # Errors
    /// Same as for [`Self::run`].
    pub fn run_into<'o, 'i, T: Element>(
        &self,
        queue: &impl Queue,
        outputs: impl Into<Outputs<'o>>,
        logits: impl Into<TensorView<'i, T>>,
    ) -> Result<(), Error> {
        let (operation, logits) = (Operation::new(NAME, queue), logits.into());
        let Outputs { mut tokens, mut log_probabilities } = outputs.into();
        let (scale, is_greedy) = self.checked(&operation)?;
        let from = operation.matrix("input", &logits, logits.shape())?;
        operation.per_row("token vector", &tokens, logits.shape(), from.rows)?;
        let mut vectors = log_probabilities.iter();
        vectors
            .try_for_each(|it| operation.per_row("log-probability vector", it, logits.shape(), from.rows))?;
        let (profile, shape) = (operation.device.into(), [from.rows, from.cols]);
        let top_k = if is_greedy { 0 } else { self.top_k.unwrap_or(0) };
        let kernels = if top_k > 0 { &T::SAMPLING.sample_top_k } else { &T::SAMPLING.sample };
        let Some(kernel) = RowKernel::new::<T>(NAME, kernels, &profile, shape)? else { return Ok(()) };
        let (to, logarithms, elements) = (tokens.raw(), written(&mut log_probabilities), logits.raw());
        for (first, rows) in kernel.launches() {
            let args = SampleLaunch {
                tokens: to.skip(first),
                log_probabilities: logarithms.skip(first),
                logits: elements.skip(first * from.stride),
                rows,
                stride: from.stride as u64,
                seed: self.seed,
                draw: self.draw,
                cols: kernel.cols,
                first_row: first as u32,
                top_k: top_k as u32,
                top_p: self.top_p,
                scale,
                flags: if is_greedy { GREEDY } else { 0 },
            };
            // SAFETY: all memory was checked against the shape and the device and is borrowed, outputs exclusively. Later uses
            // of it wait for the device or are queued after this. The grid is for this many rows.
            unsafe { kernel.spread.variant.launch(queue, kernel.config(rows), args) }?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ferrowarp_device::device::Device;

    #[test]
    fn options_that_mean_nothing_are_refused_in_words() {
        let (new, device) = (Sample::new(), Device::cpu());
        let checked = |sample: Sample| sample.checked(&Operation::new(NAME, &device));
        for (sample, words) in [
            (
                new.temperature(-1.0),
                "sampling failed: the temperature is -1; it must be 0, for the largest logit, or from 2^-126 on",
            ),
            (new.temperature(f32::NAN), "the temperature is NaN"),
            (new.temperature(f32::INFINITY), "the temperature is inf"),
            (new.temperature(1e-40), "the temperature is 0.0000"),
            (new.top_k(0), "sampling failed: k is 0; it must be from 1 to 128"),
            (new.top_k(129), "sampling failed: k is 129; "),
            (
                new.top_p(0.0),
                "sampling failed: top-p is 0; it must be over 0 and at most 1; 1 disables the cut",
            ),
            (new.top_p(1.0001), "top-p is 1.0001"),
            (new.top_p(-0.5), "top-p is -0.5"),
            (new.top_p(f32::NAN), "top-p is NaN"),
            (new.temperature(0.0).top_p(2.0), "top-p is 2"),
        ] {
            let error = checked(sample).unwrap_err().to_string();
            assert!(error.contains(words), "`{words}` is not in: {error}");
        }
        assert_eq!(checked(new.temperature(0.0)).unwrap(), (1.0, true));
        assert_eq!(checked(new.temperature(-0.0)).unwrap(), (1.0, true));
        assert_eq!(checked(new.temperature(0.5).top_k(128).top_p(1e-45)).unwrap(), (2.0, false));
        assert_eq!(checked(new.temperature(f32::MIN_POSITIVE)).unwrap(), (2f32.powi(126), false));
        assert!(checked(new.temperature(f32::MAX)).unwrap().0 > 0.0);
    }
}
