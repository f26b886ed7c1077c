//! num-integer: greatest divisors, roots and binomials.

use ::num_integer::{Integer, Roots, binomial, div_ceil, gcd, gcd_lcm};

use super::out::{Out, array};

pub fn all(input: &[u8], number: u32, output: &mut [u8]) {
    let [a, b] = [0, 8].map(|at| i64::from_le_bytes(array(input, at)));
    let wide = [0, 16].map(|at| u128::from_le_bytes(array(input, at)) >> (number % 128));
    let mut out = Out::new(output);
    out.number(gcd(a | 1, b | 2) as u64);
    out.number(gcd_lcm((a as u32) >> 16, (b as u32) >> 16).1.into());
    out.bytes(&gcd(wide[0], wide[1]).to_le_bytes());
    let divisor = if b == 0 || b == -1 { 3 } else { b };
    let (quotient, remainder) = a.div_mod_floor(&divisor);
    out.number(quotient as u64);
    out.number(remainder as u64);
    out.number(div_ceil(a / 2, divisor) as u64);
    out.number((a as u64).sqrt());
    out.number((a as u64).cbrt());
    out.number(wide[1].nth_root(number % 20 + 2) as u64);
    out.number(binomial(u64::from(number) % 60, u64::from(input[0]) % 30));
    let extended = (a >> 2).extended_gcd(&(b >> 2));
    out.number(extended.x as u64);
    out.number(extended.y as u64);
}
