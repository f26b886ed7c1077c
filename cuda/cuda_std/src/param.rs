//! How a launch passes a kernel's parameters. Only their types matter, not their names in the source: an alias of
//! `&[f32]`, or a macro's `$t:ty`, is a slice too.
//!
//! `#[kernel]` sees tokens, not types. So it uses the constant [`__kind!`](crate::__kind) of the type. For pointers and
//! references this is an inherent constant of [`Probe`]; for all other types, the constant of the trait [`ByValue`],
//! which the inherent one hides. The kind selects the implementation of [`Param`] on the device and on the host, and of
//! [`Arg`](crate::launch::Arg) for launches. So device and host cannot disagree.

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
/// By value, aligned to more than 16 bytes; only on the device.
pub const OVER_ALIGNED: u8 = 8;
/// `&T` or `&[T]` of values that must be dropped, such as a `Vec` or a trait object, which no kernel takes.
pub const OWNER: u8 = 9;

/// The largest alignment of a value that rustc passes to a kernel by value.
const MOST_ALIGNED: usize = 16;

/// Carries the kind of a type.
pub struct Probe<T>(PhantomData<T>);

/// The kind of all types without an inherent constant of [`Probe`].
pub trait ByValue {
    /// By value.
    const KIND: u8;
}

impl<T> ByValue for Probe<T> {
    const KIND: u8 = if is_over_aligned::<T>() { OVER_ALIGNED } else { VALUE };
}

/// Returns whether an entry on the device takes the value by pointer. `cuda_builder` turns that into a parameter with
/// the value's size and alignment. Launches pass its bytes, as for any value.
const fn is_over_aligned<T>() -> bool {
    cfg!(target_arch = "nvptx64") && align_of::<T>() > MOST_ALIGNED
}

/// Describes the parameter `name` of an entry to `cuda_builder`: size and alignment in eight digits each, then `name`.
/// The size is 0 if the entry takes the value itself.
pub const fn layout_of<T, const LEN: usize>(name: &str) -> [u8; LEN] {
    let mut row = [b'0'; LEN];
    let mut values = if is_over_aligned::<T>() { [size_of::<T>(), align_of::<T>()] } else { [0, 0] };
    let mut at = 0;
    while at < 16 {
        let (value, digit) = (at / 8, at / 8 * 8 + 7 - at % 8);
        row[digit] = b'0' + (values[value] % 10) as u8;
        values[value] /= 10;
        at += 1;
    }
    while at < LEN {
        row[at] = name.as_bytes()[at - 16];
        at += 1;
    }
    row
}

/// Returns `thin`, or `wide` if a pointer to `T` has a second word.
const fn of_pointer<T: ?Sized>(thin: u8, wide: u8) -> u8 {
    if size_of::<*const T>() == size_of::<usize>() { thin } else { wide }
}

impl<T: ?Sized> Probe<&T> {
    /// The kind.
    pub const KIND: u8 = if core::mem::needs_drop::<T>() { OWNER } else { of_pointer::<T>(REFERENCE, SLICE) };
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

/// The kind of a type that is known where the macro is called.
#[doc(hidden)]
#[macro_export]
macro_rules! __kind {
    ($($ty:tt)*) => {{
        #[allow(unused_imports, reason = "pointers have a constant of their own")]
        use $crate::param::ByValue as _;
        $crate::param::Probe::<$($ty)*>::KIND
    }};
}

/// The type of a kernel's parameter, and its flattened parts.
///
/// # Safety
/// `First` and `Second` are what the launch passes for a parameter of this kind.
#[diagnostic::on_unimplemented(
    message = "a kernel cannot take a parameter of type `{Self}`",
    label = "this does not cross a launch",
    note = "take numbers and plain `Copy` structs by value, arrays as `&[T]`, other memory as `*const T` or `*mut T`",
    note = "a `&mut` every thread would hold at once; a `&str`, a trait object, a `Box` or a `Vec` has no meaning on a \
            device, nor has a struct that holds one: for text take `&[u8]`"
)]
pub unsafe trait Param<const KIND: u8>: Sized {
    /// The parameter, or the pointer of a slice.
    type First;
    /// The length of a slice, in elements, or nothing. A type without size is not a parameter of an entry.
    type Second;

    /// Builds the parameter from the passed parts.
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

// SAFETY: the pointer leads to the bytes that the launch passes.
unsafe impl<T: Copy> Param<OVER_ALIGNED> for T {
    type First = *const T;
    type Second = ();

    #[inline(always)]
    unsafe fn join(first: *const T, _: ()) -> T {
        // SAFETY: the parameter itself, which is valid and aligned.
        unsafe { *first }
    }
}

#[cfg(all(test, not(target_arch = "nvptx64")))]
mod tests {
    use super::*;

    #[test]
    fn the_host_passes_every_value_as_it_is() {
        #[repr(align(64))]
        struct Wide([u8; 128]);
        let _ = Wide([0; 128]).0;
        assert_eq!(__kind!(Wide), VALUE);
        assert_eq!(layout_of::<Wide, 21>("name1"), *b"0000000000000000name1");
    }
}
