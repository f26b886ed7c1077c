//! Elements of a row as numbers of 64 bits that are ordered as they are, all of them different.

/// The key of `x` in column `col`: larger for a larger `x`, and of equal ones for the smaller column. It is never 0, which stands
/// for no element.
///
/// The zeros are equal. NaN is above all others; a row with one has no order.
#[inline(always)]
pub fn key(x: f32, col: u32) -> u64 {
    // -0 becomes 0.
    let bits = (x + 0.0).to_bits();
    let flipped = if x.is_nan() { u32::MAX } else { bits ^ ((bits.cast_signed() >> 31) as u32 | 1 << 31) };
    u64::from(flipped) << 32 | u64::from(!col)
}

/// The element of a key.
#[inline(always)]
pub fn value(key: u64) -> f32 {
    let flipped = (key >> 32) as u32;
    f32::from_bits(if flipped >> 31 == 1 { flipped ^ 1 << 31 } else { !flipped })
}

/// The column of a key.
#[inline(always)]
pub fn column(key: u64) -> u32 {
    !(key as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_ordered_as_elements_and_then_columns() {
        let inf = f32::INFINITY;
        let ascending = [-inf, f32::MIN, -1.0, -f32::MIN_POSITIVE, 0.0, 1e-45, 1.0, f32::MAX, inf, f32::NAN];
        for pair in ascending.windows(2) {
            assert!(key(pair[0], 0) < key(pair[1], u32::MAX - 1), "{pair:?}");
        }
        for x in ascending {
            assert!(key(x, 7) > key(x, 8) && key(x, u32::MAX - 1) > 0, "{x}");
            assert_eq!(
                (value(key(x, 7)).to_bits() == x.to_bits() || x.is_nan(), column(key(x, 7))),
                (true, 7)
            );
        }
        assert_eq!(key(-0.0, 3), key(0.0, 3));
        assert!(value(key(-f32::NAN, 3)).is_nan());
    }
}
