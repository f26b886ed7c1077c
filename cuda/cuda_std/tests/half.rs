//! Compares 16-bit numbers on the host with their definition in f64.

use cuda_std::half::{self, bf16, f16};

/// Bits of the fraction and the exponent of the smallest normal number, of `f16` and of `bf16`.
const FORMATS: [(u32, i32); 2] = [(10, -14), (7, -126)];

/// The value of the bits of a number that is finite.
fn value((fraction_bits, lowest): (u32, i32), bits: u16) -> f64 {
    let (field, fraction) = (i32::from((bits & 0x7fff) >> fraction_bits), bits & ((1 << fraction_bits) - 1));
    let whole = f64::from(fraction) + if field == 0 { 0.0 } else { 2f64.powi(fraction_bits as i32) };
    let magnitude = whole * 2f64.powi(lowest + field.max(1) - 1 - fraction_bits as i32);
    if bits >> 15 == 0 { magnitude } else { -magnitude }
}

/// All conversions of one number to 32 bits, as type `format`.
fn widened(format: usize, bits: u16) -> [f32; 3] {
    let (low, high) = (u32::from(bits), u32::from(bits) << 16);
    if format == 0 {
        [half::f16_to_f32(f16::from_bits(bits)), half::f16x2_to_f32(low)[0], half::f16x2_to_f32(high)[1]]
    } else {
        [half::bf16_to_f32(bf16::from_bits(bits)), half::bf16x2_to_f32(low)[0], half::bf16x2_to_f32(high)[1]]
    }
}

/// All conversions of one number to 16 bits, as type `format`.
fn narrowed(format: usize, x: f32) -> [u16; 3] {
    if format == 0 {
        let (low, high) = (half::f32_to_f16x2([x, 0.0]), half::f32_to_f16x2([0.0, x]));
        [half::f32_to_f16(x).to_bits(), low as u16, (high >> 16) as u16]
    } else {
        let (low, high) = (half::f32_to_bf16x2([x, 0.0]), half::f32_to_bf16x2([0.0, x]));
        [half::f32_to_bf16(x).to_bits(), low as u16, (high >> 16) as u16]
    }
}

#[test]
fn every_number_widens_to_its_value() {
    for (format, definition) in FORMATS.into_iter().enumerate() {
        let infinity = 0x8000 - (1 << definition.0);
        for bits in 0..=u16::MAX {
            for wide in widened(format, bits) {
                match bits & 0x7fff {
                    finite if finite < infinity => {
                        let expected = value(definition, bits);
                        assert_eq!((f64::from(wide), wide.is_sign_negative()), (expected, bits >> 15 == 1));
                    }
                    top if top == infinity => {
                        assert_eq!((wide.is_infinite(), wide.is_sign_negative()), (true, bits >> 15 == 1));
                    }
                    _ => assert!(wide.is_nan(), "{bits:#x}: {wide}"),
                }
            }
        }
    }
}

#[test]
fn the_nearest_number_and_of_two_the_even_one() {
    for (format, definition) in FORMATS.into_iter().enumerate() {
        let infinity = 0x8000 - (1 << definition.0);
        for bits in 0..infinity {
            // After the largest number would come the next power of two.
            let (x, next) = (value(definition, bits), value(definition, bits + 1));
            let middle = ((x + next) / 2.0) as f32;
            assert_eq!(f64::from(middle), (x + next) / 2.0, "a tie is a number of 32 bits");
            let even = bits + (bits & 1);
            for (x, expected) in
                [(middle, even), (middle.next_down(), bits), (middle.next_up(), bits + 1), (x as f32, bits)]
            {
                assert_eq!(narrowed(format, x), [expected; 3], "{x:e}");
                assert_eq!(narrowed(format, -x), [expected | 0x8000; 3], "-{x:e}");
            }
        }
        for (x, expected) in [(f32::MAX, infinity), (f32::INFINITY, infinity), (1e-45, 0), (0.0, 0)] {
            assert_eq!(narrowed(format, x), [expected; 3], "{x:e}");
            assert_eq!(narrowed(format, -x), [expected | 0x8000; 3], "-{x:e}");
        }
        for nan in [0x7f80_0001, 0x7fc0_0000, 0x7fff_ffff, 0xff80_0001, 0xffff_ffff] {
            let bits = narrowed(format, f32::from_bits(nan));
            assert!(bits.iter().all(|bits| bits & 0x7fff > infinity), "{nan:#x}: {bits:x?}");
        }
    }
}

#[test]
fn the_larger_of_each_pair() {
    let numbers = [f32::NEG_INFINITY, -3.5, -0.25, 0.5, 1.0, 96.0, f32::INFINITY];
    for (i, &a) in numbers.iter().enumerate() {
        for &b in &numbers[i..] {
            // The larger number is in either half; a number wins against a NaN.
            let pair = |a, b| half::f32_to_f16x2([a, b]);
            assert_eq!(half::f16x2_max(pair(a, b), pair(b, f32::NAN)), pair(b, b), "{a} and {b}");
            let pair = |a, b| half::f32_to_bf16x2([a, b]);
            assert_eq!(half::bf16x2_max(pair(b, f32::NAN), pair(a, b)), pair(b, b), "{a} and {b}");
        }
    }
    let [x, y] = half::f16x2_to_f32(half::f16x2_max(0x7e00_3c00, 0x7e00_7e00));
    assert!(x == 1.0 && y.is_nan());
}
