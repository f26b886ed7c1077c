//! curve25519-dalek: a field of 255 bits in limbs, and two curves over it.

use ::curve25519_dalek::{EdwardsPoint, MontgomeryPoint, Scalar};

use super::out::{Out, array};

pub fn exchange(input: &[u8], _: u32, output: &mut [u8]) {
    let point = MontgomeryPoint(array(input, 0)).mul_clamped(array(input, 32));
    output.copy_from_slice(point.as_bytes());
}

pub fn sum(input: &[u8], number: u32, output: &mut [u8]) {
    let [a, b] = [0, 32].map(|at| Scalar::from_bytes_mod_order(array(input, at)));
    let mut out = Out::new(output);
    out.bytes((a * b + Scalar::from(number) - a.invert()).as_bytes());
    let point = EdwardsPoint::mul_base(&a) + EdwardsPoint::mul_base(&b) * Scalar::from(3u8);
    out.bytes(point.compress().as_bytes());
}
