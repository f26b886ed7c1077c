//! The native part of the Python package `ferrowarp`: one table of operators, which torch's dispatcher calls through libtorch's
//! stable C interface, and which NumPy arrays reach through [`numpy`].

mod call;
mod check;
mod device;
mod failure;
mod numpy;
mod operand;
mod operators;
mod torch;

use std::cell::UnsafeCell;
use std::ffi::CStr;
use std::ptr;

use pyo3::prelude::*;
use pyo3::types::{PyCFunction, PyDict, PyTuple};
use pyo3::{BoundObject, ffi};

/// The definition of the module, without the functions that [`fill`] adds.
struct Definition(UnsafeCell<ffi::PyModuleDef>);

// SAFETY: Python alone uses it, while it holds its lock.
unsafe impl Sync for Definition {}

/// Creates the module `ferrowarp._native`: Python calls this when it loads the library.
///
/// # Safety
/// Python calls it, once in a process.
#[unsafe(no_mangle)]
#[allow(non_snake_case, reason = "Python looks for this name")]
pub unsafe extern "C" fn PyInit__native() -> *mut ffi::PyObject {
    static DEFINITION: Definition = Definition(UnsafeCell::new(ffi::PyModuleDef {
        m_base: ffi::PyModuleDef_HEAD_INIT,
        m_name: c"_native".as_ptr(),
        m_doc: c"The native part of ferrowarp.".as_ptr(),
        m_size: -1,
        m_methods: ptr::null_mut(),
        m_slots: ptr::null_mut(),
        m_traverse: None,
        m_clear: None,
        m_free: None,
    }));
    // SAFETY: Python calls this with its lock held. The definition is static.
    unsafe {
        let py = Python::assume_attached();
        let made = ffi::PyModule_Create2(DEFINITION.0.get(), ffi::PYTHON_API_VERSION);
        let filled = Bound::from_owned_ptr_or_err(py, made).and_then(|module| fill(module.cast_into()?));
        match filled {
            Ok(module) => module.into_ptr(),
            Err(error) => {
                error.restore(py);
                ptr::null_mut()
            }
        }
    }
}

/// Adds a function of positional arguments.
fn add<R: for<'b> IntoPyObject<'b>>(
    module: &Bound<'_, PyModule>,
    name: &'static CStr,
    function: impl Fn(&Bound<'_, PyTuple>) -> PyResult<R> + Send + Sync + 'static,
) -> PyResult<()> {
    let function =
        move |arguments: &Bound<'_, PyTuple>, _: Option<&Bound<'_, PyDict>>| -> PyResult<Py<PyAny>> {
            let made = function(arguments)?.into_pyobject(arguments.py());
            made.map(|made| made.into_any().unbind()).map_err(Into::into)
        };
    let made = PyCFunction::new_closure(module.py(), Some(name), None, function)?;
    module.add(&*name.to_string_lossy(), made)
}

/// Adds the functions, which `_native.pyi` describes.
fn fill(module: Bound<'_, PyModule>) -> PyResult<Bound<'_, PyModule>> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add("commit", option_env!("FERROWARP_COMMIT").unwrap_or("an unknown commit"))?;
    let schema = |it: &operators::Operator| (it.name, it.title, it.arguments(), it.results, it.plain);
    let schemas = move || operators::OPERATORS.iter().map(schema).collect::<Vec<_>>();
    add(&module, c"schemas", move |_| Ok(schemas()))?;
    add(&module, c"call", |arguments| {
        let (name, results, of): (String, usize, Bound<'_, PyTuple>) = arguments.extract()?;
        numpy::call(arguments.py(), &name, results, &of).map(Bound::unbind)
    })?;
    add(&module, c"check", |arguments| {
        let (name, results, of): (String, usize, Bound<'_, PyTuple>) = arguments.extract()?;
        numpy::check(&name, results, &of)
    })?;
    add(&module, c"register", |arguments| {
        Ok(torch::register(&arguments.get_item(0)?.extract::<String>()?)?)
    })?;
    add(&module, c"last_error", |_| Ok(failure::last_error()))?;
    add(&module, c"devices", |arguments| Ok(device::devices(arguments.py())))?;
    add(&module, c"driver", |_| Ok(device::driver()))?;
    Ok(module)
}
