//! Integer, logic, shift and comparison instructions, moves and selections.

use crate::exec::bits::{Bits, Pass};
use crate::exec::int::{self, CarryOp};
use crate::exec::row::{Row, act, bits, halves, value};
use crate::instr::{SINK, flag};

use Pass::{Bitwise, Carry, Picks, Special, Whole};

const SUM: Pass = Carry([false, false]);
const DIFFERENCE: Pass = Carry([false, true]);
/// The operands of `bfe` after the first one have eight bits.
const FIELD: Pass = Picks(1, 0xff);

#[rustfmt::skip]
pub(super) const ROWS: &[Row] = &[
    value("add.$integer d, a, b", |_, a, b, _| a.wrapping_add(b), SUM),
    value("sub.$integer d, a, b", |_, a, b, _| a.wrapping_sub(b), DIFFERENCE),
    value("mul.lo.$integer d, a, b", |_, a, b, _| a.wrapping_mul(b), Special(|_, [a, b, _]| int::product(a, b))),
    value("mul.hi.$integer d, a, b", |f, a, b, _| (int::wide_product(f.ty, a, b) >> f.ty.bits) as u64, Whole),
    value("mul.wide.$integer d:wide, a, b", |f, a, b, _| int::wide_product(f.ty, a, b) as u64,
        Special(|f, [a, b, _]| int::wide_mad(f, [a, b, Bits::new(0)]))),
    value("mad.lo.$integer d, a, b, c", |_, a, b, c| a.wrapping_mul(b).wrapping_add(c),
        Special(|_, [a, b, c]| int::sum(int::product(a, b), c))),
    value("mad.hi.$integer d, a, b, c",
        |f, a, b, c| ((int::wide_product(f.ty, a, b) >> f.ty.bits) as u64).wrapping_add(c), Whole),
    value("mad.wide.$integer d:wide, a, b, c:wide",
        |f, a, b, c| (int::wide_product(f.ty, a, b) as u64).wrapping_add(c), Special(int::wide_mad)),
    value("add.sat.s32 d, a, b", |f, a, b, _| int::saturate(f.ty.value(a) + f.ty.value(b)), Whole),
    value("sub.sat.s32 d, a, b", |f, a, b, _| int::saturate(f.ty.value(a) - f.ty.value(b)), Whole),
    value("mul24.lo.u32|s32 d, a, b", |f, a, b, _| int::product_of_24(f.ty, a, b) as u64, Whole),
    value("mul24.hi.u32|s32 d, a, b", |f, a, b, _| (int::product_of_24(f.ty, a, b) >> 16) as u64, Whole),
    value("mad24.lo.u32|s32 d, a, b, c", |f, a, b, c| (int::product_of_24(f.ty, a, b) as u64).wrapping_add(c), Whole),
    value("mad24.hi.u32|s32 d, a, b, c",
        |f, a, b, c| ((int::product_of_24(f.ty, a, b) >> 16) as u64).wrapping_add(c), Whole),
    value("sad.$integer d, a, b, c",
        |f, a, b, c| ((f.ty.value(a) - f.ty.value(b)).unsigned_abs() as u64).wrapping_add(c), Whole),
    value("dp4a.u32|s32.u32|s32 d, a, b, c", int::dot_of_bytes, Whole),
    bits("div.$integer d, a, b", |f, [a, b, ..]| int::divide(f, a, b, |a, b| a / b)),
    bits("rem.$integer d, a, b", |f, [a, b, ..]| int::divide(f, a, b, |a, b| a % b)),
    value("min.$integer d, a, b", int::min, Whole),
    value("max.$integer d, a, b", int::max, Whole),
    value("min.relu.s32 d, a, b", |f, a, b, _| int::relu(f.ty, int::min(f, a, b, 0)), Whole),
    value("max.relu.s32 d, a, b", |f, a, b, _| int::relu(f.ty, int::max(f, a, b, 0)), Whole),
    halves("add.u16x2|s16x2 d:32, a:32, b:32", |_, a, b, _| a.wrapping_add(b), SUM),
    halves("min.u16x2|s16x2 d:32, a:32, b:32", int::min, Whole),
    halves("max.u16x2|s16x2 d:32, a:32, b:32", int::max, Whole),
    halves("min.relu.s16x2 d:32, a:32, b:32", |f, a, b, _| int::relu(f.ty, int::min(f, a, b, 0)), Whole),
    halves("max.relu.s16x2 d:32, a:32, b:32", |f, a, b, _| int::relu(f.ty, int::max(f, a, b, 0)), Whole),
    bits("neg.$integer d, a", |f, [a, ..]| match int::least_of_16(f, a) {
        true => Bits::UNDEFINED,
        false if a.undefined == 0 => Bits::new(a.value.wrapping_neg()),
        false => Carry([true, false]).on(|_, a, _, _| a.wrapping_neg(), f, [a, Bits::new(0), Bits::new(0)]),
    }),
    bits("abs.$integer d, a", |f, [a, ..]| match int::least_of_16(f, a) || a.undefined != 0 {
        true => Bits::UNDEFINED,
        false => Bits::new(f.ty.sign_extend(a.value).unsigned_abs()),
    }),

    act("add.cc.$integer d, a, b", |cx, i| cx.carry(i, false, CarryOp::Add)),
    act("addc.?cc.$integer d, a, b", |cx, i| cx.carry(i, true, CarryOp::Add)),
    act("sub.cc.$integer d, a, b", |cx, i| cx.carry(i, false, CarryOp::Sub)),
    act("subc.?cc.$integer d, a, b", |cx, i| cx.carry(i, true, CarryOp::Sub)),
    act("mad.lo.cc.$integer d, a, b, c", |cx, i| cx.carry(i, false, CarryOp::MadLo)),
    act("mad.hi.cc.$integer d, a, b, c", |cx, i| cx.carry(i, false, CarryOp::MadHi)),
    act("madc.lo.?cc.$integer d, a, b, c", |cx, i| cx.carry(i, true, CarryOp::MadLo)),
    act("madc.hi.?cc.$integer d, a, b, c", |cx, i| cx.carry(i, true, CarryOp::MadHi)),

    value("and.$bits d, a, b", |_, a, b, _| a & b, Bitwise),
    value("or.$bits d, a, b", |_, a, b, _| a | b, Bitwise),
    value("xor.$bits d, a, b", |_, a, b, _| a ^ b, Bitwise),
    value("not.$bits d, a", |_, a, _, _| !a, Bitwise),
    value("lop3.$bits d, a, b, c, #", int::look_up, Bitwise)
        .check(|i, _| if i.form.literal < 256 { Ok(()) } else { Err("the table is no number below 256".to_owned()) }),
    value("cnot.$bits d, a", |_, a, _, _| u64::from(a == 0),
        Special(|_, [a, ..]| if a.value != 0 { Bits::new(0) } else { Bits::UNDEFINED })),
    value("shl.$integer d, a, b:32", int::shift_left, Picks(1, 0xffff_ffff)),
    value("shr.$integer d, a, b:32", int::shift_right, Picks(1, 0xffff_ffff)),
    value("shf.l|r.wrap|clamp.b32|u32 d, a, b, c", int::funnel, Picks(2, 0xffff_ffff)),
    value("prmt.b32|u32.?f4e|b4e|rc8|ecl|ecr|rc16 d, a, b, c", int::permute, Picks(2, 0xffff_ffff)),
    value("bfe.$word d, a, b:32, c:32", int::extract, FIELD),
    bits("bfi.$word d, a, b, c:32, e:32", int::insert),
    value("popc.$word d:32, a", |_, a, _, _| u64::from(a.count_ones()), Whole),
    value("clz.$word d:32, a", |f, a, _, _| u64::from(a.leading_zeros() - (64 - f.ty.bits)), Special(int::leading_zeros)),
    value("brev.$word d, a", |f, a, _, _| a.reverse_bits() >> (64 - f.ty.bits), Picks(1, 0)),
    value("bfind.$word d:32, a", |f, a, _, _| int::find(f, a, |at| at), Whole),
    value("bfind.shiftamt.$word d:32, a",
        |f, a, _, _| int::find(f, a, |at| u64::from(f.ty.bits) - 1 - at), Whole),
    act("setp.eq|ne|lt|le|gt|ge|lo|ls|hi|hs.?and|or|xor.$bits d|p:1, a, b, !c:1?", |cx, i| {
        let result = int::compare(&i.form, cx.bits(i.a), cx.bits(i.b));
        cx.set_predicates(i, result);
        Ok(())
    })
    .check(|i, _| {
        if (i.form.pick[1] == 0) == (i.c == SINK) { Ok(()) } else { Err("another number of operands".to_owned()) }
    }),

    act("mov.$move d:32, %clock", |cx, i| { cx.frame.set(i.d, cx.clock); Ok(()) }),
    act("mov.$move d:64, %clock64", |cx, i| { cx.frame.set(i.d, cx.clock); Ok(()) }),
    act("mov.$move d:64, %globaltimer", |cx, i| { cx.frame.set(i.d, cx.grid.progress.time.get()); Ok(()) }),
    act("mov.$move D*parts, a", |cx, i| {
        let (all, width) = (cx.bits(i.a), i.form.ty.bits / i.form.count as u32);
        for (part, &d) in (0..).zip(&i.more().d) {
            cx.frame.set_bits(d, all.map(|raw| raw >> (part * width)).and(u64::MAX >> (64 - width)));
        }
        Ok(())
    }),
    act("mov.$move d, A*parts", |cx, i| {
        let width = i.form.ty.bits / i.form.count as u32;
        let part = |(part, &a): (u32, &u32)| cx.bits(a).and(u64::MAX >> (64 - width)).map(|raw| raw << (part * width));
        let all = (0..).zip(&i.more().a).map(part).fold(Bits::new(0), Bits::or);
        cx.frame.set_bits(i.d, all);
        Ok(())
    }),
    value("mov.pred d, !a", |_, a, _, _| a, Picks(1, 0))
        .check(|i, _| if i.form.has(flag::NOT) { Err("an inverted predicate".to_owned()) } else { Ok(()) }),
    value("mov.$move d, a", |_, a, _, _| a, Picks(1, 0)),
    bits("selp.$move d, a, b, c:1", |_, [a, b, p, _]| match p {
        Bits { value: 0, undefined: 0 } => b,
        Bits { undefined: 0, .. } => a,
        _ => a.either(b),
    }),
    bits("slct.?ftz.$move.s32|f32 d, a, b, c:32", |f, [a, b, c, _]| match int::selects(f, c) {
        Some(true) => a,
        Some(false) => b,
        None => a.either(b),
    }),
];
