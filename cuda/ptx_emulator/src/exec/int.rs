//! Integer arithmetic (PTX ISA, "Integer Arithmetic Instructions", "Logic and Shift Instructions").

use super::bits::Bits;
use super::grid::Exec;
use super::thread::{Carry, Cx};
use crate::error::Cause;
use crate::instr::{Form, Instr, Kind, SINK, Ty, flag};

/// The product of two values in twice their width.
pub(crate) fn wide_product(ty: Ty, a: u64, b: u64) -> u128 {
    if ty.is_signed() {
        (i128::from(ty.sign_extend(a)) * i128::from(ty.sign_extend(b))) as u128
    } else {
        u128::from(a & ty.mask()) * u128::from(b & ty.mask())
    }
}

/// The product of the low 24 bits of two values.
pub(crate) fn product_of_24(ty: Ty, a: u64, b: u64) -> i128 {
    let low = Ty { bits: 24, ..ty };
    low.value(a) * low.value(b)
}

/// The nearest number of type `s32`.
pub(crate) fn saturate(value: i128) -> u64 {
    value.clamp(i32::MIN.into(), i32::MAX.into()) as u64
}

/// `dp4a`: the dot product of four bytes each, plus `c`.
pub(crate) fn dot_of_bytes(f: &Form, a: u64, b: u64, c: u64) -> u64 {
    let byte = |ty: Ty, raw: u64, at: u32| Ty { bits: 8, ..ty }.value(raw >> (8 * at));
    (0..4)
        .map(|at| byte(f.ty, a, at) * byte(f.from, b, at))
        .fold(c, |sum, product| sum.wrapping_add(product as u64))
}

pub(crate) fn min(f: &Form, a: u64, b: u64, _: u64) -> u64 {
    if f.ty.value(a) <= f.ty.value(b) { a } else { b }
}

pub(crate) fn max(f: &Form, a: u64, b: u64, _: u64) -> u64 {
    if f.ty.value(a) >= f.ty.value(b) { a } else { b }
}

/// Zero if the number is negative.
pub(crate) fn relu(ty: Ty, a: u64) -> u64 {
    ty.value(a).max(0) as u64
}

/// `div` and `rem`. Compilers divide before they know that the divisor is not zero, and then do not use the result.
pub(crate) fn divide(f: &Form, a: Bits, b: Bits, by: fn(i128, i128) -> i128) -> Bits {
    let divisor = f.ty.value(b.value);
    let is_known = a.undefined | b.undefined == 0 && divisor != 0;
    if is_known { Bits::new(by(f.ty.value(a.value), divisor) as u64) } else { Bits::UNDEFINED }
}

/// `abs` and `neg`. Of the least number of 16 bits, ptxas turns them into a 32-bit operation, so what follows sees 32768 or
/// -32768.
pub(crate) fn least_of_16(f: &Form, a: Bits) -> bool {
    f.ty.bits == 16 && a.value & f.ty.mask() == 0x8000
}

/// Amounts above the width count as the width.
pub(crate) fn shift_left(f: &Form, a: u64, b: u64, _: u64) -> u64 {
    if b >= u64::from(f.ty.bits) { 0 } else { a << b }
}

pub(crate) fn shift_right(f: &Form, a: u64, b: u64, _: u64) -> u64 {
    let width = u64::from(f.ty.bits);
    match f.ty.is_signed() {
        true => (f.ty.sign_extend(a) >> b.min(width - 1)) as u64,
        false if b >= width => 0,
        false => (a & f.ty.mask()) >> b,
    }
}

/// `bfind`: the highest bit that differs from the sign, and `from` of it.
pub(crate) fn find(f: &Form, a: u64, from: impl Fn(u64) -> u64) -> u64 {
    let a = if f.ty.is_signed() && f.ty.sign_extend(a) < 0 { !a & f.ty.mask() } else { a };
    if a == 0 { u32::MAX.into() } else { from(63 - u64::from(a.leading_zeros())) }
}

/// `shf`: shifts two words, and gives the upper or the lower one.
pub(crate) fn funnel(f: &Form, a: u64, b: u64, c: u64) -> u64 {
    let [is_right, clamps] = f.pick.map(|pick| pick == 1);
    let (both, amount) = ((b << 32) | (a & 0xffff_ffff), if clamps { c.min(32) } else { c & 31 });
    if is_right { both >> amount } else { ((u128::from(both) << amount) >> 32) as u64 }
}

/// `prmt`: each byte by its control in `c`, or by the mode.
pub(crate) fn permute(f: &Form, a: u64, b: u64, c: u64) -> u64 {
    let (both, first) = ((b << 32) | (a & 0xffff_ffff), c & 3);
    (0..4).fold(0, |d, i| {
        let control = match f.pick[0] {
            0 => (c >> (4 * i)) & 0xf,
            1 => first + i,
            2 => (first + 8 - i) % 8,
            3 => first,
            4 => first.max(i),
            5 => first.min(i),
            _ => (first & 1) * 2 + (i & 1),
        };
        let byte = (both >> (8 * (control & 7))) & 0xff;
        // The highest bit of the control replicates the byte's sign into all bits.
        let byte = if control & 8 == 0 { byte } else { (byte >> 7) * 0xff };
        d | byte << (8 * i)
    })
}

/// `bfe`: `len` bits of `a` from `pos`.
pub(crate) fn extract(f: &Form, a: u64, pos: u64, len: u64) -> u64 {
    let (pos, len, msb) = (pos & 0xff, len & 0xff, u64::from(f.ty.bits) - 1);
    let bit = |at: u64| (a >> at) & 1;
    let sign = if f.ty.is_signed() && len != 0 { bit((pos + len - 1).min(msb)) } else { 0 };
    (0..=msb).fold(0, |d, i| d | (if i < len && pos + i <= msb { bit(pos + i) } else { sign }) << i)
}

/// `bfi`: inserts the low `len` bits of `f` into `b` at `pos`.
pub(crate) fn insert(form: &Form, [f, b, pos, len]: [Bits; 4]) -> Bits {
    if (pos.undefined | len.undefined) & 0xff != 0 {
        return Bits::UNDEFINED;
    }
    let (pos, len) = (pos.value & 0xff, len.value & 0xff);
    let both = |f: u64, b: u64| {
        let inside = (0..len).filter(|i| pos + i < u64::from(form.ty.bits));
        inside.fold(b, |d, i| (d & !(1 << (pos + i))) | (((f >> i) & 1) << (pos + i)))
    };
    Bits { value: both(f.value, b.value), undefined: both(f.undefined, b.undefined) }
}

/// `lop3`: each bit is that of the table which the operands' bits select.
pub(crate) fn look_up(f: &Form, a: u64, b: u64, c: u64) -> u64 {
    (0..8).filter(|i| f.literal & (1 << i) != 0).fold(0, |d, i| {
        let pick = |value: u64, bit: u32| if i & bit == 0 { !value } else { value };
        d | (pick(a, 4) & pick(b, 2) & pick(c, 1))
    })
}

/// The low 64 bits of a product with undefined bits.
pub(crate) fn product(a: Bits, b: Bits) -> Bits {
    match (a, b) {
        (_, Bits { value, undefined: 0 }) if value.is_power_of_two() => {
            a.map(|raw| raw << value.trailing_zeros())
        }
        (Bits { value, undefined: 0 }, _) if value.is_power_of_two() => {
            b.map(|raw| raw << value.trailing_zeros())
        }
        // Bits below the lowest undefined bit do not depend on it.
        _ => {
            let lowest = (a.undefined | b.undefined).trailing_zeros();
            Bits::of(a.value.wrapping_mul(b.value), u64::MAX.checked_shl(lowest).unwrap_or(0))
        }
    }
}

/// A sum with undefined bits: of a product and an addend.
pub(crate) fn sum(a: Bits, b: Bits) -> Bits {
    let (least, most) = (a.value.wrapping_add(b.value), a.largest().wrapping_add(b.largest()));
    Bits::of(least, (least ^ most) | a.undefined | b.undefined)
}

/// `mul.wide` and `mad.wide` with undefined bits.
pub(crate) fn wide_mad(f: &Form, [a, b, c]: [Bits; 3]) -> Bits {
    let wide = |bits: Bits| bits.map(|raw| f.ty.extend(raw));
    sum(product(wide(a), wide(b)), c)
}

/// `clz`, where the highest set bit is known and all undefined bits lie below it.
pub(crate) fn leading_zeros(f: &Form, [a, ..]: [Bits; 3]) -> Bits {
    if a.undefined < a.value && a.undefined.leading_zeros() > a.value.leading_zeros() {
        Bits::new(u64::from(a.value.leading_zeros() - (64 - f.ty.bits)))
    } else {
        Bits::UNDEFINED
    }
}

/// A comparison, by the place of its name among `eq`, `ne`, `lt`, `le`, `gt`, `ge`, `lo`, `ls`, `hi`, `hs`.
#[inline]
pub(crate) fn holds<T: PartialOrd>(comparison: u8, a: &T, b: &T) -> bool {
    match comparison {
        0 => a == b,
        1 => a != b,
        2 | 6 => a < b,
        3 | 7 => a <= b,
        4 | 8 => a > b,
        _ => a >= b,
    }
}

/// Whether the comparison holds; `None` if that is not known.
#[inline]
pub(crate) fn compare(f: &Form, a: Bits, b: Bits) -> Option<bool> {
    let (comparison, ty) = (f.pick[0], f.ty);
    if a.undefined | b.undefined != 0 {
        return compare_undefined(comparison, ty, [a, b]);
    }
    Some(if ty.is_signed() {
        holds(comparison, &ty.sign_extend(a.value), &ty.sign_extend(b.value))
    } else {
        holds(comparison, &(a.value & ty.mask()), &(b.value & ty.mask()))
    })
}

#[cold]
fn compare_undefined(comparison: u8, ty: Ty, operands: [Bits; 2]) -> Option<bool> {
    // With the highest bit flipped, signed numbers sort like unsigned ones.
    let sign = if ty.is_signed() { 1 << (ty.bits - 1) } else { 0 };
    let [a, b] = operands.map(|bits| Bits::of((bits.value ^ sign) & ty.mask(), bits.undefined & ty.mask()));
    let differ = (a.value ^ b.value) & !(a.undefined | b.undefined) != 0;
    match comparison {
        0 | 1 => differ.then_some(comparison == 1),
        _ => {
            // What holds for the ends that suit it least and best holds for all in between.
            let [rising, falling] =
                [(a.value, b.largest()), (a.largest(), b.value)].map(|(a, b)| holds(comparison, &a, &b));
            (rising == falling).then_some(rising)
        }
    }
}

impl Cx<'_> {
    /// Writes the result of a comparison, if it is known, combined with a predicate.
    #[inline]
    pub fn set_predicates(&mut self, instr: &Instr, result: Option<bool>) {
        let known = |result: bool| Bits::new(u64::from(result));
        let unknown = Bits::UNDEFINED.and(1);
        let (mut p, mut q) = result.map_or((unknown, unknown), |result| (known(result), known(!result)));
        if instr.c != SINK {
            let c = self.bits(instr.c).and(1);
            let is_inverted = instr.form.has(flag::NOT);
            let c = if is_inverted { Bits { value: !(c.value | c.undefined) & 1, ..c } } else { c };
            let combine = |a: Bits| {
                let by = |a: u64, b: u64| match instr.form.pick[1] {
                    1 => a & b,
                    2 => a | b,
                    _ => a ^ b,
                };
                let value = by(a.value, c.value);
                let others =
                    [by(a.largest(), c.value), by(a.value, c.largest()), by(a.largest(), c.largest())];
                Bits::of(value, others.iter().fold(0, |all, other| all | (other ^ value)))
            };
            (p, q) = (combine(p), combine(q));
        }
        self.frame.set_bits(instr.d, p);
        self.frame.set_bits(instr.p, q);
    }

    /// `add.cc`, `subc` and similar: adds `left(a, b)` and the last operand, or subtracts.
    pub fn carry(&mut self, i: &Instr, reads: bool, op: CarryOp) -> Exec {
        let (ty, mask) = (i.form.ty, u128::from(i.form.ty.mask()));
        let [a, b, c] = [i.a, i.b, i.c].map(|slot| self.bits(slot));
        let writes = i.form.has(flag::CC);
        let is_unknown = reads && *self.carry == Carry::Undefined;
        if is_unknown || a.undefined | b.undefined | c.undefined != 0 {
            if writes {
                *self.carry = Carry::Undefined;
            }
            self.frame.set_bits(i.d, Bits::UNDEFINED.and(ty.mask()));
            return Ok(());
        }
        let is_sub = op == CarryOp::Sub;
        let flag = match (*self.carry, is_sub) {
            _ if !reads => 0,
            (Carry::Addition(flag), false) | (Carry::Subtraction(flag), true) => u128::from(flag),
            // The flag itself is set where a subtraction did not borrow: the long division of libNVVM's 128-bit integers
            // adds it up to decide when to stop.
            (Carry::Subtraction(borrow), false) => u128::from(!borrow),
            (Carry::Unset, _) => return Err(Cause::Carry("no instruction wrote it").into()),
            (Carry::Undefined, _) => 0,
            (Carry::Addition(_), true) => return Err(Cause::Carry("it holds that of an addition").into()),
        };
        let product = wide_product(ty, a.value, b.value);
        let (left, right) = match op {
            CarryOp::Add | CarryOp::Sub => (a.value.into(), b.value),
            CarryOp::MadLo => (product & mask, c.value),
            CarryOp::MadHi => ((product >> ty.bits) & mask, c.value),
        };
        let (left, right) = (left & mask, u128::from(right) & mask);
        let (result, flag) = if is_sub {
            let taken = right + flag;
            (left.wrapping_sub(taken), Carry::Subtraction(left < taken))
        } else {
            let sum = left + right + flag;
            (sum, Carry::Addition(sum > mask))
        };
        if writes {
            *self.carry = flag;
        }
        self.frame.set(i.d, (result & mask) as u64);
        Ok(())
    }
}

/// An operation of the carry chain; a product's low or high half is added to the third operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CarryOp {
    Add,
    Sub,
    MadLo,
    MadHi,
}

/// `slct`: whether the first is selected; `None` if that is not known.
pub(crate) fn selects(f: &Form, c: Bits) -> Option<bool> {
    let float = || {
        let x = f32::from_bits(c.value as u32);
        x >= 0.0 || f.has(flag::FTZ) && x.is_subnormal()
    };
    let is_first = || if f.from.kind == Kind::Float { float() } else { c.value as u32 as i32 >= 0 };
    (c.undefined == 0).then(is_first)
}
