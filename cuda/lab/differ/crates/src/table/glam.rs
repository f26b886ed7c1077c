//! glam: vectors, matrices and quaternions of f32 and f64, and of integers.

use ::glam::{DMat4, DQuat, DVec2, DVec3, I64Vec3, IVec3, Mat3, Mat4, Quat, U16Vec4, UVec2, Vec2, Vec3, Vec3A, Vec4};

use super::out::{Out, array};

fn eight(input: &[u8]) -> [f64; 8] {
    core::array::from_fn(|i| f64::from_le_bytes(array(input, 8 * i)))
}

/// Without sines, which are each side's own in other builds, though here both are of the crate libm.
pub fn single(input: &[u8], _: u32, output: &mut [u8]) {
    let [a, b, c, d, e, f, g, h] = eight(input).map(|value| value as f32);
    let mut out = Out::new(output);
    let mut put = |values: &[f32]| values.iter().for_each(|&value| out.single(value));
    let (v, w) = (Vec3::new(a, b, c), Vec3A::new(d, e, f));
    put(&[v.dot(w.into()), v.length(), w.length_squared(), v.distance(w.into())]);
    put(&(v.cross(w.into()).normalize_or_zero() * g).to_array());
    put(&v.lerp(w.into(), h).to_array());
    let m = Mat4::from_cols(Vec4::new(a, b, c, d), Vec4::new(e, f, g, h), Vec4::new(h, a, 1.0, c), Vec4::W);
    put(&[m.determinant()]);
    put(&m.inverse().to_cols_array()[..12]);
    put(&m.transform_point3(v).to_array());
    let q = Quat::from_xyzw(a, b, c, d).normalize() * Quat::from_xyzw(e, f, g, h);
    put(&(q * v).to_array());
    put(&Mat3::from_quat(q).row(1).to_array());
    put(&[Vec2::new(a, b).perp_dot(Vec2::new(c, d)), Vec4::new(a, b, c, d).max_element()]);
    put(&v.reject_from(w.into()).to_array());
}

pub fn double(input: &[u8], number: u32, output: &mut [u8]) {
    let [a, b, c, d, e, f, g, h] = eight(input);
    let mut out = Out::new(output);
    let mut put = |values: &[f64]| values.iter().for_each(|&value| out.float(value));
    let (v, w) = (DVec3::new(a, b, c), DVec3::new(d, e, f));
    put(&[v.dot(w), v.length(), v.angle_between(w), DVec2::new(g, h).to_angle()]);
    put(&v.cross(w).to_array());
    let rotation = DQuat::from_rotation_y(f64::from(number) * 0.01) * DQuat::from_axis_angle(DVec3::X, 0.5);
    let m = DMat4::from_scale_rotation_translation(DVec3::splat(2.0), rotation, w);
    put(&m.inverse().to_cols_array());
    put(&m.transform_vector3(v).to_array());
}

pub fn whole(input: &[u8], number: u32, output: &mut [u8]) {
    let words = core::array::from_fn::<i32, 16, _>(|i| i32::from_le_bytes(array(input, 4 * i)));
    let mut out = Out::new(output);
    let (a, b) = (IVec3::from_slice(&words), IVec3::from_slice(&words[3..]));
    let mixed = a.wrapping_mul(b).min(a.wrapping_sub(b)) ^ (b << (number % 32));
    mixed.to_array().iter().for_each(|value| out.bytes(&value.to_le_bytes()));
    out.bytes(&[a.cmplt(b).bitmask() as u8, a.cmpeq(IVec3::new(a.y, a.x, a.z)).bitmask() as u8]);
    let wide = I64Vec3::new(words[6].into(), words[7].into(), words[8].into()) * i64::from(number);
    out.number(wide.dot(I64Vec3::new(1, -1, 3)) as u64);
    let narrow = U16Vec4::new(words[9] as u16, words[10] as u16, words[11] as u16, words[12] as u16);
    narrow.saturating_add(U16Vec4::splat(60_000)).to_array().iter().for_each(|v| out.bytes(&v.to_le_bytes()));
    let pair = UVec2::new(words[13] as u32, words[14] as u32);
    out.bytes(&pair.wrapping_add(UVec2::splat(number)).max_element().to_le_bytes());
}
