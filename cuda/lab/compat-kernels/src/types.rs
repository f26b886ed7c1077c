//! All of glam's vectors and matrices, and the 16-bit floats, in memory and by value.

use cuda_std::glam::*;
use cuda_std::half::prelude::*;
use cuda_std::prelude::*;
use cuda_std::GpuFloat;

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

/// A struct of vectors, which the host creates.
#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(C)]
pub struct Body {
    pub id: U8Vec3,
    pub cell: I64Vec2,
    pub position: Vec3,
    pub turn: Quat,
    pub scale: DVec2,
    pub grid: UVec2,
    pub mass: f16,
}

/// Rotates and moves every body, and doubles its mass.
#[kernel]
#[allow(improper_ctypes_definitions, clippy::missing_safety_doc)]
pub unsafe fn move_bodies(bodies: *mut [Body], step: Vec3A, by: Mat4) {
    let i = thread::index_1d() as usize;
    if i >= bodies.len() {
        return;
    }
    let body = &mut (&mut *bodies)[i];
    body.position = by.transform_point3(body.turn * body.position) + Vec3::from(step);
    body.cell += body.grid.as_i64vec2() - I64Vec2::ONE;
    body.scale = DVec2::new(body.scale.y.sqrt(), body.scale.length());
    body.id = body.id.wrapping_add(U8Vec3::splat(200));
    body.mass = f16::from_f32(body.mass.to_f32() * 2.0);
}

/// out = the bits of inp converted to 16 bits and back, with half's slices.
#[kernel]
#[allow(improper_ctypes_definitions, clippy::missing_safety_doc)]
pub unsafe fn through_halves(inp: &[f32], out: *mut f32) {
    let i = 4 * thread::index_1d() as usize;
    if i + 4 <= inp.len() {
        let mut halves = [f16::ZERO; 4];
        halves.convert_from_f32_slice(&inp[i..i + 4]);
        let bits: &[u16] = halves.reinterpret_cast();
        let wide = bf16::from_f32(inp[i]).to_f32();
        for (k, &bits) in bits.iter().enumerate() {
            *out.add(i + k) = f16::from_bits(bits).to_f32() + wide;
        }
    }
}
