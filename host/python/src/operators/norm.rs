//! RMSNorm and LayerNorm.

use ferrowarp::Element;
use ferrowarp::norm::{self, Norm, Statistics};

use super::check;
use crate::call::Call;
use crate::failure::Failure;
use crate::operand::{Dtype, Operand};

fn norm_options<'a, T: Element>(is_centred: bool) -> Norm<'a, T> {
    if is_centred { Norm::layer() } else { Norm::rms() }
}

pub fn norm(call: &mut Call<'_>) -> Result<(), Failure> {
    let input = call.rows(0)?;
    let [weight, bias] = [call.optional(1)?, call.optional(2)?];
    let residual = call.arguments[3].tensor().is_some().then(|| call.rows(3)).transpose()?;
    residual.iter().try_for_each(|it| check(it, input.shape()))?;
    let is_centred = call.bool(5);
    floats!(input, T => {
        let out = call.result(&input, input.dtype, input.shape())?.as_matrix();
        let sum = call.result_if(residual.is_some(), &input, input.dtype, input.shape())?;
        let mean = call.result_if(is_centred, &input, Dtype::F32, input.row_shape())?;
        let rstd = call.result_if(true, &input, Dtype::F32, input.row_shape())?;
        let mut norm = norm_options::<T>(is_centred).epsilon(call.float(4));
        let mut outputs = norm::Outputs::new(call.write::<T>(&out)?);
        if let Some(weight) = call.read_if::<T>(&weight)? {
            norm = norm.weight(weight);
        }
        if let Some(bias) = call.read_if::<T>(&bias)? {
            norm = norm.bias(bias);
        }
        if let Some(residual) = call.read_if::<T>(&residual.map(Operand::as_matrix))? {
            norm = norm.residual(residual);
        }
        if let Some(sum) = sum {
            outputs = outputs.sum(call.write::<T>(&sum.as_matrix())?);
        }
        if let Some(mean) = mean {
            outputs = outputs.mean(call.write::<f32>(&mean.as_vector())?);
        }
        if let Some(rstd) = rstd {
            outputs = outputs.rstd(call.write::<f32>(&rstd.as_vector())?);
        }
        Ok(norm.run_into(call.stream, outputs, call.read::<T>(&input.as_matrix())?)?)
    })
}

pub fn norm_backward(call: &mut Call<'_>) -> Result<(), Failure> {
    let [gradient, input] = [call.rows(0)?, call.rows(2)?];
    let of_sum = call.arguments[1].tensor().is_some().then(|| call.rows(1)).transpose()?;
    check(&gradient, input.shape())?;
    of_sum.iter().try_for_each(|it| check(it, input.shape()))?;
    let weight = call.optional(3)?;
    let [mean, rstd] = [call.fitting(4, Operand::is_dense)?, call.fitting(5, Operand::is_dense)?];
    let (is_centred, cols) = (call.bool(6), *input.as_matrix().shape().last().unwrap_or(&1));
    floats!(input, T => {
        let out = call.result(&input, input.dtype, input.shape())?.as_matrix();
        let of_weight = call.result_if(call.bool(7), &input, input.dtype, &[cols])?;
        let of_bias = call.result_if(call.bool(8), &input, input.dtype, &[cols])?;
        let mut norm = norm_options::<T>(is_centred);
        let mut outputs = norm::GradientOutputs::new(call.write::<T>(&out)?);
        if let Some(weight) = call.read_if::<T>(&weight)? {
            norm = norm.weight(weight);
        }
        if let Some(of_sum) = call.read_if::<T>(&of_sum.map(Operand::as_matrix))? {
            norm = norm.sum_gradient(of_sum);
        }
        if let Some(of_weight) = of_weight {
            outputs = outputs.weight(call.write::<T>(&of_weight)?);
        }
        if let Some(of_bias) = of_bias {
            outputs = outputs.bias(call.write::<T>(&of_bias)?);
        }
        let rstd = call.read::<f32>(&rstd.as_vector())?;
        let statistics = match is_centred {
            true => Statistics::layer(call.read::<f32>(&mean.as_vector())?, rstd),
            false => Statistics::rms(rstd),
        };
        let [gradient, input] = [call.read::<T>(&gradient.as_matrix())?, call.read::<T>(&input.as_matrix())?];
        Ok(norm.backward_into(call.stream, outputs, gradient, input, statistics)?)
    })
}
