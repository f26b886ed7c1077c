//! Every known bit stays the same for all values of the undefined bits.

use super::*;

const OPS: [IntOp; 15] = [
    IntOp::Add,
    IntOp::Sub,
    IntOp::MulLo,
    IntOp::MulHi,
    IntOp::Div,
    IntOp::Rem,
    IntOp::Min,
    IntOp::Max,
    IntOp::MinRelu,
    IntOp::MaxRelu,
    IntOp::And,
    IntOp::Or,
    IntOp::Xor,
    IntOp::Shl,
    IntOp::Shr,
];

#[test]
fn known_bits_stay_known() {
    let ty = IntTy { bits: 16, signed: false };
    let half = Bits { value: 0x0012, undefined: 0xff00 };
    let cases = [
        (IntOp::And, Bits::new(0x00ff), Bits::new(0x12)),
        (IntOp::And, Bits::new(0x0fff), Bits { value: 0x12, undefined: 0x0f00 }),
        (IntOp::Or, Bits::new(0xff00), Bits::new(0xff12)),
        (IntOp::Or, Bits::new(0xf001), Bits { value: 0xf013, undefined: 0x0f00 }),
        (IntOp::Xor, Bits::new(0x0010), Bits { value: 0x0002, undefined: 0xff00 }),
        (IntOp::Shl, Bits::new(8), Bits::new(0x1200)),
        (IntOp::Shr, Bits::new(8), Bits { value: 0, undefined: 0x00ff }),
        (IntOp::Add, Bits::new(3), Bits { value: 0x15, undefined: 0xff00 }),
        (IntOp::MulLo, Bits::new(0x100), Bits::new(0x1200)),
    ];
    for (op, with, expected) in cases {
        assert_eq!(binary(op, ty, half, with), expected, "{op:?} {with:?}");
    }
    assert_eq!(binary(IntOp::Max, ty, half, Bits::new(1)), Bits::UNDEFINED.and(0xffff));
    let signed = IntTy { bits: 16, signed: true };
    assert_eq!(binary(IntOp::Shr, signed, half, Bits::new(8)), Bits { value: 0, undefined: 0xffff });
    assert_eq!(compare(Cmp::Eq, ty, half, Bits::new(0x13)), Some(false));
    assert_eq!(compare(Cmp::Eq, ty, half, Bits::new(0x12)), None);
    assert_eq!(compare(Cmp::Lt, ty, half, Bits::new(0x12)), Some(false));
    assert_eq!(unary(IntUnary::Clz, ty, Bits { value: 0x10, undefined: 0xf }), Bits::new(11));
    let bytes =
        three(BitOp::Prmt, IntTy { bits: 32, signed: false }, half, Bits::new(0x34), Bits::new(0x3340));
    assert_eq!(bytes, Bits { value: 0x0000_3412, undefined: 0 });
}

/// Pseudo-random numbers.
struct Lcg(u64);

impl Lcg {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        self.0 >> 24
    }

    /// At most two undefined bits, and mostly small numbers.
    fn bits(&mut self, mask: u64) -> Bits {
        let undefined = (1 << (self.next() % 20) | 1 << (self.next() % 20)) & mask;
        let value = self.next() & if self.next().is_multiple_of(2) { 0xf } else { mask };
        if self.next().is_multiple_of(3) { Bits::new(value) } else { Bits::of(value, undefined) }
    }
}

/// Every value that `bits` may be.
fn values(bits: Bits) -> Vec<u64> {
    let mut all = vec![bits.value];
    for bit in (0..64).map(|at| 1 << at).filter(|bit| bits.undefined & bit != 0) {
        all.extend(all.clone().into_iter().map(|value| value | bit));
    }
    all
}

#[track_caller]
fn assert_sound(result: Bits, possible: impl Iterator<Item = u64>, what: &str) {
    for value in possible {
        assert_eq!(
            value & !result.undefined,
            result.value & !result.undefined,
            "{what}: {value:#x} {result:x?}"
        );
        assert_eq!(result.value & result.undefined, 0, "{what}: undefined bits are zeros");
    }
}

#[test]
fn what_counts_as_known_depends_on_nothing_undefined() {
    let mut random = Lcg(7);
    for round in 0..20_000 {
        let ty = IntTy { bits: [16, 32][round % 2], signed: round % 4 < 2 };
        let [a, b, c] = core::array::from_fn(|_| random.bits(ty.mask()));
        let pairs = || values(a).into_iter().flat_map(|x| values(b).into_iter().map(move |y| (x, y)));
        let triples = || pairs().flat_map(|(x, y)| values(c).into_iter().map(move |z| (x, y, z)));
        for op in OPS {
            let possible = pairs().filter_map(|(x, y)| int::binary(op, ty, x, y));
            assert_sound(binary(op, ty, a, b), possible, &format!("{op:?} {ty:?} {a:x?} {b:x?}"));
        }
        for op in
            [IntUnary::Not, IntUnary::Neg, IntUnary::Brev, IntUnary::Clz, IntUnary::Cnot, IntUnary::Popc]
        {
            let possible = values(a).into_iter().map(|x| int::unary(op, ty, x));
            assert_sound(unary(op, ty, a), possible, &format!("{op:?} {ty:?} {a:x?}"));
        }
        for cmp in [Cmp::Eq, Cmp::Ne, Cmp::Lt, Cmp::Le, Cmp::Gt, Cmp::Ge] {
            if let Some(holds) = compare(cmp, ty, a, b) {
                assert!(
                    pairs().all(|(x, y)| int::compare(cmp, ty, x, y) == holds),
                    "{cmp:?} {ty:?} {a:x?} {b:x?}"
                );
            }
        }
        for half in [Half::Lo, Half::Wide] {
            let possible = triples().map(|(x, y, z)| int::mad(half, ty, x, y, z));
            assert_sound(mad(half, ty, a, b, c), possible, &format!("{half:?} {ty:?} {a:x?} {b:x?} {c:x?}"));
        }
        let word = IntTy { bits: 32, signed: ty.signed };
        let table = random.next() as u8;
        let clamp = round % 8 < 4;
        let shifts = [BitOp::ShfLeft { clamp }, BitOp::ShfRight { clamp }];
        for op in shifts.into_iter().chain([BitOp::Prmt, BitOp::Bfe, BitOp::Lop3(table)]) {
            let possible = triples().map(|(x, y, z)| int::three(op, word, x, y, z));
            assert_sound(three(op, word, a, b, c), possible, &format!("{op:?} {a:x?} {b:x?} {c:x?}"));
        }
        let (pos, len) = (Bits::new(random.next() % 40), Bits::new(random.next() % 40));
        let possible = pairs().map(|(x, y)| int::insert(word, x, y, pos.value, len.value));
        assert_sound(insert(word, a, b, pos, len), possible, &format!("bfi {a:x?} {b:x?} {pos:x?} {len:x?}"));
        assert_sound(either(a, b), values(a).into_iter().chain(values(b)), "either");
    }
}
