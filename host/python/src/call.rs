//! A call of an operator, whichever library it comes from.

use std::ffi::c_void;
use std::ptr;

use ferrowarp::device::{Device, Stream};

use crate::failure::Failure;
use crate::operand::{Dtype, Name, Operand};
use crate::operators::Operator;

/// The most arguments of an operator.
pub const MOST_ARGUMENTS: usize = 10;
/// The most results.
pub const MOST_RESULTS: usize = 4;

/// The type of an argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Tensor,
    /// A tensor or `None`.
    Optional,
    Int,
    Float,
    Bool,
}

/// An argument.
#[derive(Clone, Copy)]
pub enum Value {
    Tensor(Operand),
    Absent,
    Int(i64),
    Float(f64),
    Bool(bool),
}

/// The library that owns the operands' memory.
pub trait Memory {
    /// New memory without gaps, whose handle the caller of the operator gets or which is freed after the call.
    fn empty(&mut self, like: &Operand, dtype: Dtype, shape: &[usize]) -> Result<Operand, Failure>;

    /// A copy without gaps.
    fn copy(&mut self, of: &Operand) -> Result<Operand, Failure>;
}

/// An operator's arguments, and where its results go.
pub struct Call<'a> {
    pub operator: &'static Operator,
    pub arguments: &'a [Value; MOST_ARGUMENTS],
    pub stream: &'a Stream,
    pub memory: &'a mut dyn Memory,
    /// The results that are wanted, at most the operator's.
    pub wanted: usize,
    /// The results so far.
    pub results: Handles,
}

/// The objects of the results, in order.
pub type Handles = ([*mut c_void; MOST_RESULTS], usize);

impl<'a> Call<'a> {
    pub fn new(
        operator: &'static Operator,
        arguments: &'a [Value; MOST_ARGUMENTS],
        stream: &'a Stream,
        memory: &'a mut dyn Memory,
        wanted: usize,
    ) -> Self {
        let results = ([ptr::null_mut(); MOST_RESULTS], 0);
        Self { operator, arguments, stream, memory, wanted, results }
    }

    /// Checks where the tensors live, and runs the operator. Returns the results.
    pub fn run(mut self) -> Result<Handles, Failure> {
        let mut tensors = self.arguments.iter().filter_map(Value::tensor);
        if let Some(first) = tensors.next()
            && let Some(other) = tensors.find(|other| other.place != first.place)
        {
            let text = format!(
                "the {} is on {} and the {} on {}; move one of them",
                first.name, first.place, other.name, other.place
            );
            return Err(Failure::of_value(text).of(self.operator.title));
        }
        match (self.operator.run)(&mut self) {
            Ok(()) => Ok(self.results),
            Err(failure) => Err(failure.of(self.operator.title)),
        }
    }

    pub fn device(&self) -> &'a Device {
        self.stream.device()
    }

    /// A tensor as it is.
    pub fn tensor(&self, at: usize) -> Operand {
        *self.arguments[at].tensor().expect("the schema has a tensor here")
    }

    /// A tensor that `fits` and is aligned, or else a copy without gaps.
    pub fn fitting(&mut self, at: usize, fits: impl Fn(&Operand) -> bool) -> Result<Operand, Failure> {
        let operand = self.tensor(at);
        if operand.is_aligned() && fits(&operand) { Ok(operand) } else { self.memory.copy(&operand) }
    }

    /// A tensor whose last axis is rows without gaps, at equal distances.
    pub fn rows(&mut self, at: usize) -> Result<Operand, Failure> {
        self.fitting(at, Operand::has_rows)
    }

    /// A tensor without gaps, or `None`.
    pub fn optional(&mut self, at: usize) -> Result<Option<Operand>, Failure> {
        let is_there = self.arguments[at].tensor().is_some();
        is_there.then(|| self.fitting(at, Operand::is_dense)).transpose()
    }

    /// Memory for the next result.
    pub fn result(&mut self, like: &Operand, dtype: Dtype, shape: &[usize]) -> Result<Operand, Failure> {
        let result = self.memory.empty(&Operand { name: Name("output"), ..*like }, dtype, shape)?;
        let (handles, count) = &mut self.results;
        handles[*count] = result.handle;
        *count += 1;
        Ok(result)
    }

    /// Memory for the next result if there `is` one, and otherwise an empty result. `None` if no more results are wanted.
    pub fn result_if(
        &mut self,
        is: bool,
        like: &Operand,
        dtype: Dtype,
        shape: &[usize],
    ) -> Result<Option<Operand>, Failure> {
        if self.results.1 == self.wanted {
            return Ok(None);
        }
        let result = self.result(like, dtype, if is { shape } else { &[0] })?;
        Ok(is.then_some(result))
    }

    pub fn int(&self, at: usize) -> i64 {
        let Value::Int(value) = self.arguments[at] else { unreachable!("the schema has an int here") };
        value
    }

    /// An integer from 1 to `most`.
    pub fn count(&self, at: usize, most: usize) -> Result<usize, Failure> {
        let (name, value) = (self.operator.schema[at].1, self.int(at));
        let count = usize::try_from(value).ok().filter(|count| (1..=most).contains(count));
        count.ok_or_else(|| Failure::of_value(format!("the {name} is {value}; it must be from 1 to {most}")))
    }

    /// One of these by its number.
    pub fn choice<T: Copy>(&self, at: usize, all: &[(&str, T)]) -> Result<T, Failure> {
        let (name, value) = (self.operator.schema[at].1, self.int(at));
        let chosen = usize::try_from(value).ok().and_then(|number| all.get(number));
        chosen.map(|&(_, it)| it).ok_or_else(|| {
            let all: Vec<String> =
                (0..).zip(all).map(|(number, (of, _))| format!("{number} ({of})")).collect();
            Failure::of_value(format!("the {name} is {value}; it must be one of {}", all.join(", ")))
        })
    }

    /// A number that 32 bits hold.
    pub fn finite(&self, at: usize) -> Result<f32, Failure> {
        let (name, value) = (self.operator.schema[at].1, self.float(at));
        let fits = value.is_finite().then_some(value);
        fits.ok_or_else(|| Failure::of_value(format!("the {name} is {value}; it must be finite")))
    }

    pub fn float(&self, at: usize) -> f32 {
        let Value::Float(value) = self.arguments[at] else { unreachable!("the schema has a float here") };
        value as f32
    }

    pub fn bool(&self, at: usize) -> bool {
        let Value::Bool(value) = self.arguments[at] else { unreachable!("the schema has a bool here") };
        value
    }
}

impl Value {
    /// The tensor, if it is one.
    pub fn tensor(&self) -> Option<&Operand> {
        match self {
            Self::Tensor(operand) => Some(operand),
            _ => None,
        }
    }
}
