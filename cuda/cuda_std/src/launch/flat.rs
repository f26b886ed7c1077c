//! Flattens the arguments of a launch, and reads them again on the executor: what `#[kernel]` expands to.

use core::ffi::c_void;
use core::ptr::NonNull;

use super::{
    Extent, KernelCall, KernelMeta, LaunchConfig, PtrArg, PtrMutArg, Residence, SliceArg, SliceMutArg,
};
use crate::param::{CONST, CONST_SLICE, MUT, MUT_SLICE, Param, REFERENCE, SLICE, VALUE};

/// An argument for a parameter of type `P`, of a kind that follows from the type.
///
/// A number, a struct or an array is passed by value. For pointers and slices see [`PtrArg`], [`PtrMutArg`], [`SliceArg`]
/// and [`SliceMutArg`].
#[diagnostic::on_unimplemented(message = "`{Self}` cannot be passed to a kernel's parameter `{P}`")]
pub trait Arg<P, const KIND: u8> {
    /// The parameter, or the pointer of a slice.
    type First;
    /// The length of a slice in elements, or nothing.
    type Second;

    /// What is passed.
    #[doc(hidden)]
    fn flatten(&mut self) -> Flat<Self::First, Self::Second>;
}

/// An argument as it is passed: the parts that have a size.
#[doc(hidden)]
#[derive(Clone, Copy, Debug)]
pub struct Flat<First, Second> {
    first: First,
    second: Second,
    buffer: Option<Buffer>,
}

/// The memory that an argument lends to a kernel.
#[derive(Clone, Copy, Debug)]
struct Buffer {
    residence: Residence,
    /// Where they are known.
    bytes: Option<usize>,
    is_writable: bool,
}

#[diagnostic::do_not_recommend]
impl<P: Copy> Arg<P, VALUE> for P {
    type First = P;
    type Second = ();

    fn flatten(&mut self) -> Flat<P, ()> {
        Flat { first: *self, second: (), buffer: None }
    }
}

macro_rules! pointer_args {
    ($($kind:ident, $ty:ty: $arg:ident, $method:ident -> $raw:ty, writable: $is_writable:literal;)*) => {$(
        impl<T, A: $arg<T>> Arg<$ty, $kind> for A {
            type First = $raw;
            type Second = ();

            fn flatten(&mut self) -> Flat<$raw, ()> {
                let (residence, bytes) = (self.residence(), self.byte_len());
                let buffer = Some(Buffer { residence, bytes, is_writable: $is_writable });
                Flat { first: self.$method(), second: (), buffer }
            }
        }
    )*};
}

pointer_args! {
    REFERENCE, &T: PtrArg, as_raw_ptr -> *const T, writable: false;
    CONST, *const T: PtrArg, as_raw_ptr -> *const T, writable: false;
    MUT, *mut T: PtrMutArg, as_raw_mut_ptr -> *mut T, writable: true;
}

macro_rules! slice_args {
    ($($kind:ident, $ty:ty: $arg:ident, $method:ident -> $raw:ty, writable: $is_writable:literal;)*) => {$(
        impl<T, A: $arg<T>> Arg<$ty, $kind> for A {
            type First = $raw;
            type Second = usize;

            fn flatten(&mut self) -> Flat<$raw, usize> {
                let residence = self.residence();
                let (first, len) = self.$method();
                let bytes = Some(len * size_of::<T>());
                let buffer = Some(Buffer { residence, bytes, is_writable: $is_writable });
                Flat { first, second: len, buffer }
            }
        }
    )*};
}

slice_args! {
    SLICE, &[T]: SliceArg, as_raw_slice -> *const T, writable: false;
    CONST_SLICE, *const [T]: SliceArg, as_raw_slice -> *const T, writable: false;
    MUT_SLICE, *mut [T]: SliceMutArg, as_raw_mut_slice -> *mut T, writable: true;
}

/// The flattened arguments of one launch of a kernel with `PARAMS` parameters, `SLOTS` of them at most when flattened.
#[doc(hidden)]
#[derive(Debug)]
pub struct ArgList<const PARAMS: usize, const SLOTS: usize> {
    slots: [*mut c_void; SLOTS],
    slots_len: usize,
    residences: [(&'static str, Residence); PARAMS],
    extents: [Option<Extent>; PARAMS],
    buffers_len: usize,
}

impl<const PARAMS: usize, const SLOTS: usize> Default for ArgList<PARAMS, SLOTS> {
    fn default() -> Self {
        Self {
            slots: [core::ptr::null_mut(); SLOTS],
            slots_len: 0,
            residences: [("", Residence::Unchecked); PARAMS],
            extents: [None; PARAMS],
            buffers_len: 0,
        }
    }
}

impl<const PARAMS: usize, const SLOTS: usize> ArgList<PARAMS, SLOTS> {
    /// Appends the argument for the parameter `name`; the list points into `flat`.
    ///
    /// # Panics
    /// There are more arguments than `PARAMS`.
    pub fn push<First, Second>(&mut self, name: &'static str, flat: &mut Flat<First, Second>) {
        if let Some(Buffer { residence, bytes, is_writable }) = flat.buffer {
            let extent = |bytes| Extent { parameter: self.slots_len, bytes, is_writable };
            self.residences[self.buffers_len] = (name, residence);
            self.extents[self.buffers_len] = bytes.map(extent);
            self.buffers_len += 1;
        }
        self.push_slot(&raw mut flat.first);
        self.push_slot(&raw mut flat.second);
    }

    fn push_slot<Part>(&mut self, part: *mut Part) {
        if size_of::<Part>() > 0 {
            self.slots[self.slots_len] = part.cast();
            self.slots_len += 1;
        }
    }

    /// The launch with these arguments.
    pub fn call(&self, meta: &'static KernelMeta, config: LaunchConfig) -> KernelCall<'_> {
        KernelCall {
            meta,
            config,
            args: &self.slots[..self.slots_len],
            residences: &self.residences[..self.buffers_len],
            extents: &self.extents[..self.buffers_len],
        }
    }
}

/// The flattened arguments, as one thread of the executor reads them, first to last.
#[doc(hidden)]
#[derive(Debug)]
pub struct Slots {
    next: *const *mut c_void,
}

impl Slots {
    /// Those behind the pointers from `first` on.
    pub fn new(first: *const *mut c_void) -> Slots {
        Slots { next: first }
    }

    /// The next parameter.
    ///
    /// # Safety
    /// The next pointers lead to the parts of a valid `P` that have a size.
    #[inline(always)]
    pub unsafe fn take<P: Param<KIND>, const KIND: u8>(&mut self) -> P {
        // SAFETY: the caller's pointers.
        unsafe {
            let first = self.part();
            P::join(first, self.part())
        }
    }

    #[inline(always)]
    unsafe fn part<Part>(&mut self) -> Part {
        if size_of::<Part>() == 0 {
            // SAFETY: what has no size is read without an access.
            return unsafe { NonNull::dangling().read() };
        }
        // SAFETY: the caller's next pointer leads to this part.
        unsafe {
            let slot = self.next.read();
            self.next = self.next.add(1);
            slot.cast::<Part>().read()
        }
    }
}
