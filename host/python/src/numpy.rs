//! Operators on NumPy arrays, on the CPU, and checks of arguments that have no memory.

use std::ffi::c_void;
use std::ptr;

use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::call::{Call, Kind, MOST_ARGUMENTS, Memory, Value};
use crate::check;
use crate::device::with_stream;
use crate::failure::Failure;
use crate::operand::{Dtype, Name, Operand, Place};
use crate::operators::{OPERATORS, Operator};

/// The arrays that a call makes.
#[derive(Default)]
struct Arrays {
    made: Vec<Py<PyAny>>,
}

impl Memory for Arrays {
    fn empty(&mut self, like: &Operand, dtype: Dtype, shape: &[usize]) -> Result<Operand, Failure> {
        let none = (ptr::null_mut(), ptr::null_mut());
        let dense = Operand::dense((like.name, Place::Cpu, dtype), none, shape)?;
        let made = Python::attach(|py| -> PyResult<(Py<PyAny>, usize)> {
            let shape = PyTuple::new(py, shape)?;
            let array = py.import("numpy")?.call_method1("empty", (shape, dtype.name()))?;
            let address = address(&array)?;
            Ok((array.unbind(), address))
        });
        let (array, address) = made.map_err(|error| Failure::other(error.to_string()))?;
        self.made.push(array);
        // The index of the array is its handle.
        let handle = ptr::without_provenance_mut(self.made.len());
        Ok(Operand { pointer: pointer(address), handle, ..dense })
    }

    fn copy(&mut self, of: &Operand) -> Result<Operand, Failure> {
        // All arrays are without gaps.
        let bytes = of.elements() * of.dtype.bytes();
        let to = self.empty(of, of.dtype, of.shape())?;
        // SAFETY: both have that many bytes, and one is new.
        unsafe { to.pointer.cast::<u8>().copy_from_nonoverlapping(of.pointer.cast(), bytes) };
        Ok(to)
    }
}

fn pointer(address: usize) -> *mut c_void {
    ptr::with_exposed_provenance_mut(address)
}

/// The address of an array's first element.
fn address(array: &Bound<'_, PyAny>) -> PyResult<usize> {
    array.getattr("__array_interface__")?.get_item("data")?.get_item(0)?.extract()
}

fn operand(name: Name, array: &Bound<'_, PyAny>) -> PyResult<Operand> {
    let dtype: String = array.getattr("dtype")?.getattr("name")?.extract()?;
    let shape: Vec<usize> = array.getattr("shape")?.extract()?;
    let memory = (pointer(address(array)?), ptr::null_mut());
    Ok(Operand::dense((name, Place::Cpu, Dtype::named(&dtype)), memory, &shape)?)
}

/// The operator of this name.
fn operator(name: &str) -> Result<&'static Operator, Failure> {
    let operator = OPERATORS.iter().find(|it| it.name == name);
    operator.ok_or_else(|| Failure::of_value(format!("there is no operator {name}")))
}

/// An operator's arguments. `operand` returns `None` for what is no tensor.
fn values<'py>(
    operator: &'static Operator,
    arguments: &Bound<'py, PyTuple>,
    operand: impl Fn(Name, &Bound<'py, PyAny>) -> PyResult<Option<Operand>>,
) -> PyResult<[Value; MOST_ARGUMENTS]> {
    if arguments.len() != operator.schema.len() {
        let (name, needs, got) = (operator.name, operator.schema.len(), arguments.len());
        return Err(Failure::of_type(format!("{name} takes {needs} arguments, not {got}")).into());
    }
    let mut values = [Value::Absent; MOST_ARGUMENTS];
    for ((value, (kind, name, _)), given) in values.iter_mut().zip(operator.schema).zip(arguments) {
        *value = match kind {
            Kind::Optional if given.is_none() => Value::Absent,
            Kind::Tensor | Kind::Optional => {
                let given = operand(*name, &given)?;
                Value::Tensor(given.ok_or_else(|| Failure::of_type(format!("the {name} is no tensor")))?)
            }
            Kind::Int => Value::Int(given.extract()?),
            Kind::Float => Value::Float(given.extract()?),
            Kind::Bool => Value::Bool(given.extract()?),
        };
    }
    Ok(values)
}

/// Calls the operator of this name on arrays without gaps, in native byte order, and returns `results` arrays as a tuple.
pub fn call<'py>(
    py: Python<'py>,
    name: &str,
    results: usize,
    arguments: &Bound<'py, PyTuple>,
) -> PyResult<Bound<'py, PyTuple>> {
    let (operator, array) = (operator(name)?, py.import("numpy")?.getattr("ndarray")?);
    let values = values(operator, arguments, |name, given| {
        given.is_instance(&array)?.then(|| operand(name, given)).transpose()
    })?;
    /// Lets the raw pointers go to where Python's lock is not held.
    struct Unlocked<T>(T);
    // SAFETY: the arrays are borrowed by this call's arguments, and no other thread gets the pointers.
    unsafe impl<T> Send for Unlocked<T> {}
    let values = Unlocked(values);
    let mut arrays = Arrays::default();
    let made = py.detach(|| {
        let Unlocked(values) = { values };
        // SAFETY: the CPU has no streams.
        unsafe {
            with_stream(Place::Cpu, ptr::null_mut(), |stream| {
                let (made, count) = Call::new(operator, &values, stream, &mut arrays, results).run()?;
                Ok(made[..count].iter().map(|handle| handle.addr()).collect::<Vec<usize>>())
            })
        }
    })?;
    PyTuple::new(py, made.into_iter().map(|handle| arrays.made[handle - 1].clone_ref(py)))
}

/// Fails as the operator of this name does with tensors like these, of which there are types and shapes alone.
pub fn check(name: &str, results: usize, arguments: &Bound<'_, PyTuple>) -> PyResult<()> {
    let operator = operator(name)?;
    let values = values(operator, arguments, |name, given| {
        let (dtype, shape): (String, Vec<usize>) = given.extract()?;
        Ok(Some(check::operand(name, Dtype::named(&dtype), &shape)?))
    })?;
    Ok(check::check(operator, &values, results)?)
}
