// The second part of the runtime of all generated programs: orderings, moves, and operations on floats.

/// Advances a sequence of numbers.
pub fn next_word(state: &mut u64) -> u64 {
    *state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
    *state >> 31
}

#[inline(never)]
pub fn put_in_order<T: Ord>(all: &mut [T]) {
    all.sort_unstable();
}

#[inline(never)]
pub fn put_in_reverse<T: Ord>(all: &mut [T]) {
    all.sort_unstable_by(|a, b| b.cmp(a));
}

#[inline(never)]
pub fn order_by_mix<T: Emit>(all: &mut [T]) {
    all.sort_unstable_by_key(|x| x.mix(1));
}

#[inline(never)]
pub fn select<T: Ord>(all: &mut [T], n: usize) {
    all.select_nth_unstable(n);
}

/// Sorts floats in an order with a single NaN.
#[inline(never)]
pub fn order_floats<T: Ordered>(all: &mut [T]) {
    all.sort_unstable_by(|a, b| a.order(*b));
}

pub trait Ordered: Copy {
    fn order(self, other: Self) -> core::cmp::Ordering;
}

#[inline(never)]
pub fn smeared<T: Copy>(to: &[core::cell::Cell<T>], from: &[core::cell::Cell<T>]) {
    for (x, y) in to.iter().zip(from) {
        x.set(y.get());
    }
}

#[inline(never)]
pub fn swapped<T: Copy>(a: &[core::cell::Cell<T>], b: &[core::cell::Cell<T>]) {
    for (x, y) in a.iter().zip(b.iter().rev()) {
        let old = x.replace(y.get());
        y.set(old);
    }
}

/// Moves elements one by one.
///
/// # Safety
/// Both pointers are to the first of `n` elements.
#[inline(never)]
pub unsafe fn moved<T: Copy>(from: *const T, to: *mut T, n: usize) {
    for i in 0..n {
        unsafe { to.add(i).write(from.add(i).read()) }
    }
}

/// Hides the sign of a NaN.
pub trait Signed: Copy {
    fn with_sign_of(self, other: Self) -> Self;
}

/// Operations with different names on host and device.
pub trait Rounded: Copy {
    fn root(self) -> Self;
    fn fused(self, b: Self, c: Self) -> Self;
    fn down(self) -> Self;
    fn up(self) -> Self;
    fn to_zero(self) -> Self;
    fn away(self) -> Self;
    fn remainder(self, b: Self) -> Self;
    fn quotient(self, b: Self) -> Self;
}

pub fn euclid_rem<T: Rounded>(a: T, b: T) -> T {
    a.remainder(b)
}

pub fn euclid_div<T: Rounded>(a: T, b: T) -> T {
    a.quotient(b)
}

pub fn square_root<T: Rounded>(x: T) -> T {
    x.root()
}

pub fn fused<T: Rounded>(a: T, b: T, c: T) -> T {
    a.fused(b, c)
}

pub fn round_down<T: Rounded>(x: T) -> T {
    x.down()
}

pub fn round_up<T: Rounded>(x: T) -> T {
    x.up()
}

pub fn round_to_zero<T: Rounded>(x: T) -> T {
    x.to_zero()
}

pub fn round_away<T: Rounded>(x: T) -> T {
    x.away()
}

pub fn with_sign<T: Signed>(x: T, sign: T) -> T {
    x.with_sign_of(sign)
}

macro_rules! floats {
    ($($float:ty)*) => {$(
        impl Signed for $float {
            fn with_sign_of(self, other: Self) -> Self {
                if other.is_nan() { self } else { self.copysign(other) }
            }
        }

        impl Rounded for $float {
            fn root(self) -> Self {
                self.sqrt()
            }
            fn fused(self, b: Self, c: Self) -> Self {
                self.mul_add(b, c)
            }
            fn down(self) -> Self {
                self.floor()
            }
            fn up(self) -> Self {
                self.ceil()
            }
            fn to_zero(self) -> Self {
                self.trunc()
            }
            fn away(self) -> Self {
                self.round()
            }
            fn remainder(self, b: Self) -> Self {
                self.rem_euclid(b)
            }
            fn quotient(self, b: Self) -> Self {
                self.div_euclid(b)
            }
        }

        impl Ordered for $float {
            fn order(self, other: Self) -> core::cmp::Ordering {
                let one = |x: Self| if x.is_nan() { Self::NAN } else { x };
                one(self).total_cmp(&one(other))
            }
        }
    )*};
}
floats!(f32 f64);

#[cfg(target_arch = "nvptx64")]
use cuda_std::GpuFloat as _;

#[cfg(target_arch = "nvptx64")]
fn widen(bits: u16) -> f32 {
    cuda_std::half::f16_to_f32(cuda_std::half::f16::from_bits(bits))
}

#[cfg(target_arch = "nvptx64")]
fn narrow(wide: f32) -> u16 {
    cuda_std::half::f32_to_f16(wide).to_bits()
}

#[cfg(target_arch = "nvptx64")]
fn widen_bf16(bits: u16) -> f32 {
    cuda_std::half::bf16_to_f32(cuda_std::half::bf16::from_bits(bits))
}

#[cfg(target_arch = "nvptx64")]
fn narrow_bf16(wide: f32) -> u16 {
    cuda_std::half::f32_to_bf16(wide).to_bits()
}

#[cfg(not(target_arch = "nvptx64"))]
fn widen_bf16(bits: u16) -> f32 {
    f32::from_bits(u32::from(bits) << 16)
}

/// Rounds to nearest, ties to even: chooses the closer of the two neighbours, exactly, in `f64`.
#[cfg(not(target_arch = "nvptx64"))]
fn narrow_bf16(wide: f32) -> u16 {
    let below = (wide.to_bits() >> 16) as u16;
    if wide.is_infinite() {
        return below;
    }
    // As if the exponent were unlimited: the number after the largest is 2^128.
    let exact = |bits: u16| if bits & 0x7fff == 0x7f80 { 2f64.powi(128) } else { f64::from(widen_bf16(bits)).abs() };
    let value = f64::from(wide).abs();
    let (down, up) = (value - exact(below), exact(below + 1) - value);
    if down < up || (down == up && below % 2 == 0) { below } else { below + 1 }
}

#[cfg(not(target_arch = "nvptx64"))]
pub fn widen(bits: u16) -> f32 {
    let sign = u32::from(bits >> 15) << 31;
    let (exponent, fraction) = (u32::from(bits >> 10) & 31, u32::from(bits) & 0x3ff);
    match exponent {
        31 => f32::from_bits(sign | 0x7f80_0000 | fraction << 13),
        // A multiple of the smallest subnormal number, which f32 represents exactly.
        0 => f32::from_bits(sign | (fraction as f32 * f32::from_bits(0x3380_0000)).to_bits()),
        _ => f32::from_bits(sign | (exponent + 112) << 23 | fraction << 13),
    }
}

#[cfg(not(target_arch = "nvptx64"))]
pub fn narrow(wide: f32) -> u16 {
    let (sign, magnitude) = ((wide.to_bits() >> 16) as u16 & 0x8000, wide.to_bits() & 0x7fff_ffff);
    if magnitude >= 0x4780_0000 {
        return sign | 0x7c00;
    }
    if magnitude < 0x3880_0000 {
        // In units of the smallest subnormal number, to the nearest even: the sum's last place is one unit.
        let units = f32::from_bits(magnitude) + 0.5;
        return sign | (units.to_bits() - 0x3f00_0000) as u16;
    }
    let rounded = magnitude - (112 << 23) + 0xfff + ((magnitude >> 13) & 1);
    sign | (rounded >> 13) as u16
}
