pub fn one(x: &mut f32, factor: f32) {
    *x *= factor;
}
