//! Flattens the arguments of a launch, and reads them back on the executor. `#[kernel]` expands to its calls.

use core::ffi::c_void;
use core::ptr::NonNull;

use super::{Buffer, KernelCall, KernelMeta, LaunchConfig, PtrArg, PtrMutArg, SliceArg, SliceMutArg};
use crate::param::{CONST, CONST_SLICE, MUT, MUT_SLICE, Param, REFERENCE, SLICE, VALUE};

/// An argument for a parameter of type `P`. Its kind follows from the type.
///
/// A number, a struct or an array is passed by value. For pointers and slices see [`PtrArg`], [`PtrMutArg`], [`SliceArg`]
/// and [`SliceMutArg`], for structs of them [`KernelArgs`](macro@crate::KernelArgs).
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be passed to a kernel's parameter `{P}`",
    note = "a pointer, a reference or a slice takes a device buffer with elements of its type; a number or a struct is \
            passed by value: let the kernel take the struct itself, or upload it into a buffer"
)]
pub trait Arg<P, const KIND: u8> {
    /// The parameter, or the pointer of a slice.
    type First;
    /// The length of a slice in elements, or nothing.
    type Second;

    /// Returns what is passed for the parameter `name`, and appends the memory that is lent with it.
    #[doc(hidden)]
    fn flatten(&mut self, name: &'static str, buffers: &mut Vec<Buffer>) -> (Self::First, Self::Second);
}

#[diagnostic::do_not_recommend]
impl<P: Copy> Arg<P, VALUE> for P {
    type First = P;
    type Second = ();

    fn flatten(&mut self, _: &'static str, _: &mut Vec<Buffer>) -> (P, ()) {
        (*self, ())
    }
}

/// The memory lent with arguments, under a name for crates without `std`.
#[doc(hidden)]
pub type Buffers = Vec<Buffer>;

macro_rules! pointer_args {
    ($($kind:ident, $ty:ty: $arg:ident, $method:ident -> $raw:ty, writable: $is_writable:literal;)*) => {$(
        impl<T, A: $arg<T>> Arg<$ty, $kind> for A {
            type First = $raw;
            type Second = ();

            fn flatten(&mut self, name: &'static str, buffers: &mut Vec<Buffer>) -> ($raw, ()) {
                let (residence, bytes) = (self.residence(), self.byte_len());
                let first = self.$method();
                let pointer = first as *const c_void;
                buffers.push(Buffer { name, residence, pointer, bytes, is_writable: $is_writable });
                (first, ())
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

            fn flatten(&mut self, name: &'static str, buffers: &mut Vec<Buffer>) -> ($raw, usize) {
                let residence = self.residence();
                let (first, len) = self.$method();
                let (pointer, bytes) = (first as *const c_void, Some(len * size_of::<T>()));
                buffers.push(Buffer { name, residence, pointer, bytes, is_writable: $is_writable });
                (first, len)
            }
        }
    )*};
}

slice_args! {
    SLICE, &[T]: SliceArg, as_raw_slice -> *const T, writable: false;
    CONST_SLICE, *const [T]: SliceArg, as_raw_slice -> *const T, writable: false;
    MUT_SLICE, *mut [T]: SliceMutArg, as_raw_mut_slice -> *mut T, writable: true;
}

/// The flattened arguments of one launch, `SLOTS` at most.
#[doc(hidden)]
#[derive(Debug)]
pub struct ArgList<const SLOTS: usize> {
    slots: [*mut c_void; SLOTS],
    slots_len: usize,
    /// The memory lent with them.
    pub buffers: Vec<Buffer>,
}

impl<const SLOTS: usize> Default for ArgList<SLOTS> {
    fn default() -> Self {
        Self { slots: [core::ptr::null_mut(); SLOTS], slots_len: 0, buffers: Vec::with_capacity(SLOTS / 2) }
    }
}

impl<const SLOTS: usize> ArgList<SLOTS> {
    /// Appends an argument; the list points into `flat`.
    ///
    /// # Panics
    /// If there are more arguments than `SLOTS`.
    pub fn push<First, Second>(&mut self, flat: &mut (First, Second)) {
        self.push_slot(&raw mut flat.0);
        self.push_slot(&raw mut flat.1);
    }

    fn push_slot<Part>(&mut self, part: *mut Part) {
        if size_of::<Part>() > 0 {
            self.slots[self.slots_len] = part.cast();
            self.slots_len += 1;
        }
    }

    /// The launch with these arguments.
    pub fn call(&self, meta: &'static KernelMeta, config: LaunchConfig) -> KernelCall<'_> {
        KernelCall { meta, config, args: &self.slots[..self.slots_len], buffers: &self.buffers }
    }
}

/// Reads the flattened arguments for one thread of the executor, first to last.
#[doc(hidden)]
#[derive(Debug)]
pub struct Slots {
    next: *const *mut c_void,
}

impl Slots {
    /// Reads the arguments behind the pointers from `first` on.
    pub fn new(first: *const *mut c_void) -> Slots {
        Slots { next: first }
    }

    /// Returns the next parameter.
    ///
    /// # Safety
    /// The next pointers point to the parts of a valid `P` that have a size.
    #[inline(always)]
    pub unsafe fn take<P: Param<KIND>, const KIND: u8>(&mut self) -> P {
        // SAFETY: the caller guarantees valid pointers.
        unsafe {
            let first = self.part();
            P::join(first, self.part())
        }
    }

    #[inline(always)]
    unsafe fn part<Part>(&mut self) -> Part {
        if size_of::<Part>() == 0 {
            // SAFETY: reading a value without size accesses no memory.
            return unsafe { NonNull::dangling().read() };
        }
        // SAFETY: the caller's next pointer points to this part.
        unsafe {
            let slot = self.next.read();
            self.next = self.next.add(1);
            slot.cast::<Part>().read()
        }
    }
}
