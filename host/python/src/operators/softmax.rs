//! Softmax, cross entropy, and what is chosen by them.

use ferrowarp::softmax::cross_entropy::{self, Class};
use ferrowarp::{CrossEntropy, Element, Sample, Softmax, TensorView, TopK};

use super::{check, refuse_type};
use crate::call::Call;
use crate::failure::Failure;
use crate::operand::{self, Dtype, Operand};

/// The options of a softmax: scale, logarithm and, if there is one, the treatment of masked rows.
fn softmax_options(call: &Call<'_>, first: usize, zero_masked: bool) -> Softmax {
    let softmax = Softmax::new().scale(call.float(first));
    let softmax = if call.bool(first + 1) { softmax.log() } else { softmax };
    if zero_masked && call.bool(first + 2) { softmax.zero_masked() } else { softmax }
}

pub fn softmax(call: &mut Call<'_>) -> Result<(), Failure> {
    let input = call.rows(0)?;
    floats!(input, T => {
        let out = call.result(&input, input.dtype, input.shape())?;
        let softmax = softmax_options(call, 1, true);
        Ok(softmax.run_into(call.stream, call.write::<T>(&out)?, call.read::<T>(&input)?)?)
    })
}

pub fn softmax_backward(call: &mut Call<'_>) -> Result<(), Failure> {
    let [gradient, output] = [call.rows(0)?, call.rows(1)?];
    check(&gradient, output.shape())?;
    floats!(output, T => {
        let out = call.result(&output, output.dtype, output.shape())?;
        let softmax = softmax_options(call, 2, false);
        let [dy, y] = [call.read::<T>(&gradient)?, call.read::<T>(&output)?];
        Ok(softmax.backward_into(call.stream, call.write::<T>(&out)?, dy, y)?)
    })
}

pub fn cross_entropy(call: &mut Call<'_>) -> Result<(), Failure> {
    let logits = call.rows(0)?;
    floats!(logits, T => {
        let losses = call.result(&logits, Dtype::F32, logits.row_shape())?;
        losses_of::<T>(call, &logits, [1, 2], &losses, None)
    })
}

pub fn cross_entropy_backward(call: &mut Call<'_>) -> Result<(), Failure> {
    let [gradient, logits] = [call.fitting(0, Operand::is_dense)?, call.rows(1)?];
    check(&gradient, logits.row_shape())?;
    floats!(logits, T => {
        let out = call.result(&logits, logits.dtype, logits.shape())?.as_matrix();
        let losses = call.memory.empty(&logits, Dtype::F32, logits.row_shape())?;
        losses_of::<T>(call, &logits, [2, 3], &losses, Some((gradient.as_vector(), out)))
    })
}

/// Computes losses and, with the gradients of the rows' losses, the gradient of the logits.
fn losses_of<T: Element + operand::Element>(
    call: &mut Call<'_>,
    logits: &Operand,
    [targets, ignore_index]: [usize; 2],
    losses: &Operand,
    gradients: Option<(Operand, Operand)>,
) -> Result<(), Failure> {
    let targets = call.fitting(targets, Operand::is_dense)?;
    check(&targets, logits.row_shape())?;
    let mut options = CrossEntropy::new().ignore_index(call.int(ignore_index));
    let mut outputs = cross_entropy::Outputs::<T>::new(call.write::<f32>(&losses.as_vector())?);
    if let Some((of_rows, of_logits)) = gradients {
        options = options.row_gradients(call.read::<f32>(&of_rows)?);
        outputs = outputs.gradient(call.write::<T>(&of_logits)?);
    }
    let (logits, targets) = (call.read::<T>(&logits.as_matrix())?, targets.as_vector());
    /// Runs it with this type of targets.
    fn run<T: Element, C: Class + operand::Element>(
        call: &Call<'_>,
        options: CrossEntropy<'_>,
        outputs: cross_entropy::Outputs<'_, T>,
        logits: TensorView<'_, T>,
        targets: &Operand,
    ) -> Result<(), Failure> {
        Ok(options.run_into(call.stream, outputs, logits, call.read::<C>(targets)?)?)
    }
    match targets.dtype {
        Dtype::I64 => run::<T, i64>(call, options, outputs, logits, &targets),
        Dtype::I32 => run::<T, i32>(call, options, outputs, logits, &targets),
        Dtype::U8 => run::<T, u8>(call, options, outputs, logits, &targets),
        _ => Err(refuse_type(&targets, "int64, int32 or uint8")),
    }
}

pub fn top_k(call: &mut Call<'_>) -> Result<(), Failure> {
    let (logits, k) = (call.rows(0)?, call.count(1, TopK::MOST)?);
    let shape = [logits.row_shape(), &[k]].concat();
    floats!(logits, T => {
        let values = call.result(&logits, Dtype::F32, &shape)?.as_matrix();
        let indices = call.result(&logits, Dtype::I32, &shape)?.as_matrix();
        let top_k = TopK::new(k).softmax(softmax_options(call, 2, true));
        let (values, indices) = (call.write::<f32>(&values)?, call.write::<u32>(&indices)?);
        Ok(top_k.run_into(call.stream, values, indices, call.read::<T>(&logits.as_matrix())?)?)
    })
}

pub fn sample(call: &mut Call<'_>) -> Result<(), Failure> {
    let logits = call.rows(0)?;
    let sample = Sample::new().temperature(call.float(1)).top_p(call.float(3));
    let sample = sample.seed(call.int(4) as u64).draw(call.int(5) as u64);
    let sample = match call.int(2) {
        0 => sample,
        _ => sample.top_k(call.count(2, TopK::MOST)?),
    };
    floats!(logits, T => {
        let tokens = call.result(&logits, Dtype::I32, logits.row_shape())?.as_vector();
        Ok(sample.run_into(call.stream, call.write::<u32>(&tokens)?, call.read::<T>(&logits.as_matrix())?)?)
    })
}
