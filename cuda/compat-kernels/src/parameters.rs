//! Parameters with types that the source does not spell out, and the layout of vectors.

use cuda_std::glam::*;
use cuda_std::half::bf16;
use cuda_std::prelude::*;

/// An alias of a slice.
pub type Floats<'a> = &'a [f32];
/// A row of a matrix, behind a reference.
pub type Row = [f32];
/// One number, behind a reference.
pub type Scale = f32;
pub type Out = *mut f32;

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Affine {
    pub factor: f32,
    pub offset: f64,
    pub steps: [u16; 3],
}

/// A view by value that contains a slice.
#[derive(Clone, Copy)]
pub struct View<'a> {
    pub start: u32,
    pub values: &'a [f32],
}

/// out = factor * (a + b), with elided lifetimes in an alias.
#[kernel]
#[allow(improper_ctypes_definitions, clippy::missing_safety_doc, elided_lifetimes_in_paths)]
pub unsafe fn add_aliased(a: Floats, b: &Row, factor: &Scale, out: Out) {
    let i = thread::index_1d() as usize;
    if i < a.len().min(b.len()) {
        *out.add(i) = *factor * (a[i] + b[i]);
    }
}

macro_rules! axpy {
    ($($name:ident: $ty:ty, $xs:ty, $ys:ty;)*) => {$(
        /// y = a * x + y, with types from a macro.
        #[kernel]
        #[allow(improper_ctypes_definitions, clippy::missing_safety_doc)]
        pub unsafe fn $name(a: $ty, x: $xs, y: $ys) {
            let i = thread::index_1d() as usize;
            if i < x.len() {
                let y: *mut $ty = y;
                *y.add(i) = a * x[i] + *y.add(i);
            }
        }
    )*};
}

axpy! {
    axpy_f32: f32, &[f32], *mut f32;
    axpy_i64: i64, &[i64], *mut i64;
}

/// out = the affine map, from a struct, an array and a tuple by value, with a zero-sized type in between.
#[kernel]
#[allow(improper_ctypes_definitions, clippy::missing_safety_doc)]
pub unsafe fn by_value<'a>(
    map: Affine,
    inp: Floats<'a>,
    nothing: (),
    shift: [f32; 3],
    (low, high): (f32, u8),
    last: Option<&'a f32>,
    out: *mut f32,
) {
    let () = nothing;
    let i = thread::index_1d() as usize;
    if i < inp.len() {
        let steps: u16 = map.steps.iter().sum();
        let value =
            map.factor * inp[i] + map.offset as f32 + f32::from(steps) + shift[i % 3] + low + f32::from(high);
        *out.add(i) = if i + 1 == inp.len() { last.copied().unwrap_or(value) } else { value };
    }
}

/// out = `values[start..]`, from a struct that contains a slice.
#[kernel]
#[allow(improper_ctypes_definitions, clippy::missing_safety_doc)]
pub unsafe fn from_view(view: View<'_>, out: *mut f32) {
    let i = thread::index_1d() as usize + view.start as usize;
    if i < view.values.len() {
        *out.add(i - view.start as usize) = view.values[i];
    }
}

/// The argument of [`gather()`], with every kind of field.
#[derive(Clone, Copy, KernelArgs)]
#[repr(C)]
pub struct Gather<T: Copy, const N: usize> {
    pub first: u8,
    pub out: *mut [T],
    /// One index per element of the output.
    pub index: *const u32,
    pub inp: *const [T],
    pub shift: [T; N],
    pub seen: *mut u16,
    pub map: Affine,
}

/// `out[i]` = `inp[index[i]]` + the shifts, and `seen[i]` = the last step, from `first`; all arguments in one struct.
#[kernel(args, facts: usize = N, instances(gather_f32 = <f32, 2>; gather_i64 = <i64, 3>;))]
#[allow(improper_ctypes_definitions, clippy::missing_safety_doc)]
pub unsafe fn gather<T: Copy + core::ops::Add<Output = T>, const N: usize>(args: Gather<T, N>) {
    let i = thread::index_1d() as usize + usize::from(args.first);
    if i < args.out.len() {
        let value = (&*args.inp)[*args.index.add(i) as usize];
        *args.out.cast::<T>().add(i) = args.shift.iter().fold(value, |sum, &shift| sum + shift);
        *args.seen.add(i) = args.map.steps[2];
    }
}

macro_rules! layouts {
    ($($ty:ty),* $(,)?) => {
        /// Names of the types with a layout that `layouts` writes.
        pub const TYPES: &[&str] = &[$(stringify!($ty)),*];

        /// Size and alignment of each type.
        pub fn layouts_here() -> [[u32; 2]; TYPES.len()] {
            [$([core::mem::size_of::<$ty>() as u32, core::mem::align_of::<$ty>() as u32]),*]
        }
    };
}

layouts! {
    Vec2, Vec3, Vec3A, Vec4, Quat, Mat2, Mat3, Mat3A, Mat4, Affine2, Affine3A,
    DVec2, DVec3, DVec4, DQuat, DMat2, DMat3, DMat4, DAffine2, DAffine3,
    I8Vec2, I8Vec3, I8Vec4, U8Vec2, U8Vec3, U8Vec4,
    I16Vec2, I16Vec3, I16Vec4, U16Vec2, U16Vec3, U16Vec4,
    IVec2, IVec3, IVec4, UVec2, UVec3, UVec4,
    I64Vec2, I64Vec3, I64Vec4, U64Vec2, U64Vec3, U64Vec4,
    USizeVec2, USizeVec3, USizeVec4,
    BVec2, BVec3, BVec4, bf16, f16,
}

/// out = size and alignment of each type on the device.
#[kernel]
#[allow(improper_ctypes_definitions, clippy::missing_safety_doc)]
pub unsafe fn layouts(out: *mut [u32; 2]) {
    for (i, layout) in layouts_here().into_iter().enumerate() {
        *out.add(i) = layout;
    }
}
