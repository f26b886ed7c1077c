//! Matrix multiplication.

use ferrowarp::matmul::{Activation, Matmul, Precision};
use ferrowarp::{Element, ElementAs, TensorView};

use crate::call::Call;
use crate::failure::Failure;
use crate::operand::{self, Dtype, Operand};

pub fn matmul(call: &mut Call<'_>) -> Result<(), Failure> {
    let [mut a, b] = [call.fitting(0, Operand::is_matrices)?, call.fitting(1, Operand::is_matrices)?];
    let (&[.., rows, _], &[.., cols]) = (a.shape(), b.shape()) else {
        return Err(Failure::of_value(
            "the first operand has fewer than two axes; it needs two axes, or more".into(),
        ));
    };
    let batch = if b.shape().len() > a.shape().len() { b.shape() } else { a.shape() };
    let shape = [&batch[..batch.len() - 2], &[rows, cols]].concat();
    let bias = call.optional(2)?;
    let residual = call.arguments[3].tensor().is_some().then(|| call.rows(3)).transpose()?;
    let is_f32 = call.bool(7) || a.dtype == Dtype::F32;
    floats!(a, T => {
        let mut out = call.result(&a, if is_f32 { Dtype::F32 } else { a.dtype }, &shape)?;
        let mut residual = residual;
        // A batch of rows with one matrix is one multiplication.
        let is_one = residual.is_none_or(|it| it.shape() == shape);
        if b.shape().len() == 2 && a.has_rows() && is_one {
            (a, out, residual) = (a.as_matrix(), out.as_matrix(), residual.map(Operand::as_matrix));
        }
        let [of_a, of_b] = [call.read::<T>(&a)?, call.read::<T>(&b)?];
        let bias = call.read_if::<T>(&bias)?;
        match is_f32 {
            true => multiply::<T, f32>(call, &out, (of_a, of_b), bias, &residual),
            false => multiply::<T, T>(call, &out, (of_a, of_b), bias, &residual),
        }
    })
}

fn multiply<T: ElementAs<O>, O: Element + operand::Element>(
    call: &Call<'_>,
    out: &Operand,
    (a, b): (TensorView<'_, T>, TensorView<'_, T>),
    bias: Option<TensorView<'_, T>>,
    residual: &Option<Operand>,
) -> Result<(), Failure> {
    let activations = [("none", Activation::None), ("relu", Activation::Relu), ("gelu", Activation::Gelu)];
    let activation = call.choice(5, &activations)?;
    let precision = if call.bool(6) { Precision::Tf32 } else { Precision::F32 };
    let mut matmul = Matmul::<T, O>::new().scale(call.finite(4)?).activation(activation).precision(precision);
    if let Some(bias) = bias {
        matmul = matmul.bias(bias);
    }
    if let Some(residual) = call.read_if::<O>(residual)? {
        matmul = matmul.residual(residual);
    }
    Ok(matmul.run_into(call.stream, call.write::<O>(out)?, a, b)?)
}
