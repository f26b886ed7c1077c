//! sha2: at once and in pieces, so that the function of a block has two places that call it.

use ::sha2::{Digest, Sha224, Sha256, Sha384, Sha512};

use super::out::pieces;

fn once<D: Digest>(input: &[u8], output: &mut [u8]) {
    output.copy_from_slice(&D::digest(input));
}

fn in_pieces<D: Digest>(input: &[u8], number: u32, output: &mut [u8]) {
    let mut hash = D::new();
    pieces(input, number).for_each(|piece| hash.update(piece));
    output.copy_from_slice(&hash.finalize());
}

macro_rules! functions {
    ($($once:ident $steps:ident $digest:ty;)*) => {$(
        pub fn $once(input: &[u8], _: u32, output: &mut [u8]) {
            once::<$digest>(input, output);
        }
        pub fn $steps(input: &[u8], number: u32, output: &mut [u8]) {
            in_pieces::<$digest>(input, number, output);
        }
    )*};
}
functions! {
    sha224 sha224_steps Sha224;
    sha256 sha256_steps Sha256;
    sha384 sha384_steps Sha384;
    sha512 sha512_steps Sha512;
}
