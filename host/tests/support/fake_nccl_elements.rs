//! The elements of the operations.

use std::ffi::c_int;

pub fn element_bytes(data_type: c_int) -> usize {
    match data_type {
        1 => 1,
        6 | 9 => 2,
        3 | 7 => 4,
        5 => 8,
        other => panic!("no test uses the type {other}"),
    }
}

/// Combines the ranks' bytes element by element, in the order of ranks, floats in `f32`.
pub fn combine(ranks: &[Vec<u8>], data_type: c_int, reduction: c_int) -> Vec<u8> {
    let bytes = element_bytes(data_type);
    let elements = ranks[0].len() / bytes;
    let element = |rank: &Vec<u8>, i: usize| {
        let mut word = [0; 8];
        word[..bytes].copy_from_slice(&rank[i * bytes..][..bytes]);
        u64::from_le_bytes(word)
    };
    let mut out = Vec::with_capacity(ranks[0].len());
    for i in 0..elements {
        let words = ranks.iter().map(|rank| element(rank, i));
        let word = if matches!(data_type, 3 | 5) {
            let combined = words.reduce(|a, b| match reduction {
                2 => a.max(b),
                3 => a.min(b),
                _ => a.wrapping_add(b),
            });
            combined.unwrap() / if reduction == 4 { ranks.len() as u64 } else { 1 }
        } else {
            let combined = words.map(|word| widen(word, data_type)).reduce(|a, b| match reduction {
                2 => a.max(b),
                3 => a.min(b),
                _ => a + b,
            });
            narrow(combined.unwrap() / if reduction == 4 { ranks.len() as f32 } else { 1.0 }, data_type)
        };
        out.extend_from_slice(&word.to_le_bytes()[..bytes]);
    }
    out
}

fn widen(word: u64, data_type: c_int) -> f32 {
    let word = word as u32;
    match data_type {
        9 => f32::from_bits(word << 16),
        6 => {
            let (sign, exponent, fraction) = (word >> 15, word >> 10 & 31, word & 1023);
            let size = match exponent {
                0 => fraction as f32 * 2f32.powi(-24),
                31 if fraction == 0 => f32::INFINITY,
                31 => f32::NAN,
                _ => (1024 + fraction) as f32 * 2f32.powi(exponent as i32 - 25),
            };
            if sign == 1 { -size } else { size }
        }
        _ => f32::from_bits(word),
    }
}

/// The nearest value of the type, of two the even one. The tests' values are finite and in range.
fn narrow(value: f32, data_type: c_int) -> u64 {
    let bits = value.to_bits();
    match data_type {
        9 => u64::from((bits + 0x7fff + (bits >> 16 & 1)) >> 16),
        6 => {
            let sign = u64::from(bits >> 31) << 15;
            // The distance of neighbours near the value.
            let exponent = ((bits >> 23 & 255) as i32 - 127).max(-14);
            let fraction = (value.abs() * 2f32.powi(10 - exponent)).round_ties_even() as u64;
            // The hidden bit of a normal number raises the exponent by one.
            sign | (((exponent + 14) as u64) << 10) + fraction
        }
        _ => u64::from(bits),
    }
}
