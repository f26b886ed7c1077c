//! rand_xoshiro: shifts and rotations, with jumps ahead.

use ::rand_xoshiro::rand_core::{RngCore, SeedableRng};
use ::rand_xoshiro::{SplitMix64, Xoroshiro128PlusPlus, Xoshiro256StarStar, Xoshiro512Plus};

use super::out::{Out, array};

pub fn numbers(input: &[u8], number: u32, output: &mut [u8]) {
    let mut out = Out::new(output);
    let mut a = Xoroshiro128PlusPlus::from_seed(array(input, 0));
    let mut b = Xoshiro256StarStar::from_seed(array(input, 0));
    let mut c = Xoshiro512Plus::from_seed(::rand_xoshiro::Seed512(array(input, 0)));
    let mut d = SplitMix64::seed_from_u64(number.into());
    a.jump();
    b.long_jump();
    for _ in 0..3 {
        [a.next_u64(), b.next_u64(), c.next_u64(), d.next_u64()].iter().for_each(|&value| out.number(value));
    }
    let mut rest = [0; 29];
    c.fill_bytes(&mut rest);
    out.bytes(&rest);
}
