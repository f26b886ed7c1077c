//! glam's and half's types: the same layout on device and host, CUDA's alignment, and the same arithmetic.

use crate::common::{self, numbers, on_all};
use compat_kernels::*;
use cuda_std::glam::*;
use cuda_std::half::{bf16, f16};
use cuda_std::launch::{LaunchConfig, Launcher};

on_all! {
    layouts_are_the_hosts
    bodies_are_moved
    halves_are_rounded
}

fn layouts_are_the_hosts(on: &dyn Launcher) {
    let mut out = vec![[0, 0]; TYPES.len()];
    // SAFETY: a pair for each type.
    unsafe { layouts::launch(on, LaunchConfig::new(1, 1), &mut out) }.unwrap();
    for ((name, seen), here) in TYPES.iter().zip(&out).zip(layouts_here()) {
        assert_eq!(*seen, here, "size and alignment of {name}");
    }
    // CUDA's float2, float4, double2 and short4 (CUDA C++ Programming Guide, "Built-in Vector Types").
    for (name, layout) in [
        ("Vec2", [8, 8]),
        ("Vec3", [12, 4]),
        ("Vec4", [16, 16]),
        ("DVec2", [16, 16]),
        ("UVec2", [8, 8]),
        ("UVec3", [12, 4]),
        ("IVec4", [16, 16]),
        ("I16Vec4", [8, 8]),
        ("U64Vec2", [16, 16]),
    ] {
        let at = TYPES.iter().position(|ty| *ty == name).unwrap();
        assert_eq!(out[at], layout, "CUDA's size and alignment of {name}");
    }
}

fn bodies_are_moved(on: &dyn Launcher) {
    let random = numbers(40 * 8, 20);
    let bodies: Vec<Body> = random
        .chunks(8)
        .zip(0u8..)
        .map(|(x, i)| Body {
            id: U8Vec3::new(i, 100 + i, 200),
            cell: I64Vec2::new(i64::from(i) << 40, -5),
            position: Vec3::new(x[0], x[1], x[2]),
            turn: Quat::from_xyzw(x[3], x[4], x[5], 1.0).normalize(),
            scale: DVec2::new(f64::from(x[6]), f64::from(x[7]).abs()),
            grid: UVec2::new(u32::from(i), u32::MAX),
            mass: f16::from_f32(x[0]),
        })
        .collect();
    let (step, by) = (Vec3A::new(1.0, -2.0, 0.5), Mat4::from_rotation_x(0.3));
    let mut seen = bodies.clone();
    // SAFETY: the slice is valid for all its elements.
    unsafe { move_bodies::launch(on, LaunchConfig::new(2, 32), &mut seen, step, by) }.unwrap();
    for (i, (seen, from)) in seen.iter().zip(&bodies).enumerate() {
        let position = by.transform_point3(from.turn * from.position) + Vec3::from(step);
        assert!(seen.position.distance(position) < 1e-6, "{i}: {seen:?}, not at {position}");
        assert_eq!(seen.cell, from.cell + from.grid.as_i64vec2() - I64Vec2::ONE, "{i}");
        assert_eq!(seen.scale.x, from.scale.y.sqrt(), "{i}");
        assert!((seen.scale.y - from.scale.length()).abs() < 1e-15, "{i}");
        assert_eq!(seen.id, from.id.wrapping_add(U8Vec3::splat(200)), "{i}");
        assert_eq!(seen.mass, f16::from_f32(from.mass.to_f32() * 2.0), "{i}");
        assert_eq!((seen.turn, seen.grid), (from.turn, from.grid), "{i}");
    }
}

fn halves_are_rounded(on: &dyn Launcher) {
    let inp = numbers(64, 21);
    let mut out = vec![0.0; 64];
    // SAFETY: `out` is as long as `inp`.
    unsafe { through_halves::launch(on, LaunchConfig::new(1, 16), &inp, &mut out) }.unwrap();
    for (i, (seen, x)) in out.iter().zip(&inp).enumerate() {
        let first = bf16::from_f32(inp[i / 4 * 4]).to_f32();
        assert_eq!(*seen, f16::from_f32(*x).to_f32() + first, "element {i}");
    }
}
