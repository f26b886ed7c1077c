pub fn one(x: &mut f32, factor: f32) {
    *x *= factor;
}

/// Called from other modules that a linker joins with this one.
#[cuda_std::externally_visible]
#[unsafe(no_mangle)]
pub extern "C" fn scaled_twice(x: f32, factor: f32) -> f32 {
    x * factor * factor
}
