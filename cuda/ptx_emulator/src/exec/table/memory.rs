//! Loads, stores, atomics and addresses.

use crate::exec::bits::Bits;
use crate::exec::bits::Pass::Whole;
use crate::exec::counts::event::Way;
use crate::exec::float::atomic_add;
use crate::exec::int;
use crate::exec::row::{Counts, Row, Site, act, step, value};
use crate::exec::space;
use crate::exec::thread::Cx;
use crate::instr::{Instr, Space};

/// An atomic operation.
const fn atomic(syntax: &'static str, run: fn(&mut Cx<'_>, &Instr) -> crate::exec::grid::Exec) -> Row {
    act(syntax, run).counts(Counts::Access(Way::Atomic)).check(|i, _| match i.form.space {
        Space::Local | Space::Param | Space::Const => Err("a state space".to_owned()),
        _ => Ok(()),
    })
}

fn fits(i: &Instr) -> Result<(), String> {
    let elements = i.form.count.max(1) as u32;
    if elements * i.form.ty.bits > 256 { Err("a type or vector".to_owned()) } else { Ok(()) }
}

/// Only the parameters of a kernel have generic addresses.
fn has_window(i: &Instr, site: Site) -> Result<(), String> {
    if i.form.space == Space::Param && !site.is_entry { Err("a state space".to_owned()) } else { Ok(()) }
}

#[rustfmt::skip]
pub(super) const ROWS: &[Row] = &[
    // A function's parameter may also be read by address: compilers select between two, and ptxas puts them on the stack.
    step("ld.*.?$space.?L2::cache_hint.?$vector.$memory D*v+, [.], a:64?", |cx, i| cx.ld(i))
        .counts(Counts::Access(Way::Load)).check(|i, _| fits(i)),
    act("st.*.?$space.?L2::cache_hint.?$vector.$memory [.], A*v+, b:64?", |cx, i| cx.st(i))
        .counts(Counts::Access(Way::Store)).check(|i, site| match i.form.space {
            Space::Param if !site.is_entry && site.is_by_register => {
                Err("a store to a parameter of a function by its address".to_owned())
            }
            Space::Const => Err("a store into constant memory".to_owned()),
            _ => fits(i),
        }),

    atomic("atom|red.*.?$space.add.$word d, [.], b", |cx, i| cx.atomic(i, |old, b, _, _| old.wrapping_add(b))),
    atomic("atom|red.*.?$space.min.$word d, [.], b", |cx, i| cx.atomic(i, |old, b, _, _| int::min(&i.form, old, b, 0))),
    atomic("atom|red.*.?$space.max.$word d, [.], b", |cx, i| cx.atomic(i, |old, b, _, _| int::max(&i.form, old, b, 0))),
    atomic("atom|red.*.?$space.and.$word d, [.], b", |cx, i| cx.atomic(i, |old, b, _, _| old & b)),
    atomic("atom|red.*.?$space.or.$word d, [.], b", |cx, i| cx.atomic(i, |old, b, _, _| old | b)),
    atomic("atom|red.*.?$space.xor.$word d, [.], b", |cx, i| cx.atomic(i, |old, b, _, _| old ^ b)),
    atomic("atom|red.*.?$space.add.$float d, [.], b",
        |cx, i| cx.atomic(i, |old, b, _, is_global| atomic_add(&i.form, old, b, is_global))),
    atomic("atom.*.?$space.exch.$word d, [.], b", |cx, i| cx.atomic(i, |_, b, _, _| b)),
    atomic("atom.*.?$space.cas.$word d, [.], b, c", |cx, i| cx.atomic(i, |old, b, c, _| if old == b { c } else { old })),
    atomic("atom|red.*.?$space.inc.u32 d, [.], b", |cx, i| cx.atomic(i, |old, b, _, _| if old >= b { 0 } else { old + 1 })),
    atomic("atom|red.*.?$space.dec.u32 d, [.], b",
        |cx, i| cx.atomic(i, |old, b, _, _| if old == 0 || old > b { b } else { old - 1 })),

    value("cvta.$space.u64 d, a", |f, a, _, _| space::generic(f.space, a), Whole).check(has_window),
    value("cvta.to.$space.u64 d, a", |f, a, _, _| space::specific(f.space, a), Whole).check(has_window),
    act("isspacep.$space d:1, a:64", |cx, i| {
        let is_in = |a: Bits| if a.undefined == 0 { Bits::new(cx.is_in(i.form.space, a.value).into()) } else { Bits::UNDEFINED };
        let is_in = is_in(cx.bits(i.a));
        cx.frame.set_bits(i.d, is_in.and(1));
        Ok(())
    }),
    // A 32-bit address is one of shared memory.
    act("mapa.shared::cluster.u32 d, a, b:32", |cx, i| {
        let address = cx.map(i)?;
        cx.frame.set(i.d, space::narrow(address));
        Ok(())
    }),
    act("mapa.?shared::cluster.u64 d, a, b:32", |cx, i| {
        let address = cx.map(i)?;
        cx.frame.set(i.d, address);
        Ok(())
    }),
    // A cache policy is opaque and changes no result.
    value("createpolicy.*.fractional.b64 d, ..", |_, _, _, _| 0, Whole),
    act("cp.async.bulk.prefetch.L2.global [global], a:32", |cx, i| cx.prefetch(i)),
];
