//! rand_pcg: multiplications of 128 bits.

use ::rand_pcg::rand_core::{RngCore, SeedableRng};
use ::rand_pcg::{Pcg32, Pcg64, Pcg64Mcg};

use super::out::{Out, array};

pub fn numbers(input: &[u8], number: u32, output: &mut [u8]) {
    let mut out = Out::new(output);
    let mut small = Pcg32::from_seed(array(input, 0));
    let mut large = Pcg64::from_seed(array(input, 0));
    let mut quick = Pcg64Mcg::seed_from_u64(number.into());
    large.advance(u128::from_le_bytes(array(input, 8)));
    for _ in 0..5 {
        out.number(large.next_u64());
        out.number(quick.next_u64());
        out.bytes(&small.next_u32().to_le_bytes());
    }
    let mut rest = [0; 37];
    quick.fill_bytes(&mut rest);
    out.bytes(&rest);
}
