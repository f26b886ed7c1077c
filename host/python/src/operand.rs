//! Tensors of other libraries as the operands of operators.

use std::collections::BTreeSet;
use std::ffi::c_void;
use std::sync::{Mutex, PoisonError};

use bytemuck::Pod;
use ferrowarp::device::Device;
use ferrowarp::{Error, TensorView, TensorViewMut, bf16, f16};

use crate::failure::Failure;

/// The most axes of an operand. Those before the last three are merged.
pub const MOST_AXES: usize = 8;

macro_rules! dtypes {
    ($($variant:ident: $name:literal $bytes:literal),*) => {
        /// An element type.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Dtype {
            $($variant,)*
            /// One that no operator takes, with its name.
            Other(&'static str),
        }

        impl Dtype {
            /// All types but the others.
            pub const ALL: &[Self] = &[$(Self::$variant),*];

            /// The name that torch and NumPy use.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)*
                    Self::Other(name) => name,
                }
            }

            /// The type of this name. Names of other types are kept: there are few.
            pub fn named(name: &str) -> Self {
                static OTHERS: Mutex<BTreeSet<&'static str>> = Mutex::new(BTreeSet::new());
                if let Some(known) = Self::ALL.iter().find(|known| known.name() == name) {
                    return *known;
                }
                let mut others = OTHERS.lock().unwrap_or_else(PoisonError::into_inner);
                let kept = others.get(name).copied().unwrap_or_else(|| name.to_owned().leak());
                others.insert(kept);
                Self::Other(kept)
            }

            /// Bytes of an element.
            pub fn bytes(self) -> usize {
                match self {
                    $(Self::$variant => $bytes,)*
                    Self::Other(_) => 1,
                }
            }
        }
    };
}

dtypes! {
    F32: "float32" 4, F16: "float16" 2, Bf16: "bfloat16" 2, I64: "int64" 8, I32: "int32" 4, U8: "uint8" 1,
    F64: "float64" 8, I16: "int16" 2, I8: "int8" 1, U16: "uint16" 2, U32: "uint32" 4, U64: "uint64" 8, Bool: "bool" 1,
    Complex64: "complex64" 8, Complex128: "complex128" 16
}

/// A Rust type as the elements of operands.
pub trait Element: Pod {
    /// The type that Python names; `u32` stands for the 32 bits of `int32`.
    const DTYPE: Dtype;
}

macro_rules! elements {
    ($($ty:ty: $dtype:ident),*) => {$(
        impl Element for $ty {
            const DTYPE: Dtype = Dtype::$dtype;
        }
    )*};
}

elements! { f32: F32, f16: F16, bf16: Bf16, i64: I64, i32: I32, u32: I32, u8: U8, u16: I16 }

/// Where an operand lives: the CPU, or a GPU with this ordinal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    Cpu,
    Cuda(i32),
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Cpu => f.write_str("the CPU"),
            Self::Cuda(index) => write!(f, "cuda:{index}"),
        }
    }
}

/// An argument's name. Errors show it with spaces.
#[derive(Clone, Copy, Debug)]
pub struct Name(pub &'static str);

impl std::fmt::Display for Name {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0.replace('_', " "))
    }
}

/// A tensor of another library: memory, shape and strides in elements.
#[derive(Clone, Copy, Debug)]
pub struct Operand {
    /// The operand in errors.
    pub name: Name,
    pub pointer: *mut c_void,
    pub dtype: Dtype,
    pub place: Place,
    pub(crate) rank: usize,
    pub(crate) shape: [usize; MOST_AXES],
    pub(crate) strides: [usize; MOST_AXES],
    /// The library's object.
    pub handle: *mut c_void,
}

impl Operand {
    /// An operand with these strides. It has at most [`MOST_AXES`] axes.
    pub fn new(
        (name, place, dtype): (Name, Place, Dtype),
        (pointer, handle): (*mut c_void, *mut c_void),
        extents: impl ExactSizeIterator<Item = (usize, usize)>,
    ) -> Result<Self, Failure> {
        let rank = extents.len();
        if rank > MOST_AXES {
            return Err(Failure::of_value(format!(
                "the {name} has {rank} axes; it needs at most {MOST_AXES}"
            )));
        }
        let (mut shape, mut strides) = ([1; MOST_AXES], [1; MOST_AXES]);
        for (axis, (extent, stride)) in extents.enumerate() {
            (shape[axis], strides[axis]) = (extent, stride);
        }
        // An axis without elements does not make the others' product smaller.
        let bytes = shape.iter().try_fold(dtype.bytes(), |bytes, &extent| bytes.checked_mul(extent.max(1)));
        if bytes.is_none_or(|bytes| bytes > isize::MAX as usize) {
            let (shape, dtype) = (&shape[..rank], dtype.name());
            return Err(Failure::of_value(format!(
                "the {name} has the shape {shape:?} of {dtype}; it needs fewer than 2^63 bytes, with axes of 0 counted as 1"
            )));
        }
        if shape.contains(&0) {
            // No element: any strides do.
            strides[rank - 1] = 1;
            for axis in (1..rank).rev() {
                strides[axis - 1] = strides[axis].saturating_mul(shape[axis].max(1));
            }
        }
        Ok(Self { name, pointer, dtype, place, rank, shape, strides, handle })
    }

    /// An operand without gaps.
    pub fn dense(
        of: (Name, Place, Dtype),
        memory: (*mut c_void, *mut c_void),
        shape: &[usize],
    ) -> Result<Self, Failure> {
        let mut dense = Self::new(of, memory, shape.iter().map(|&extent| (extent, 1)))?;
        for axis in (1..dense.rank).rev() {
            dense.strides[axis - 1] = dense.strides[axis].saturating_mul(dense.shape[axis].max(1));
        }
        Ok(dense)
    }

    /// Whether the elements lie where the CPU and GPUs can load them.
    pub fn is_aligned(&self) -> bool {
        self.pointer.addr().is_multiple_of(self.dtype.bytes())
    }

    /// The extents of the axes.
    pub fn shape(&self) -> &[usize] {
        &self.shape[..self.rank]
    }

    /// Elements from one index of each axis to the next.
    pub fn strides(&self) -> &[usize] {
        &self.strides[..self.rank]
    }

    /// The shape without the last axis.
    pub fn row_shape(&self) -> &[usize] {
        &self.shape[..self.rank.saturating_sub(1)]
    }

    /// The number of elements.
    pub fn elements(&self) -> usize {
        self.shape().iter().product()
    }

    /// Several axes as one: the extent and the stride. `None` if the elements are not at equal distances.
    fn merged(&self, axes: std::ops::Range<usize>) -> Option<(usize, usize)> {
        if self.elements() == 0 {
            let extents = self.shape[axes].iter().product();
            return Some((extents, 1));
        }
        let mut all = (1, 1);
        for axis in axes.rev().filter(|&axis| self.shape[axis] != 1) {
            all = match all {
                (1, _) => (self.shape[axis], self.strides[axis]),
                (extent, stride) if extent * stride == self.strides[axis] => {
                    (extent * self.shape[axis], stride)
                }
                _ => return None,
            };
        }
        Some(all)
    }

    /// Whether the last axis has no gaps, and the other axes together are rows at equal distances that do not overlap.
    pub fn has_rows(&self) -> bool {
        if self.elements() == 0 {
            return true;
        }
        let last = self.rank.saturating_sub(1);
        let cols = self.shape[last];
        (cols == 1 || self.strides[last] == 1)
            && self.merged(0..last).is_some_and(|(rows, stride)| rows == 1 || stride >= cols)
    }

    /// Whether there are no gaps at all.
    pub fn is_dense(&self) -> bool {
        self.elements() == 0 || self.merged(0..self.rank).is_some_and(|(all, stride)| all == 1 || stride == 1)
    }

    /// Whether the last axis has no gaps. With `bytes`, whether also all rows start at multiples of them, without overlaps.
    pub fn has_heads(&self, bytes: usize) -> bool {
        let size = self.dtype.bytes();
        let fits = |axis: usize| {
            let stride = self.strides[axis];
            bytes == 0 || self.shape[axis] == 1 || stride > 0 && (stride * size).is_multiple_of(bytes)
        };
        let last = self.rank.saturating_sub(1);
        self.elements() == 0
            || (self.shape[last] == 1 || self.strides[last] == 1)
                && (0..last).all(fits)
                && (bytes == 0 || self.pointer.addr().is_multiple_of(bytes))
    }

    /// Whether the last two axes are a matrix or its transpose with rows that do not overlap, and the others are at equal distances.
    pub fn is_matrices(&self) -> bool {
        let Some(first) = self.rank.checked_sub(2) else { return false };
        let [(rows, row), (cols, col)] =
            [first, first + 1].map(|axis| (self.shape[axis], self.strides[axis]));
        let is_plain = (col == 1 || cols == 1) && (row >= cols || rows == 1);
        let is_transposed = (row == 1 || rows == 1) && (col >= rows || cols == 1);
        self.elements() == 0
            || (is_plain || is_transposed)
                && self.merged(0..first).is_some_and(|(batch, stride)| batch == 1 || stride > 0)
    }

    /// The operand as a matrix of rows, which it [has](Self::has_rows).
    pub fn as_matrix(self) -> Self {
        let last = self.rank.saturating_sub(1);
        let (rows, stride) = self.merged(0..last).unwrap_or((1, 1));
        let stride = if rows == 1 || self.elements() == 0 { self.shape[last] } else { stride };
        let (mut shape, mut strides) = ([1; MOST_AXES], [1; MOST_AXES]);
        (shape[0], strides[0]) = (rows, stride);
        (shape[1], strides[1]) = (self.shape[last], 1);
        Self { rank: 2, shape, strides, ..self }
    }

    /// The same memory with one axis. It is [dense](Self::is_dense).
    pub fn as_vector(self) -> Self {
        let (mut shape, strides) = ([1; MOST_AXES], [1; MOST_AXES]);
        shape[0] = self.elements();
        Self { rank: 1, shape, strides, ..self }
    }

    /// The extents and strides of at most four axes: those before the last three are merged, if there are more.
    fn four(&self) -> Result<(usize, [usize; 4], [usize; 4]), Failure> {
        let (mut shape, mut strides) = ([1; 4], [1; 4]);
        let Some(more) = self.rank.checked_sub(4).filter(|&more| more > 0) else {
            shape.copy_from_slice(&self.shape[..4]);
            strides.copy_from_slice(&self.strides[..4]);
            return Ok((self.rank, shape, strides));
        };
        let merged = self.merged(0..more + 1).ok_or_else(|| {
            Failure::of_value(format!(
                "the {} has {} axes; with gaps it needs at most 4",
                self.name, self.rank
            ))
        })?;
        (shape[0], strides[0]) = merged;
        shape[1..].copy_from_slice(&self.shape[more + 1..more + 4]);
        strides[1..].copy_from_slice(&self.strides[more + 1..more + 4]);
        Ok((4, shape, strides))
    }
}

macro_rules! views {
    ($($name:ident: $view:ident;)*) => {$(
        /// A view of the operand.
        ///
        /// # Safety
        /// The memory is the device's, of elements of `T`, and is used in order with the queue on which the view is used.
        pub unsafe fn $name<'a, T: Element>(device: &'a Device, of: &Operand) -> Result<$view<'a, T>, Failure> {
            if of.dtype != T::DTYPE {
                let (name, got, needs) = (of.name, of.dtype.name(), T::DTYPE.name());
                return Err(Failure::of_type(format!("the {name} holds {got}; it needs {needs}")));
            }
            let (rank, [a, b, c, d], [s, t, u, v]) = of.four()?;
            let pointer = of.pointer.cast::<T>();
            // SAFETY: the caller's contract.
            let view: Result<$view<'a, T>, Error> = unsafe {
                match rank {
                    0 | 1 => $view::from_raw(device, pointer, [a], [s]),
                    2 => $view::from_raw(device, pointer, [a, b], [s, t]),
                    3 => $view::from_raw(device, pointer, [a, b, c], [s, t, u]),
                    _ => $view::from_raw(device, pointer, [a, b, c, d], [s, t, u, v]),
                }
            };
            Ok(view?)
        }
    )*};
}

views! {
    read: TensorView;
    write: TensorViewMut;
}
