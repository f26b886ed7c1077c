//! Operators for torch's dispatcher, through the C functions of libtorch that AOTInductor uses and that stay compatible. No call
//! passes through Python.
//!
//! The source is `torch/csrc/inductor/aoti_torch/c/shim.h`, and `torch/csrc/stable/library.h` for how arguments are passed.

use std::ffi::{CString, c_char, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::ptr;
use std::sync::OnceLock;

use libloading::Library;

use crate::call::{Call, Kind, MOST_ARGUMENTS, MOST_RESULTS, Memory, Value};
use crate::device::{is_current, with_stream};
use crate::failure::Failure;
use crate::operand::{Dtype, MOST_AXES, Name, Operand, Place};
use crate::operators::{OPERATORS, Operator};

/// A tensor of torch, or an object of its library.
type Handle = *mut c_void;
/// 0 if the call succeeded.
type Status = i32;
/// A kernel: arguments are replaced by results, and a C++ exception may pass.
type Boxed = unsafe extern "C-unwind" fn(*mut u64, u64, u64);

macro_rules! api {
    ($($field:ident = $symbol:literal: fn($($argument:ty),*) $(-> $returned:ty)?;)*) => {
        /// Functions of libtorch.
        struct Api {
            $($field: unsafe extern "C-unwind" fn($($argument),*) $(-> $returned)?,)*
            cuda: Option<Cuda>,
            /// Frees what a C++ `new` made.
            delete: unsafe extern "C-unwind" fn(*mut c_void),
            /// The number of each type.
            dtypes: Vec<(i32, Dtype)>,
            device_types: [i32; 2],
        }

        impl Api {
            fn load(torch: &Library, cuda: Option<Cuda>) -> Result<Self, String> {
                // SAFETY: the types are those of the header.
                unsafe {
                    let number = |symbol: String| {
                        let get = find::<unsafe extern "C-unwind" fn() -> i32>(torch, &symbol)?;
                        Ok::<i32, String>(get())
                    };
                    let dtypes = Dtype::ALL.iter().map(|dtype| Ok((number(format!("aoti_torch_dtype_{}", dtype.name()))?, *dtype)));
                    Ok(Self {
                        $($field: find(torch, $symbol)?,)*
                        cuda,
                        delete: find(torch, "_ZdlPv")?,
                        dtypes: dtypes.collect::<Result<_, String>>()?,
                        device_types: [
                            number("aoti_torch_device_type_cpu".into())?,
                            number("aoti_torch_device_type_cuda".into())?,
                        ],
                    })
                }
            }
        }
    };
}

api! {
    dim = "aoti_torch_get_dim": fn(Handle, *mut i64) -> Status;
    sizes = "aoti_torch_get_sizes": fn(Handle, *mut *const i64) -> Status;
    strides = "aoti_torch_get_strides": fn(Handle, *mut *const i64) -> Status;
    dtype = "aoti_torch_get_dtype": fn(Handle, *mut i32) -> Status;
    device_type = "aoti_torch_get_device_type": fn(Handle, *mut i32) -> Status;
    device_index = "aoti_torch_get_device_index": fn(Handle, *mut i32) -> Status;
    data = "aoti_torch_get_data_ptr": fn(Handle, *mut *mut c_void) -> Status;
    empty = "aoti_torch_empty_strided": fn(i64, *const i64, *const i64, i32, i32, i32, *mut Handle) -> Status;
    copy = "aoti_torch_copy_": fn(Handle, Handle, i32) -> Status;
    free = "aoti_torch_delete_tensor_object": fn(Handle) -> Status;
    check = "aoti_torch_check": fn(bool, *const c_char, *const c_char, u32, *const c_char);
    library = "aoti_torch_library_init_impl": fn(*const c_char, *const c_char, *const c_char, u32, *mut Handle) -> Status;
    implement = "aoti_torch_library_impl": fn(Handle, *const c_char, Boxed) -> Status;
}

/// Functions of libtorch_cuda.
struct Cuda {
    stream: unsafe extern "C-unwind" fn(i32, *mut *mut c_void) -> Status,
    guard: unsafe extern "C-unwind" fn(i32, *mut Handle) -> Status,
    end_guard: unsafe extern "C-unwind" fn(Handle) -> Status,
}

static API: OnceLock<Api> = OnceLock::new();

/// # Safety
/// The symbol has the type `F`, and the library stays loaded.
unsafe fn find<F: Copy>(library: &Library, symbol: &str) -> Result<F, String> {
    // SAFETY: the caller's contract.
    let found = unsafe { library.get::<F>(symbol.as_bytes()) };
    found
        .map(|found| *found)
        .map_err(|_| format!("this torch has no {symbol}; ferrowarp needs torch 2.7 or later"))
}

/// Gives torch's dispatcher the operators, for the CPU and, if this torch has it, for CUDA. `folder` is torch's `lib`. The schemas are
/// defined before.
pub fn register(folder: &str) -> Result<(), Failure> {
    if API.get().is_some() {
        return Ok(());
    }
    let load = || -> Result<(), String> {
        let open = |name: &str| {
            let path = Path::new(folder).join(libloading::library_filename(name));
            // SAFETY: torch has loaded it already, and it stays loaded.
            unsafe { Library::new(&path) }
                .map(|library| &*Box::leak(Box::new(library)))
                .map_err(|error| format!("{}: {error}", path.display()))
        };
        let torch = open("torch_cpu")?;
        // SAFETY: the types are those of the header.
        let of_cuda = |library: &Library| unsafe {
            Ok::<Cuda, String>(Cuda {
                stream: find(library, "aoti_torch_get_current_cuda_stream")?,
                guard: find(library, "aoti_torch_create_cuda_guard")?,
                end_guard: find(library, "aoti_torch_delete_cuda_guard")?,
            })
        };
        let cuda = open("torch_cuda").ok().map(of_cuda).transpose()?;
        let loaded = Api::load(torch, cuda)?;
        let api = API.get_or_init(|| loaded);
        for key in [Some(c"CPU"), api.cuda.as_ref().map(|_| c"CUDA")].into_iter().flatten() {
            let (mut library, file) = (ptr::null_mut(), c"ferrowarp");
            // SAFETY: the strings end with NUL, and the library object is never deleted.
            unsafe {
                let made = (api.library)(file.as_ptr(), key.as_ptr(), file.as_ptr(), 0, &mut library);
                succeeded(made, "opening the library of operators")?;
                for (operator, boxed) in OPERATORS.iter().zip(BOXED) {
                    let names = [
                        Some(operator.name.to_owned()),
                        (operator.plain > 0).then(|| format!("_{}", operator.name)),
                        operator.has_third_version().then(|| format!("_full_{}", operator.name)),
                    ];
                    for name in names.into_iter().flatten() {
                        let name = CString::new(name).expect("names have no NUL");
                        succeeded((api.implement)(library, name.as_ptr(), boxed), "adding an operator")?;
                    }
                }
            }
        }
        Ok(())
    };
    load().map_err(|reason| Failure::other(format!("using torch failed: {reason}")))
}

fn succeeded(status: Status, what: &str) -> Result<(), String> {
    if status == 0 { Ok(()) } else { Err(format!("{what} failed; torch has printed the reason")) }
}

/// The name of a type that no operator takes, by its number, which programs that torch saved contain.
fn other_dtype(number: i32) -> &'static str {
    match number {
        8 => "complex32",
        12 => "qint8",
        13 => "quint8",
        14 => "qint32",
        23 => "float8_e5m2",
        24 => "float8_e4m3fn",
        25 => "float8_e5m2fnuz",
        26 => "float8_e4m3fnuz",
        44 => "float8_e8m0fnu",
        45 => "float4_e2m1fn_x2",
        _ => "another type",
    }
}

/// The tensors of a call, freed at its end.
struct Tensors<'a> {
    api: &'a Api,
    handles: [Handle; MOST_TENSORS],
    count: usize,
}

/// The most tensors of a call: arguments, their copies, results, and memory that is not returned.
const MOST_TENSORS: usize = 2 * MOST_ARGUMENTS + MOST_RESULTS + 1;

impl Drop for Tensors<'_> {
    fn drop(&mut self) {
        for &handle in self.handles[..self.count].iter().filter(|handle| !handle.is_null()) {
            // SAFETY: each handle is owned, and freed once.
            unsafe { (self.api.free)(handle) };
        }
    }
}

impl Tensors<'_> {
    fn own(&mut self, handle: Handle) {
        self.handles[self.count] = handle;
        self.count += 1;
    }

    /// Takes a tensor.
    ///
    /// # Safety
    /// The handle is a tensor's, and nothing else owns it.
    unsafe fn take(&mut self, handle: Handle, name: Name) -> Result<Operand, Failure> {
        self.own(handle);
        let api = self.api;
        let (mut dim, mut sizes, mut strides, mut data) = (0, ptr::null(), ptr::null(), ptr::null_mut());
        let [mut dtype, mut kind, mut index] = [0; 3];
        // SAFETY: the handle is a tensor's, and the out parameters are valid.
        let statuses = unsafe {
            (api.dim)(handle, &mut dim)
                | (api.sizes)(handle, &mut sizes)
                | (api.strides)(handle, &mut strides)
                | (api.data)(handle, &mut data)
                | (api.dtype)(handle, &mut dtype)
                | (api.device_type)(handle, &mut kind)
                | (api.device_index)(handle, &mut index)
        };
        if statuses != 0 {
            return Err(Failure::of_type(format!("the {name} is not a plain tensor with strides")));
        }
        let place = match api.device_types.iter().position(|&known| known == kind) {
            Some(0) => Place::Cpu,
            Some(_) => Place::Cuda(index),
            None => {
                let text = format!(
                    "the {name} is on neither the CPU nor a GPU; move it to the device of the others"
                );
                return Err(Failure::of_value(text));
            }
        };
        let known = api.dtypes.iter().find(|(number, _)| *number == dtype);
        let dtype = known.map_or_else(|| Dtype::Other(other_dtype(dtype)), |(_, dtype)| *dtype);
        // SAFETY: torch gives as many sizes and strides as axes.
        let extents =
            (0..dim as usize).map(|axis| unsafe { (*sizes.add(axis) as usize, *strides.add(axis) as usize) });
        Operand::new((name, place, dtype), (data, handle), extents)
    }

    /// Gives a tensor to the caller.
    fn give(&mut self, given: Handle) -> Handle {
        let all = self.handles[..self.count].iter_mut();
        all.filter(|handle| **handle == given).for_each(|handle| *handle = ptr::null_mut());
        given
    }
}

impl Memory for Tensors<'_> {
    fn empty(&mut self, like: &Operand, dtype: Dtype, shape: &[usize]) -> Result<Operand, Failure> {
        let dense =
            Operand::dense((like.name, like.place, dtype), (ptr::null_mut(), ptr::null_mut()), shape)?;
        let (mut sizes, mut strides) = ([0i64; MOST_AXES], [0i64; MOST_AXES]);
        for axis in 0..shape.len() {
            (sizes[axis], strides[axis]) = (dense.shape()[axis] as i64, dense.strides()[axis] as i64);
        }
        let api = self.api;
        let number = api.dtypes.iter().find(|(_, known)| *known == dtype).map_or(0, |(number, _)| *number);
        let (kind, index) = match like.place {
            Place::Cpu => (api.device_types[0], 0),
            Place::Cuda(index) => (api.device_types[1], index),
        };
        let (mut handle, mut pointer, dim) = (ptr::null_mut(), ptr::null_mut(), shape.len() as i64);
        // SAFETY: the arrays have at least as many elements as axes, and the out parameters are valid.
        let status =
            unsafe { (api.empty)(dim, sizes.as_ptr(), strides.as_ptr(), number, kind, index, &mut handle) };
        if status != 0 {
            let bytes = dense.elements().saturating_mul(dtype.bytes());
            return Err(Failure::other(format!("torch could not allocate {bytes} bytes on {}", like.place)));
        }
        self.own(handle);
        // SAFETY: the tensor was just made.
        unsafe { (api.data)(handle, &mut pointer) };
        Ok(Operand { pointer, handle, ..dense })
    }

    fn copy(&mut self, of: &Operand) -> Result<Operand, Failure> {
        let to = self.empty(of, of.dtype, of.shape())?;
        // SAFETY: both are tensors of the same shape.
        let status = unsafe { (self.api.copy)(to.handle, of.handle, 1) };
        if status != 0 {
            return Err(Failure::other(format!("torch could not copy the {}", of.name)));
        }
        Ok(to)
    }
}

/// Makes a GPU current while it lives.
struct Guard<'a>(&'a Cuda, Handle);

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        // SAFETY: the guard is deleted once.
        unsafe { (self.0.end_guard)(self.1) };
    }
}

/// Runs an operator on the arguments of torch's stack, and writes the results there.
///
/// # Safety
/// The stack has the operator's arguments as its schema says, which the callee owns, and room for the results.
unsafe fn run(operator: &'static Operator, stack: *mut u64, results: usize) -> Result<(), Failure> {
    let api = API.get().expect("it is set before operators are added");
    let mut tensors = Tensors { api, handles: [ptr::null_mut(); MOST_TENSORS], count: 0 };
    let mut arguments = [Value::Absent; MOST_ARGUMENTS];
    let mut refused = None;
    for (at, (kind, name, _)) in operator.schema.iter().enumerate() {
        // SAFETY: the caller's contract. Every argument is taken, so that each is freed.
        unsafe {
            let word = *stack.add(at);
            let handle = match kind {
                Kind::Tensor => word as Handle,
                Kind::Optional if word == 0 => continue,
                Kind::Optional => {
                    let boxed = word as *mut u64;
                    let handle = *boxed as Handle;
                    (api.delete)(boxed.cast());
                    handle
                }
                Kind::Int => {
                    arguments[at] = Value::Int(word as i64);
                    continue;
                }
                Kind::Float => {
                    arguments[at] = Value::Float(f64::from_bits(word));
                    continue;
                }
                Kind::Bool => {
                    arguments[at] = Value::Bool(word as u8 != 0);
                    continue;
                }
            };
            match tensors.take(handle, *name) {
                Ok(operand) => arguments[at] = Value::Tensor(operand),
                Err(failure) => refused = Some(failure),
            }
        }
    }
    // The first refused tensor.
    if let Some(failure) = refused {
        return Err(failure.of(operator.title));
    }
    let place = arguments.iter().find_map(Value::tensor).map_or(Place::Cpu, |first| first.place);
    let (mut stream, mut guard) = (ptr::null_mut(), ptr::null_mut());
    let _guard = match (place, &api.cuda) {
        (Place::Cuda(index), Some(cuda)) => {
            // SAFETY: the out parameters are valid.
            let status = unsafe {
                (cuda.stream)(index, &mut stream)
                    | if is_current(place) { 0 } else { (cuda.guard)(index, &mut guard) }
            };
            succeeded(status, "using the GPU's current stream").map_err(Failure::other)?;
            (!guard.is_null()).then_some(Guard(cuda, guard))
        }
        _ => None,
    };
    // SAFETY: torch's streams live until the process ends. It orders all work on its tensors.
    unsafe {
        with_stream(place, stream, |stream| {
            let (made, count) = Call::new(operator, &arguments, stream, &mut tensors, results).run()?;
            for (at, &handle) in made[..count].iter().enumerate() {
                *stack.add(at) = tensors.give(handle) as u64;
            }
            Ok(())
        })
    }
}

/// The kernel of the operator with this index.
///
/// # Safety
/// As for [`run`].
unsafe extern "C-unwind" fn boxed<const INDEX: usize>(stack: *mut u64, _arguments: u64, results: u64) {
    let operator = &OPERATORS[INDEX];
    // SAFETY: the caller's contract is the callee's.
    let ran = catch_unwind(AssertUnwindSafe(|| unsafe { run(operator, stack, results as usize) }));
    let failure = match ran {
        Ok(Ok(())) => return,
        Ok(Err(failure)) => failure,
        Err(_) => Failure::other(format!("{} failed: it panicked; please report this", operator.title)),
    };
    let text = CString::new(failure.text().replace('\0', " ")).expect("it has no NUL");
    failure.keep();
    let (api, file) = (API.get().expect("as above"), c"ferrowarp");
    // SAFETY: the strings end with NUL. It throws a C++ exception, for which this function's ABI has room.
    unsafe { (api.check)(false, file.as_ptr(), file.as_ptr(), 0, text.as_ptr()) };
}

macro_rules! boxed {
    ($($index:literal)*) => {
        /// The kernels, in the order of [`OPERATORS`].
        const BOXED: [Boxed; OPERATORS.len()] = [$(boxed::<$index>),*];
    };
}

boxed! { 0 1 2 3 4 5 6 7 8 9 10 11 12 13 }
