//! libm: every function, of f32 and of f64, bit for bit.

#[cfg(not(target_arch = "nvptx64"))]
use crate::inputs::{Case, Random};

use super::out::{Out, array};

/// Bytes of an output: a number of eight bytes at most for each function.
pub const OUTPUT: usize = 8 * 72;

macro_rules! functions {
    ($name:ident, $float:ty, $bytes:literal, $put:ident, [$($one:ident)*], [$($two:ident)*], $others:ident) => {
        pub fn $name(input: &[u8], _: u32, output: &mut [u8]) {
            let [x, y, z] = [0, 1, 2].map(|at| <$float>::from_le_bytes(array(input, at * $bytes)));
            let mut out = Out::new(output);
            $(out.$put(libm::$one(x));)*
            $(out.$put(libm::$two(x, y));)*
            $others(&mut out, x, y, z);
        }
    };
}

functions!(
    single, f32, 4, single,
    [acosf acoshf asinf asinhf atanf atanhf cbrtf ceilf cosf coshf erff erfcf expf exp10f exp2f expm1f fabsf floorf j0f j1f lgammaf logf log10f log1pf log2f rintf roundf roundevenf sinf sinhf sqrtf tanf tanhf tgammaf truncf y0f y1f],
    [atan2f copysignf fdimf fmaxf fminf fmodf hypotf nextafterf powf remainderf],
    other_singles
);
functions!(
    double, f64, 8, float,
    [acos acosh asin asinh atan atanh cbrt ceil cos cosh erf erfc exp exp10 exp2 expm1 fabs floor j0 j1 lgamma log log10 log1p log2 rint round roundeven sin sinh sqrt tan tanh tgamma trunc y0 y1],
    [atan2 copysign fdim fmax fmin fmod hypot nextafter pow remainder],
    other_doubles
);

macro_rules! others {
    ($name:ident, $float:ty, $put:ident, $fma:ident $frexp:ident $ilogb:ident $jn:ident $yn:ident $ldexp:ident
     $lgamma:ident $modf:ident $remquo:ident $scalbn:ident $sincos:ident) => {
        fn $name(out: &mut Out<'_>, x: $float, y: $float, z: $float) {
            let n = (y as i32) % 40;
            out.$put(libm::$fma(x, y, z));
            let (fraction, exponent) = libm::$frexp(x);
            out.$put(fraction);
            // For a number that is not finite the exponent says nothing.
            out.number(if x.is_finite() { exponent as u64 } else { 0 });
            out.number(libm::$ilogb(x) as u64);
            out.$put(libm::$jn(n % 6, x));
            out.$put(libm::$yn(n % 6, x));
            out.$put(libm::$ldexp(x, n));
            let (value, sign) = libm::$lgamma(x);
            out.$put(value);
            out.number(if value.is_finite() { sign as u64 } else { 0 });
            let (fraction, whole) = libm::$modf(x);
            out.$put(fraction);
            out.$put(whole);
            let (rest, quotient) = libm::$remquo(x, y);
            out.$put(rest);
            out.number(if rest.is_nan() { 0 } else { quotient as u64 });
            out.$put(libm::$scalbn(x, n * 30));
            let (sine, cosine) = libm::$sincos(x);
            out.$put(sine);
            out.$put(cosine);
        }
    };
}
others!(other_singles, f32, single, fmaf frexpf ilogbf jnf ynf ldexpf lgammaf_r modff remquof scalbnf sincosf);
others!(other_doubles, f64, float, fma frexp ilogb jn yn ldexp lgamma_r modf remquo scalbn sincos);

/// Numbers where functions change their ways.
#[cfg(not(target_arch = "nvptx64"))]
const SPECIAL: [f64; 44] = [
    0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 2.0, -2.0, 3.0, 10.0, -10.0, 0.1, 1e-5, -1e-5, 1e-20, 1e-40, -1e-44, 1e-310, 5e-324,
    1e10, -1e10, 1e20, 3e38, 1e300, f64::MAX, f64::INFINITY, f64::NEG_INFINITY, f64::NAN, 0.7853981633974483,
    1.5707963267948966, 3.141592653589793, -6.283185307179586, 100.0, 1000.0, 88.7, -87.3, 709.78, -745.13, 22.5, 1.5, 2.5,
    -3.5, 8388608.5, 4503599627370497.5,
];

#[cfg(not(target_arch = "nvptx64"))]
fn cases(bytes: impl Fn(f64) -> Vec<u8>, of_bits: impl Fn(u64) -> Vec<u8>) -> Vec<Case> {
    let mut random = Random::new(77);
    let mut all = Vec::new();
    let pick = |random: &mut Random| SPECIAL[random.word() as usize % SPECIAL.len()];
    for number in 0..280u32 {
        let mut one = |at: usize| match number {
            0..88 if at == 0 => bytes(SPECIAL[number as usize % SPECIAL.len()]),
            0..88 => bytes(pick(&mut random)),
            88..184 => of_bits(random.word()),
            _ => bytes((random.word() % 2_000_001) as f64 / [1e6, 1e4, 1e3, 1e5][at] - [1.0, 100.0, 1000.0, 10.0][at]),
        };
        all.push((number, (0..3).flat_map(|at| one(at)).collect()));
    }
    all
}

/// Three f32 a case.
#[cfg(not(target_arch = "nvptx64"))]
pub fn singles() -> Vec<Case> {
    cases(|value| (value as f32).to_le_bytes().to_vec(), |bits| (bits as u32).to_le_bytes().to_vec())
}

/// Three f64 a case.
#[cfg(not(target_arch = "nvptx64"))]
pub fn doubles() -> Vec<Case> {
    cases(|value| value.to_le_bytes().to_vec(), |bits| bits.to_le_bytes().to_vec())
}
