//! Moving particles, as an array of structures and as a structure of arrays.
//!
//! A particle is eight floats: its position, its mass, its velocity and its charge. A step changes three of them and reads
//! six. Structures lie 32 bytes apart, one sector each: a warp that loads one float of each particle touches 32 sectors for
//! 128 bytes.
//@ ptx(layout_aos): ld.global.b32 == 6, st.global.b32 == 3, .local == 0
//@ ptx(layout_aos_vec4): ld.global.v4 == 2, st.global.v4 == 1, .local == 0
//@ ptx(layout_soa): ld.global.b32 == 6, st.global.b32 == 3, .local == 0

use cuda_std::mem::{f32x4, load_global, store_global};
use cuda_std::{kernel, thread};

/// Floats of a particle.
pub const FLOATS: usize = 8;

/// The offset of a particle's position: x, y and z, then its mass.
pub const PLACE: usize = 0;

/// The offset of a particle's velocity: x, y and z, then its charge.
pub const VELOCITY: usize = 4;

lesson! {
    buffers(particles: f32)
    values(dt: f32, len: u32)
    facts(Grid)
    "aos" = layout_aos[0]: "structures, a float an access";
    "aos_vec4" = layout_aos_vec4[0]: "structures, 16 bytes an access";
    "soa" = layout_soa[0]: "an array for each of the eight";
}

/// Moves each particle by `dt` times its velocity; `particles` is `[len, FLOATS]`.
///
/// Launched with at least `len` threads along x, in blocks of 256.
///
/// # Safety
/// The launch is as described; `particles` holds `FLOATS * len` floats that no other code uses.
#[kernel(max_threads = 256, args = Arguments, facts: Grid = Grid::threads::<256, 1>())]
pub unsafe fn layout_aos(particles: *mut f32, dt: f32, len: u32) {
    let i = thread::index_1d() as usize;
    if i < len as usize {
        for axis in 0..3 {
            // SAFETY: floats of particle `i`, which belongs to this thread.
            unsafe {
                let velocity = *particles.add(FLOATS * i + VELOCITY + axis);
                *particles.add(FLOATS * i + PLACE + axis) += dt * velocity;
            }
        }
    }
}

/// Like [`layout_aos`](fn@layout_aos), with accesses of 16 bytes.
///
/// # Safety
/// Same as for [`layout_aos`](fn@layout_aos); `particles` begins at a multiple of 16 bytes.
#[kernel(max_threads = 256, args = Arguments, facts: Grid = Grid::threads::<256, 1>())]
pub unsafe fn layout_aos_vec4(particles: *mut f32, dt: f32, len: u32) {
    let i = thread::index_1d() as usize;
    if i < len as usize {
        // SAFETY: the two halves of particle `i`, which belongs to this thread; each is 16 bytes at a multiple of 16.
        unsafe {
            let particle = particles.add(FLOATS * i).cast::<f32x4>();
            let (place, velocity) = (load_global(particle), load_global(particle.add(1)));
            let [x, y, z] = [0, 1, 2].map(|axis| place.to_array()[axis] + dt * velocity.to_array()[axis]);
            store_global(particle, f32x4::new(x, y, z, place.w));
        }
    }
}

/// Moves each particle by `dt` times its velocity; `particles` is `[FLOATS, len]`.
///
/// # Safety
/// Same as for [`layout_aos`](fn@layout_aos).
#[kernel(max_threads = 256, args = Arguments, facts: Grid = Grid::threads::<256, 1>())]
pub unsafe fn layout_soa(particles: *mut f32, dt: f32, len: u32) {
    let (i, len) = (thread::index_1d() as usize, len as usize);
    if i < len {
        for axis in 0..3 {
            // SAFETY: floats of particle `i`, which belongs to this thread.
            unsafe {
                let velocity = *particles.add((VELOCITY + axis) * len + i);
                *particles.add((PLACE + axis) * len + i) += dt * velocity;
            }
        }
    }
}
