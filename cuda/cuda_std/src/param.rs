//! How a kernel's parameters cross the launch. Only their types matter, not their names in the source: an alias of
//! `&[f32]`, or a macro's `$t:ty`, is a slice too.
//!
//! `#[kernel]` sees tokens, not types. So it uses [`__kind!`](crate::__kind) of the type, a constant: for pointers and
//! references an inherent constant of [`Probe`], which hides the constant of the trait [`ByValue`] for all other types.
//! The kind selects the implementation of [`Param`] on the device and on the host, and of [`Arg`](crate::launch::Arg) for
//! launches. So device and host cannot disagree.

use core::marker::PhantomData;

/// By value, byte for byte.
pub const VALUE: u8 = 0;
/// `&T`.
pub const REFERENCE: u8 = 1;
/// `&[T]`, or another reference of two words, which no kernel takes.
pub const SLICE: u8 = 2;
/// `*const T`.
pub const CONST: u8 = 3;
/// `*const [T]`, or another such pointer of two words.
pub const CONST_SLICE: u8 = 4;
/// `*mut T`.
pub const MUT: u8 = 5;
/// `*mut [T]`, or another such pointer of two words.
pub const MUT_SLICE: u8 = 6;
/// `&mut T`, which no kernel takes.
pub const EXCLUSIVE: u8 = 7;

/// A type whose kind is asked for.
pub struct Probe<T>(PhantomData<T>);

/// The kind of all types that no inherent constant of [`Probe`] is for.
pub trait ByValue {
    /// By value.
    const KIND: u8 = VALUE;
}

impl<T> ByValue for Probe<T> {}

/// `thin`, unless a pointer to `T` has a second word.
const fn of_pointer<T: ?Sized>(thin: u8, wide: u8) -> u8 {
    if size_of::<*const T>() == size_of::<usize>() { thin } else { wide }
}

impl<T: ?Sized> Probe<&T> {
    /// The kind.
    pub const KIND: u8 = of_pointer::<T>(REFERENCE, SLICE);
}

impl<T: ?Sized> Probe<&mut T> {
    /// The kind.
    pub const KIND: u8 = EXCLUSIVE;
}

impl<T: ?Sized> Probe<*const T> {
    /// The kind.
    pub const KIND: u8 = of_pointer::<T>(CONST, CONST_SLICE);
}

impl<T: ?Sized> Probe<*mut T> {
    /// The kind.
    pub const KIND: u8 = of_pointer::<T>(MUT, MUT_SLICE);
}

/// The kind of a type that is known here.
#[doc(hidden)]
#[macro_export]
macro_rules! __kind {
    ($($ty:tt)*) => {{
        #[allow(unused_imports, reason = "pointers have a constant of their own")]
        use $crate::param::ByValue as _;
        $crate::param::Probe::<$($ty)*>::KIND
    }};
}

/// A type that kernels take, and what it is flattened to.
///
/// # Safety
/// `First` and `Second` are what the launch passes for a parameter of this kind.
#[diagnostic::on_unimplemented(
    message = "a kernel cannot take a parameter of type `{Self}`",
    label = "this does not cross a launch",
    note = "take numbers and plain `Copy` structs by value, arrays as `&[T]`, other memory as `*const T` or `*mut T`",
    note = "a `&mut` every thread would hold at once; a `&str`, a trait object or a `Box` has no meaning on a device: \
            for text take `&[u8]`"
)]
pub unsafe trait Param<const KIND: u8>: Sized {
    /// The parameter, or the pointer of a slice.
    type First;
    /// The length of a slice, in elements, or nothing. A type without size is not a parameter of an entry.
    type Second;

    /// Makes the parameter of what was passed.
    ///
    /// # Safety
    /// The parts are those of a valid parameter.
    unsafe fn join(first: Self::First, second: Self::Second) -> Self;
}

macro_rules! params {
    ($($(#[$attr:meta])* [$($generics:tt)*] $kind:ident, $ty:ty = $first:ty, $second:ty, |$one:ident, $two:tt| $join:expr;)*) => {$(
        $(#[$attr])*
        // SAFETY: `launch::Arg` of this kind passes the same.
        unsafe impl<$($generics)*> Param<$kind> for $ty {
            type First = $first;
            type Second = $second;

            #[inline(always)]
            unsafe fn join($one: $first, $two: $second) -> Self {
                // SAFETY: the caller passes a valid pointer and length, or the parameter itself.
                #[allow(unused_unsafe, reason = "a parameter in one part is there already")]
                unsafe {
                    $join
                }
            }
        }
    )*};
}

params! {
    [T: Copy] VALUE, T = T, (), |value, _| value;
    #[diagnostic::do_not_recommend]
    ['a, T] REFERENCE, &'a T = &'a T, (), |reference, _| reference;
    #[diagnostic::do_not_recommend]
    ['a, T] SLICE, &'a [T] = *const T, usize, |first, len| core::slice::from_raw_parts(first, len);
    #[diagnostic::do_not_recommend]
    [T] CONST, *const T = *const T, (), |pointer, _| pointer;
    #[diagnostic::do_not_recommend]
    [T] CONST_SLICE, *const [T] = *const T, usize, |first, len| core::ptr::slice_from_raw_parts(first, len);
    #[diagnostic::do_not_recommend]
    [T] MUT, *mut T = *mut T, (), |pointer, _| pointer;
    #[diagnostic::do_not_recommend]
    [T] MUT_SLICE, *mut [T] = *mut T, usize, |first, len| core::ptr::slice_from_raw_parts_mut(first, len);
}
