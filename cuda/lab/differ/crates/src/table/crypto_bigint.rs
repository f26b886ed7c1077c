//! crypto-bigint: numbers of several words, in constant time.

use ::crypto_bigint::modular::{MontyForm, MontyParams};
use ::crypto_bigint::{Encoding, Integer, NonZero, Odd, U256, U1024};

use super::out::{Out, array};

pub fn of_256(input: &[u8], number: u32, output: &mut [u8]) {
    let [a, b, c] = [0, 32, 64].map(|at| U256::from_be_bytes(array(input, at)));
    let mut out = Out::new(output);
    let mut put = |value: U256| out.bytes(&value.to_le_bytes());
    put(a.wrapping_add(&b).wrapping_mul(&c));
    let (low, high) = a.split_mul(&b);
    put(low);
    put(high);
    let divisor = NonZero::new(c).unwrap_or(NonZero::new(U256::from_u32(7)).unwrap_or(NonZero::ONE));
    let (quotient, remainder) = a.div_rem(&divisor);
    put(quotient);
    put(remainder);
    put(a.shl(number * 3 % 256).bitxor(&b.shr(number % 256)));
    let modulus = Odd::new(c.bitor(&U256::ONE)).unwrap_or(Odd::<U256>::from_be_hex(ONE));
    let params = MontyParams::new_vartime(modulus);
    let power = MontyForm::new(&a.rem(modulus.as_nz_ref()), params).pow(&b);
    put(power.retrieve());
    put(U256::from_u32(a.bits() + 1000 * a.trailing_zeros() + u32::from(bool::from(b.is_odd()))));
}

const ONE: &str = "0000000000000000000000000000000000000000000000000000000000000001";

pub fn of_1024(input: &[u8], number: u32, output: &mut [u8]) {
    let [a, b] = [0, 128].map(|at| U1024::from_le_bytes(array(input, at)));
    let mut out = Out::new(output);
    let mut put = |value: &U1024| out.bytes(&value.to_le_bytes());
    put(&a.wrapping_mul(&b));
    let divisor = NonZero::new(b.shr(number * 40)).unwrap_or(NonZero::ONE);
    let (quotient, remainder) = a.div_rem(&divisor);
    put(&quotient);
    put(&remainder);
    put(&a.sqrt());
}
