//! The arguments of a launch.

use core::ffi::c_void;
use core::fmt;

/// The memory that holds an argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Residence {
    /// Ordinary memory of this process, which the CPU executor works on.
    Host,
    /// Memory of the CUDA device with this ordinal.
    Cuda(u32),
    /// A raw pointer, for which the caller is responsible.
    Unchecked,
}

impl fmt::Display for Residence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Residence::Host => f.write_str("the CPU"),
            Residence::Cuda(ordinal) => write!(f, "CUDA device {ordinal}"),
            Residence::Unchecked => f.write_str("an unknown device"),
        }
    }
}

/// The memory that an argument lends to the kernel, or a field of a struct of arguments: what launchers check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Buffer {
    /// The name of the parameter or field.
    pub name: &'static str,
    /// The memory that holds it.
    pub residence: Residence,
    /// Its first byte.
    pub pointer: *const c_void,
    /// Its size in bytes, if the argument knows it.
    pub bytes: Option<usize>,
    /// Whether the kernel may write it.
    pub is_writable: bool,
}

/// An argument for a parameter `&[T]` or `*const [T]`.
///
/// # Safety
/// Until the launch has ended, the returned pointer is valid for reads of the returned number of elements,
/// which are initialised and lie in the memory of `residence`, and nothing writes them. For length 0 the
/// pointer is aligned and not null.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be passed to a kernel's parameter `&[{T}]`",
    note = "pass a reference to a device buffer (or, on the CPU executor, a slice) with elements of type `{T}`"
)]
pub unsafe trait SliceArg<T> {
    /// Pointer to the first element and number of elements.
    fn as_raw_slice(&self) -> (*const T, usize);
    /// The memory that holds the elements.
    fn residence(&self) -> Residence;
}

/// An argument for a parameter `*mut [T]`.
///
/// # Safety
/// Until the launch has ended, the returned pointer is valid for all reads and writes that the kernel's contract
/// names, of the returned number of elements in the memory of `residence`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be passed to a kernel's parameter `*mut [{T}]`",
    note = "pass an exclusive reference to a device buffer (or, on the CPU executor, a slice) with elements of \
            type `{T}`"
)]
pub unsafe trait SliceMutArg<T> {
    /// Pointer to the first element and number of elements.
    fn as_raw_mut_slice(&mut self) -> (*mut T, usize);
    /// The memory that holds the elements.
    fn residence(&self) -> Residence;
}

/// An argument for a parameter `*const T` or `&T`.
///
/// # Safety
/// Until the launch has ended, the returned pointer is valid in the memory of `residence` for the reads that the
/// kernel's contract names.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be passed to a kernel's parameter `*const {T}`",
    note = "pass a reference to a device buffer (or, on the CPU executor, a slice) with elements of type `{T}`"
)]
pub unsafe trait PtrArg<T> {
    /// Pointer to the first element.
    fn as_raw_ptr(&self) -> *const T;
    /// The memory that holds the elements.
    fn residence(&self) -> Residence;
    /// The argument's size in bytes from the first element on, if it knows it.
    fn byte_len(&self) -> Option<usize> {
        None
    }
}

/// An argument for a parameter `*mut T`.
///
/// # Safety
/// Until the launch has ended, the returned pointer is valid in the memory of `residence` for the reads and writes that
/// the kernel's contract names.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be passed to a kernel's parameter `*mut {T}`",
    note = "pass an exclusive reference to a device buffer (or, on the CPU executor, a slice) with elements of \
            type `{T}`"
)]
pub unsafe trait PtrMutArg<T> {
    /// Pointer to the first element.
    fn as_raw_mut_ptr(&mut self) -> *mut T;
    /// The memory that holds the elements.
    fn residence(&self) -> Residence;
    /// The argument's size in bytes from the first element on, if it knows it.
    fn byte_len(&self) -> Option<usize> {
        None
    }
}

/// A buffer without its borrow, as a launch takes it. It is for host code that chooses kernels at run time, and for kernels
/// that may write over their input. The launch's caller is responsible for the memory; its residence is still checked.
#[derive(Debug)]
pub struct RawBuffer<T> {
    /// The first element.
    pub pointer: *mut T,
    /// The size in bytes, if the owner knows it.
    pub bytes: Option<usize>,
    /// The memory that holds them.
    pub residence: Residence,
}

impl<T> Clone for RawBuffer<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for RawBuffer<T> {}

impl<T> RawBuffer<T> {
    /// A null pointer, for an optional buffer.
    pub const NULL: Self =
        Self { pointer: core::ptr::null_mut(), bytes: None, residence: Residence::Unchecked };

    /// A buffer for a kernel to read. The caller keeps the buffer's borrow alive.
    pub fn read(arg: impl PtrArg<T>) -> Self {
        let pointer = arg.as_raw_ptr().cast_mut();
        Self { pointer, bytes: arg.byte_len(), residence: arg.residence() }
    }

    /// A buffer that a kernel takes as a slice. The caller keeps the buffer's borrow alive.
    pub fn slice(arg: impl SliceArg<T>) -> Self {
        let (pointer, len) = arg.as_raw_slice();
        let bytes = Some(len.saturating_mul(size_of::<T>()));
        Self { pointer: pointer.cast_mut(), bytes, residence: arg.residence() }
    }

    /// A buffer for a kernel to write. The caller keeps the buffer's borrow alive.
    pub fn written(mut arg: impl PtrMutArg<T>) -> Self {
        Self { pointer: arg.as_raw_mut_ptr(), bytes: arg.byte_len(), residence: arg.residence() }
    }

    /// Reinterprets the bytes as elements of another type, for which the launch's caller is responsible.
    pub const fn cast<U>(self) -> RawBuffer<U> {
        RawBuffer { pointer: self.pointer.cast(), bytes: self.bytes, residence: self.residence }
    }

    /// Returns the rest after `elements` elements, empty if the buffer has fewer; null stays null.
    pub fn skip(self, elements: usize) -> Self {
        if self.pointer.is_null() {
            return self;
        }
        let pointer = self.pointer.wrapping_add(elements);
        Self {
            pointer,
            bytes: self.bytes.map(|bytes| bytes.saturating_sub(elements.saturating_mul(size_of::<T>()))),
            ..self
        }
    }
}

// SAFETY: the launch is unsafe, and its caller is responsible for the pointer. If the length is unknown, the kernel
// gets no element.
unsafe impl<T> SliceArg<T> for RawBuffer<T> {
    fn as_raw_slice(&self) -> (*const T, usize) {
        match self.bytes.and_then(|bytes| bytes.checked_div(size_of::<T>())) {
            Some(len @ 1..) => (self.pointer, len),
            // Null, too short or past the end: a slice's pointer is neither null nor unaligned.
            None | Some(0) => (core::ptr::dangling(), 0),
        }
    }
    fn residence(&self) -> Residence {
        self.residence
    }
}

// SAFETY: the launch is unsafe, and its caller is responsible for the pointer.
unsafe impl<T> PtrArg<T> for RawBuffer<T> {
    fn as_raw_ptr(&self) -> *const T {
        self.pointer
    }
    fn residence(&self) -> Residence {
        self.residence
    }
    fn byte_len(&self) -> Option<usize> {
        self.bytes
    }
}

// SAFETY: the launch is unsafe, and its caller is responsible for the pointer.
unsafe impl<T> PtrMutArg<T> for RawBuffer<T> {
    fn as_raw_mut_ptr(&mut self) -> *mut T {
        self.pointer
    }
    fn residence(&self) -> Residence {
        self.residence
    }
    fn byte_len(&self) -> Option<usize> {
        self.bytes
    }
}

macro_rules! host_memory_args {
    ($([$($generics:tt)*] $shared:ty, $exclusive:ty;)*) => {$(
        // SAFETY: the caller's shared slice outlives the launch on the CPU executor.
        unsafe impl<T: Copy, $($generics)*> SliceArg<T> for $shared {
            fn as_raw_slice(&self) -> (*const T, usize) {
                (self.as_ptr(), self.len())
            }
            fn residence(&self) -> Residence {
                Residence::Host
            }
        }
        // SAFETY: the caller's shared slice outlives the launch on the CPU executor.
        unsafe impl<T: Copy, $($generics)*> PtrArg<T> for $shared {
            fn as_raw_ptr(&self) -> *const T {
                self.as_ptr()
            }
            fn residence(&self) -> Residence {
                Residence::Host
            }
            fn byte_len(&self) -> Option<usize> {
                Some(size_of_val(&self[..]))
            }
        }
        // SAFETY: the caller's exclusive slice outlives the launch on the CPU executor.
        unsafe impl<T: Copy, $($generics)*> SliceMutArg<T> for $exclusive {
            fn as_raw_mut_slice(&mut self) -> (*mut T, usize) {
                (self.as_mut_ptr(), self.len())
            }
            fn residence(&self) -> Residence {
                Residence::Host
            }
        }
        // SAFETY: the caller's exclusive slice outlives the launch on the CPU executor.
        unsafe impl<T: Copy, $($generics)*> PtrMutArg<T> for $exclusive {
            fn as_raw_mut_ptr(&mut self) -> *mut T {
                self.as_mut_ptr()
            }
            fn residence(&self) -> Residence {
                Residence::Host
            }
            fn byte_len(&self) -> Option<usize> {
                Some(size_of_val(&self[..]))
            }
        }
    )*};
}

host_memory_args! {
    [] &[T], &mut [T];
    [] &Vec<T>, &mut Vec<T>;
    [const N: usize] &[T; N], &mut [T; N];
}

macro_rules! unchecked_args {
    ($($trait:ident for $pointer:ty: $method:ident(&$($mut:ident)?) -> $raw:ty = |$self:ident| $value:expr;)*) => {$(
        // SAFETY: a raw pointer is unchecked; the launch is unsafe and its caller is responsible for it.
        unsafe impl<T> $trait<T> for $pointer {
            fn $method(& $($mut)? self) -> $raw {
                let $self = *self;
                $value
            }
            fn residence(&self) -> Residence {
                Residence::Unchecked
            }
        }
    )*};
}

unchecked_args! {
    PtrArg for *const T: as_raw_ptr(&) -> *const T = |pointer| pointer;
    PtrMutArg for *mut T: as_raw_mut_ptr(&mut) -> *mut T = |pointer| pointer;
    SliceArg for *const [T]: as_raw_slice(&) -> (*const T, usize) = |slice| (slice.cast(), slice.len());
    SliceMutArg for *mut [T]: as_raw_mut_slice(&mut) -> (*mut T, usize) = |slice| (slice.cast(), slice.len());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_of_a_raw_buffer_is_within_it() {
        let elements = [1u32, 2, 3];
        let raw = RawBuffer::read(&elements);
        let rest = raw.skip(2);
        assert_eq!((rest.pointer.cast_const(), rest.bytes), (&raw const elements[2], Some(4)));
        assert_eq!((raw.skip(5).bytes, rest.cast::<u8>().bytes), (Some(0), Some(4)));
        let null = RawBuffer::<u32>::NULL.skip(7);
        assert!(null.pointer.is_null() && null.bytes.is_none() && null.residence == Residence::Unchecked);
        assert_eq!(raw.skip(usize::MAX).bytes, Some(0));
        assert_eq!(rest.as_raw_slice(), (rest.pointer.cast_const(), 1));
        // The launch turns it into a reference.
        let (empty, len) = null.as_raw_slice();
        assert!(!empty.is_null() && empty.is_aligned() && len == 0);
        assert_eq!(RawBuffer::read(&[(); 3]).as_raw_slice().1, 0);
    }
}
