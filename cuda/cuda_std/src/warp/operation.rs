//! How reductions combine numbers.

/// How [`warp_reduce`](super::warp_reduce) combines two values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum WarpReductionOp {
    /// The sum, modulo 2^32.
    Add,
    /// The smaller.
    Min,
    /// The larger.
    Max,
    /// Bitwise and.
    And,
    /// Bitwise or.
    Or,
    /// Bitwise exclusive or.
    Xor,
}

/// How a reduction combines two numbers, for the executor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fold {
    /// The sum; integers wrap.
    Sum,
    /// The smaller; of a float and a NaN, the float.
    Smaller,
    /// The larger; of a float and a NaN, the float.
    Larger,
}

/// The types of the crate that implement [`WarpNumber`](super::WarpNumber).
#[cfg(not(target_arch = "nvptx64"))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NumberType {
    F32,
    F64,
    U32,
    I32,
    U64,
    I64,
}

#[cfg(not(target_arch = "nvptx64"))]
impl Fold {
    /// Combines two numbers, as bits of the type.
    pub(crate) fn of(self, of: NumberType, a: u64, b: u64) -> u64 {
        macro_rules! fold {
            ($from:expr, $add:expr, $to:expr) => {{
                let (a, b) = ($from(a), $from(b));
                $to(match self {
                    Fold::Sum => $add(a, b),
                    Fold::Smaller => a.min(b),
                    Fold::Larger => a.max(b),
                })
            }};
        }
        match of {
            NumberType::F32 => fold!(|x| f32::from_bits(x as u32), |a, b| a + b, |x: f32| x.to_bits().into()),
            NumberType::F64 => fold!(f64::from_bits, |a, b| a + b, f64::to_bits),
            NumberType::U32 => fold!(|x| x as u32, u32::wrapping_add, u64::from),
            NumberType::I32 => fold!(|x| x as i32, i32::wrapping_add, |x: i32| x.cast_unsigned().into()),
            NumberType::U64 => fold!(|x| x, u64::wrapping_add, |x| x),
            NumberType::I64 => fold!(|x: u64| x.cast_signed(), i64::wrapping_add, i64::cast_unsigned),
        }
    }
}
