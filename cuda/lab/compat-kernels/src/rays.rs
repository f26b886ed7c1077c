//! Structs by value, `glam`'s vectors, helper types with methods.

use cuda_std::glam::{Vec3, Vec3A};
use cuda_std::prelude::*;
use cuda_std::GpuFloat;

#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(C)]
pub struct Camera {
    pub origin: [f32; 3],
    pub width: u32,
    pub height: u32,
}

#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(C)]
pub struct Sphere {
    pub center: [f32; 3],
    pub radius: f32,
}

struct Ray {
    origin: Vec3,
    direction: Vec3,
}

impl Sphere {
    /// Distance along the ray to the nearer intersection.
    fn hit(&self, ray: &Ray) -> Option<f32> {
        let to_ray = ray.origin - Vec3::from(self.center);
        let half_b = to_ray.dot(ray.direction);
        let c = to_ray.length_squared() - self.radius * self.radius;
        let discriminant = half_b * half_b - c;
        if discriminant < 0.0 {
            return None;
        }
        let distance = -half_b - discriminant.sqrt();
        (distance > 0.0).then_some(distance)
    }
}

/// `out[height, width]` = distance to the nearest sphere, or infinity; one thread per pixel.
#[kernel]
#[allow(improper_ctypes_definitions, clippy::missing_safety_doc)]
pub unsafe fn trace(camera: Camera, spheres: &[Sphere], out: *mut f32) {
    let pixel = thread::index_2d();
    if pixel.x >= camera.width || pixel.y >= camera.height {
        return;
    }
    let x = (pixel.x as f32 + 0.5) / camera.width as f32 - 0.5;
    let y = (pixel.y as f32 + 0.5) / camera.height as f32 - 0.5;
    let direction = Vec3A::new(x, y, -1.0).normalize();
    let ray = Ray { origin: Vec3::from(camera.origin), direction: Vec3::from(direction) };
    let nearest = spheres.iter().filter_map(|sphere| sphere.hit(&ray)).fold(f32::INFINITY, f32::min);
    *out.add((pixel.y * camera.width + pixel.x) as usize) = nearest;
}
