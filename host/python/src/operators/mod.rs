//! The table of operators, and what each does with its arguments.

/// Runs the code with `T` as the type of the operand's elements, which is float32, float16 or bfloat16, or one of those listed.
macro_rules! floats {
    ($of:expr, $T:ident => $run:expr) => {
        floats!($of, "float32, float16 or bfloat16": F32 f32, F16 ferrowarp::f16, Bf16 ferrowarp::bf16; $T => $run)
    };
    ($of:expr, $needs:literal: $($dtype:ident $ty:ty),*; $T:ident => $run:expr) => {
        match $of.dtype {
            $($crate::operand::Dtype::$dtype => {
                type $T = $ty;
                $run
            })*
            _ => Err($crate::operators::refuse_type(&$of, $needs)),
        }
    };
}

/// The same for the types of attention.
macro_rules! halves {
    ($of:expr, $T:ident => $run:expr) => {
        floats!($of, "float16 or bfloat16": F16 ferrowarp::f16, Bf16 ferrowarp::bf16; $T => $run)
    };
}

mod attention;
mod axis;
mod matmul;
mod norm;
mod softmax;

use ferrowarp::{TensorView, TensorViewMut};

use crate::call::{Call, Kind, MOST_ARGUMENTS, MOST_RESULTS};
use crate::failure::Failure;
use crate::operand::{self, Name, Operand};
use attention::{attention, attention_backward};
use axis::{cumulative_sum, reduce, transpose};
use matmul::matmul;
use norm::{norm, norm_backward};
use softmax::{cross_entropy, cross_entropy_backward, sample, softmax, softmax_backward, top_k};

/// An operator: what torch's dispatcher knows of it, and its function.
pub struct Operator {
    pub name: &'static str,
    /// The name in errors.
    pub title: &'static str,
    /// The arguments: type, name and, if it may be omitted, the default value.
    pub schema: &'static [(Kind, Name, Option<&'static str>)],
    /// The number of results, all of them tensors.
    pub results: usize,
    /// The number of results of the version without gradients; 0 if there is none.
    pub plain: usize,
    pub run: fn(&mut Call<'_>) -> Result<(), Failure>,
}

impl Operator {
    /// The arguments as a schema has them.
    pub fn arguments(&self) -> String {
        let kind = |kind| match kind {
            Kind::Tensor => "Tensor",
            Kind::Optional => "Tensor?",
            Kind::Int => "int",
            Kind::Float => "float",
            Kind::Bool => "bool",
        };
        let argument = |(of, Name(name), default): &(Kind, Name, Option<&str>)| {
            let default = default.map_or_else(String::new, |default| format!("={default}"));
            format!("{} {name}{default}", kind(*of))
        };
        let all: Vec<String> = self.schema.iter().map(argument).collect();
        all.join(", ")
    }

    /// Whether there is a version without gradients with all results, from which gradients are computed.
    pub fn has_third_version(&self) -> bool {
        self.plain > 0 && self.plain < self.results
    }
}

macro_rules! operators {
    (@) => { None };
    (@ $default:literal) => { Some($default) };
    ($($name:ident $title:literal ($($kind:ident $argument:ident $(= $default:literal)?),*) -> $results:literal, $plain:literal;)*) => {
        /// All operators.
        pub const OPERATORS: &[Operator] = &[$(Operator {
            name: stringify!($name),
            title: $title,
            schema: &[$((Kind::$kind, Name(stringify!($argument)), operators!(@ $($default)?))),*],
            results: $results,
            plain: $plain,
            run: $name,
        }),*];
    };
}

// Results, and those of the version without gradients. A call that omits what has a default value is faster.
operators! {
    softmax "softmax" (Tensor input, Float scale = "1.0", Bool log = "False", Bool zero_masked = "False") -> 1, 1;
    softmax_backward "softmax backward"
        (Tensor gradient, Tensor output, Float scale = "1.0", Bool log = "False") -> 1, 1;
    cross_entropy "cross entropy" (Tensor logits, Tensor target, Int ignore_index = "-100") -> 1, 1;
    cross_entropy_backward "cross entropy backward"
        (Tensor gradient, Tensor logits, Tensor target, Int ignore_index = "-100") -> 1, 1;
    top_k "top-k"
        (Tensor logits, Int k, Float scale = "1.0", Bool log = "False", Bool zero_masked = "False") -> 2, 0;
    sample "sampling"
        (Tensor logits, Float temperature = "1.0", Int top_k = "0", Float top_p = "1.0", Int seed = "0",
        Int draw = "0") -> 1, 0;
    norm "norm"
        (Tensor input, Optional weight = "None", Optional bias = "None", Optional residual = "None",
        Float epsilon = "1e-06", Bool centred = "False") -> 4, 2;
    norm_backward "norm backward"
        (Tensor gradient, Optional sum_gradient, Tensor input, Optional weight, Tensor mean, Tensor rstd, Bool centred,
        Bool of_weight, Bool of_bias) -> 3, 3;
    attention "attention"
        (Tensor query, Tensor key, Tensor value, Optional page_table = "None", Optional lengths = "None",
        Int causal = "0", Int window = "-1", Float scale = "0.0") -> 2, 1;
    attention_backward "attention backward"
        (Tensor gradient, Tensor query, Tensor key, Tensor value, Tensor output, Tensor log_sum_exp, Int causal,
        Int window, Float scale) -> 3, 3;
    matmul "matmul"
        (Tensor first_operand, Tensor second_operand, Optional bias = "None", Optional residual = "None",
        Float scale = "1.0", Int activation = "0", Bool tf32 = "False", Bool out_f32 = "False") -> 1, 1;
    reduce "a reduction" (Tensor input, Int reduction = "0", Bool columns = "False") -> 1, 1;
    cumulative_sum "a cumulative sum" (Tensor input) -> 1, 1;
    transpose "a transpose" (Tensor input) -> 1, 1;
}

const _: () = {
    let mut at = 0;
    while at < OPERATORS.len() {
        assert!(OPERATORS[at].schema.len() <= MOST_ARGUMENTS && OPERATORS[at].results <= MOST_RESULTS);
        at += 1;
    }
};

impl<'a> Call<'a> {
    fn read<T: operand::Element>(&self, of: &Operand) -> Result<TensorView<'a, T>, Failure> {
        // SAFETY: torch and NumPy own memory of the operand's place, where the device is, and keep it for this call. torch orders
        // the work on its stream, on which the view is used. A check launches nothing.
        unsafe { operand::read(self.device(), of) }
    }

    fn write<T: operand::Element>(&self, of: &Operand) -> Result<TensorViewMut<'a, T>, Failure> {
        // SAFETY: as above; the memory of results is new.
        unsafe { operand::write(self.device(), of) }
    }

    fn read_if<T: operand::Element>(
        &self,
        of: &Option<Operand>,
    ) -> Result<Option<TensorView<'a, T>>, Failure> {
        of.as_ref().map(|of| self.read(of)).transpose()
    }
}

/// The failure that an operand has another type.
fn refuse_type(of: &Operand, needs: &str) -> Failure {
    Failure::of_type(format!("the {} holds {}; it needs {needs}", of.name, of.dtype.name()))
}

/// Checks the shape of an operand.
fn check(of: &Operand, shape: &[usize]) -> Result<(), Failure> {
    if of.shape() == shape {
        return Ok(());
    }
    Err(Failure::of_value(format!("the {} has the shape {:?}; it needs {shape:?}", of.name, of.shape())))
}
