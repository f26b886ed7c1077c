//! siphasher.

use core::hash::{Hash, Hasher};

use ::siphasher::sip::{SipHasher13, SipHasher24};
use ::siphasher::sip128::{Hasher128, SipHasher as SipHasher128};

use super::out::{Out, pieces};

pub fn hash(input: &[u8], number: u32, output: &mut [u8]) {
    let mut out = Out::new(output);
    out.number(SipHasher13::new_with_keys(1, u64::from(number)).hash(input));
    let mut hasher = SipHasher24::new_with_keys(u64::from(number), 2);
    pieces(input, number).for_each(|piece| hasher.write(piece));
    out.number(hasher.finish());
    (input, number, input.len() as u16, input.first().copied()).hash(&mut hasher);
    out.number(hasher.finish());
    let mut wide = SipHasher128::new_with_keys(3, 4);
    wide.write(input);
    out.bytes(&wide.finish128().as_bytes());
}
