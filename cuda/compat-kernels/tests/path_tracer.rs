//! The path tracer, pixel by pixel against the same source as a plain function, and in a room whose light is known.

use crate::common::{self, on_all};
use compat_kernels::*;
use cuda_std::glam::{UVec2, Vec3};
use cuda_std::launch::{LaunchConfig, Launcher};

on_all! {
    pictures_are_the_hosts
    white_under_a_white_sky_is_white
    a_gray_ball_gives_back_what_it_reflects
}

const WHITE: [Vec3; 2] = [Vec3::ONE; 2];

fn view(samples: u32, sky: [Vec3; 2]) -> Scene {
    Scene { size: UVec2::new(37, 23), origin: Vec3::ZERO, height: 1.2, sky, samples, seed: 7 }
}

fn picture(on: &dyn Launcher, view: &Scene, balls: &[Ball]) -> Vec<Vec3> {
    let mut out = vec![Vec3::NAN; (view.size.x * view.size.y) as usize];
    let grid = (view.size.x.div_ceil(8), view.size.y.div_ceil(8));
    // SAFETY: the picture has as many pixels, and the grid covers them.
    unsafe { render::launch(on, LaunchConfig::new(grid, (8, 8)), &[*view], balls, &mut out) }.unwrap();
    out
}

fn balls() -> [Ball; 5] {
    let ball = |x, y, z, radius, material| Ball { center: Vec3::new(x, y, z), radius, material };
    [
        ball(0.0, -100.5, -1.5, 100.0, Material::Diffuse { albedo: Vec3::new(0.8, 0.8, 0.1) }),
        ball(0.0, 0.0, -1.5, 0.5, Material::Diffuse { albedo: Vec3::new(0.1, 0.2, 0.5) }),
        ball(-1.0, 0.0, -1.5, 0.5, Material::Glass { index: 1.5 }),
        ball(-1.0, 0.0, -1.5, -0.45, Material::Glass { index: 1.5 }),
        ball(1.0, 0.0, -1.5, 0.5, Material::Metal { albedo: Vec3::new(0.8, 0.6, 0.2), roughness: 0.3 }),
    ]
}

fn pictures_are_the_hosts(on: &dyn Launcher) {
    let view = view(4, [Vec3::new(0.5, 0.7, 1.0), Vec3::ONE]);
    let seen = picture(on, &view, &balls());
    let mut strays = 0;
    for (i, seen) in seen.iter().enumerate() {
        let at = UVec2::new(i as u32 % view.size.x, i as u32 / view.size.x);
        let expected = pixel(&view, &balls(), at);
        assert!(seen.is_finite() && seen.min_element() >= 0.0, "{at}: {seen}");
        // A last bit that differs can let a path miss an edge, and with it a pixel differ.
        strays += usize::from((*seen - expected).abs().max_element() > 1e-3);
    }
    assert!(strays <= seen.len() / 50, "{strays} of {} pixels differ", seen.len());
}

fn white_under_a_white_sky_is_white(on: &dyn Launcher) {
    let white = balls().map(|ball| match ball.material {
        Material::Diffuse { .. } => Ball { material: Material::Diffuse { albedo: Vec3::ONE }, ..ball },
        _ => Ball { material: Material::Glass { index: 1.5 }, ..ball },
    });
    let view = view(8, WHITE);
    // Nothing is absorbed, so only paths that are given up lose light.
    let seen = picture(on, &view, &white);
    let mean = seen.iter().sum::<Vec3>() / seen.len() as f32;
    assert!(seen.iter().all(|pixel| pixel.max_element() <= 1.001), "light from nowhere");
    assert!(mean.min_element() > 0.97, "{mean}");
}

fn a_gray_ball_gives_back_what_it_reflects(on: &dyn Launcher) {
    let albedo = Vec3::new(0.25, 0.5, 0.75);
    let ball =
        Ball { center: Vec3::new(0.0, 0.0, -3.0), radius: 1.0, material: Material::Diffuse { albedo } };
    let view = view(4, WHITE);
    let seen = picture(on, &view, &[ball]);
    // A path leaves a lone ball after one reflection.
    let middle = seen[(view.size.y / 2 * view.size.x + view.size.x / 2) as usize];
    assert!((middle - albedo).abs().max_element() < 1e-5, "{middle}");
    assert!((seen[0] - Vec3::ONE).abs().max_element() < 1e-6, "{}", seen[0]);
}
