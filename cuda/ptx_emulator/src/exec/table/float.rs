//! Floating-point instructions and conversions.

use crate::exec::bits::Pass::{Picks, Whole};
use crate::exec::bits::Value;
use crate::exec::float::{self, approximate, between, coarse, of_halves, to_half};
use crate::exec::number::{bits_of, number, to_tf32};
use crate::exec::row::{Counts, Row, act, value};
use crate::instr::{SINK, flag};

/// An instruction whose result is undefined as a whole.
const fn whole(syntax: &'static str, of: Value) -> Row {
    value(syntax, of, Whole)
}

/// One that counts as a function.
const fn function(syntax: &'static str, of: Value) -> Row {
    whole(syntax, of).counts(Counts::Function)
}

#[rustfmt::skip]
pub(super) const ROWS: &[Row] = &[
    whole("add.?$round.?ftz.?sat.f32 d, a, b", float::add).counts(Counts::Flops(1)),
    whole("add.?$round.f64 d, a, b", float::add).counts(Counts::Flops(1)),
    whole("sub.?$round.?ftz.?sat.f32 d, a, b", float::sub).counts(Counts::Flops(1)),
    whole("sub.?$round.f64 d, a, b", float::sub).counts(Counts::Flops(1)),
    whole("mul.?$round.?ftz.?sat.f32 d, a, b", float::mul).counts(Counts::Flops(1)),
    whole("mul.?$round.f64 d, a, b", float::mul).counts(Counts::Flops(1)),
    whole("fma.$round.?ftz.?sat.f32 d, a, b, c", float::fma).counts(Counts::Flops(2)),
    whole("fma.$round.f64 d, a, b, c", float::fma).counts(Counts::Flops(2)),
    whole("mad.$round.?ftz.?sat.f32 d, a, b, c", float::fma).counts(Counts::Flops(2)),
    whole("mad.$round.f64 d, a, b, c", float::fma).counts(Counts::Flops(2)),
    function("div.$round.?ftz.f32 d, a, b", float::div),
    function("div.$round.f64 d, a, b", float::div),
    function("div.approx.?ftz.f32 d, a, b", float::divide_approximately),
    function("div.full.?ftz.f32 d, a, b", |f, a, b, _| float::div(f, a, b, 0)),
    whole("neg.?ftz.f32 d, a", |f, a, _, _| float::sign(f, a, |a| -a, |a| -a)),
    whole("neg.f64 d, a", |f, a, _, _| float::sign(f, a, |a| -a, |a| -a)),
    whole("abs.?ftz.f32 d, a", |f, a, _, _| float::sign(f, a, f32::abs, f64::abs)),
    whole("abs.f64 d, a", |f, a, _, _| float::sign(f, a, f32::abs, f64::abs)),
    whole("min.?ftz.?NaN.f32 d, a, b", float::min),
    whole("min.f64 d, a, b", float::min),
    whole("max.?ftz.?NaN.f32 d, a, b", float::max),
    whole("max.f64 d, a, b", float::max),
    whole("min.?NaN.f16|bf16 d, a, b", |f, a, b, _| of_halves(f, a, b, float::min)),
    whole("max.?NaN.f16|bf16 d, a, b", |f, a, b, _| of_halves(f, a, b, float::max)),
    whole("min.?NaN.f16x2|bf16x2 d:32, a:32, b:32",
        |f, a, b, _| of_halves(f, a >> 16, b >> 16, float::min) << 16 | of_halves(f, a, b, float::min)),
    whole("max.?NaN.f16x2|bf16x2 d:32, a:32, b:32",
        |f, a, b, _| of_halves(f, a >> 16, b >> 16, float::max) << 16 | of_halves(f, a, b, float::max)),
    whole("copysign.$float d, a, b", |f, a, b, _| {
        let sign = 1 << (f.ty.bits - 1);
        b & !sign | a & sign
    }),
    function("sqrt.$round.?ftz.f32 d, a", float::root),
    function("sqrt.$round.f64 d, a", float::root),
    function("rcp.$round.?ftz.f32 d, a", float::reciprocal),
    function("rcp.$round.f64 d, a", float::reciprocal),
    function("sqrt.approx.?ftz.f32 d, a", |f, a, _, _| approximate(f, a, f64::sqrt)),
    function("rcp.approx.?ftz.f32 d, a", |f, a, _, _| approximate(f, a, f64::recip)),
    function("rsqrt.approx.?ftz.f32 d, a", |f, a, _, _| approximate(f, a, |x| 1.0 / x.sqrt())),
    function("ex2.approx.?ftz.f32 d, a", |f, a, _, _| approximate(f, a, f64::exp2)),
    function("lg2.approx.?ftz.f32 d, a", |f, a, _, _| approximate(f, a, f64::log2)),
    function("sin.approx.?ftz.f32 d, a", |f, a, _, _| approximate(f, a, f64::sin)),
    function("cos.approx.?ftz.f32 d, a", |f, a, _, _| approximate(f, a, f64::cos)),
    function("tanh.approx.f32 d, a", |f, a, _, _| approximate(f, a, f64::tanh)),
    function("rcp.approx.ftz.f64 d, a", |_, a, _, _| coarse(a, f64::recip)),
    function("rsqrt.approx.ftz.f64 d, a", |_, a, _, _| coarse(a, |x| 1.0 / x.sqrt())),
    function("rsqrt.approx.f64 d, a", |f, a, _, _| approximate(f, a, |x| 1.0 / x.sqrt())),
    whole("testp.finite|infinite|number|notanumber|normal|subnormal.$float d:1, a", float::test),
    act("setp.eq|ne|lt|le|gt|ge|equ|neu|ltu|leu|gtu|geu|num|nan.?and|or|xor.?ftz.$float d|p:1, a, b, !c:1?", |cx, i| {
        let (a, b) = (cx.bits(i.a), cx.bits(i.b));
        let is_known = a.undefined | b.undefined == 0;
        cx.set_predicates(i, is_known.then(|| float::compares(&i.form, a.value, b.value)));
        Ok(())
    })
    .check(|i, _| match i.form {
        _ if (i.form.pick[1] == 0) != (i.c == SINK) => Err("another number of operands".to_owned()),
        form if form.has(flag::FTZ) && form.ty.bits == 64 => Err("modifier `.ftz` of an f64".to_owned()),
        _ => Ok(()),
    }),

    value("cvt.$any.$any d+, a:from+", |f, a, _, _| f.ty.extend(f.from.extend(a)), Picks(1, 0)),
    whole("cvt.sat.$any.$any d+, a:from+", |f, a, _, _| {
        let (min, max) = f.ty.limits();
        f.ty.extend(f.from.value(a).clamp(min, max) as u64)
    }),
    whole("cvt.$integral.?ftz.?sat.$any.f32 d+, a:from+", float::to_integer),
    whole("cvt.$integral.?sat.$any.f64 d+, a:from+", float::to_integer),
    whole("cvt.$round.?sat.$float.$any d+, a:from+", float::from_integer),
    whole("cvt.$round.?ftz.?sat.f32.f64 d+, a:from+", |f, a, _, _| between(f, a, true)),
    whole("cvt.?ftz.?sat.f64.f32 d+, a:from+", |f, a, _, _| between(f, a, false)),
    whole("cvt.?$integral.?ftz.?sat.f32.f32 d+, a:from+", |f, a, _, _| between(f, a, false)),
    whole("cvt.?$integral.?sat.f64.f64 d+, a:from+", |f, a, _, _| between(f, a, false)),
    whole("cvt.?ftz.f32.f16 d, a:from", |f, a, _, _| bits_of(number(f.from, a) as f32)),
    whole("cvt.f32.bf16 d, a:from", |f, a, _, _| bits_of(number(f.from, a) as f32)),
    whole("cvt.$round.?ftz.f16.f32 d, a:from", |f, a, _, _| to_half(f, a)),
    whole("cvt.rn|rz.bf16.f32 d, a:from", |f, a, _, _| to_half(f, a)),
    // The first operand is the upper half.
    whole("cvt.rn|rz.f16x2|bf16x2.f32 d:32, a:from, b:from", |f, a, b, _| to_half(f, a) << 16 | to_half(f, b)),
    whole("cvt.rna.tf32.f32 d, a:from", |_, a, _, _| to_tf32(a)),
];
