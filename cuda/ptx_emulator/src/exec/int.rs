//! Integer arithmetic (PTX ISA, "Integer Arithmetic Instructions", "Logic and Shift Instructions").

use crate::instr::{BitOp, Cmp, Half, IntOp, IntTy, IntUnary};

/// An operation of two operands, in the low bits; `None` for a division by zero, which the ISA leaves unspecified.
#[inline]
pub(super) fn binary(op: IntOp, ty: IntTy, a: u64, b: u64) -> Option<u64> {
    let result = match op {
        IntOp::Add => a.wrapping_add(b),
        IntOp::Sub => a.wrapping_sub(b),
        IntOp::MulLo => a.wrapping_mul(b),
        IntOp::MulHi => (wide_product(ty, a, b) >> ty.bits) as u64,
        IntOp::And => a & b,
        IntOp::Or => a | b,
        IntOp::Xor => a ^ b,
        // Amounts above the width count as the width.
        IntOp::Shl if b >= u64::from(ty.bits) => 0,
        IntOp::Shl => a << b,
        IntOp::Shr if ty.signed => (ty.sign_extend(a) >> b.min(u64::from(ty.bits) - 1)) as u64,
        IntOp::Shr if b >= u64::from(ty.bits) => 0,
        IntOp::Shr => (a & ty.mask()) >> b,
        IntOp::Min => {
            if ty.value(a) <= ty.value(b) {
                a
            } else {
                b
            }
        }
        IntOp::Max => {
            if ty.value(a) >= ty.value(b) {
                a
            } else {
                b
            }
        }
        IntOp::MinRelu => ty.value(a).min(ty.value(b)).max(0) as u64,
        IntOp::MaxRelu => ty.value(a).max(ty.value(b)).max(0) as u64,
        IntOp::Div | IntOp::Rem => return divide(op, ty, a, b),
    };
    Some(result & ty.mask())
}

fn divide(op: IntOp, ty: IntTy, a: u64, b: u64) -> Option<u64> {
    let (a, b) = (ty.value(a), ty.value(b));
    if b == 0 {
        return None;
    }
    let result = if op == IntOp::Div { a / b } else { a % b };
    Some(result as u64 & ty.mask())
}

/// The product of two values in twice their width.
pub(super) fn wide_product(ty: IntTy, a: u64, b: u64) -> u128 {
    if ty.signed {
        (i128::from(ty.sign_extend(a)) * i128::from(ty.sign_extend(b))) as u128
    } else {
        u128::from(a & ty.mask()) * u128::from(b & ty.mask())
    }
}

/// `mad`, without a carry.
pub(super) fn mad(half: Half, ty: IntTy, a: u64, b: u64, c: u64) -> u64 {
    match half {
        Half::Lo => a.wrapping_mul(b).wrapping_add(c) & ty.mask(),
        Half::Hi => ((wide_product(ty, a, b) >> ty.bits) as u64).wrapping_add(c) & ty.mask(),
        Half::Wide => (wide_product(ty, a, b) as u64).wrapping_add(c) & (u64::MAX >> (64 - 2 * ty.bits)),
    }
}

pub(super) fn unary(op: IntUnary, ty: IntTy, a: u64) -> u64 {
    let a = a & ty.mask();
    let highest = |a: u64| 63 - u64::from(a.leading_zeros());
    match op {
        IntUnary::Not => !a & ty.mask(),
        IntUnary::Cnot => u64::from(a == 0),
        IntUnary::Neg => a.wrapping_neg() & ty.mask(),
        IntUnary::Abs if ty.sign_extend(a) < 0 => a.wrapping_neg() & ty.mask(),
        IntUnary::Abs => a,
        IntUnary::Popc => u64::from(a.count_ones()),
        IntUnary::Clz => u64::from(a.leading_zeros() - (64 - ty.bits)),
        IntUnary::Brev => a.reverse_bits() >> (64 - ty.bits),
        IntUnary::Bfind | IntUnary::BfindShift => {
            let a = if ty.signed && ty.sign_extend(a) < 0 { !a & ty.mask() } else { a };
            match (a, op) {
                (0, _) => u64::from(u32::MAX),
                (_, IntUnary::Bfind) => highest(a),
                _ => u64::from(ty.bits) - 1 - highest(a),
            }
        }
    }
}

pub(super) fn three(op: BitOp, ty: IntTy, a: u64, b: u64, c: u64) -> u64 {
    let both = (b << 32) | (a & 0xffff_ffff);
    let amount = |clamp: bool| if clamp { c.min(32) } else { c & 31 };
    match op {
        BitOp::ShfLeft { clamp } => ((u128::from(both) << amount(clamp)) >> 32) as u64 & 0xffff_ffff,
        BitOp::ShfRight { clamp } => (both >> amount(clamp)) & 0xffff_ffff,
        BitOp::Prmt => (0..4).fold(0, |d, i| {
            let control = (c >> (4 * i)) & 0xf;
            let byte = (both >> (8 * (control & 7))) & 0xff;
            // The highest bit of the control replicates the byte's sign into all bits.
            let byte = if control & 8 == 0 {
                byte
            } else if byte & 0x80 == 0 {
                0
            } else {
                0xff
            };
            d | byte << (8 * i)
        }),
        BitOp::Bfe => extract(ty, a, b & 0xff, c & 0xff),
        BitOp::Lop3(table) => {
            (0..8).filter(|i| table & (1 << i) != 0).fold(0, |d, i| {
                let pick = |value: u64, bit: u32| if i & bit == 0 { !value } else { value };
                d | (pick(a, 4) & pick(b, 2) & pick(c, 1))
            }) & ty.mask()
        }
    }
}

/// `bfe`: `len` bits of `a` from `pos`.
fn extract(ty: IntTy, a: u64, pos: u64, len: u64) -> u64 {
    let msb = u64::from(ty.bits) - 1;
    let bit = |at: u64| (a >> at) & 1;
    let sign = if ty.signed && len != 0 { bit((pos + len - 1).min(msb)) } else { 0 };
    (0..=msb).fold(0, |d, i| d | (if i < len && pos + i <= msb { bit(pos + i) } else { sign }) << i)
}

/// `bfi`: inserts the low `len` bits of `f` into `b` at `pos`.
pub(super) fn insert(ty: IntTy, f: u64, b: u64, pos: u64, len: u64) -> u64 {
    let (pos, len) = (pos & 0xff, len & 0xff);
    (0..len)
        .filter(|i| pos + i < u64::from(ty.bits))
        .fold(b, |d, i| (d & !(1 << (pos + i))) | (((f >> i) & 1) << (pos + i)))
}

#[inline]
pub(super) fn compare(cmp: Cmp, ty: IntTy, a: u64, b: u64) -> bool {
    if ty.signed {
        ordered(cmp, &ty.sign_extend(a), &ty.sign_extend(b))
    } else {
        ordered(cmp, &(a & ty.mask()), &(b & ty.mask()))
    }
}

#[inline]
pub(super) fn ordered<T: PartialOrd>(cmp: Cmp, a: &T, b: &T) -> bool {
    match cmp {
        Cmp::Eq => a == b,
        Cmp::Ne => a != b,
        Cmp::Lt => a < b,
        Cmp::Le => a <= b,
        Cmp::Gt => a > b,
        Cmp::Ge => a >= b,
    }
}
