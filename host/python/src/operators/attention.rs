//! Attention.

use ferrowarp::attention::{self, Attention, Causal, GradientOutputs};

use crate::call::Call;
use crate::failure::Failure;
use crate::operand::{Dtype, Operand};

/// The mask and the scale, which are these arguments.
fn attention_options<'a>(call: &Call<'_>, first: usize) -> Result<Attention<'a>, Failure> {
    let masks =
        [("none", None), ("top left", Some(Causal::TopLeft)), ("bottom right", Some(Causal::BottomRight))];
    let mut attention = Attention::new();
    if let Some(causal) = call.choice(first, &masks)? {
        attention = attention.causal(causal);
    }
    match call.int(first + 1) {
        -1 => {}
        window @ 1.. => attention = attention.sliding_window(window as usize),
        window => {
            let text = format!("the window is {window}; it must be at least 1, or -1 for none");
            return Err(Failure::of_value(text));
        }
    }
    // 0 stands for 1 / sqrt(head size).
    let scale = call.float(first + 2);
    Ok(if scale == 0.0 { attention } else { attention.scale(scale) })
}

pub fn attention(call: &mut Call<'_>) -> Result<(), Failure> {
    let mut heads = |at| call.fitting(at, |it| it.has_heads(0));
    let [query, key, value] = [heads(0)?, heads(1)?, heads(2)?];
    let [pages, lengths] = [call.optional(3)?, call.optional(4)?];
    let &[batch, queries, count, _] = query.shape() else {
        return Err(Failure::of_value(format!(
            "the query has the shape {:?}; it needs 4 axes",
            query.shape()
        )));
    };
    halves!(query, T => {
        let mut attention = attention_options(call, 5)?;
        let out = call.result(&query, query.dtype, query.shape())?;
        let log_sum_exp = call.result_if(true, &query, Dtype::F32, &[batch, count, queries])?;
        if let Some(pages) = call.read_if::<u32>(&pages)? {
            attention = attention.pages(pages);
        }
        if let Some(lengths) = call.read_if::<u32>(&lengths)? {
            attention = attention.lengths(lengths);
        }
        let mut outputs = attention::Outputs::new(call.write::<T>(&out)?);
        if let Some(log_sum_exp) = log_sum_exp {
            outputs = outputs.log_sum_exp(call.write::<f32>(&log_sum_exp)?);
        }
        let [q, k, v] = [call.read::<T>(&query)?, call.read::<T>(&key)?, call.read::<T>(&value)?];
        Ok(attention.run_into(call.stream, outputs, q, k, v)?)
    })
}

pub fn attention_backward(call: &mut Call<'_>) -> Result<(), Failure> {
    let mut heads = |at| call.fitting(at, |it| it.has_heads(16));
    let [gradient, query, key, value, output] = [heads(0)?, heads(1)?, heads(2)?, heads(3)?, heads(4)?];
    let log_sum_exp = call.fitting(5, Operand::is_dense)?;
    halves!(query, T => {
        let attention = attention_options(call, 6)?;
        let mut result = |of: &Operand| {
            let result = call.result(of, of.dtype, of.shape())?;
            call.write::<T>(&result)
        };
        let outputs = GradientOutputs::new(result(&query)?, result(&key)?, result(&value)?);
        let [q, k, v] = [call.read::<T>(&query)?, call.read::<T>(&key)?, call.read::<T>(&value)?];
        let results = (call.read::<T>(&output)?, call.read::<f32>(&log_sum_exp)?);
        Ok(attention.backward_into(call.stream, outputs, call.read::<T>(&gradient)?, q, k, v, results)?)
    })
}
