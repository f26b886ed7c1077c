//! A small path tracer on glam: spheres of three materials under a sky.

use cuda_std::glam::{UVec2, Vec2, Vec3};
use cuda_std::prelude::*;
use cuda_std::GpuFloat;

/// Maximum bounces of a path.
const MOST_BOUNCES: u32 = 16;
/// Distance from a surface to the next ray's start, so that the ray does not hit the same point.
const NEAREST: f32 = 1e-3;

#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(C)]
pub enum Material {
    /// Scatters in all directions, brighter ones more often.
    Diffuse { albedo: Vec3 },
    /// Reflects into a cone; the roughness is its width.
    Metal { albedo: Vec3, roughness: f32 },
    /// Refracts or reflects.
    Glass { index: f32 },
}

#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(C)]
pub struct Ball {
    pub center: Vec3,
    pub radius: f32,
    pub material: Material,
}

#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(C)]
pub struct Scene {
    pub size: UVec2,
    pub origin: Vec3,
    /// Height of the picture at distance 1.
    pub height: f32,
    /// Radiance of the sky straight up, and at the horizon and below.
    pub sky: [Vec3; 2],
    pub samples: u32,
    pub seed: u32,
}

#[derive(Clone, Copy)]
struct Ray {
    origin: Vec3,
    direction: Vec3,
}

impl Ray {
    fn at(&self, t: f32) -> Vec3 {
        self.origin + t * self.direction
    }
}

/// PCG, 32 bits of state.
struct Random(u32);

impl Random {
    /// A number from 0 to below 1.
    fn next(&mut self) -> f32 {
        self.0 = self.0.wrapping_mul(747_796_405).wrapping_add(2_891_336_453);
        let word = ((self.0 >> ((self.0 >> 28) + 4)) ^ self.0).wrapping_mul(277_803_737);
        (((word >> 22) ^ word) >> 8) as f32 / (1 << 24) as f32
    }

    /// A point on the unit sphere.
    fn direction(&mut self) -> Vec3 {
        loop {
            let point = Vec3::new(self.next(), self.next(), self.next()) * 2.0 - Vec3::ONE;
            let squared = point.length_squared();
            if squared > 1e-4 && squared <= 1.0 {
                return point / squared.sqrt();
            }
        }
    }
}

/// A point that a ray hits.
struct Hit {
    point: Vec3,
    /// Points against the ray.
    normal: Vec3,
    is_outside: bool,
    material: Material,
}

fn nearest_hit(balls: &[Ball], ray: &Ray) -> Option<Hit> {
    let (mut nearest, mut found) = (f32::INFINITY, None);
    for ball in balls {
        let to_ray = ray.origin - ball.center;
        let half_b = to_ray.dot(ray.direction);
        let discriminant = half_b * half_b - (to_ray.length_squared() - ball.radius * ball.radius);
        if discriminant <= 0.0 {
            continue;
        }
        let root = discriminant.sqrt();
        let t = [-half_b - root, -half_b + root].into_iter().find(|&t| t > NEAREST);
        if let Some(t) = t.filter(|&t| t < nearest) {
            nearest = t;
            found = Some(ball);
        }
    }
    let ball = found?;
    let point = ray.at(nearest);
    let outwards = (point - ball.center) / ball.radius;
    let is_outside = outwards.dot(ray.direction) < 0.0;
    let normal = if is_outside { outwards } else { -outwards };
    Some(Hit { point, normal, is_outside, material: ball.material })
}

/// The direction in which a path continues, and the share of light that it keeps; `None` if it is absorbed.
fn scatter(hit: &Hit, ray: &Ray, random: &mut Random) -> Option<(Vec3, Vec3)> {
    let mirrored = ray.direction - 2.0 * ray.direction.dot(hit.normal) * hit.normal;
    match hit.material {
        Material::Diffuse { albedo } => {
            let direction = hit.normal + random.direction();
            let direction = if direction.length_squared() < 1e-6 { hit.normal } else { direction };
            Some((direction.normalize(), albedo))
        }
        Material::Metal { albedo, roughness } => {
            let direction = (mirrored + roughness * random.direction()).normalize();
            (direction.dot(hit.normal) > 0.0).then_some((direction, albedo))
        }
        Material::Glass { index } => {
            let ratio = if hit.is_outside { 1.0 / index } else { index };
            let cos = (-ray.direction.dot(hit.normal)).min(1.0);
            let sin = (1.0 - cos * cos).sqrt();
            // Schlick's approximation of the reflected share.
            let straight = ((1.0 - ratio) / (1.0 + ratio)).powi(2);
            let reflected = straight + (1.0 - straight) * (1.0 - cos).powi(5);
            if ratio * sin > 1.0 || random.next() < reflected {
                return Some((mirrored, Vec3::ONE));
            }
            let across = ratio * (ray.direction + cos * hit.normal);
            let along = -(1.0 - across.length_squared()).abs().sqrt() * hit.normal;
            Some(((across + along).normalize(), Vec3::ONE))
        }
    }
}

/// The light along one path.
fn radiance(view: &Scene, balls: &[Ball], mut ray: Ray, random: &mut Random) -> Vec3 {
    let mut kept = Vec3::ONE;
    for _ in 0..MOST_BOUNCES {
        let Some(hit) = nearest_hit(balls, &ray) else {
            let [above, below] = view.sky;
            return kept * below.lerp(above, ray.direction.y.max(0.0));
        };
        let Some((direction, albedo)) = scatter(&hit, &ray, random) else { return Vec3::ZERO };
        kept *= albedo;
        ray = Ray { origin: hit.point, direction };
    }
    Vec3::ZERO
}

/// The mean light of a pixel's paths.
pub fn pixel(view: &Scene, balls: &[Ball], at: UVec2) -> Vec3 {
    let mut random = Random(view.seed ^ (at.y * view.size.x + at.x).wrapping_mul(0x9e37_79b9));
    let mut sum = Vec3::ZERO;
    for _ in 0..view.samples {
        let place = at.as_vec2() + Vec2::new(random.next(), random.next());
        let place = (place / view.size.as_vec2() - 0.5) * view.height;
        let aspect = view.size.x as f32 / view.size.y as f32;
        let direction = Vec3::new(place.x * aspect, -place.y, -1.0).normalize();
        sum += radiance(view, balls, Ray { origin: view.origin, direction }, &mut random);
    }
    sum / view.samples as f32
}

/// `out[y * width + x]` = the light of each pixel, one thread per pixel.
#[kernel]
#[allow(improper_ctypes_definitions, clippy::missing_safety_doc)]
pub unsafe fn render(view: &Scene, balls: &[Ball], out: *mut Vec3) {
    let at = thread::index_2d();
    if at.x < view.size.x && at.y < view.size.y {
        *out.add((at.y * view.size.x + at.x) as usize) = pixel(view, balls, at);
    }
}
