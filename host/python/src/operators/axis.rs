//! Sums, cumulative sums and transposes.

use ferrowarp::{CumulativeSum, Reduce, Reduction, Transpose};

use super::refuse_type;
use crate::call::Call;
use crate::failure::Failure;
use crate::operand::{Dtype, Operand};

pub fn reduce(call: &mut Call<'_>) -> Result<(), Failure> {
    let input = call.rows(0)?;
    let reductions = [
        ("sum", Reduction::Sum),
        ("mean", Reduction::Mean),
        ("max", Reduction::Max),
        ("min", Reduction::Min),
    ];
    let reduction = call.choice(1, &reductions)?;
    let (matrix, is_of_columns) = (input.as_matrix(), call.bool(2));
    let shape = if is_of_columns { &matrix.shape()[1..] } else { input.row_shape() };
    let reduce = if is_of_columns { Reduce::columns(reduction) } else { Reduce::rows(reduction) };
    floats!(input, T => {
        let out = call.result(&input, input.dtype, shape)?.as_vector();
        Ok(reduce.run_into(call.stream, call.write::<T>(&out)?, call.read::<T>(&matrix)?)?)
    })
}

pub fn cumulative_sum(call: &mut Call<'_>) -> Result<(), Failure> {
    let input = call.rows(0)?;
    floats!(input, T => {
        let out = call.result(&input, input.dtype, input.shape())?.as_matrix();
        let matrix = call.read::<T>(&input.as_matrix())?;
        Ok(CumulativeSum::new().run_into(call.stream, call.write::<T>(&out)?, matrix)?)
    })
}

pub fn transpose(call: &mut Call<'_>) -> Result<(), Failure> {
    let input = call.rows(0)?;
    let &[rows, cols] = input.shape() else {
        return Err(Failure::of_value(format!(
            "the input has the shape {:?}; it needs two axes",
            input.shape()
        )));
    };
    let out = call.result(&input, input.dtype, &[cols, rows])?;
    let of = |of: Operand, dtype| Operand { dtype, ..of };
    match input.dtype.bytes() {
        2 => {
            let (out, input) = (of(out, Dtype::I16), of(input, Dtype::I16));
            Ok(Transpose::new().run_into(call.stream, call.write::<u16>(&out)?, call.read::<u16>(&input)?)?)
        }
        4 => {
            let (out, input) = (of(out, Dtype::I32), of(input, Dtype::I32));
            Ok(Transpose::new().run_into(call.stream, call.write::<u32>(&out)?, call.read::<u32>(&input)?)?)
        }
        _ => Err(refuse_type(&input, "elements of 2 or 4 bytes")),
    }
}
